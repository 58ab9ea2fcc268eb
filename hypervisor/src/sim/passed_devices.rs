//! The PCI devices that simulated guests have.

use chronova_events::ids::InstanceId;

use super::machine::SimMachine;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{Nic, NicPlug};
use crate::pci::PassedDevice;

impl SimMachine {
    /// Fails, as libvirt does, if the machine lacks a device, or if another guest that is on has the device.
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
            if let Some((other, _)) = others.find(|(_, guest)| guest.all_devices().any(|has| has == device)) {
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

    /// Like [`Self::require_devices`], for the interfaces that are devices of the machine. An interface without its
    /// device is refused, as libvirt refuses it.
    pub(super) fn require_nic_devices(&self, instance: InstanceId, nics: &[Nic]) -> DriverResult<()> {
        let mut wanted = Vec::new();
        for nic in nics {
            let NicPlug::Device(plugged) = &nic.plug else { continue };
            let missing = || {
                let message = format!("the interface {} names no device", nic.mac);
                DriverError::Failed { call: "define", message }
            };
            wanted.push(plugged.device.ok_or_else(missing)?);
        }
        self.require_devices(instance, &wanted)
    }

    pub(super) fn pass_nics(&mut self, instance: InstanceId, nics: &[Nic]) {
        let Some(guest) = self.guests.get_mut(&instance) else { return };
        for nic in nics {
            match &nic.plug {
                NicPlug::Device(plugged) => {
                    guest.nic_devices.extend(plugged.device.map(|device| (nic.mac.clone(), device)));
                }
                _ => drop(guest.nic_devices.remove(&nic.mac)),
            }
        }
    }
}
