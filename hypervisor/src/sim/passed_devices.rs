//! The PCI devices that simulated guests have.

use chronova_events::ids::InstanceId;

use super::machine::SimMachine;
use crate::driver::{DriverError, DriverResult};
use crate::pci::PassedDevice;

impl SimMachine {
    /// Fails if the machine lacks a device, or if another guest that is on has it, as libvirt does.
    pub(super) fn require_devices(&self, instance: InstanceId, wanted: &[PassedDevice]) -> DriverResult<()> {
        let refused = |message: String| Err(DriverError::Failed { call: "define", message });
        if wanted.is_empty() {
            return Ok(());
        }
        let present = super::pci::devices(&self.uri.pci, self.uri.cells.min(self.uri.vcpus)).devices;
        for device in wanted {
            if !present.iter().any(|found| found.address == device.address) {
                return refused(format!("there is no PCI device {}", device.address));
            }
            let mut others = self.guests.iter().filter(|(other, guest)| **other != instance && guest.is_on());
            if let Some((other, _)) = others.find(|(_, guest)| guest.devices.contains(device)) {
                return refused(format!("PCI device {} is in use by domain {other}", device.address));
            }
        }
        Ok(())
    }

    pub(super) fn pass(&mut self, instance: InstanceId, devices: &[PassedDevice]) {
        if let Some(guest) = self.guests.get_mut(&instance) {
            guest.devices = devices.to_vec();
        }
    }
}
