//! The placement of a guest on its host's processors and NUMA cells, as domain XML. [`repin`] changes the placement of
//! a guest that migrates.
//!
//! Source: Nova's `_get_guest_numa_config` and, for a migrating guest, its `_update_numa_xml`.

use std::ops::Range;

use roxmltree::{Document, Node};

use super::facts::HostFacts;
use super::hardware::Hardware;
use super::splice::splice;
use crate::cpus;
use crate::pinning::{GuestNode, Pinning};
use crate::xml::Element;

/// The guest's number of CPUs, and the processors on which they float.
pub(super) fn vcpu(count: u32, pinning: &Pinning) -> Element {
    let confined = Some(&pinning.confined).filter(|cpus| !cpus.is_empty() && pinning.nodes.is_empty());
    let cpuset = confined.map(|confined| cpus::format(confined.iter().copied()));
    Element::leaf("vcpu", count).attr("placement", "static").attr_if("cpuset", cpuset)
}

/// The processors that each CPU and the emulator may use.
pub(super) fn pins(pinning: &Pinning) -> Vec<Element> {
    let mut of_cpus: Vec<(u32, &[u32])> =
        pinning.nodes.iter().flat_map(|node| &node.cpus).map(|(cpu, processors)| (*cpu, &**processors)).collect();
    of_cpus.sort_unstable();
    let format = |processors: &[u32]| cpus::format(processors.iter().copied());
    let pin =
        |(cpu, processors): (u32, &[u32])| Element::new("vcpupin").attr("vcpu", cpu).attr("cpuset", format(processors));
    let emulator =
        (!pinning.emulator.is_empty()).then(|| Element::new("emulatorpin").attr("cpuset", format(&pinning.emulator)));
    of_cpus.into_iter().map(pin).chain(emulator).collect()
}

/// Places the memory of each of the guest's nodes on one cell of its host.
pub(super) fn numatune(pinning: &Pinning) -> Option<Element> {
    let cells = cpus::format(pinning.nodes.iter().map(|node| node.cell));
    let memory = Element::new("memory").attr("mode", "strict").attr("nodeset", cells);
    let node = |(id, node): (usize, &GuestNode)| {
        Element::new("memnode").attr("cellid", id).attr("mode", "strict").attr("nodeset", node.cell)
    };
    let nodes = pinning.nodes.iter().enumerate().map(node);
    (!pinning.nodes.is_empty()).then(|| Element::new("numatune").child(memory).children(nodes))
}

/// The NUMA nodes that the guest sees. The guest shares its huge pages with the processes on the host that serve its
/// devices.
pub(super) fn numa(pinning: &Pinning) -> Option<Element> {
    let huge = pinning.nodes.iter().any(|node| node.huge_page_kib.is_some());
    let cell = |(id, node): (usize, &GuestNode)| {
        Element::new("cell")
            .attr("id", id)
            .attr("cpus", cpus::format(node.cpus.iter().map(|(cpu, _)| *cpu)))
            .attr("memory", node.memory_mib * 1024)
            .attr("unit", "KiB")
            .attr_if("memAccess", huge.then_some("shared"))
    };
    let cells = pinning.nodes.iter().enumerate().map(cell);
    (!pinning.nodes.is_empty()).then(|| Element::new("numa").children(cells))
}

/// The element for the host's memory that backs the guest's memory: the page sizes, whether files back the memory, and
/// whether the memory is locked. A real-time guest's memory is locked, and no other guest shares its pages. Encrypted
/// memory is locked, because the host cannot move encrypted pages.
pub(super) fn memory_backing(pinning: &Pinning, host: &HostFacts, hardware: &Hardware) -> Option<Element> {
    let page = |(id, node): (usize, &GuestNode)| {
        let size = node.huge_page_kib?;
        Some(Element::new("page").attr("size", size).attr("unit", "KiB").attr("nodeset", id))
    };
    let pages: Vec<Element> = pinning.nodes.iter().enumerate().filter_map(page).collect();
    let realtime = !pinning.realtime.is_empty();
    let huge = (!pages.is_empty()).then(|| Element::new("hugepages").children(pages));
    let unshared = realtime.then(|| Element::new("nosharepages"));
    let locked = (realtime || hardware.locked_memory || hardware.encryption.is_some()).then(|| Element::new("locked"));
    let in_files = host.guests.file_backed_memory.is_some().then(|| {
        [
            Element::new("source").attr("type", "file"),
            Element::new("access").attr("mode", "shared"),
            Element::new("allocation").attr("mode", "immediate"),
            Element::new("discard"),
        ]
    });
    let all: Vec<Element> =
        huge.into_iter().chain(unshared).chain(locked).chain(in_files.into_iter().flatten()).collect();
    (!all.is_empty()).then(|| Element::new("memoryBacking").children(all))
}

/// The elements of a `cputune` that place the guest.
const PINS: [&str; 3] = ["vcpupin", "emulatorpin", "iothreadpin"];

/// Replaces the pinning in a guest's definition. The guest itself sees no difference.
///
/// # Errors
/// If the definition cannot be parsed.
pub fn repin(xml: &str, pinning: &Pinning) -> Result<String, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let root = document.root_element();
    let child = |name: &str| root.children().find(|node| node.has_tag_name(name));
    let mut cuts: Vec<(Range<usize>, String)> = Vec::new();
    let mut place = 0;
    if let Some(node) = child("vcpu") {
        place = node.range().end;
        cuts.push((node.range(), vcpu_again(xml, node, pinning)));
    }
    // The other elements are the limits of the guest's flavor, which migrate with the guest.
    let tuned = child("cputune").into_iter().flat_map(|tune| tune.children()).filter(Node::is_element);
    let is_pin = |node: &Node<'_, '_>| PINS.iter().any(|name| node.has_tag_name(*name));
    let (old_pins, of_flavor): (Vec<_>, Vec<_>) = tuned.partition(is_pin);
    let pins = pins(pinning);
    if !old_pins.is_empty() || !pins.is_empty() {
        let kept: String = of_flavor.iter().map(|node| &xml[node.range()]).collect();
        let pins: String = pins.iter().map(Element::render).collect();
        let tune =
            if kept.is_empty() && pins.is_empty() { String::new() } else { format!("<cputune>{kept}{pins}</cputune>") };
        cuts.push((child("cputune").map_or(place..place, |node| node.range()), tune));
    }
    let memory = numatune(pinning).map(|element| element.render()).unwrap_or_default();
    cuts.push((child("numatune").map_or(place..place, |node| node.range()), memory));
    Ok(splice(xml, cuts))
}

/// The `vcpu` element with another set of processors.
fn vcpu_again(xml: &str, node: Node<'_, '_>, pinning: &Pinning) -> String {
    let count = node.text().unwrap_or_default().trim();
    let mut parts = vec!["<vcpu"];
    parts.extend(node.attributes().filter(|attribute| attribute.name() != "cpuset").map(|own| &xml[own.range()]));
    let confined = match pinning.nodes.is_empty() && !pinning.confined.is_empty() {
        true => format!(" cpuset='{}'", cpus::format(pinning.confined.iter().copied())),
        false => String::new(),
    };
    format!("{}{confined}>{count}</vcpu>", parts.join(" "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn on(cell: u32, processors: [u32; 2]) -> Pinning {
        let cpus = vec![(0, vec![processors[0]]), (1, vec![processors[1]])];
        let node = GuestNode { cell, cpus, memory_mib: 64, huge_page_kib: None };
        Pinning { nodes: vec![node], emulator: processors.to_vec(), ..Pinning::default() }
    }

    const THERE: &str = "<domain><name>x</name><vcpu placement='static'>2</vcpu><cputune><shares>512</shares>\
        <vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='3'/><emulatorpin cpuset='2-3'/></cputune><numatune>\
        <memory mode='strict' nodeset='0'/><memnode cellid='0' mode='strict' nodeset='0'/></numatune>\
        <cpu><numa><cell id='0' cpus='0-1' memory='65536' unit='KiB'/></numa></cpu></domain>";

    #[test]
    fn a_migrated_guest_gets_processors_and_cells_of_its_new_host() {
        let here = repin(THERE, &on(1, [6, 9])).unwrap();
        assert!(here.contains("<shares>512</shares>") && here.contains("<numa><cell id='0' cpus='0-1'"), "{here}");
        for new in
            ["vcpu='0' cpuset='6'", "vcpu='1' cpuset='9'", "emulatorpin cpuset='6,9'", "mode='strict' nodeset='1'"]
        {
            assert!(here.contains(new), "{new}: {here}");
        }
        assert_eq!((here.matches("<vcpupin").count(), here.matches("<cputune>").count()), (2, 1));
        assert!(!here.contains("nodeset='0'") && !here.contains("cpuset='2'"), "{here}");
        Document::parse(&here).unwrap();
    }

    #[test]
    fn a_floating_guest_is_confined_to_the_shared_processors_of_its_new_host() {
        let limited = "<domain><vcpu placement='static'>2</vcpu>\n  <cputune>\n    <shares>512</shares>\n  </cputune><os/></domain>";
        assert_eq!(repin(limited, &Pinning::default()).unwrap(), limited, "the definition must not change");
        let there = "<domain><vcpu placement='static' cpuset='0-1' current='1'>2</vcpu><os/></domain>";
        let confined = Pinning { confined: vec![4, 5], ..Pinning::default() };
        let here = repin(there, &confined).unwrap();
        assert_eq!(here, "<domain><vcpu placement='static' current='1' cpuset='4-5'>2</vcpu><os/></domain>");
        let free = repin(there, &Pinning::default()).unwrap();
        assert_eq!(free, "<domain><vcpu placement='static' current='1'>2</vcpu><os/></domain>");
        let pinned = repin(&free, &on(0, [1, 2])).unwrap();
        assert!(pinned.contains("</vcpu><cputune>") && pinned.contains("<numatune>"), "{pinned}");
    }
}
