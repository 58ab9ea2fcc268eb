//! Virtual persistent memory in a guest's definition.
//!
//! libvirt needs the largest size of the guest's memory, and a NUMA node that has the memory. As in Nova, all of it is in
//! node 0, and a guest without nodes gets one. Source: Nova's `_guest_add_vpmems` and `_get_guest_numa_config`.

use super::error::HardwareError;
use super::facts::HostFacts;
use crate::cpus;
use crate::guest::GuestSpec;
use crate::pmem::{SPEC, requested};
use crate::volumes;
use crate::xml::Element;

/// Room for the label area of each namespace.
const LABEL_AREA_KIB: u64 = 2048;
const ALIGNMENT_KIB: u64 = 2048;

/// The sizes of the guest's namespaces in KiB.
///
/// # Errors
/// The host has no namespace of a label.
pub(super) fn sizes(guest: &GuestSpec, host: &HostFacts) -> Result<Vec<u64>, HardwareError> {
    let size = |label: &str| {
        let found = host.guests.pmem.labels.get(label).map(|label| label.mib * 1024);
        found.ok_or_else(|| HardwareError::NotOnThisHost { property: SPEC, value: label.to_owned() })
    };
    requested(&guest.hardware).into_iter().map(size).collect()
}

/// The size of all memory of the guest in KiB, as libvirt counts it.
pub(super) fn all_memory(guest: &GuestSpec, sizes: &[u64]) -> u64 {
    guest.memory_mib * 1024 + sizes.iter().sum::<u64>()
}

pub(super) fn max_memory(guest: &GuestSpec, sizes: &[u64]) -> Option<Element> {
    let most = all_memory(guest, sizes);
    let element = || Element::leaf("maxMemory", most).attr("slots", sizes.len()).attr("unit", "KiB");
    (!sizes.is_empty()).then(element)
}

/// The one NUMA node of a guest without nodes of its own.
pub(super) fn node(guest: &GuestSpec, sizes: &[u64]) -> Option<Element> {
    let cell = || {
        Element::new("cell")
            .attr("id", 0)
            .attr("cpus", cpus::format(0..guest.vcpus))
            .attr("memory", guest.memory_mib * 1024)
            .attr("unit", "KiB")
    };
    (!sizes.is_empty()).then(|| Element::new("numa").child(cell()))
}

pub(super) fn devices(guest: &GuestSpec, host: &HostFacts, sizes: &[u64]) -> Vec<Element> {
    let kib = |name: &'static str, size: u64| Element::leaf(name, size).attr("unit", "KiB");
    let device = |(number, size): (usize, &u64)| {
        let path = format!("{}/{}", host.guests.pmem.path, volumes::pmem(guest.instance, number));
        let source = Element::new("source")
            .child(Element::leaf("path", path))
            .child(kib("alignsize", ALIGNMENT_KIB))
            .children(host.guests.pmem.is_persistent.then(|| Element::new("pmem")));
        let target = Element::new("target")
            .child(kib("size", *size))
            .child(Element::leaf("node", 0))
            .child(Element::new("label").child(kib("size", LABEL_AREA_KIB)));
        Element::new("memory").attr("model", "nvdimm").attr("access", "shared").child(source).child(target)
    };
    sizes.iter().enumerate().map(device).collect()
}
