//! The bus addresses of a guest's interfaces and disks. Source: nova `virt/libvirt/driver.py`, `_prepare_device_bus`.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use roxmltree::{Document, Node};
use virt::domain::Domain;

use super::error::Context;
use super::host::LibvirtDriver;
use crate::capability::DeviceLocations;
use crate::capability::device_locations::{DeviceKind, GuestDevice};
use crate::driver::{DriverError, DriverResult};

const CALL: &str = "devices";

fn all(domain: &Domain) -> DriverResult<Vec<GuestDevice>> {
    let xml = domain.xml_desc(0).during(CALL)?;
    read(&xml)
        .map_err(|error| DriverError::Failed { call: CALL, message: format!("the domain cannot be read: {error}") })
}

/// Reads the devices in the order of the guest's definition, in which libvirt writes disks before interfaces.
fn read(xml: &str) -> Result<Vec<GuestDevice>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let lists = document.root_element().children().filter(|node| node.has_tag_name("devices"));
    Ok(lists.flat_map(|devices| devices.children()).filter_map(device).collect())
}

fn device(node: Node<'_, '_>) -> Option<GuestDevice> {
    let kind = match node.tag_name().name() {
        "interface" => DeviceKind::Nic { mac: part(node, "mac", "address")?.to_ascii_lowercase() },
        "disk" => DeviceKind::Disk {
            serial: child(node, "serial").and_then(|serial| serial.text()).map(str::to_owned),
            target: part(node, "target", "dev")?.to_owned(),
        },
        _ => return None,
    };
    let place = child(node, "address");
    let bus = match (place.and_then(|place| place.attribute("type")), part(node, "target", "bus")) {
        (Some("pci"), _) => Some("pci"),
        (_, Some("scsi")) => Some("scsi"),
        (_, Some("ide")) => Some("ide"),
        (_, Some("usb")) => Some("usb"),
        _ => None,
    };
    Some(GuestDevice { kind, bus, address: place.and_then(pci) })
}

/// Formats the address as `lspci -D` does. libvirt writes each part as `0x...`.
fn pci(place: Node<'_, '_>) -> Option<String> {
    let number = |name: &str| u32::from_str_radix(place.attribute(name)?.trim_start_matches("0x"), 16).ok();
    let (domain, bus, slot, function) = (number("domain")?, number("bus")?, number("slot")?, number("function")?);
    (place.attribute("type") == Some("pci")).then(|| format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"))
}

fn child<'a, 'input>(device: Node<'a, 'input>, element: &str) -> Option<Node<'a, 'input>> {
    device.children().find(|node| node.has_tag_name(element))
}

fn part<'a>(device: Node<'a, '_>, element: &str, attribute: &str) -> Option<&'a str> {
    child(device, element)?.attribute(attribute)
}

#[async_trait]
impl DeviceLocations for LibvirtDriver {
    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>> {
        self.ask("devices", move |connect, _| all(&super::domain::require(connect, instance)?)).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn devices_have_the_addresses_of_the_definition() {
        let xml = "<domain><devices>\
            <disk><target dev='vda' bus='virtio'/><serial>one</serial>\
            <address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/></disk>\
            <disk><target dev='sda' bus='scsi'/>\
            <address type='drive' controller='0' bus='0' target='0' unit='0'/></disk>\
            <disk><target dev='sdb' bus='sata'/></disk>\
            <controller type='scsi'><address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></controller>\
            <interface><mac address='FA:16:3E:00:00:01'/>\
            <address type='pci' domain='0x0000' bus='0x00' slot='0x1f' function='0x7'/></interface>\
            </devices></domain>";
        let disk = |serial: Option<&str>, target: &str| DeviceKind::Disk {
            serial: serial.map(str::to_owned),
            target: target.to_owned(),
        };
        let at = |address: &str| Some(address.to_owned());
        assert_eq!(
            read(xml).unwrap(),
            [
                GuestDevice { kind: disk(Some("one"), "vda"), bus: Some("pci"), address: at("0000:04:00.0") },
                GuestDevice { kind: disk(None, "sda"), bus: Some("scsi"), address: None },
                GuestDevice { kind: disk(None, "sdb"), bus: None, address: None },
                GuestDevice {
                    kind: DeviceKind::Nic { mac: "fa:16:3e:00:00:01".to_owned() },
                    bus: Some("pci"),
                    address: at("0000:00:1f.7"),
                },
            ]
        );
    }
}
