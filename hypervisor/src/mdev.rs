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
