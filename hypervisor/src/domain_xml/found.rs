//! Reads a guest's definition back: the opposite of [`super::render`], as far as the definition tells.

use std::collections::BTreeSet;

use chronova_events::ids::{PortId, ProjectId, UserId};
use roxmltree::{Document, Node};

use super::metadata::NAMESPACE;
use crate::found::{
    DefinitionMetadata, FoundGuest, FoundNic, FoundVolume, HOST_DEVICES, ISO_ROOT, PINNED, RESCUE, TPM,
};
use crate::guest::GuestStatus;
use crate::volumes;

/// The number of characters of a port's id in the name of its tap device.
const TAP_ID: usize = 11;

/// Reads the definition of the guest with this status. `saved`: whether its memory is saved on the host's disk.
///
/// # Errors
/// If the definition cannot be parsed.
pub fn found(xml: &str, status: &GuestStatus, saved: bool) -> Result<FoundGuest, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let root = document.root_element();
    let devices: Vec<Node<'_, '_>> = child(root, "devices").into_iter().flat_map(|node| node.children()).collect();
    let of_kind = |name: &'static str| devices.iter().copied().filter(move |node| node.has_tag_name(name));
    let disks: Vec<FoundSource<'_, '_>> = of_kind("disk").map(FoundSource::of).collect();
    let ours = root.descendants().find(|node| node.has_tag_name((NAMESPACE, "instance")));
    let ports: Vec<PortId> = ours.into_iter().flat_map(ports).collect();
    let metadata = ours.and_then(metadata);
    let named = |suffix: &str| disks.iter().filter(|disk| disk.name().starts_with(suffix)).count();
    let ephemeral = volumes::ephemeral(status.instance, 0);
    let rescue = volumes::rescue(status.instance);
    let drive = volumes::config_drive(status.instance);
    let plugged = |node: &Node<'_, '_>| matches!(node.attribute("type"), Some("network" | "bridge" | "ethernet"));
    let is_iso = |disk: &FoundSource<'_, '_>| disk.is_cdrom() && volumes::based_on(disk.name()).is_some();
    let beyond = [
        (HOST_DEVICES, of_kind("hostdev").next().is_some() || of_kind("interface").any(|node| !plugged(&node))),
        (PINNED, child(root, "numatune").is_some()),
        (RESCUE, named(&rescue) > 0),
        (ISO_ROOT, disks.iter().any(is_iso)),
        (TPM, of_kind("tpm").next().is_some()),
    ];
    let machine = child(root, "os").and_then(|os| child(os, "type")).and_then(|kind| kind.attribute("machine"));
    Ok(FoundGuest {
        instance: status.instance,
        domain_name: status.domain_name.clone(),
        power: status.power,
        saved,
        metadata,
        machine_type: machine.map(str::to_owned),
        // `..._disk.eph0` without its number.
        ephemerals: named(ephemeral.trim_end_matches('0')),
        has_config_drive: named(&drive) > 0,
        volumes: disks.iter().filter_map(FoundSource::volume).collect(),
        nics: of_kind("interface").filter(plugged).filter_map(|node| nic(node, &ports)).collect(),
        beyond: beyond.into_iter().filter(|(_, has)| *has).map(|(words, _)| words).collect::<BTreeSet<_>>(),
    })
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.is_element() && child.tag_name().name() == name)
}

fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name)?.text()
}

fn part<'a>(node: Node<'a, '_>, name: &str, attribute: &str) -> Option<&'a str> {
    child(node, name)?.attribute(attribute)
}

fn ports(ours: Node<'_, '_>) -> Vec<PortId> {
    let all = child(ours, "ports").into_iter().flat_map(|node| node.children());
    all.filter_map(|port| port.attribute("uuid")?.parse().ok()).collect()
}

/// The content of our element; `None`: a part is missing, so the element is not ours.
fn metadata(ours: Node<'_, '_>) -> Option<DefinitionMetadata> {
    let (flavor, owner) = (child(ours, "flavor")?, child(ours, "owner")?);
    Some(DefinitionMetadata {
        display_name: text(ours, "name").unwrap_or_default().to_owned(),
        flavor_name: flavor.attribute("name")?.to_owned(),
        vcpus: text(flavor, "vcpus")?.trim().parse().ok()?,
        memory_mib: text(flavor, "memory")?.trim().parse().ok()?,
        root_gib: text(flavor, "disk")?.trim().parse().ok()?,
        ephemeral_gib: text(flavor, "ephemeral")?.trim().parse().ok()?,
        swap_mib: text(flavor, "swap")?.trim().parse().ok()?,
        user: UserId::new(part(owner, "user", "uuid")?),
        project: ProjectId::new(part(owner, "project", "uuid")?),
        image: part(ours, "root", "uuid").and_then(|id| id.parse().ok()),
    })
}

/// A disk with its source.
#[derive(Clone, Copy)]
struct FoundSource<'a, 'i> {
    disk: Node<'a, 'i>,
    source: Option<Node<'a, 'i>>,
}

impl<'a, 'i> FoundSource<'a, 'i> {
    fn of(disk: Node<'a, 'i>) -> Self {
        Self { disk, source: child(disk, "source") }
    }

    fn is_cdrom(&self) -> bool {
        self.disk.attribute("device") == Some("cdrom")
    }

    /// The last part of the place: the name of a file, a device or an image.
    fn name(&self) -> &'a str {
        let source = self.source;
        let place = ["file", "dev", "name", "volume"].iter().find_map(|key| source?.attribute(*key));
        place.unwrap_or_default().rsplit('/').next().unwrap_or_default()
    }

    /// Only a volume of the volume service has a serial number.
    fn volume(&self) -> Option<FoundVolume> {
        let (disk, source) = (self.disk, self.source?);
        let place = || Some((source.attribute("pool")?.to_owned(), source.attribute("volume")?.to_owned()));
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        Some(FoundVolume {
            serial: text(disk, "serial")?.trim().to_owned(),
            place: place(),
            format: part(disk, "driver", "type").unwrap_or("raw").to_owned(),
            readonly: child(disk, "readonly").is_some(),
            shareable: child(disk, "shareable").is_some(),
            device: owned(part(disk, "target", "dev")),
            bus: owned(part(disk, "target", "bus")),
            kind: disk.attribute("device").unwrap_or("disk").to_owned(),
            boot_order: part(disk, "boot", "order").and_then(|order| order.parse().ok()),
        })
    }
}

/// Reads an interface. Its port has the id that the definition gives for Open vSwitch. Without such an id, it is the
/// port in `ports` whose id begins with the text after `tap` in the tap device's name.
fn nic(node: Node<'_, '_>, ports: &[PortId]) -> Option<FoundNic> {
    let tap = part(node, "target", "dev").and_then(|name| name.strip_prefix("tap"));
    let of_tap = || {
        let begin = tap.filter(|begin| begin.len() == TAP_ID)?;
        ports.iter().copied().find(|port| port.to_string().starts_with(begin))
    };
    let switch = child(node, "virtualport").and_then(|switch| part(switch, "parameters", "interfaceid"));
    Some(FoundNic {
        mac: part(node, "mac", "address")?.to_ascii_lowercase(),
        port: switch.and_then(|id| id.parse().ok()).or_else(of_tap),
        network: part(node, "source", "network").map(str::to_owned),
        mtu: part(node, "mtu", "size").and_then(|size| size.parse().ok()).unwrap_or(0),
        is_filtered: child(node, "filterref").is_some(),
    })
}
