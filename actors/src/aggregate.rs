//! The trait of an aggregate: its events, its state, its commands and its refusals.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use chronova_events::envelope::{Position, Revision, StreamId, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::registry::Event;
use chronova_events::store::StoreError;
use thiserror::Error;

/// The events of an aggregate.
pub type EventOf<A> = <<A as AggregateRoot>::State as Fold>::Event;

/// One kind of aggregate. Implementations have no fields: they only name the types.
pub trait AggregateRoot: Send + Sync + 'static {
    /// The id of one aggregate of this kind.
    type Id: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// The state that the aggregate's events fold into.
    type State: Fold;
    /// The commands that the aggregate accepts. Ids, times and chosen hosts arrive in the command, because `decide`
    /// must not make up any.
    type Command: Clone + Debug + Send + 'static;
    /// Why the aggregate refuses a command.
    type Reject: std::error::Error + Clone + Send + Sync + 'static;

    /// The number of events after which the actor writes a snapshot of the state.
    const SNAPSHOT_EVERY: u64 = 1_000;

    /// The stream that holds the events of `id`.
    fn stream(id: &Self::Id) -> StreamId;

    /// Decides `command` on `state`: returns events, or a refusal. An empty list means that the command changes
    /// nothing, so a repeated command is harmless. The function is pure.
    fn decide(state: &Self::State, command: Self::Command) -> Result<Vec<EventOf<Self>>, Self::Reject>;

    /// Like [`decide`](Self::decide), with the time of each event. `now` is the time of the decision. A command that
    /// reports what happened earlier brings its own times.
    fn decide_at(
        state: &Self::State,
        command: Self::Command,
        now: Timestamp,
    ) -> Result<Vec<(Timestamp, EventOf<Self>)>, Self::Reject> {
        Ok(Self::decide(state, command)?.into_iter().map(|event| (now, event)).collect())
    }

    /// Whether `command` is always the first command of an aggregate with a new id. If so, the actor decides the
    /// command without reading the stream. The append then checks that the stream is empty.
    fn begins(_command: &Self::Command) -> bool {
        false
    }

    /// Whether no more commands are expected for the aggregate. If so, its actor leaves memory at once. A later command
    /// loads the aggregate from the log again.
    fn is_over(_state: &Self::State) -> bool {
        false
    }

    /// Whether start-up no longer loads the aggregate. If so, no snapshot of its state is written when its events move
    /// from the log's file to the archive. A later command reads the events from the archive.
    fn has_ended(state: &Self::State) -> bool {
        Self::is_over(state)
    }
}

/// The result of an accepted command. Everything in it is durable.
#[derive(Debug, Clone)]
pub struct Committed {
    pub revision: Revision,
    /// A read model at this position shows the command's effect.
    pub position: Position,
    /// The recorded events; empty when there was nothing to do.
    pub events: Vec<Arc<Event>>,
}

/// Why a command failed.
#[derive(Debug, Clone, Error)]
pub enum CommandError<R> {
    /// The aggregate refused.
    #[error(transparent)]
    Rejected(R),
    /// The log could not append or read events. The caller does not know whether anything happened, and may send the
    /// same command again.
    #[error("the event log is not available")]
    Unavailable(#[source] StoreError),
}

impl<R> CommandError<R> {
    pub fn rejection(&self) -> Option<&R> {
        match self {
            Self::Rejected(reject) => Some(reject),
            Self::Unavailable(_) => None,
        }
    }
}
