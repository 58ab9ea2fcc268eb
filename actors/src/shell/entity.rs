//! One actor for one aggregate instance.
//!
//! The actor decides at once and replies when the events are durable. While one append is in flight, the actor decides
//! further commands on the state after that append. Their events share the next append. So the same code serves a
//! single server and pipelines the commands of a busy aggregate (the placement ledger).
//!
//! The first command or read loads the stream. A command that begins an aggregate ([`AggregateRoot::begins`]) needs no
//! load, because its append expects an empty stream. After a conflict, the actor decides the command again.
//!
//! A reply never shows a state that is not durable. Refusals and reads, too, wait for the events that they are based
//! on. When an append fails, the state in memory and all decisions on it are dropped, and the stream is read again.
//! Waiting commands are decided once more (conflict) or answered `Unavailable`.

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, ContextFutureSpawner, Handler, Message, WrapFuture,
};
use chronova_events::clock::Clock;
use chronova_events::envelope::{Meta, NewEvent, Position, Revision, StreamId, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::store::{AppendError, Appended, EventStore, Expected, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::folding::{self, fold_stream};
use crate::aggregate::{AggregateRoot, CommandError, Committed, EventOf};

/// Senders wait while the mailbox of an actor has this many commands.
pub const MAILBOX: usize = 1_024;
/// The most commands in one append.
const BATCH: usize = 512;
/// The default time after which an idle actor is passivated.
pub const IDLE: Duration = Duration::from_mins(1);

pub type CommandReply<A> = Result<Committed, CommandError<<A as AggregateRoot>::Reject>>;

/// A command on its way to an aggregate.
#[derive(Debug)]
pub struct Execute<A: AggregateRoot> {
    pub command: A::Command,
    pub meta: Arc<Meta>,
    pub reply: oneshot::Sender<CommandReply<A>>,
}

impl<A: AggregateRoot> Message for Execute<A> {
    type Result = ();
}

/// Asks for a copy of the state as it is in the log.
#[derive(Debug)]
pub struct ReadState<A: AggregateRoot>(pub oneshot::Sender<Result<A::State, StoreError>>);

impl<A: AggregateRoot> Message for ReadState<A> {
    type Result = ();
}

/// The context of every actor.
#[derive(Clone)]
pub struct EntityContext {
    pub store: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    /// The time after which an idle actor is passivated.
    pub idle: Duration,
}

impl std::fmt::Debug for EntityContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EntityContext")
    }
}

/// A sender that waits until the state in memory is durable.
enum DurabilityWaiter<A: AggregateRoot> {
    Decided(DecidedCommand<A>),
    Looking { state: Box<A::State>, reply: oneshot::Sender<Result<A::State, StoreError>> },
}

/// A decided command that waits for its events to be durable.
struct DecidedCommand<A: AggregateRoot> {
    command: A::Command,
    meta: Arc<Meta>,
    outcome: Result<Vec<NewEvent>, A::Reject>,
    reply: oneshot::Sender<CommandReply<A>>,
    retried: bool,
}

pub struct Entity<A: AggregateRoot> {
    stream: StreamId,
    around: EntityContext,
    /// The state after all queued events.
    state: A::State,
    /// The revision of the newest durable event.
    durable: Revision,
    position: Position,
    snapshot_at: Revision,
    queue: Vec<DurabilityWaiter<A>>,
    in_flight: Vec<DurabilityWaiter<A>>,
    /// Whether the stream has not been read yet.
    unread: bool,
    /// The first message, which waits until the stream is read. The mailbox waits meanwhile, so there is at most one
    /// such message.
    early: Option<Execute<A>>,
    broken: Option<StoreError>,
    last_used: Instant,
}

impl<A: AggregateRoot> std::fmt::Debug for Entity<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entity").field("stream", &self.stream).field("durable", &self.durable).finish_non_exhaustive()
    }
}

/// No field of an entity is ever pinned.
impl<A: AggregateRoot> Unpin for Entity<A> {}

impl<A: AggregateRoot> Entity<A> {
    pub fn new(id: &A::Id, around: EntityContext) -> Self {
        Self {
            stream: A::stream(id),
            around,
            state: A::State::default(),
            durable: Revision::NONE,
            position: Position::START,
            snapshot_at: Revision::NONE,
            queue: Vec::new(),
            in_flight: Vec::new(),
            unread: true,
            early: None,
            broken: None,
            last_used: Instant::now(),
        }
    }

    /// Reads the stream; the mailbox waits meanwhile.
    fn load(&mut self, ctx: &mut Context<Self>) {
        let (store, stream) = (Arc::clone(&self.around.store), self.stream.clone());
        async move { fold_stream::<A::State>(store.as_ref(), &stream).await }
            .into_actor(self)
            .map(|loaded, actor, ctx| match loaded {
                Ok(folded) => {
                    actor.state = folded.state;
                    actor.durable = folded.revision;
                    actor.position = folded.position;
                    actor.snapshot_at = folded.snapshot_at;
                    actor.redecide(ctx);
                    actor.take_early(ctx);
                }
                Err(error) => {
                    tracing::error!(stream = %actor.stream, %error, "reading a stream failed");
                    actor.fail(&error);
                    actor.broken = Some(error);
                    actor.take_early(ctx);
                    ctx.stop();
                }
            })
            .wait(ctx);
    }

    fn take_early(&mut self, ctx: &mut Context<Self>) {
        if let Some(message) = self.early.take() {
            self.handle(message, ctx);
        }
    }

    /// Whether the command may be decided before the stream is read, because it begins the aggregate.
    fn begins(command: &A::Command) -> bool {
        A::begins(command) && A::decide(&A::State::default(), command.clone()).is_ok_and(|events| !events.is_empty())
    }

    fn accept(&mut self, command: A::Command, meta: Arc<Meta>, reply: oneshot::Sender<CommandReply<A>>, retried: bool) {
        let now = self.around.clock.now();
        let outcome = A::decide_at(&self.state, command.clone(), now).map(|events| self.take_in(events, &meta));
        self.queue.push(DurabilityWaiter::Decided(DecidedCommand { command, meta, outcome, reply, retried }));
    }

    fn take_in(&mut self, events: Vec<(Timestamp, EventOf<A>)>, meta: &Arc<Meta>) -> Vec<NewEvent> {
        let mut new = Vec::with_capacity(events.len());
        for (at, event) in events {
            self.state.evolve(&event, at);
            new.push(NewEvent::new(event, at, meta));
        }
        new
    }

    /// Appends the queued events to the log, unless an append is in flight.
    fn flush(&mut self, ctx: &mut Context<Self>) {
        if !self.in_flight.is_empty() || self.queue.is_empty() {
            return;
        }
        let rest = self.queue.split_off(self.queue.len().min(BATCH));
        self.in_flight = std::mem::replace(&mut self.queue, rest);
        let events: Vec<NewEvent> = self.in_flight.iter().flat_map(DurabilityWaiter::events).cloned().collect();
        if events.is_empty() {
            let appended = Appended { revision: self.durable, position: self.position };
            self.settle(appended, ctx);
            return;
        }
        let (store, stream, expected) = (Arc::clone(&self.around.store), self.stream.clone(), self.durable);
        async move { store.append(&stream, Expected::Exact(expected), events).await }
            .into_actor(self)
            .map(|result, actor, ctx| match result {
                Ok(appended) => actor.settle(appended, ctx),
                Err(error) => actor.unsettle(error, ctx),
            })
            .spawn(ctx);
    }

    /// Answers all senders that waited for the append, because it is durable now.
    fn settle(&mut self, appended: Appended, ctx: &mut Context<Self>) {
        self.durable = appended.revision;
        self.position = appended.position;
        for waiting in self.in_flight.drain(..) {
            waiting.settle(appended);
        }
        self.keep_snapshot();
        self.flush(ctx);
        if A::is_over(&self.state) && self.queue.is_empty() && self.in_flight.is_empty() {
            ctx.stop();
        }
    }

    /// Handles a failed append: drops the state in memory, and decides the waiting commands again or answers them with
    /// the error.
    fn unsettle(&mut self, error: AppendError, ctx: &mut Context<Self>) {
        let error = match error {
            AppendError::Conflict { .. } => {
                tracing::warn!(stream = %self.stream, "conflict with another writer; deciding again");
                self.refuse_retried();
                self.load(ctx);
                return;
            }
            AppendError::TooLarge { size, limit } => {
                tracing::warn!(stream = %self.stream, size, limit, "refused a command: its event is too large");
                self.refuse_largest(&StoreError::TooLarge { size, limit });
                self.load(ctx);
                return;
            }
            AppendError::Store(error @ StoreError::BelowLevel { .. }) => {
                tracing::warn!(stream = %self.stream, %error, "refused a command: some members could not read its event");
                self.refuse_newer(&error);
                self.load(ctx);
                return;
            }
            AppendError::Store(error) => error,
            error @ AppendError::Encode(_) => StoreError::Io(error.to_string()),
        };
        tracing::error!(stream = %self.stream, %error, "append failed");
        self.fail(&error);
        self.load(ctx);
    }

    /// Refuses the command with the largest event in flight. Decides the other commands again without it.
    fn refuse_largest(&mut self, error: &StoreError) {
        // An event that cannot be encoded is treated as the largest one.
        let size = |event: &NewEvent| event.event.encode().map_or(usize::MAX, |bytes| bytes.len());
        let largest = |waiting: &DurabilityWaiter<A>| waiting.events().iter().map(size).max().unwrap_or(0);
        let place = (0..self.in_flight.len()).max_by_key(|place| self.in_flight.get(*place).map_or(0, largest));
        if let Some(place) = place {
            self.in_flight.remove(place).fail(error);
        }
    }

    /// Refuses the commands in flight with events of the refused kind. Decides the other commands again.
    fn refuse_newer(&mut self, error: &StoreError) {
        let StoreError::BelowLevel { kind, .. } = error else { return };
        let has_kind = |waiting: &DurabilityWaiter<A>| waiting.events().iter().any(|new| new.event.kind() == kind);
        let (refused, kept): (Vec<_>, Vec<_>) = self.in_flight.drain(..).partition(has_kind);
        self.in_flight = kept;
        for waiting in refused {
            waiting.fail(error);
        }
    }

    /// Refuses each command that was in a conflict before, so that no command waits for ever.
    fn refuse_retried(&mut self) {
        for waiting in self.in_flight.drain(..).chain(self.queue.drain(..)).collect::<Vec<_>>() {
            match waiting {
                DurabilityWaiter::Decided(one) if one.retried => {
                    let error = StoreError::Io("the stream changed twice while the command was decided".to_owned());
                    let _ = one.reply.send(Err(CommandError::Unavailable(error)));
                }
                DurabilityWaiter::Decided(one) => {
                    self.in_flight.push(DurabilityWaiter::Decided(DecidedCommand { retried: true, ..one }));
                }
                looking @ DurabilityWaiter::Looking { .. } => self.in_flight.push(looking),
            }
        }
    }

    /// Decides each command again if it was in flight or queued when the state was dropped.
    fn redecide(&mut self, ctx: &mut Context<Self>) {
        let waiting: Vec<_> = self.in_flight.drain(..).chain(self.queue.drain(..)).collect();
        for one in waiting {
            match one {
                DurabilityWaiter::Looking { reply, .. } => self.look(reply),
                DurabilityWaiter::Decided(one) => self.accept(one.command, one.meta, one.reply, one.retried),
            }
        }
        self.flush(ctx);
    }

    fn fail(&mut self, error: &StoreError) {
        for waiting in self.in_flight.drain(..).chain(self.queue.drain(..)) {
            waiting.fail(error);
        }
    }

    fn look(&mut self, reply: oneshot::Sender<Result<A::State, StoreError>>) {
        self.queue.push(DurabilityWaiter::Looking { state: Box::new(self.state.clone()), reply });
    }

    /// Writes a snapshot after enough events, if the state in memory is exactly the durable one.
    fn keep_snapshot(&mut self) {
        if !self.queue.is_empty() || self.durable.0 < self.snapshot_at.0 + A::SNAPSHOT_EVERY {
            return;
        }
        self.snapshot_at = self.durable;
        let (store, stream) = (Arc::clone(&self.around.store), self.stream.clone());
        let (state, revision) = (self.state.clone(), self.durable);
        tokio::spawn(async move {
            let kept = match folding::snapshot(state, revision) {
                Ok(snapshot) => store.save_snapshot(&stream, snapshot).await,
                Err(error) => Err(error),
            };
            if let Err(error) = kept {
                tracing::warn!(%stream, %error, "writing a state snapshot failed; loading will take longer");
            }
        });
    }
}

impl<A: AggregateRoot> DurabilityWaiter<A> {
    fn events(&self) -> &[NewEvent] {
        match self {
            Self::Decided(DecidedCommand { outcome: Ok(events), .. }) => events,
            Self::Decided(_) | Self::Looking { .. } => &[],
        }
    }

    /// Answers the sender. The sender may have gone, but the events are recorded nevertheless.
    fn settle(self, appended: Appended) {
        match self {
            Self::Looking { state, reply } => {
                let _ = reply.send(Ok(*state));
            }
            Self::Decided(DecidedCommand { outcome, reply, .. }) => {
                let Appended { revision, position } = appended;
                let committed = |new: Vec<NewEvent>| {
                    let events = new.into_iter().map(|new| new.event).collect();
                    Committed { revision, position, events }
                };
                let _ = reply.send(outcome.map(committed).map_err(CommandError::Rejected));
            }
        }
    }

    fn fail(self, error: &StoreError) {
        match self {
            Self::Looking { reply, .. } => {
                let _ = reply.send(Err(error.clone()));
            }
            Self::Decided(DecidedCommand { reply, .. }) => {
                let _ = reply.send(Err(CommandError::Unavailable(error.clone())));
            }
        }
    }
}

impl<A: AggregateRoot> Actor for Entity<A> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(self.around.idle, |actor, ctx| {
            let idle = actor.last_used.elapsed() >= actor.around.idle;
            if idle && actor.queue.is_empty() && actor.in_flight.is_empty() {
                ctx.stop();
            }
        });
    }
}

impl<A: AggregateRoot> Handler<Execute<A>> for Entity<A> {
    type Result = ();

    fn handle(&mut self, message: Execute<A>, ctx: &mut Self::Context) {
        self.last_used = Instant::now();
        if let Some(error) = &self.broken {
            let _ = message.reply.send(Err(CommandError::Unavailable(error.clone())));
            return;
        }
        if std::mem::take(&mut self.unread) && !Self::begins(&message.command) {
            self.early = Some(message);
            self.load(ctx);
            return;
        }
        self.accept(message.command, message.meta, message.reply, false);
        self.flush(ctx);
    }
}

impl<A: AggregateRoot> Handler<ReadState<A>> for Entity<A> {
    type Result = ();

    fn handle(&mut self, message: ReadState<A>, ctx: &mut Self::Context) {
        self.last_used = Instant::now();
        if let Some(error) = &self.broken {
            let _ = message.0.send(Err(error.clone()));
            return;
        }
        self.look(message.0);
        if std::mem::take(&mut self.unread) {
            self.load(ctx);
        } else {
            self.flush(ctx);
        }
    }
}
