//! The servers of one request that are scheduled together. If their processes ran in two members, no batch would ever
//! be complete.
//!
//! The batches are in memory only, because the processes join again after a crash. The last process to join decides for
//! all (`crate::scheduler::batch`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The waiting members of each batch, by the reservation id of the request.
#[derive(Debug)]
pub struct Batches<M>(Mutex<BTreeMap<String, Vec<M>>>);

impl<M> Default for Batches<M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<M> Batches<M> {
    /// Adds a member to its batch. If the member has joined before, its earlier entries are removed. `is_same`
    /// recognises them. Returns all members once there are `size` of them.
    pub fn join(&self, reservation: &str, size: u32, member: M, is_same: impl Fn(&M) -> bool) -> Option<Vec<M>> {
        let mut batches = self.lock();
        let waiting = batches.entry(reservation.to_owned()).or_default();
        waiting.retain(|other| !is_same(other));
        waiting.push(member);
        if u32::try_from(waiting.len()).is_ok_and(|here| here < size) {
            return None;
        }
        batches.remove(reservation)
    }

    /// Takes the members that have joined so far; `None` if they were taken before.
    pub fn take(&self, reservation: &str) -> Option<Vec<M>> {
        self.lock().remove(reservation)
    }

    /// Locks the batches. A panic elsewhere cannot leave them inconsistent, because no change can panic halfway.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<M>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
