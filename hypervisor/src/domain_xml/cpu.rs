//! The `<cpu>` element: mode, model and topology.

use super::{Hardware, HostFacts};
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
    cpu.child(topology)
}
