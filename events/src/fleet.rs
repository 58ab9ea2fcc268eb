//! The hosts that administrators added and removed while the control plane ran.
//!
//! The fleet begins with the hosts of the configuration file, and these events change it. There is one stream,
//! `fleet-main`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::HostId;

noun! {
    /// Events of the fleet: its hosts as a whole.
    FleetEvent = "fleet" {
        /// An administrator added hosts to those of the configuration file.
        HypervisorAdded = "hypervisor_added" @ 1,
        /// An administrator removed a host; a host of the configuration file stays removed until it is added.
        HypervisorRemoved = "hypervisor_removed" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HypervisorAdded {
    /// As in `[chronova] hypervisors`. The URI of a simulated fleet stands for several hosts.
    pub uri: String,
    /// The URI of each host.
    pub hosts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HypervisorRemoved {
    /// The URI of the host.
    pub uri: String,
    pub host: HostId,
}

/// The difference from the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetChanges {
    /// The URIs as they were added, in that order.
    pub added: Vec<String>,
    /// The URIs of hosts.
    pub removed: BTreeSet<String>,
}

impl Fold for FleetChanges {
    type Event = FleetEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &FleetEvent, _: Timestamp) {
        match event {
            FleetEvent::HypervisorAdded(added) => {
                self.removed.retain(|uri| !added.hosts.contains(uri));
                if !self.added.contains(&added.uri) {
                    self.added.push(added.uri.clone());
                }
            }
            FleetEvent::HypervisorRemoved(removed) => {
                self.removed.insert(removed.uri.clone());
                self.added.retain(|uri| *uri != removed.uri);
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<FleetEvent> {
    let uri = "qemu+tls://compute-7/system".to_owned();
    vec![
        HypervisorAdded { uri: uri.clone(), hosts: vec![uri.clone()] }.into(),
        HypervisorRemoved { uri, host: HostId(uuid::Uuid::from_u128(7)) }.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_host_is_back_when_it_is_added() {
        let mut fleet = FleetChanges::default();
        let [added, removed] = samples().try_into().unwrap_or_else(|_| unreachable!("two samples"));
        fleet.evolve(&added, Timestamp(1));
        let FleetEvent::HypervisorAdded(HypervisorAdded { uri, .. }) = &added else { unreachable!("the first sample") };
        assert_eq!((&fleet.added[..], fleet.removed.len()), (&[uri.clone()][..], 0));
        fleet.evolve(&removed, Timestamp(2));
        assert_eq!((fleet.added.len(), fleet.removed.contains(uri)), (0, true));
        fleet.evolve(&added, Timestamp(3));
        assert_eq!((&fleet.added[..], fleet.removed.len()), (&[uri.clone()][..], 0));
    }
}
