//! Servers that move, in the alternative history of a replay.
//!
//! A move begins when the allocations of the server go to its migration. The scheduler then chooses a host, and the
//! server claims it. At a confirmation the migration's allocations are released, and at a failure or a revert they go
//! back to the server. Both histories do the same, but with the hosts and amounts that each has.

use std::sync::Arc;

use chronova_actors::scheduler::RankedHost;
use chronova_events::envelope::{Recorded, Timestamp};
use chronova_events::ids::{ConsumerId, InstanceId, ProcessId};
use chronova_events::instance::{InstanceEvent, Placed};
use chronova_events::ledger::{AllocationsReplaced, Claimed};

use super::super::CommandFailure;
use super::replay::Replay;

/// A server whose migration has the allocations of its former host.
#[derive(Debug, Clone)]
pub(super) struct SetAside {
    server: InstanceId,
    /// Whether the claim on the former host was decided again. Otherwise it is the recorded one.
    pub(super) decided: bool,
    /// The host of that decision; `None` if no host was found.
    pub(super) host: Option<RankedHost>,
    /// Whether the server has its allocations again, because the move found no host in the alternative history.
    given_back: bool,
}

impl Replay<'_> {
    /// Lets a server and its migration exchange their allocations. Other changes of allocations are folded as they are
    /// recorded, unless their hosts do not exist.
    pub(super) async fn live_through_exchange(
        &mut self,
        replaced: &AllocationsReplaced,
        recorded: &Arc<Recorded>,
    ) -> Result<(), CommandFailure> {
        let ([claim], [released]) = (&replaced.claims[..], &replaced.released[..]) else {
            return self.take_unless_other_fleet(recorded);
        };
        if let Some(server) = self.server(released).map(|request| request.instance) {
            let chosen = self.chosen.remove(&server);
            let aside = SetAside { server, decided: chosen.is_some(), host: chosen.flatten(), given_back: false };
            self.moves.insert(claim.consumer.clone(), aside);
        } else if let Some(aside) = self.moves.remove(released) {
            if aside.given_back {
                return Ok(());
            }
            self.restore(&aside);
        } else {
            return self.take_unless_other_fleet(recorded);
        }
        self.exchange(claim.clone(), released, recorded.recorded_at).await
    }

    /// The former host of the server of a migration.
    pub(super) fn aside(&self, migration: ProcessId) -> Option<&SetAside> {
        self.moves.get(&consumer(migration))
    }

    /// Gives a server its allocations back, because its move finds no host in the alternative history. The server then
    /// stays where it is.
    pub(super) async fn give_back(&mut self, migration: ProcessId, at: Timestamp) -> Result<(), CommandFailure> {
        let released = consumer(migration);
        let Some(aside) = self.moves.get_mut(&released) else { return Ok(()) };
        aside.given_back = true;
        let aside = aside.clone();
        self.restore(&aside);
        let held = self.other.views()?.placement.read(|view| view.ledger.consumers.get(&released).cloned());
        let Some(held) = held else { return Ok(()) };
        let (consumer, kind) = (ConsumerId::new(aside.server.to_string()), Some("INSTANCE".to_owned()));
        let claim = Claimed { consumer, consumer_type: kind, ..held.claim.clone() };
        self.exchange(claim, &released, at).await
    }

    fn restore(&mut self, aside: &SetAside) {
        if aside.decided {
            self.chosen.insert(aside.server, aside.host.clone());
        } else {
            self.chosen.remove(&aside.server);
        }
    }

    /// Gives the claim the allocations that `released` has in the alternative history.
    async fn exchange(&mut self, claim: Claimed, released: &ConsumerId, at: Timestamp) -> Result<(), CommandFailure> {
        let held = self.other.views()?.placement.read(|view| view.ledger.consumers.get(released).cloned());
        // A server that found no host has no allocations.
        let Some(held) = held else { return Ok(()) };
        let claims = vec![Claimed { allocations: held.claim.allocations.clone(), ..claim }];
        let exchanged = AllocationsReplaced { claims, released: vec![released.clone()] };
        self.other.invent_in_ledger(exchanged, at).await
    }

    /// The event with the hosts that the server has in the alternative history. `None` if the event places a server
    /// that has no host there.
    pub(super) fn relocated(&self, server: InstanceId, event: &InstanceEvent) -> Option<InstanceEvent> {
        let mut event = event.clone();
        let placed = match &mut event {
            InstanceEvent::Placed(placed) => placed,
            InstanceEvent::MoveRequested(requested) => &mut requested.source,
            InstanceEvent::LiveMoveRequested(requested) => &mut requested.source,
            InstanceEvent::EvacuationRequested(requested) => &mut requested.source,
            InstanceEvent::MoveTargeted(targeted) => &mut targeted.target,
            InstanceEvent::Resized(resized) => &mut resized.placed,
            InstanceEvent::LiveMoved(moved) => &mut moved.placed,
            InstanceEvent::Evacuated(evacuated) => &mut evacuated.placed,
            // The allocations go back before this event is recorded.
            InstanceEvent::ResizeReverted(reverted) => &mut reverted.placed,
            _ => return Some(event),
        };
        self.put_on_chosen(placed, server)?;
        Some(event)
    }

    /// Replaces the host, if the claim of the server was decided again. `None` if no host was found.
    fn put_on_chosen(&self, placed: &mut Placed, server: InstanceId) -> Option<()> {
        let Some(decided) = self.chosen.get(&server) else { return Some(()) };
        let chosen = decided.as_ref()?;
        (placed.host, placed.hostname) = (chosen.host, chosen.hostname.clone());
        placed.availability_zone = self.zone(chosen);
        Some(())
    }
}

/// The consumer of a migration's allocations.
fn consumer(migration: ProcessId) -> ConsumerId {
    ConsumerId::new(migration.to_string())
}
