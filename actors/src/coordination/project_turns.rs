//! The requests of a project that create a resource under quota take turns. If two members counted separately, both
//! would create the last resource that the quota allows.
//!
//! A request counts the resources in the read models. The read models lag, so the request keeps its turn until they
//! show the new resource. The turns are in memory only, because nothing is being created after a crash.

use std::sync::Arc;

use chronova_events::ids::ProjectId;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The number of locks. Projects that share a lock wait for each other, which costs only time.
const SHARDS: usize = 16;

/// A project's turn; dropping it lets the next request of the project begin.
pub type ProjectTurn = OwnedMutexGuard<()>;

/// The turns of all projects for one kind of resource.
#[derive(Debug, Default)]
pub struct ProjectTurns([Arc<Mutex<()>>; SHARDS]);

impl ProjectTurns {
    /// Waits for the project's turn.
    pub async fn turn(&self, project: &ProjectId) -> ProjectTurn {
        let sum = project.as_str().bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Arc::clone(&self.0[sum % SHARDS]).lock_owned().await
    }
}
