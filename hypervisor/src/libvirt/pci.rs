//! The PCI devices of a host, from libvirt's node devices.

use std::collections::BTreeMap;

use chronova_events::ledger::PciDeviceType;
use chronova_events::pci::PciAddress;
use roxmltree::{Document, Node};
use virt::connect::Connect;

use super::error::Context;
use super::node_devices::{capability, child, described, text};
use crate::driver::DriverResult;
use crate::pci::{HostPci, PciDevice, PciNic, node_device};

const CALL: &str = "PCI devices";

/// Reads the devices. Nothing is cached, because operators create virtual functions while the host runs.
pub(super) fn learn(connect: &Connect) -> DriverResult<HostPci> {
    let listed = described(connect, virt_sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV, CALL)?;
    let mut devices = Vec::with_capacity(listed.len());
    // The virtual functions of each physical function, in the order of their numbers.
    let mut functions: Vec<Vec<PciAddress>> = Vec::new();
    for xml in &listed {
        match read(xml) {
            Ok(found) => {
                devices.extend(found);
                functions.extend(virtual_functions(xml).ok());
            }
            Err(error) => {
                tracing::warn!(%error, "libvirt describes a PCI device in an unreadable way; no guest gets it");
            }
        }
    }
    devices.sort_by_key(|device| device.address);
    let interfaces = children(connect, virt_sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET, interface)?;
    let vdpas = children(connect, virt_sys::VIR_CONNECT_LIST_NODE_DEVICES_CAP_VDPA, vdpa)?;
    name_nics(&mut devices, &interfaces, &vdpas);
    number_functions(&mut devices, &functions);
    let xml = connect.capabilities().during(CALL)?;
    Ok(HostPci { devices, sockets: sockets(&xml).unwrap_or_default() })
}

/// Reads the descriptions of all devices of one kind. The keys are the names of their parents.
fn children<T>(connect: &Connect, kind: u32, read: fn(&str) -> Option<T>) -> DriverResult<BTreeMap<String, T>> {
    let listed = described(connect, kind, CALL)?;
    Ok(listed.iter().filter_map(|xml| Some((parent(xml)?, read(xml)?))).collect())
}

/// The name of the device's parent.
fn parent(xml: &str) -> Option<String> {
    let document = Document::parse(xml).ok()?;
    text(document.root_element(), "parent").map(str::to_owned)
}

/// The name and the MAC address of an interface.
type HostInterface = (String, Option<String>);

/// Notes the interfaces and the vDPA devices of PCI devices. The keys of both maps are the names of the PCI devices.
/// Only a virtual function becomes a vDPA device, because the network's software programs a vDPA device through its
/// physical function. So a software device (`vdpa_sim`) does not count.
fn name_nics(
    devices: &mut [PciDevice],
    interfaces: &BTreeMap<String, HostInterface>,
    vdpas: &BTreeMap<String, String>,
) {
    for device in devices {
        let name = node_device(device.address);
        if let Some((interface, mac)) = interfaces.get(&name) {
            (device.nic.interface, device.nic.mac) = (Some(interface.clone()), mac.clone());
        }
        if let (PciDeviceType::Vf, Some(path)) = (device.kind, vdpas.get(&name)) {
            device.kind = PciDeviceType::Vdpa;
            device.nic.vdpa = Some(path.clone());
        }
    }
}

/// The name and the MAC address of a network interface.
fn interface(xml: &str) -> Option<HostInterface> {
    let document = Document::parse(xml).ok()?;
    let net = capability(document.root_element(), "net")?;
    Some((text(net, "interface")?.to_owned(), text(net, "address").map(str::to_ascii_lowercase)))
}

/// The character device of a vDPA device.
fn vdpa(xml: &str) -> Option<String> {
    let document = Document::parse(xml).ok()?;
    text(capability(document.root_element(), "vdpa")?, "chardev").map(str::to_owned)
}

/// The virtual functions of a physical function; empty for any other device.
fn virtual_functions(xml: &str) -> Result<Vec<PciAddress>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let functions = capability(document.root_element(), "pci").and_then(|pci| capability(pci, "virt_functions"));
    Ok(functions
        .into_iter()
        .flat_map(|node| node.children())
        .filter(|node| node.has_tag_name("address"))
        .filter_map(of_attributes)
        .collect())
}

/// Numbers the virtual functions. libvirt lists them in the order of the host's links `virtfnN`.
fn number_functions(devices: &mut [PciDevice], functions: &[Vec<PciAddress>]) {
    for (number, address) in functions.iter().flat_map(|all| (0..).zip(all)) {
        if let Some(device) = devices.iter_mut().find(|device| device.address == *address) {
            device.nic.function = Some(number);
        }
    }
}

/// Reads one device; `None` if Nova's options cannot name its address or its ids.
fn read(xml: &str) -> Result<Option<PciDevice>, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let capabilities = document.root_element().children().filter(|node| node.has_tag_name("capability"));
    Ok(capabilities.filter(|node| node.attribute("type") == Some("pci")).find_map(device))
}

fn device(node: Node<'_, '_>) -> Option<PciDevice> {
    let number = |name: &str| text(node, name)?.parse::<u32>().ok();
    let address = PciAddress::of(number("domain")?, number("bus")?, number("slot")?, number("function")?)?;
    let id = |name: &str| {
        let id = child(node, name)?.attribute("id")?.trim_start_matches("0x").to_ascii_lowercase();
        Some(id).filter(|id| id.len() == 4)
    };
    let parent = capability(node, "phys_function").and_then(|part| of_attributes(child(part, "address")?));
    // As in Nova, a device that can have virtual functions is a physical function, even while it has no virtual
    // function.
    let kind = match (parent.is_some(), capability(node, "virt_functions").is_some()) {
        (true, _) => PciDeviceType::Vf,
        (false, true) => PciDeviceType::Pf,
        (false, false) => PciDeviceType::Pci,
    };
    let serial = capability(node, "vpd").and_then(|vpd| {
        let field = vpd.descendants().find(|node| node.has_tag_name("serial_number"))?;
        Some(field.text()?.trim().to_owned()).filter(|serial| !serial.is_empty())
    });
    let cell = child(node, "numa").and_then(|numa| numa.attribute("node")?.parse::<u32>().ok());
    Some(PciDevice {
        address,
        vendor: id("vendor")?,
        product: id("product")?,
        kind,
        parent,
        cell,
        card_serial: serial,
        nic: PciNic::default(),
    })
}

/// `<address domain='0x0000' bus='0x81' slot='0x00' function='0x0'/>`.
fn of_attributes(node: Node<'_, '_>) -> Option<PciAddress> {
    let number = |name: &str| u32::from_str_radix(node.attribute(name)?.trim_start_matches("0x"), 16).ok();
    PciAddress::of(number("domain")?, number("bus")?, number("slot")?, number("function")?)
}

/// Pairs of a NUMA cell and its socket. A cell whose processors are in several sockets is left out.
fn sockets(capabilities: &str) -> Result<Vec<(u32, u32)>, roxmltree::Error> {
    let document = Document::parse(capabilities)?;
    let cells = document.root_element().descendants().filter(|node| node.has_tag_name("cell"));
    let mut all: Vec<(u32, u32)> = cells
        .filter_map(|cell| {
            let cpus = cell.descendants().filter(|node| node.has_tag_name("cpu"));
            let mut sockets = cpus.filter_map(|cpu| cpu.attribute("socket_id")?.parse::<u32>().ok());
            let first = sockets.next()?;
            let id = cell.attribute("id")?.parse().ok()?;
            sockets.all(|other| other == first).then_some((id, first))
        })
        .collect();
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn xml(more: &str) -> String {
        format!(
            "<device><name>pci_0000_81_00_1</name><capability type='pci'><class>0x020000</class><domain>0</domain>\
             <bus>129</bus><slot>0</slot><function>1</function><product id='0x10ED'>VF</product>\
             <vendor id='0x8086'>Intel</vendor>{more}</capability></device>"
        )
    }

    #[test]
    fn devices_are_read_as_libvirt_describes_them() {
        let plain = read(&xml("")).unwrap().unwrap();
        let address = "0000:81:00.1".parse().unwrap();
        let expected = PciDevice {
            address,
            vendor: "8086".into(),
            product: "10ed".into(),
            kind: PciDeviceType::Pci,
            parent: None,
            cell: None,
            card_serial: None,
            nic: PciNic::default(),
        };
        assert_eq!(plain, expected);
        let function = "<numa node='1'/><capability type='phys_function'><address domain='0x0000' bus='0x81' slot='0x00' \
                        function='0x0'/></capability>";
        let function = read(&xml(function)).unwrap().unwrap();
        assert_eq!((function.kind, function.cell), (PciDeviceType::Vf, Some(1)));
        assert_eq!(function.parent.unwrap().to_string(), "0000:81:00.0");
        let parent = read(&xml("<capability type='virt_functions' maxCount='63'/>")).unwrap().unwrap();
        assert_eq!(parent.kind, PciDeviceType::Pf, "a device that may have virtual functions");
        let card = "<capability type='vpd'><name>card</name><fields access='readonly'><serial_number> MT2113X00000 \
                    </serial_number></fields></capability>";
        assert_eq!(read(&xml(card)).unwrap().unwrap().card_serial.as_deref(), Some("MT2113X00000"));
    }

    #[test]
    fn the_names_of_network_devices_are_read_as_libvirt_describes_them() {
        let net = "<device><name>net_enp129s0v1_52_54_00_00_00_01</name><parent>pci_0000_81_00_1</parent>\
                   <capability type='net'><interface>enp129s0v1</interface><address>52:54:00:00:00:0A</address>\
                   </capability></device>";
        assert_eq!(parent(net).as_deref(), Some("pci_0000_81_00_1"));
        assert_eq!(interface(net).unwrap(), ("enp129s0v1".to_owned(), Some("52:54:00:00:00:0a".to_owned())));
        let device = "<device><name>vdpa_vdpa0</name><capability type='vdpa'><chardev>/dev/vhost-vdpa-0</chardev>\
                      </capability></device>";
        assert_eq!(vdpa(device).as_deref(), Some("/dev/vhost-vdpa-0"));
        assert_eq!((vdpa(net), interface(device)), (None, None));
    }

    #[test]
    fn only_a_virtual_function_becomes_a_vdpa_device() {
        let function = "<capability type='phys_function'><address domain='0x0000' bus='0x81' slot='0x00' function='0x0'/>\
                        </capability>";
        let of = |xml: &str| {
            let mut devices = vec![read(xml).unwrap().unwrap()];
            let name = node_device(devices[0].address);
            let interfaces = BTreeMap::from([(name.clone(), ("enp129s0v1".to_owned(), None))]);
            name_nics(&mut devices, &interfaces, &BTreeMap::from([(name, "/dev/vhost-vdpa-0".to_owned())]));
            devices.remove(0)
        };
        let vdpa = of(&xml(function));
        assert_eq!((vdpa.kind, vdpa.nic.vdpa.as_deref()), (PciDeviceType::Vdpa, Some("/dev/vhost-vdpa-0")));
        assert_eq!(vdpa.nic.interface.as_deref(), Some("enp129s0v1"));
        let simulated = of(&xml(""));
        assert_eq!((simulated.kind, simulated.nic.vdpa), (PciDeviceType::Pci, None));
    }

    #[test]
    fn virtual_functions_have_the_numbers_of_libvirts_order() {
        let address = |function| format!("<address domain='0x0000' bus='0x81' slot='0x00' function='0x{function}'/>");
        let card =
            xml(&format!("<capability type='virt_functions' maxCount='2'>{}{}</capability>", address(2), address(1)));
        let functions = virtual_functions(&card).unwrap();
        let mut devices = vec![read(&xml("")).unwrap().unwrap()];
        number_functions(&mut devices, &[functions]);
        assert_eq!(devices[0].nic.function, Some(1));
        assert_eq!(virtual_functions(&xml("")).unwrap(), []);
    }

    #[test]
    fn a_device_beyond_the_bounds_is_left_out() {
        assert_eq!(read(&xml("").replace("<domain>0<", "<domain>65536<")).unwrap(), None);
        assert_eq!(read(&xml("").replace("<bus>129<", "<bus>256<")).unwrap(), None);
        assert_eq!(read(&xml("").replace("<slot>0<", "<slot>32<")).unwrap(), None);
        assert_eq!(read(&xml("").replace("<function>1<", "<function>8<")).unwrap(), None);
        let last = xml("").replace("<domain>0<", "<domain>65535<").replace("<bus>129<", "<bus>255<");
        let last = last.replace("<slot>0<", "<slot>31<").replace("<function>1<", "<function>7<");
        assert_eq!(read(&last).unwrap().unwrap().address.to_string(), "ffff:ff:1f.7");
    }

    #[test]
    fn a_cell_has_the_socket_of_all_its_processors() {
        let cell = |id, sockets: [u32; 2]| {
            let [a, b] = sockets;
            format!("<cell id='{id}'><cpus><cpu id='0' socket_id='{a}'/><cpu id='1' socket_id='{b}'/></cpus></cell>")
        };
        let all = format!("<capabilities>{}{}</capabilities>", cell(1, [1, 1]), cell(0, [0, 1]));
        assert_eq!(sockets(&all).unwrap(), [(1, 1)]);
    }
}
