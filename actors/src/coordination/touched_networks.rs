//! For each server, the networks on which this member has requested ports for it. A delete in another member would not
//! search these networks, and would leave behind a port that no read model shows yet.
//!
//! The networks are in memory only, because a new leader folds the whole log before it releases any port.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{InstanceId, NetworkId};

/// The networks, by server.
#[derive(Debug, Default)]
pub struct TouchedNetworks(Mutex<BTreeMap<InstanceId, BTreeSet<NetworkId>>>);

impl TouchedNetworks {
    /// Notes the networks before a port is requested on them.
    pub fn note(&self, instance: InstanceId, networks: impl IntoIterator<Item = NetworkId>) {
        self.lock().entry(instance).or_default().extend(networks);
    }

    pub fn of(&self, instance: InstanceId) -> BTreeSet<NetworkId> {
        self.lock().get(&instance).cloned().unwrap_or_default()
    }

    /// Forgets the server's networks. Call it when the read models show the server's ports, or when the server has no
    /// ports any more.
    pub fn forget(&self, instance: InstanceId) {
        self.lock().remove(&instance);
    }

    /// Locks the networks. A panic elsewhere cannot leave them inconsistent, because every change is a single
    /// operation.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<InstanceId, BTreeSet<NetworkId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
