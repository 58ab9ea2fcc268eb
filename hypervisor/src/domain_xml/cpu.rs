//! The `<cpu>` element: mode, model, topology, features and NUMA nodes.

use super::{Hardware, HostFacts, pinned};
use crate::guest::GuestSpec;
use crate::options::CpuMode;
use crate::xml::Element;

pub(super) fn element(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Element {
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
            .children(host.cpu_models.first().map(|model| Element::leaf("model", model))),
    };
    // Without a model no flags can be added or removed; Nova behaves the same.
    let flags = host.guests.cpu_flags.iter().filter(|_| host.cpu_mode != CpuMode::None);
    let flags = flags.map(|flag| {
        let policy = if flag.wanted { "require" } else { "disable" };
        Element::new("feature").attr("policy", policy).attr("name", &flag.name)
    });
    cpu.child(topology).children(flags).children(pinned::numa(&guest.pinning))
}
