//! The processes that run now: two members that run one process would do each of its steps twice.
//!
//! The list is in memory only: after a crash no process runs, and the log says which processes have not ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chronova_events::ids::ProcessId;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The processes that run, and the turns of those that wait.
#[derive(Debug)]
pub struct RunningProcesses {
    running: Mutex<BTreeSet<ProcessId>>,
    turns: Semaphore,
}

/// Marks a process as running until the guard is dropped.
#[derive(Debug)]
pub struct RunningGuard {
    all: Arc<RunningProcesses>,
    process: ProcessId,
}

impl RunningProcesses {
    /// `at_once`: how many processes work at the same time; at least 1.
    pub fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self { running: Mutex::default(), turns: Semaphore::new(at_once.max(1)) })
    }

    /// Marks the process as running; `None` if it runs already.
    pub fn begin(self: &Arc<Self>, process: ProcessId) -> Option<RunningGuard> {
        let begins = self.lock().insert(process);
        // The guard must exist only if the process was added, because dropping it removes the process.
        begins.then(|| RunningGuard { all: Arc::clone(self), process })
    }

    /// Waits until there is room for one more process.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Locks the set. A panic elsewhere cannot leave it inconsistent, because every change is a single operation.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<ProcessId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.all.lock().remove(&self.process);
    }
}
