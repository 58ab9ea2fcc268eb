//! The CPU models and flags that an operator chose for guests. If a host cannot give these to guests, it is not
//! registered, because every guest would fail there. Nova's agent refuses to start on such a host.

use std::collections::BTreeSet;

use roxmltree::Document;
use virt::connect::Connect;

use super::migration;
use crate::domain_xml::CpuModel;
use crate::driver::{DriverError, DriverResult};
use crate::options::{CpuMode, LibvirtOptions};
use crate::xml::Element;

const CALL: &str = "CPU models";

/// The host's side of the check.
pub(super) struct HostCpu<'a> {
    pub(super) arch: &'a str,
    /// `kvm` or `qemu`.
    pub(super) virt_type: &'a str,
    pub(super) mode: CpuMode,
    /// The operator's models for this host.
    pub(super) models: &'a [String],
    /// The features of the host's CPU, and of the CPU that its hypervisor can present.
    pub(super) features: BTreeSet<&'a str>,
}

/// The operator's models with their features, in the operator's order; empty unless the mode is `custom`.
///
/// # Errors
/// A model or a flag is impossible on this host. The text names it.
pub(super) fn learn(connect: &Connect, host: &HostCpu<'_>, options: &LibvirtOptions) -> DriverResult<Vec<CpuModel>> {
    let wanted = options.guests.cpu_flags.iter().filter(|flag| flag.wanted);
    match host.mode {
        CpuMode::Custom if host.models.is_empty() => {
            Err(impossible("[libvirt] cpu_mode = custom needs cpu_models".to_owned()))
        }
        CpuMode::Custom => host.models.iter().map(|name| model(connect, host, options, name)).collect(),
        CpuMode::None => Ok(Vec::new()),
        CpuMode::HostModel | CpuMode::HostPassthrough | CpuMode::Maximum => {
            match wanted.into_iter().find(|flag| !host.features.contains(flag.name.as_str())) {
                None => Ok(Vec::new()),
                Some(flag) => Err(impossible(format!(
                    "[libvirt] cpu_model_extra_flags: this host cannot give guests the feature {}",
                    flag.name
                ))),
            }
        }
    }
}

fn impossible(message: String) -> DriverError {
    DriverError::Failed { call: CALL, message }
}

fn unpresentable(model: &str, reason: &str) -> DriverError {
    let options = "[libvirt] cpu_models or [chronova] host_cpu_models";
    impossible(format!("{options}: this host cannot present {model}: {reason}"))
}

fn model(connect: &Connect, host: &HostCpu<'_>, options: &LibvirtOptions, name: &str) -> DriverResult<CpuModel> {
    let alone = Element::new("cpu")
        .attr("mode", "custom")
        .attr("match", "exact")
        .child(Element::leaf("model", name).attr("fallback", "forbid"));
    let flags = options.guests.cpu_flags.iter().map(|flag| {
        let policy = if flag.wanted { "require" } else { "disable" };
        Element::new("feature").attr("policy", policy).attr("name", &flag.name)
    });
    let cpu = alone.children(flags).render();
    match migration::compare_cpu(connect, (host.arch, host.virt_type), &cpu) {
        Ok(None) => Ok(CpuModel { name: name.to_owned(), features: features(connect, host.arch, name) }),
        Ok(Some(reason)) => Err(unpresentable(name, &reason)),
        // libvirt fails for an unknown model or flag, instead of comparing.
        Err(DriverError::Failed { message, .. }) => Err(unpresentable(name, &message)),
        Err(error) => Err(error),
    }
}

/// All features of a model; empty if libvirt does not list them.
fn features(connect: &Connect, arch: &str, name: &str) -> BTreeSet<String> {
    let topology = Element::new("topology").attr("sockets", 1).attr("cores", 1).attr("threads", 1);
    let cpu = Element::new("cpu")
        .child(Element::leaf("arch", arch))
        .child(Element::leaf("model", name))
        .child(topology)
        .render();
    let flags = virt_sys::VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES;
    let Ok(expanded) = connect.baseline_cpu(&[&cpu], flags) else { return BTreeSet::new() };
    let Ok(document) = Document::parse(&expanded) else { return BTreeSet::new() };
    let features = document.descendants().filter(|node| node.has_tag_name("feature"));
    features.filter_map(|node| node.attribute("name").map(str::to_owned)).collect()
}
