//! Tells how simulated guests and networks are defined.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use super::SimHost;
use super::faults::DriverCall;
use super::machine::{SimGuest, SimMachine};
use crate::capability::GuestDefinitions;
use crate::driver::DriverResult;
use crate::found::{FoundGuest, FoundNic};
use crate::guest::NetworkSpec;

impl SimMachine {
    fn found_guests(&self) -> Vec<FoundGuest> {
        self.guests.iter().map(|(instance, guest)| self.found_guest(*instance, guest)).collect()
    }

    /// The definition of `guest`, with the devices that were attached or detached since.
    fn found_guest(&self, instance: InstanceId, guest: &SimGuest) -> FoundGuest {
        let known = self.definitions.guest(instance).cloned();
        let mut found = known.unwrap_or_else(|| FoundGuest {
            instance,
            domain_name: guest.domain_name.clone(),
            power: guest.power,
            saved: guest.saved,
            metadata: None,
            machine_type: None,
            ephemerals: 0,
            has_config_drive: false,
            volumes: Vec::new(),
            nics: Vec::new(),
            beyond: BTreeSet::new(),
        });
        (found.power, found.saved) = (guest.power, guest.saved);
        found.volumes.retain(|volume| guest.volumes.contains(volume.key()));
        found.nics.retain(|nic| guest.nics.contains(&nic.mac));
        let known: BTreeSet<String> = found.nics.iter().map(|nic| nic.mac.clone()).collect();
        found.nics.extend(guest.nics.difference(&known).map(|mac| FoundNic::unnamed(mac)));
        found
    }

    fn found_networks(&self) -> Vec<NetworkSpec> {
        self.definitions.networks().filter(|spec| self.networks.contains(&spec.network)).cloned().collect()
    }
}

#[async_trait]
impl GuestDefinitions for SimHost {
    async fn found_guests(&self) -> DriverResult<Vec<FoundGuest>> {
        self.perform(DriverCall::Guests, |machine| Ok(machine.found_guests())).await
    }

    async fn found_networks(&self) -> DriverResult<Vec<NetworkSpec>> {
        self.perform(DriverCall::ListNetworks, |machine| Ok(machine.found_networks())).await
    }
}
