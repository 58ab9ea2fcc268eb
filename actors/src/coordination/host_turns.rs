//! The turns of builds and snapshots on one host. Two members that count separately would each allow the full number of
//! `[DEFAULT] max_concurrent_builds` and `max_concurrent_snapshots`.
//!
//! The turns are in memory only. After a crash no build is under way, and each process waits for its turn again.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits on concurrent work of a host; 0 means no limit.
#[derive(Debug, Clone, Copy)]
pub struct ConcurrencyLimits {
    pub builds: usize,
    pub snapshots: usize,
}

/// A turn on a host; dropping it lets the next process begin.
pub type HostTurn = OwnedSemaphorePermit;

/// The turns on one host.
#[derive(Debug)]
pub struct HostTurns {
    builds: Arc<Semaphore>,
    snapshots: Arc<Semaphore>,
}

impl HostTurns {
    pub fn new(limits: ConcurrencyLimits) -> Self {
        Self { builds: turns(limits.builds), snapshots: turns(limits.snapshots) }
    }

    /// Waits for a turn to build a guest.
    pub async fn build(&self) -> Option<HostTurn> {
        Arc::clone(&self.builds).acquire_owned().await.ok()
    }

    /// Waits for a turn to copy a guest's disk.
    pub async fn snapshot(&self) -> Option<HostTurn> {
        Arc::clone(&self.snapshots).acquire_owned().await.ok()
    }
}

fn turns(at_once: usize) -> Arc<Semaphore> {
    let permits = if at_once == 0 { Semaphore::MAX_PERMITS } else { at_once.min(Semaphore::MAX_PERMITS) };
    Arc::new(Semaphore::new(permits))
}
