//! The definitions of guests and networks on a simulated machine, as this process made them. The state file has none.

use std::collections::BTreeMap;

use chronova_events::ids::{InstanceId, NetworkId};

use crate::found::FoundGuest;
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

    /// The guest as it was last defined.
    pub(super) fn guest(&self, instance: InstanceId) -> Option<&FoundGuest> {
        self.guests.get(&instance)
    }

    pub(super) fn keep_network(&mut self, spec: &NetworkSpec) {
        self.networks.insert(spec.network, spec.clone());
    }

    /// Every network that was defined, even if it was removed later.
    pub(super) fn networks(&self) -> impl Iterator<Item = &NetworkSpec> {
        self.networks.values()
    }
}
