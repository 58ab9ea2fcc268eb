//! The PCI devices that a host reports, and the PCI devices that a guest gets.

use chronova_events::ledger::PciDeviceType;
use chronova_events::pci::PciAddress;
use serde::{Deserialize, Serialize};

/// The PCI devices of a host, and the sockets of its NUMA cells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPci {
    /// Sorted by address. Devices with an address that Nova's options cannot name are left out.
    pub devices: Vec<PciDevice>,
    /// Pairs of NUMA cell and socket, sorted; a cell whose processors are in several sockets is left out.
    pub sockets: Vec<(u32, u32)>,
}

/// A PCI device, as its host reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevice {
    pub address: PciAddress,
    /// Four hexadecimal digits in lower case.
    pub vendor: String,
    /// Four hexadecimal digits in lower case.
    pub product: String,
    pub kind: PciDeviceType,
    /// The physical function of a virtual function.
    pub parent: Option<PciAddress>,
    /// The NUMA cell, if the host reports it.
    pub cell: Option<u32>,
    /// The card's serial number, from its vital product data. It identifies a remote-managed NIC.
    pub card_serial: Option<String>,
    pub nic: PciNic,
}

/// The properties of a network card, or of a virtual function of a network card.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciNic {
    /// The host's network interface, for example `ens1f0v2`. A guest that has the device takes it from the host.
    pub interface: Option<String>,
    /// The MAC address of that interface.
    pub mac: Option<String>,
    /// The number of a virtual function within its physical function.
    pub function: Option<u32>,
    /// The character device of a vDPA device, for example `/dev/vhost-vdpa-0`.
    pub vdpa: Option<String>,
}

/// A device of the host that a guest gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PassedDevice {
    pub address: PciAddress,
    /// Whether libvirt detaches the device from the host's driver before the guest gets it, and reattaches it
    /// afterwards.
    pub managed: bool,
}

/// libvirt's name of a PCI device: `pci_0000_85_00_0`.
pub fn node_device(address: PciAddress) -> String {
    format!("pci_{}", address.to_string().replace([':', '.'], "_"))
}

/// The address in libvirt's name of a PCI device.
pub fn address_of(node_device: &str) -> Option<PciAddress> {
    let parts: Vec<&str> = node_device.strip_prefix("pci_")?.split('_').collect();
    let [domain, bus, slot, function] = parts[..] else { return None };
    format!("{domain}:{bus}:{slot}.{function}").parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn libvirt_names_a_device_by_its_address() {
        let address: PciAddress = "0000:85:0a.1".parse().unwrap();
        assert_eq!(node_device(address), "pci_0000_85_0a_1");
        assert_eq!(address_of("pci_0000_85_0a_1"), Some(address));
        for wrong in ["", "0000_85_0a_1", "pci_0000_85_0a", "pci_0000_85_0a_1_2", "css_0_0_0033", "pci_0000_85_20_0"] {
            assert_eq!(address_of(wrong), None, "{wrong}");
        }
    }
}
