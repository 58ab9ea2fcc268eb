//! The bus addresses of a guest's interfaces and disks. The metadata service uses them to tell the guest which device
//! is which.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;

/// A device, and its position in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestDevice {
    pub kind: DeviceKind,
    /// The bus in Nova's words: `pci`, `scsi`, `ide` or `usb`; `None` for any other bus.
    pub bus: Option<&'static str>,
    /// The address on a PCI bus, for example `0000:00:03.0`. `None` on other buses, because the guest could not use it.
    pub address: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceKind {
    Nic {
        /// The MAC address in lower case.
        mac: String,
    },
    Disk {
        /// The serial number, if the disk is a volume.
        serial: Option<String>,
        /// The name in the guest's definition, for example `vda`.
        target: String,
    },
}

#[async_trait]
pub trait DeviceLocations: Send + Sync {
    /// Lists the guest's interfaces and disks. If the guest is on, these are its present devices. Otherwise they are
    /// the devices that it will have at its next start.
    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>>;
}
