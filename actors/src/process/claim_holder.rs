//! The consumer in the placement ledger whose claim a guest uses.

use std::time::Duration;

use chronova_events::ids::{ConsumerId, ProcessId};
use chronova_events::instance::{Alive, Placed};
use chronova_events::ledger::Ledger;

use super::definition::{StepError, StepRun};

/// The longest wait for the read models, which usually lag by microseconds.
pub(super) const LAG: Duration = Duration::from_secs(5);

/// Which consumer in the ledger has the claim that the guest uses.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClaimHolder {
    Server,
    /// The migration has the allocations on the source host until the move ends. An undo returns them to the server.
    Migration(ProcessId),
}

impl ClaimHolder {
    /// The holder of the claim at one end of the server's move, or on its only host.
    pub(super) fn at(server: &Alive, placed: &Placed) -> Self {
        let leaves = server.moving.as_deref().filter(|moving| moving.source == *placed);
        leaves.map_or(Self::Server, |moving| Self::Migration(moving.migration))
    }

    pub(super) fn consumer(self, work: &StepRun, ledger: &Ledger) -> ConsumerId {
        match self {
            Self::Migration(migration) if ledger.consumers.contains_key(&migration_consumer(migration)) => {
                migration_consumer(migration)
            }
            Self::Migration(_) | Self::Server => server_consumer(work),
        }
    }
}

pub(super) fn migration_consumer(migration: ProcessId) -> ConsumerId {
    ConsumerId::new(migration.to_string())
}

pub(super) fn server_consumer(work: &StepRun) -> ConsumerId {
    ConsumerId::new(work.instance_id().to_string())
}

/// Waits until the read models show the claim, which is in the log.
pub(super) async fn caught_up(work: &StepRun) -> Result<(), StepError> {
    match work.context.views.wait_for(work.context.log.head(), LAG).await {
        true => Ok(()),
        false => Err(StepError::again("the read models do not show the guest's claim yet")),
    }
}
