//! PCI devices: those that a host reports, and those that a guest gets.

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
