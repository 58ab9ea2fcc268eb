//! Locks that admit one holder per key: uploads per checksum, changes per guest and per volume.
//!
//! A permit moves into the blocking call that it protects. So a call that outlives its caller's deadline still keeps
//! other calls out. For example, a destroy cannot overtake the spawn that it undoes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::driver::{DriverError, DriverResult};

type Map<K> = BTreeMap<K, Arc<Semaphore>>;

pub(super) struct Gates<K>(Mutex<Map<K>>);

/// Permission to continue. Dropping it admits the next caller.
pub(super) struct GatePermit {
    _permit: OwnedSemaphorePermit,
}

impl<K: Ord + Clone> Gates<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Map<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn enter(&self, key: &K, call: &'static str, deadline: Duration) -> DriverResult<GatePermit> {
        let gate = {
            let mut gates = self.lock();
            // A gate with no reference outside the map is unused, because a permit holds a reference to its gate.
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
            Arc::clone(gates.entry(key.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        match timeout(deadline, gate.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(GatePermit { _permit: permit }),
            _ => Err(DriverError::Timeout { call, seconds: deadline.as_secs() }),
        }
    }

    /// Enters if nobody is inside and nobody waits.
    pub(super) fn try_enter(&self, key: &K) -> Option<GatePermit> {
        let mut gates = self.lock();
        let gate = Arc::clone(gates.entry(key.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))));
        gate.try_acquire_owned().ok().map(|permit| GatePermit { _permit: permit })
    }

    /// Whether a holder is inside or a caller waits.
    pub(super) fn is_busy(&self, key: &K) -> bool {
        self.lock().get(key).is_some_and(|gate| Arc::strong_count(gate) > 1)
    }
}
