//! The queue of live migrations that leave each host. Two queues for one host would let too many migrations run at the
//! same time (`[DEFAULT] max_concurrent_live_migrations`).
//!
//! Migrations start in the order of their arrival. The queue is in memory only, because all migrations queue again
//! after a crash. The queue also has the latest progress of running migrations, because progress changes too often for
//! events.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::LiveProgress;

#[derive(Debug, Default)]
pub struct MigrationQueues {
    board: Mutex<MigrationQueueTable>,
}

#[derive(Debug, Default)]
struct MigrationQueueTable {
    lines: BTreeMap<HostId, Vec<ProcessId>>,
    progress: BTreeMap<ProcessId, LiveProgress>,
}

impl MigrationQueues {
    /// Locks the queues. A panic elsewhere cannot leave them inconsistent, because no change can panic halfway.
    fn lock(&self) -> MutexGuard<'_, MigrationQueueTable> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the migration, and returns whether it may start now. With `limit` 0, every migration may start.
    pub fn may_go(&self, host: HostId, migration: ProcessId, limit: usize) -> bool {
        let mut board = self.lock();
        let line = board.lines.entry(host).or_default();
        let place = line.iter().position(|one| *one == migration).unwrap_or_else(|| {
            line.push(migration);
            line.len() - 1
        });
        limit == 0 || place < limit
    }

    /// Notes that a migration runs. A migration that began before a crash continues, even if the queue is full.
    pub fn goes_on(&self, host: HostId, migration: ProcessId) {
        let mut board = self.lock();
        let line = board.lines.entry(host).or_default();
        line.retain(|one| *one != migration);
        line.insert(0, migration);
    }

    /// Removes a migration that has ended, with or without success.
    pub fn leave(&self, migration: ProcessId) {
        let mut board = self.lock();
        for line in board.lines.values_mut() {
            line.retain(|one| *one != migration);
        }
        board.lines.retain(|_, line| !line.is_empty());
        board.progress.remove(&migration);
    }

    pub fn tell(&self, migration: ProcessId, progress: LiveProgress) {
        self.lock().progress.insert(migration, progress);
    }

    /// The latest progress that the migration has reported since start-up.
    pub fn progress(&self, migration: ProcessId) -> Option<LiveProgress> {
        self.lock().progress.get(&migration).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn migrations_start_in_order_up_to_the_limit() {
        let host = HostId(Uuid::from_u128(1));
        let [a, b, c] = [1, 2, 3].map(|n| ProcessId(Uuid::from_u128(n)));
        let line = MigrationQueues::default();
        assert!(line.may_go(host, a, 1));
        assert!(!line.may_go(host, b, 1));
        assert!(!line.may_go(host, c, 1));
        assert!(line.may_go(host, a, 1), "a repeated call is admitted");
        line.leave(a);
        assert!(!line.may_go(host, c, 1));
        assert!(line.may_go(host, b, 1));
        assert!(line.may_go(host, c, 0), "a queue without a limit admits all");
        line.goes_on(host, c);
        assert!(line.may_go(host, c, 1));
        line.leave(b);
        line.leave(c);
        assert!(line.lock().lines.is_empty());
    }
}
