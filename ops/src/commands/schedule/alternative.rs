//! An alternative history: read models that fold events of the log, with some of them replaced.

use std::sync::Arc;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::coordination::pending_claims::PendingClaims;
use chronova_actors::hosts::metrics::HostMetrics;
use chronova_actors::instance::InstanceRoot;
use chronova_actors::ledger::{CELL, LedgerRoot};
use chronova_actors::scheduler::{RankedHost, RequestSpec, SchedulerOptions, SchedulingDecision, choose};
use chronova_events::envelope::{Meta, NewEvent, Position, Recorded, StreamId, Timestamp};
use chronova_events::ids::{ConsumerId, InstanceId, ProjectId, UserId};
use chronova_events::instance::InstanceEvent;
use chronova_events::ledger::{Claimed, LedgerEvent};
use chronova_events::registry::Event;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};
use chronova_projections::views::Views;

use super::super::CommandFailure;

/// The number of events that are folded at once.
const BATCH: usize = 1_024;

pub(super) struct AlternativeHistory {
    views: Views,
    waiting: Vec<Arc<Recorded>>,
}

impl AlternativeHistory {
    pub(super) fn new() -> Self {
        Self { views: Views::new(), waiting: Vec::new() }
    }

    /// Folds a recorded event without a change.
    pub(super) fn take(&mut self, recorded: &Arc<Recorded>) -> Result<(), CommandFailure> {
        self.waiting.push(Arc::clone(recorded));
        if self.waiting.len() >= BATCH { self.settle() } else { Ok(()) }
    }

    /// Folds an invented event, which the real log does not have.
    pub(super) async fn invent(
        &mut self,
        stream: StreamId,
        event: impl Into<Event>,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        // A log in memory gives the event the form that read models fold.
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
        self.invent(InstanceRoot::stream(&server), event.into(), at).await
    }

    pub(super) async fn invent_in_ledger(
        &mut self,
        event: impl Into<LedgerEvent>,
        at: Timestamp,
    ) -> Result<(), CommandFailure> {
        self.invent(LedgerRoot::stream(&CELL), event.into(), at).await
    }

    /// Gives the server an allocation on the selected host.
    pub(super) async fn claim(
        &mut self,
        server: InstanceId,
        project: &ProjectId,
        user: &UserId,
        chosen: &RankedHost,
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

    pub(super) fn decide(
        &mut self,
        request: &RequestSpec,
        options: &SchedulerOptions,
    ) -> Result<SchedulingDecision, CommandFailure> {
        self.settle()?;
        // The metrics of hosts are in no log.
        Ok(choose(&self.views, (&PendingClaims::default(), &HostMetrics::default()), request, options))
    }

    /// The read models, after folding all events taken so far.
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
