//! The processes that run now. If two members ran one process, they would do each of its steps twice.
//!
//! The list is in memory only. After a crash no process runs, and the log says which processes have not ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chronova_events::ids::ProcessId;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// The running processes, and the turns of processes that wait to run.
#[derive(Debug)]
pub struct RunningProcesses {
    /// For each running process, the notification with which another process asks for the records that it holds back.
    running: Mutex<BTreeMap<ProcessId, Arc<Notify>>>,
    turns: Semaphore,
}

/// Marks a process as running until the guard is dropped.
#[derive(Debug)]
pub struct RunningGuard {
    all: Arc<RunningProcesses>,
    process: ProcessId,
    notify: Arc<Notify>,
}

impl RunningGuard {
    /// Waits until another process asks for the records of this process.
    pub async fn rung(&self) {
        self.notify.notified().await;
    }
}

impl RunningProcesses {
    /// `at_once`: how many processes may work at the same time; 0 counts as 1.
    pub fn new(at_once: usize) -> Arc<Self> {
        Arc::new(Self { running: Mutex::default(), turns: Semaphore::new(at_once.max(1)) })
    }

    /// Marks the process as running; `None` if it runs already.
    pub fn begin(self: &Arc<Self>, process: ProcessId) -> Option<RunningGuard> {
        match self.lock().entry(process) {
            Entry::Occupied(_) => None,
            Entry::Vacant(place) => {
                let notify = Arc::clone(place.insert(Arc::default()));
                Some(RunningGuard { all: Arc::clone(self), process, notify })
            }
        }
    }

    /// Asks a running process to write the records that it holds back. It writes them soon after this call returns.
    pub fn ring(&self, process: ProcessId) {
        if let Some(notify) = self.lock().get(&process) {
            notify.notify_one();
        }
    }

    /// Waits until there is room for one more process.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Locks the map. A panic elsewhere cannot leave it inconsistent, because every change is a single operation.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ProcessId, Arc<Notify>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.all.lock().remove(&self.process);
    }
}
