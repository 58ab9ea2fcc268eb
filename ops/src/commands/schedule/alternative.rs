//! A history that did not happen: read models that take in events of the log, and others instead of some of them.

use std::sync::Arc;

use chronova_actors::aggregate::Aggregate as _;
use chronova_actors::coordination::pending_claims::PendingClaims;
use chronova_actors::instance::InstanceAggregate;
use chronova_actors::ledger::{CELL, LedgerAggregate};
use chronova_actors::scheduler::{Chosen, Decision, Request, SchedulerOptions, choose};
use chronova_events::envelope::{Meta, NewEvent, Position, Recorded, StreamId, Timestamp};
use chronova_events::ids::{ConsumerId, InstanceId, ProjectId, UserId};
use chronova_events::instance::InstanceEvent;
use chronova_events::ledger::{Claimed, LedgerEvent};
use chronova_events::registry::Event;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};
use chronova_projections::views::Views;

use super::super::CommandFailure;

/// Events taken in at once.
const BATCH: usize = 1_024;

pub(super) struct Alternative {
    views: Views,
    waiting: Vec<Arc<Recorded>>,
}

impl Alternative {
    pub(super) fn new() -> Self {
        Self { views: Views::new(), waiting: Vec::new() }
    }

    /// Takes in an event as it was recorded.
    pub(super) fn take(&mut self, recorded: &Arc<Recorded>) -> Result<(), CommandFailure> {
        self.waiting.push(Arc::clone(recorded));
        if self.waiting.len() >= BATCH { self.settle() } else { Ok(()) }
    }

    /// Takes in an event that was not recorded.
    pub(super) async fn invent(
        &mut self,
        stream: StreamId,
        event: impl Into<Event>,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        // A log of its own turns it into what the read models take in.
        let log = MemoryStore::new();
        let new = NewEvent::new(event, at, &Meta::system("what-if"));
        log.append(&stream, Expected::Any, vec![new]).await.map_err(|error| match error {
            AppendError::Store(error) => error,
            other => StoreError::Io(other.to_string()),
        })?;
        self.waiting.extend(log.read_all(Position::START, BATCH).await?);
        Ok(())
    }

    pub(super) async fn invent_for(
        &mut self,
        server: InstanceId,
        event: impl Into<InstanceEvent>,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        self.invent(InstanceAggregate::stream(&server), event.into(), at).await
    }

    pub(super) async fn invent_in_ledger(
        &mut self,
        event: impl Into<LedgerEvent>,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        self.invent(LedgerAggregate::stream(&CELL), event.into(), at).await
    }

    /// The server holds what was chosen for it.
    pub(super) async fn claim(
        &mut self,
        server: InstanceId,
        project: &ProjectId,
        user: &UserId,
        chosen: &Chosen,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        let claimed = Claimed {
            consumer: ConsumerId::new(server.to_string()),
            project: project.clone(),
            user: user.clone(),
            consumer_type: Some("INSTANCE".to_owned()),
            allocations: chosen.allocations.clone(),
        };
        self.invent_in_ledger(claimed, at).await
    }

    pub(super) fn decide(&mut self, request: &Request, options: &SchedulerOptions) -> Result<Decision, CommandFailure> {
        self.settle()?;
        Ok(choose(&self.views, &PendingClaims::default(), request, options))
    }

    /// The read models, with everything in them.
    pub(super) fn views(&mut self) -> Result<&Views, CommandFailure> {
        self.settle()?;
        Ok(&self.views)
    }

    fn settle(&mut self) -> Result<(), CommandFailure> {
        let position = self.waiting.first().map_or(0, |first| first.position.0);
        self.views.apply(&self.waiting).map_err(|source| CommandFailure::Decode { position, source })?;
        self.waiting.clear();
        Ok(())
    }
}
