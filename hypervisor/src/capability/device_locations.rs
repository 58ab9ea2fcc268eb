//! Where a guest finds its interfaces and disks, for the metadata that tells it which device is which.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;

/// A device, and where it is plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestDevice {
    pub kind: DeviceKind,
    /// In Nova's words: `pci`, `scsi`, `ide`, `usb`; `None` for any other.
    pub bus: Option<&'static str>,
    /// `0000:00:03.0` on a PCI bus. The others have none that a guest could use.
    pub address: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceKind {
    Nic {
        /// In lower case.
        mac: String,
    },
    Disk {
        /// The volume's.
        serial: Option<String>,
        /// `vda`: what it is called in the guest's definition.
        target: String,
    },
}

#[async_trait]
pub trait DeviceLocations: Send + Sync {
    /// Where the guest finds its interfaces and disks: now, if it is in memory, otherwise at its next start.
    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>>;
}
