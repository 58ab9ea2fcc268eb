//! The right to send commands: the aggregates of a member that leads.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use chronova_projections::views::Views;
use thiserror::Error;

use super::member::Member;
use crate::coordination::HostGate;
use crate::gateway::CommandGateway;
use crate::process::interference::Interference;

/// This member may not append to the log: another member leads, or the log is open for reading only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("another member leads this log, or the log is open for reading only")]
pub struct NotLeading;

/// The aggregates and the read models of a member that leads. Ports and contexts are built from these parts.
///
/// Nothing else starts a [`CommandGateway`]. [`Leadership::take`] needs a proof, which only the store of the member
/// that may append gives. So a member that does not lead cannot send a command.
#[derive(Clone)]
pub struct Leadership {
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub views: Arc<Views>,
    pub gateway: Arc<CommandGateway>,
    /// Opens when no earlier leader can work on hosts any more.
    pub host_gate: HostGate,
    /// Only in tests; `None` in a control plane.
    pub interference: Option<Arc<dyn Interference>>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Leadership")
    }
}

impl Leadership {
    /// Starts the aggregates. Needs a running actix system. `threads` is the number of threads that the aggregates
    /// share; with 0, they run on the calling thread.
    ///
    /// # Errors
    /// The log's store has no right to append.
    pub fn take(member: &Member, threads: usize) -> Result<Self, NotLeading> {
        let right = member.log.append_right().ok_or(NotLeading)?;
        let (log, clock, views) = (Arc::clone(&member.log), Arc::clone(&member.clock), Arc::clone(&member.views));
        let gateway = CommandGateway::start(Arc::clone(&log), Arc::clone(&clock), threads, right);
        Ok(Self { log, clock, views, gateway, host_gate: HostGate::open(), interference: None })
    }

    /// The same parts for a member that follows. Its gateway refuses every command.
    pub(super) fn refusing(member: &Member) -> Self {
        let (log, clock, views) = (Arc::clone(&member.log), Arc::clone(&member.clock), Arc::clone(&member.views));
        let gateway = CommandGateway::refusing(Arc::clone(&log), Arc::clone(&clock));
        Self { log, clock, views, gateway, host_gate: HostGate::open(), interference: None }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use chronova_events::clock::SystemClock;
    use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn a_member_that_may_only_read_the_log_cannot_lead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let owner = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        assert!(owner.append_right().is_some());
        let reader = ReadOnlyLog::open(&path).unwrap();
        let member = Member::start(reader, Arc::new(SystemClock), Views::new()).await.unwrap();
        assert_eq!(Leadership::take(&member, 0).unwrap_err(), NotLeading);
        member.stop().await;
        owner.close().await;
    }
}
