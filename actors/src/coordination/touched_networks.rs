//! The networks that were sent a port of a server: another member would leave a port behind that no read model shows.
//!
//! In memory only: a start folds the whole log before anything is released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{InstanceId, NetworkId};

/// The networks, by server.
#[derive(Debug, Default)]
pub struct TouchedNetworks(Mutex<BTreeMap<InstanceId, BTreeSet<NetworkId>>>);

impl TouchedNetworks {
    /// Notes networks before they are sent a port.
    pub fn note(&self, instance: InstanceId, networks: impl IntoIterator<Item = NetworkId>) {
        self.lock().entry(instance).or_default().extend(networks);
    }

    pub fn of(&self, instance: InstanceId) -> BTreeSet<NetworkId> {
        self.lock().get(&instance).cloned().unwrap_or_default()
    }

    /// The read models show the ports, or there are none any more.
    pub fn forget(&self, instance: InstanceId) {
        self.lock().remove(&instance);
    }

    /// Every change is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<InstanceId, BTreeSet<NetworkId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
