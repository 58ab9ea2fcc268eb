//! The processes that run now: two members that run one process would do each of its steps twice.
//!
//! In memory only: after a crash no process runs, and the log says which ones have not ended.

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

/// Dropping it says that the process runs no more.
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

    /// `None` if the process runs already.
    pub fn begin(self: &Arc<Self>, process: ProcessId) -> Option<RunningGuard> {
        let begins = self.lock().insert(process);
        // Created only then, because dropping it ends the entry.
        begins.then(|| RunningGuard { all: Arc::clone(self), process })
    }

    /// Waits until there is room for one more process.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Every change is whole.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<ProcessId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.all.lock().remove(&self.process);
    }
}
