//! Tells how simulated guests and networks are defined.
//!
//! The state file has no definitions: a machine tells only those that this process made.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chronova_events::ids::{InstanceId, NetworkId};

use super::SimHost;
use super::faults::DriverCall;
use super::guest::SimGuest;
use super::machine::SimMachine;
use crate::capability::GuestDefinitions;
use crate::driver::DriverResult;
use crate::found::{FoundGuest, FoundNic};
use crate::guest::{GuestSpec, NetworkSpec, PowerState};

/// The definitions on one machine.
#[derive(Debug, Default)]
pub(super) struct SimDefinitions {
    guests: BTreeMap<InstanceId, FoundGuest>,
    networks: BTreeMap<NetworkId, NetworkSpec>,
}

impl SimDefinitions {
    pub(super) fn keep_guest(&mut self, spec: &GuestSpec) {
        self.guests.insert(spec.instance, FoundGuest::of(spec, PowerState::Shutdown, false));
    }

    pub(super) fn drop_guest(&mut self, instance: InstanceId) {
        self.guests.remove(&instance);
    }

    pub(super) fn keep_network(&mut self, spec: &NetworkSpec) {
        self.networks.insert(spec.network, spec.clone());
    }

    /// The definition of `guest` as it is now, with the devices that were attached or detached since.
    fn of(&self, instance: InstanceId, guest: &SimGuest) -> FoundGuest {
        let known = self.guests.get(&instance).cloned();
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
            beyond: std::collections::BTreeSet::new(),
        });
        (found.power, found.saved) = (guest.power, guest.saved);
        found.volumes.retain(|volume| guest.volumes.contains(volume.key()));
        found.nics.retain(|nic| guest.nics.contains(&nic.mac));
        let later = guest.nics.iter().filter(|mac| found.nics.iter().all(|nic| nic.mac != **mac));
        let later: Vec<FoundNic> = later.map(|mac| FoundNic::unnamed(mac)).collect();
        found.nics.extend(later);
        found
    }
}

impl SimMachine {
    fn found_guests(&self) -> Vec<FoundGuest> {
        self.guests.iter().map(|(instance, guest)| self.definitions.of(*instance, guest)).collect()
    }

    fn found_networks(&self) -> Vec<NetworkSpec> {
        let there = self.definitions.networks.values().filter(|spec| self.networks.contains(&spec.network));
        there.cloned().collect()
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
