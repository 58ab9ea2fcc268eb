//! Where a guest finds what it was given: for those who tell it which device is which.

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
        /// Of a volume.
        serial: Option<String>,
        /// `vda`: what it is called in the guest's definition.
        target: String,
    },
}
