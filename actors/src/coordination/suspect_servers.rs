//! For each host, the servers whose guests may have other devices than the log says. Another member would not compare
//! these guests with the log.
//!
//! The servers are in memory only, because a new leader compares every guest. A suspicion is about the guest, so it
//! follows the guest to another host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{HostId, InstanceId};

/// The servers, by the host of their guests.
#[derive(Debug, Default)]
pub struct SuspectServers(Mutex<BTreeMap<HostId, BTreeSet<InstanceId>>>);

impl SuspectServers {
    pub fn add(&self, host: HostId, servers: impl IntoIterator<Item = InstanceId>) {
        self.lock().entry(host).or_default().extend(servers);
    }

    /// Removes the servers of a host, for a comparison. The comparison adds those that are still suspect. So a server
    /// that becomes suspect meanwhile stays.
    pub fn take(&self, host: HostId) -> BTreeSet<InstanceId> {
        self.lock().remove(&host).unwrap_or_default()
    }

    pub fn contains(&self, host: HostId, server: InstanceId) -> bool {
        self.lock().get(&host).is_some_and(|servers| servers.contains(&server))
    }

    /// Locks the servers. A panic elsewhere cannot leave them inconsistent, because every change is a single operation.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostId, BTreeSet<InstanceId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
