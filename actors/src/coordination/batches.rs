//! The servers of one request that wait for each other: their processes would never meet in two members.
//!
//! In memory only: after a crash the processes come again. The last one decides for all (`crate::scheduler::batch`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The waiting members of each batch, by the request's reservation.
#[derive(Debug)]
pub struct Batches<M>(Mutex<BTreeMap<String, Vec<M>>>);

impl<M> Default for Batches<M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<M> Batches<M> {
    /// Adds a member to its batch, in the place of one that `is_same`. Returns all of them if they are `size`.
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

    /// Takes those who have come so far; `None` if somebody took them before.
    pub fn take(&self, reservation: &str) -> Option<Vec<M>> {
        self.lock().remove(reservation)
    }

    /// Every change is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<M>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
