//! Live migrations that this process started: the running migrations, and the outcomes of the ended ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{InstanceId, ProcessId};
use tokio::sync::watch;

/// The live migrations that this process started, by guest.
#[derive(Default)]
pub(super) struct RunningMigrations(Mutex<BTreeMap<InstanceId, RunningMigration>>);

pub(super) struct RunningMigration {
    pub(super) migration: ProcessId,
    /// `None` while the migration runs.
    pub(super) end: watch::Receiver<Option<Result<(), String>>>,
}

impl RunningMigrations {
    /// Each change is complete under the lock, so a poisoned lock is harmless.
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<InstanceId, RunningMigration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lasts(&self, instance: InstanceId) -> bool {
        self.lock().get(&instance).is_some_and(|one| one.end.borrow().is_none())
    }

    pub(super) fn failure(&self, instance: InstanceId) -> Option<(ProcessId, String)> {
        let running = self.lock();
        let one = running.get(&instance)?;
        match &*one.end.borrow() {
            Some(Err(reason)) => Some((one.migration, reason.clone())),
            _ => None,
        }
    }
}
