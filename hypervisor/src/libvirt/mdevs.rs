//! Mediated devices, as node devices of libvirt.
//!
//! libvirt creates and removes a device with `mdevctl`, which the host must have. The id of a device can be chosen
//! since libvirt 7.3.0. A guest's metadata name the physical device and the type of each of its devices. So any start
//! of the guest can create missing devices: those of a new guest, and those that a reboot of the host has removed.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use chronova_events::pci::PciAddress;
use roxmltree::{Document, Node};
use uuid::Uuid;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{Context, is, number, translate};
use super::node_devices::{capability, child, described, text};
use crate::domain_xml::{NAMESPACE, mediated};
use crate::driver::{DriverError, DriverResult};
use crate::mdev::{GuestMdev, MdevParent, MdevType};
use crate::pci::{address_of, node_device};
use crate::xml::Element;

const CALL: &str = "mediated devices";
/// How long a running guest may take to release a device, and the pause between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(200);

/// The physical devices that can have mediated devices. Devices that are no PCI devices are left out.
pub(super) fn learn(connect: &Connect) -> DriverResult<Vec<MdevParent>> {
    let mut existing: BTreeMap<(PciAddress, String), u32> = BTreeMap::new();
    for found in all(connect)? {
        *existing.entry((found.parent, found.mdev_type)).or_default() += 1;
    }
    let mut parents: Vec<MdevParent> = Vec::new();
    for xml in described(connect, sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV_TYPES, CALL)? {
        match parent(&xml) {
            Ok(found) => parents.extend(found),
            Err(error) => tracing::warn!(%error, "libvirt describes a physical GPU in an unreadable way"),
        }
    }
    for parent in &mut parents {
        for offered in &mut parent.types {
            offered.existing = existing.get(&(parent.address, offered.name.clone())).copied().unwrap_or(0);
        }
    }
    parents.sort_by_key(|parent| parent.address);
    Ok(parents)
}

/// Creates the guest's devices that do not exist. Returns whether it created any.
pub(super) fn create_missing(domain: &Domain) -> DriverResult<bool> {
    let wanted = named_by(domain)?;
    if wanted.is_empty() {
        return Ok(false);
    }
    let connect = domain.connect().during(CALL)?;
    let present: BTreeSet<Uuid> = all(&connect)?.into_iter().map(|known| known.uuid).collect();
    let mut created = false;
    for device in wanted.iter().filter(|device| !present.contains(&device.uuid)) {
        connect.create_node_device_xml(&request(device), 0).during(CALL)?;
        created = true;
    }
    Ok(created)
}

/// Removes the mediated devices of a guest that is off. Afterwards the host can create others in their place. If the
/// host does not remove a device, this is only logged, so that the removal of the guest continues.
pub(super) fn remove(domain: &Domain) -> DriverResult<()> {
    remove_all(domain, &used_by(domain, sys::VIR_DOMAIN_XML_INACTIVE)?)
}

/// Removes the mediated devices that the next definition of the guest does not have. The guest must be off.
pub(super) fn remove_others(domain: &Domain, kept: &[GuestMdev]) -> DriverResult<()> {
    let mut gone = used_by(domain, sys::VIR_DOMAIN_XML_INACTIVE)?;
    gone.retain(|uuid| kept.iter().all(|device| device.uuid != *uuid));
    remove_all(domain, &gone)
}

fn remove_all(domain: &Domain, gone: &BTreeSet<Uuid>) -> DriverResult<()> {
    if gone.is_empty() {
        return Ok(());
    }
    let connect = domain.connect().during(CALL)?;
    for device in connect.list_all_node_devices(sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV).during(CALL)? {
        // A device may disappear between the list and this call.
        let Ok(xml) = device.xml_desc(0) else { continue };
        let uuid = existing(&xml).ok().flatten().map(|known| known.uuid);
        if uuid.is_some_and(|uuid| gone.contains(&uuid))
            && let Err(error) = device.destroy()
        {
            tracing::warn!(?uuid, error = error.message(), "a mediated device could not be removed");
        }
    }
    Ok(())
}

/// Takes the devices out of a running guest, because libvirt cannot save a guest that has them. The definition keeps
/// them.
pub(super) fn detach(domain: &Domain) -> DriverResult<()> {
    if !domain.is_active().during(CALL)? {
        return Ok(());
    }
    let held = used_by(domain, 0)?;
    for uuid in &held {
        match domain.detach_device_flags(&mediated(*uuid).render(), sys::VIR_DOMAIN_AFFECT_LIVE) {
            Ok(()) => {}
            Err(error) if is(&error, ErrorNumber::DeviceMissing) => {}
            Err(error) => return Err(translate(CALL, &error)),
        }
    }
    let end = Instant::now() + PATIENCE;
    while !held.is_empty() && !used_by(domain, 0)?.is_empty() {
        if Instant::now() >= end {
            let message = "the guest did not release its mediated devices".to_owned();
            return Err(DriverError::Failed { call: CALL, message });
        }
        pause();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "on a thread of the host's own")]
fn pause() {
    thread::sleep(LOOK);
}

/// Gives a running guest the devices of its definition that it lacks.
pub(super) fn attach(domain: &Domain) -> DriverResult<()> {
    let wanted = used_by(domain, sys::VIR_DOMAIN_XML_INACTIVE)?;
    if wanted.is_empty() || !domain.is_active().during(CALL)? {
        return Ok(());
    }
    create_missing(domain)?;
    let held = used_by(domain, 0)?;
    for uuid in wanted.difference(&held) {
        domain.attach_device_flags(&mediated(*uuid).render(), sys::VIR_DOMAIN_AFFECT_LIVE).during(CALL)?;
    }
    Ok(())
}

/// The mediated devices of the host.
fn all(connect: &Connect) -> DriverResult<Vec<GuestMdev>> {
    let listed = described(connect, sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV, CALL)?;
    Ok(listed.iter().filter_map(|xml| existing(xml).ok().flatten()).collect())
}

/// Reads a physical device; `None` if it is no PCI device, or offers no types.
fn parent(xml: &str) -> Result<Option<MdevParent>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let root = document.root_element();
    let read = || {
        let address = address_of(text(root, "name")?)?;
        let types = capability(capability(root, "pci")?, "mdev_types")?;
        let offered = |node: Node<'_, '_>| {
            let available = text(node, "availableInstances")?.parse().ok()?;
            Some(MdevType { name: node.attribute("id")?.to_owned(), available, existing: 0 })
        };
        let mut types: Vec<MdevType> =
            types.children().filter(|node| node.has_tag_name("type")).filter_map(offered).collect();
        types.sort_by(|a, b| a.name.cmp(&b.name));
        Some(MdevParent { address, types })
    };
    Ok(read())
}

/// Reads a mediated device. Before libvirt 7.3.0 only the device's name has its id.
fn existing(xml: &str) -> Result<Option<GuestMdev>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let root = document.root_element();
    let read = || {
        let device = capability(root, "mdev")?;
        let named = || text(root, "name")?.strip_prefix("mdev_")?.get(..36).map(|id| id.replace('_', "-"));
        let uuid = text(device, "uuid").map(str::to_owned).or_else(named)?.parse().ok()?;
        let mdev_type = child(device, "type")?.attribute("id")?.to_owned();
        Some(GuestMdev { uuid, parent: address_of(text(root, "parent")?)?, mdev_type })
    };
    Ok(read())
}

/// The request for a new device.
fn request(device: &GuestMdev) -> String {
    let wanted = Element::new("capability")
        .attr("type", "mdev")
        .child(Element::new("type").attr("id", &device.mdev_type))
        .child(Element::leaf("uuid", device.uuid));
    Element::new("device").child(Element::leaf("parent", node_device(device.parent))).child(wanted).render()
}

/// The devices in the guest's metadata. A guest without metadata of ours has none. Metadata that cannot be read name
/// none, because the caller already has the error of a start.
fn named_by(domain: &Domain) -> DriverResult<Vec<GuestMdev>> {
    const ELEMENT: i32 = sys::VIR_DOMAIN_METADATA_ELEMENT.cast_signed();
    match domain.metadata(ELEMENT, Some(NAMESPACE), 0) {
        Ok(xml) => Ok(metadata(&xml).unwrap_or_default()),
        Err(error) => match number(&error) {
            Some(ErrorNumber::NoDomainMetadata | ErrorNumber::NoDomain) => Ok(Vec::new()),
            _ => Err(translate(CALL, &error)),
        },
    }
}

fn unreadable(error: &roxmltree::Error) -> DriverError {
    DriverError::Failed { call: CALL, message: format!("the domain cannot be read: {error}") }
}

fn metadata(xml: &str) -> Result<Vec<GuestMdev>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let named = document.descendants().filter(|node| node.is_element() && node.tag_name().name() == "mdev");
    let device = |node: Node<'_, '_>| {
        let uuid = node.attribute("uuid")?.parse().ok()?;
        let parent = node.attribute("parent")?.parse().ok()?;
        Some(GuestMdev { uuid, parent, mdev_type: node.attribute("type")?.to_owned() })
    };
    Ok(named.filter_map(device).collect())
}

/// The ids of the mediated devices in one of the domain's two definitions.
fn used_by(domain: &Domain, side: u32) -> DriverResult<BTreeSet<Uuid>> {
    match domain.xml_desc(side) {
        Ok(xml) => hostdevs(&xml).map_err(|error| unreadable(&error)),
        Err(error) if is(&error, ErrorNumber::NoDomain) => Ok(BTreeSet::new()),
        Err(error) => Err(translate(CALL, &error)),
    }
}

fn hostdevs(xml: &str) -> Result<BTreeSet<Uuid>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let devices = document.root_element().children().filter(|node| node.has_tag_name("devices"));
    let of_host = devices
        .flat_map(|devices| devices.children())
        .filter(|node| node.has_tag_name("hostdev") && node.attribute("type") == Some("mdev"));
    Ok(of_host.filter_map(|node| child(child(node, "source")?, "address")?.attribute("uuid")?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ID: &str = "c8e5d0c1-7d5d-5a4a-9f6e-1f2e3d4c5b6a";

    #[test]
    fn a_physical_gpu_offers_types_as_libvirt_describes_them() {
        let xml = "<device><name>pci_0000_06_00_0</name><capability type='pci'><class>0x030200</class>\
                   <capability type='mdev_types'><type id='nvidia-36'><name>GRID M60-0Q</name><deviceAPI>vfio-pci\
                   </deviceAPI><availableInstances>8</availableInstances></type><type id='nvidia-35'><deviceAPI>vfio-pci\
                   </deviceAPI><availableInstances>16</availableInstances></type></capability></capability></device>";
        let found = parent(xml).unwrap().unwrap();
        assert_eq!(found.address.to_string(), "0000:06:00.0");
        let types: Vec<(&str, u32)> = found.types.iter().map(|one| (one.name.as_str(), one.available)).collect();
        assert_eq!(types, [("nvidia-35", 16), ("nvidia-36", 8)]);
        assert_eq!(parent(&xml.replace("mdev_types", "virt_functions")).unwrap(), None);
        assert_eq!(parent(&xml.replace("pci_0000_06_00_0", "css_0_0_0033")).unwrap(), None);
    }

    #[test]
    fn an_existing_device_is_read_with_and_without_its_id() {
        let of = |name: &str, uuid: &str| {
            format!(
                "<device><name>{name}</name><parent>pci_0000_06_00_0</parent><capability type='mdev'>\
                 <type id='nvidia-35'/>{uuid}<iommuGroup number='12'/></capability></device>"
            )
        };
        let expected = GuestMdev {
            uuid: ID.parse().unwrap(),
            parent: "0000:06:00.0".parse().unwrap(),
            mdev_type: "nvidia-35".to_owned(),
        };
        let old = format!("mdev_{}", ID.replace('-', "_"));
        assert_eq!(existing(&of(&old, "")).unwrap().unwrap(), expected);
        let new = of(&format!("{old}_0000_06_00_0"), &format!("<uuid>{ID}</uuid>"));
        assert_eq!(existing(&new).unwrap().unwrap(), expected);
        assert_eq!(
            request(&expected),
            format!(
                "<device>\n  <parent>pci_0000_06_00_0</parent>\n  <capability type='mdev'>\n    <type id='nvidia-35'/>\n    \
                 <uuid>{ID}</uuid>\n  </capability>\n</device>\n"
            )
        );
    }

    /// Every start reads the metadata of the golden definition.
    #[test]
    fn a_definition_names_its_devices() {
        let xml = std::fs::read_to_string("golden/domain-mdev.xml").unwrap();
        let named = metadata(&xml).unwrap();
        let line = |device: &GuestMdev| format!("{} {}", device.parent, device.mdev_type);
        assert_eq!(named.iter().map(line).collect::<Vec<_>>(), ["0000:85:00.0 nvidia-35", "0000:86:00.0 nvidia-36"]);
        let ids: BTreeSet<Uuid> = named.iter().map(|device| device.uuid).collect();
        assert_eq!(hostdevs(&xml).unwrap(), ids);
        let others = std::fs::read_to_string("golden/domain-devices.xml").unwrap();
        assert!(hostdevs(&others).unwrap().is_empty(), "PCI devices");
    }
}
