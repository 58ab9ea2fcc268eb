//! The mediated devices of simulated machines and their guests.

use std::collections::BTreeMap;

use chronova_events::ids::InstanceId;
use chronova_events::pci::PciAddress;

use super::machine::SimMachine;
use crate::driver::{DriverError, DriverResult};
use crate::mdev::{GuestMdev, MdevParent, MdevType};

impl SimMachine {
    pub(super) fn mdevs(&self) -> Vec<MdevParent> {
        let parents = self.uri.mdevs.by_address();
        parents
            .map(|(address, types)| {
                let existing = self.existing_mdevs(address, None);
                let offered = |(name, most): (&String, &u32)| {
                    let own = existing.get(name.as_str()).copied().unwrap_or(0);
                    let others = existing.keys().any(|other| other != name);
                    let available = if others { 0 } else { most.saturating_sub(own) };
                    MdevType { name: name.clone(), available, existing: own }
                };
                MdevParent { address, types: types.iter().map(offered).collect() }
            })
            .collect()
    }

    /// The number of devices that guests have of a GPU, by type. The devices of the guest `except` do not count.
    fn existing_mdevs(&self, parent: PciAddress, except: Option<InstanceId>) -> BTreeMap<&str, u32> {
        let mut existing = BTreeMap::new();
        let guests = self.guests.iter().filter(|(instance, _)| Some(**instance) != except);
        for device in guests.flat_map(|(_, guest)| &guest.mdevs).filter(|device| device.parent == parent) {
            *existing.entry(device.mdev_type.as_str()).or_default() += 1;
        }
        existing
    }

    /// Fails, as `mdevctl` does, if a GPU cannot have the wanted devices in addition to the devices of other guests.
    pub(super) fn require_mdevs(&self, instance: InstanceId, wanted: &[GuestMdev]) -> DriverResult<()> {
        for device in wanted {
            let gpu = self.uri.mdevs.by_address().find(|(address, _)| *address == device.parent);
            let most = gpu.and_then(|(_, types)| types.get(&device.mdev_type)).copied().unwrap_or(0);
            let others = self.existing_mdevs(device.parent, Some(instance));
            let same = wanted.iter().filter(|other| other.parent == device.parent);
            let own = same.clone().filter(|other| other.mdev_type == device.mdev_type).count();
            let is_mixed = same.clone().count() > own || others.keys().any(|other| *other != device.mdev_type);
            let total = u32::try_from(own).unwrap_or(u32::MAX) + others.values().sum::<u32>();
            if is_mixed || total > most {
                let message = format!("{} cannot have one more {}", device.parent, device.mdev_type);
                return Err(DriverError::Failed { call: "define", message });
            }
        }
        Ok(())
    }

    pub(super) fn give_mdevs(&mut self, instance: InstanceId, devices: &[GuestMdev]) {
        if let Some(guest) = self.guests.get_mut(&instance) {
            guest.mdevs = devices.to_vec();
        }
    }
}
