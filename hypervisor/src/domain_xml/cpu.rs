//! The `<cpu>` element: mode, model, topology, features and NUMA nodes.

use std::collections::BTreeSet;

use super::error::HardwareError;
use super::facts::{CpuModel, HostFacts};
use super::hardware::Hardware;
use super::{pinned, pmem};
use crate::guest::GuestSpec;
use crate::options::CpuMode;
use crate::traits;
use crate::xml::Element;

/// The first of the operator's models with every required CPU trait. `None` if the mode is not `custom`, or if there
/// are no models. Source: Nova's `_get_guest_cpu_model_config`.
pub(super) fn model(properties: &[(String, String)], host: &HostFacts) -> Result<Option<String>, HardwareError> {
    if host.cpu_mode != CpuMode::Custom {
        return Ok(None);
    }
    let required = properties.iter().filter(|(_, value)| value == "required");
    let required: Vec<&str> = required
        .filter_map(|(key, _)| key.strip_prefix("trait:"))
        .filter(|name| name.starts_with("HW_CPU_X86_"))
        .collect();
    let flags = host.guests.cpu_flags.iter().filter(|flag| flag.wanted).map(|flag| flag.name.clone());
    let flags: BTreeSet<String> = flags.collect();
    let has_all = |model: &&CpuModel| {
        let features = model.features.union(&flags).cloned().collect();
        let traits = traits::of_features(&features);
        required.iter().all(|name| traits.contains(name))
    };
    match (host.cpu_models.iter().find(has_all), host.cpu_models.is_empty()) {
        (Some(model), _) => Ok(Some(model.name.clone())),
        (None, true) => Ok(None),
        (None, false) => Err(HardwareError::NoCpuModel { traits: required.join(", ") }),
    }
}

pub(super) fn element(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware, persistent: &[u64]) -> Element {
    let (sockets, cores, threads) = hardware.topology(guest.vcpus);
    let topology = Element::new("topology").attr("sockets", sockets).attr("cores", cores).attr("threads", threads);
    let cpu = match host.cpu_mode {
        CpuMode::None => Element::new("cpu"),
        CpuMode::HostModel => Element::new("cpu").attr("mode", "host-model").attr("match", "exact"),
        CpuMode::HostPassthrough => Element::new("cpu").attr("mode", "host-passthrough").attr("match", "exact"),
        CpuMode::Maximum => Element::new("cpu").attr("mode", "maximum"),
        CpuMode::Custom => Element::new("cpu")
            .attr("mode", "custom")
            .attr("match", "exact")
            .children(hardware.cpu_model.as_deref().map(|model| Element::leaf("model", model))),
    };
    // Without a model no flags can be added or removed; Nova behaves the same.
    let flags = host.guests.cpu_flags.iter().filter(|_| host.cpu_mode != CpuMode::None);
    let flags = flags.map(|flag| {
        let policy = if flag.wanted { "require" } else { "disable" };
        Element::new("feature").attr("policy", policy).attr("name", &flag.name)
    });
    let nodes = pinned::numa(&guest.pinning).or_else(|| pmem::node(guest, persistent));
    cpu.child(topology).children(flags).children(nodes)
}
