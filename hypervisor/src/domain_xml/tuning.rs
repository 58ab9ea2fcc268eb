//! The limits on a guest's resources in its flavor's `quota:` extra specs, as in Nova's libvirt driver
//! (`_update_guest_cputune`, `disk_qos`, `set_vif_bandwidth_config`).
//!
//! As in Nova, the `quota:` specs of other hypervisors have no effect (`quota:cpu_limit`, `quota:memory_shares_level`,
//! ...). The peak and the burst of an interface have no effect either if there is no average in the same direction.
//! Every other limit must take effect. If libvirt cannot set such a limit on a host, the start of the guest fails.

use super::error::{HardwareError, unknown};
use crate::xml::Element;

/// An extra spec, and libvirt's name for it.
type Word = (&'static str, &'static str);

const CPU: &[Word] = &[("quota:cpu_shares", "shares"), ("quota:cpu_period", "period"), ("quota:cpu_quota", "quota")];
const DISK: &[Word] = &[
    ("quota:disk_read_bytes_sec", "read_bytes_sec"),
    ("quota:disk_read_iops_sec", "read_iops_sec"),
    ("quota:disk_write_bytes_sec", "write_bytes_sec"),
    ("quota:disk_write_iops_sec", "write_iops_sec"),
    ("quota:disk_total_bytes_sec", "total_bytes_sec"),
    ("quota:disk_total_iops_sec", "total_iops_sec"),
];
const INBOUND: &[Word] = &[
    ("quota:vif_inbound_average", "average"),
    ("quota:vif_inbound_peak", "peak"),
    ("quota:vif_inbound_burst", "burst"),
];
const OUTBOUND: &[Word] = &[
    ("quota:vif_outbound_average", "average"),
    ("quota:vif_outbound_peak", "peak"),
    ("quota:vif_outbound_burst", "burst"),
];

type Limits = Vec<(&'static str, i64)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    cpu: Limits,
    disk: Limits,
    inbound: Limits,
    outbound: Limits,
}

impl Tuning {
    pub(super) fn parse<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, HardwareError> {
        let read = |words: &[Word]| -> Result<Limits, HardwareError> {
            let mut limits = Limits::new();
            for (spec, word) in words {
                if let Some(value) = get(spec) {
                    limits.push((*word, value.parse().map_err(|_| unknown(spec, value))?));
                }
            }
            Ok(limits)
        };
        Ok(Self { cpu: read(CPU)?, disk: read(DISK)?, inbound: read(INBOUND)?, outbound: read(OUTBOUND)? })
    }

    /// The guest's CPU shares, CPU quota and its period, and the elements that pin its CPUs.
    pub(super) fn cpu(&self, pins: Vec<Element>) -> Option<Element> {
        let any = !self.cpu.is_empty() || !pins.is_empty();
        any.then(|| Element::new("cputune").children(limits(&self.cpu)).children(pins))
    }

    /// The limits of each local disk. Volumes have the limits of their types.
    pub(super) fn disk(&self) -> Option<Element> {
        (!self.disk.is_empty()).then(|| Element::new("iotune").children(limits(&self.disk)))
    }

    /// The limits of each interface. A peak or a burst without an average is left out, because libvirt would refuse it.
    pub(super) fn interface(&self) -> Option<Element> {
        let directions = [("inbound", &self.inbound), ("outbound", &self.outbound)];
        let limited = directions.map(|(name, limits)| {
            let average = limits.iter().any(|(word, _)| *word == "average");
            average.then(|| limits.iter().fold(Element::new(name), |element, (word, value)| element.attr(word, value)))
        });
        let any = limited.iter().any(Option::is_some);
        any.then(|| Element::new("bandwidth").children(limited.into_iter().flatten()))
    }
}

fn limits(limits: &Limits) -> impl Iterator<Item = Element> + '_ {
    limits.iter().map(|(word, value)| Element::leaf(word, value))
}
