//! Mediated devices: parts of a physical device that a host creates for guests, for example virtual GPUs.

use chronova_events::pci::PciAddress;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A physical device that can have mediated devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MdevParent {
    pub address: PciAddress,
    /// Sorted by name.
    pub types: Vec<MdevType>,
}

/// A type of mediated devices that a physical device offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MdevType {
    /// The name that the device's driver gives the type, for example `nvidia-35`.
    pub name: String,
    /// How many more devices of the type the host can create now.
    pub available: u32,
    /// How many devices of the type exist.
    pub existing: u32,
}

/// A mediated device of a guest. The host creates the device before a start of the guest, unless it exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GuestMdev {
    pub uuid: Uuid,
    /// The physical device.
    pub parent: PciAddress,
    pub mdev_type: String,
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
