//! One actor for one aggregate instance.
//!
//! The actor decides at once and replies when the events are durable. While one append is on its way, further commands
//! are decided against the state as it will be, and go out together in the next append: an aggregate that everybody
//! writes to (the placement ledger) is so pipelined by the same code that serves a lonely server.
//!
//! The stream is read when the first command or look comes, unless that command begins an aggregate ([`Aggregate::begins`]):
//! then the stream is taken to be empty, the append expects that, and a conflict has the command decided again.
//!
//! A reply never tells of what is not durable, refusals and looks included: they wait for the events they rest upon. When an
//! append fails, the state in memory is thrown away with everything decided upon it, the stream is read again, and the
//! commands that waited are decided anew once (conflict) or answered `Unavailable`.

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, ContextFutureSpawner, Handler, Message, WrapFuture,
};
use chronova_events::clock::Clock;
use chronova_events::codec;
use chronova_events::envelope::{Meta, NewEvent, Position, Revision, StreamId, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::registry::NounEvent;
use chronova_events::store::{AppendError, Appended, EventStore, Expected, Snapshot, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::aggregate::{Aggregate, CommandError, Committed};

/// Commands that may wait in the mailbox of one actor before senders wait.
pub const MAILBOX: usize = 1_024;
/// Commands whose events go out in one append at the most.
const BATCH: usize = 512;
/// An actor with nothing to do for this long leaves memory, unless somebody says otherwise.
pub const IDLE: Duration = Duration::from_mins(1);
/// Events read at once when loading.
const PAGE: usize = 4_096;

pub type Reply<A> = Result<Committed, CommandError<<A as Aggregate>::Reject>>;

/// A command on its way to an aggregate.
#[derive(Debug)]
pub struct Execute<A: Aggregate> {
    pub command: A::Command,
    pub meta: Arc<Meta>,
    pub reply: oneshot::Sender<Reply<A>>,
}

impl<A: Aggregate> Message for Execute<A> {
    type Result = ();
}

/// Asks for a copy of the state as it is in the log.
#[derive(Debug)]
pub struct Look<A: Aggregate>(pub oneshot::Sender<Result<A::State, StoreError>>);

impl<A: Aggregate> Message for Look<A> {
    type Result = ();
}

/// What every actor needs.
#[derive(Clone)]
pub struct Surroundings {
    pub store: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    /// An actor with nothing to do for this long leaves memory.
    pub idle: Duration,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Surroundings")
    }
}

/// Somebody who waits until the state in memory is durable.
enum Waiting<A: Aggregate> {
    Decided(Decided<A>),
    Looking { state: Box<A::State>, reply: oneshot::Sender<Result<A::State, StoreError>> },
}

/// A command decided upon, waiting for its events to be durable.
struct Decided<A: Aggregate> {
    command: A::Command,
    meta: Arc<Meta>,
    outcome: Result<Vec<NewEvent>, A::Reject>,
    reply: oneshot::Sender<Reply<A>>,
    retried: bool,
}

/// The state at a place in the stream.
#[derive(Clone)]
struct Folded<S> {
    state: S,
    revision: Revision,
    position: Position,
    /// Of the snapshot that it began with.
    snapshot_at: Revision,
}

pub struct Entity<A: Aggregate> {
    stream: StreamId,
    around: Surroundings,
    /// As it will be when everything queued is durable.
    state: A::State,
    /// Of the newest durable event.
    durable: Revision,
    position: Position,
    snapshot_at: Revision,
    queue: Vec<Waiting<A>>,
    in_flight: Vec<Waiting<A>>,
    /// Nobody has looked into the stream yet.
    unread: bool,
    /// What came first and waits until the stream is read; the mailbox waits as well, so there is one at the most.
    early: Option<Execute<A>>,
    broken: Option<StoreError>,
    last_used: Instant,
}

impl<A: Aggregate> std::fmt::Debug for Entity<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entity").field("stream", &self.stream).field("durable", &self.durable).finish_non_exhaustive()
    }
}

/// Nothing in an entity is ever pinned in place.
impl<A: Aggregate> Unpin for Entity<A> {}

impl<A: Aggregate> Entity<A> {
    pub fn new(id: &A::Id, around: Surroundings) -> Self {
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
                    tracing::error!(stream = %actor.stream, %error, "a stream cannot be read");
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

    /// Whether the command may be decided before the stream was read: it makes something of nothing.
    fn begins(command: &A::Command) -> bool {
        A::begins(command) && A::decide(&A::State::default(), command.clone()).is_ok_and(|events| !events.is_empty())
    }

    fn accept(&mut self, command: A::Command, meta: Arc<Meta>, reply: oneshot::Sender<Reply<A>>, retried: bool) {
        let now = self.around.clock.now();
        let outcome = A::decide(&self.state, command.clone()).map(|events| self.take_in(events, now, &meta));
        self.queue.push(Waiting::Decided(Decided { command, meta, outcome, reply, retried }));
    }

    fn take_in(&mut self, events: Vec<<A::State as Fold>::Event>, now: Timestamp, meta: &Arc<Meta>) -> Vec<NewEvent> {
        let mut new = Vec::with_capacity(events.len());
        for event in events {
            self.state.evolve(&event, now);
            new.push(NewEvent::new(event, now, meta));
        }
        new
    }

    /// Sends what is queued to the log, unless an append is on its way.
    fn flush(&mut self, ctx: &mut Context<Self>) {
        if !self.in_flight.is_empty() || self.queue.is_empty() {
            return;
        }
        let rest = self.queue.split_off(self.queue.len().min(BATCH));
        self.in_flight = std::mem::replace(&mut self.queue, rest);
        let events: Vec<NewEvent> = self.in_flight.iter().flat_map(Waiting::events).cloned().collect();
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

    /// The append is durable: everybody who waited for it learns the result.
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

    /// The append failed: nothing decided since then counts.
    fn unsettle(&mut self, error: AppendError, ctx: &mut Context<Self>) {
        let error = match error {
            AppendError::Conflict { .. } => {
                tracing::warn!(stream = %self.stream, "somebody else wrote to the stream; deciding again");
                self.load(ctx);
                return;
            }
            AppendError::TooLarge { size, limit } => {
                tracing::warn!(stream = %self.stream, size, limit, "a command is refused: its event is too large");
                self.refuse_largest(&StoreError::TooLarge { size, limit });
                self.load(ctx);
                return;
            }
            AppendError::Store(error) => error,
            error @ AppendError::Encode(_) => StoreError::Io(error.to_string()),
        };
        tracing::error!(stream = %self.stream, %error, "an append failed");
        self.fail(&error);
        self.load(ctx);
    }

    /// Fails the command that has the largest event in flight: it asked for too much, and the others may be decided again
    /// without it.
    fn refuse_largest(&mut self, error: &StoreError) {
        // An event that cannot be encoded is not of any size.
        let size = |event: &NewEvent| event.event.encode().map_or(usize::MAX, |bytes| bytes.len());
        let largest = |waiting: &Waiting<A>| waiting.events().iter().map(size).max().unwrap_or(0);
        let place = (0..self.in_flight.len()).max_by_key(|place| self.in_flight.get(*place).map_or(0, largest));
        if let Some(place) = place {
            self.in_flight.remove(place).fail(error);
        }
    }

    /// Decides once more what was in flight or queued when the state was thrown away.
    fn redecide(&mut self, ctx: &mut Context<Self>) {
        let waiting: Vec<_> = self.in_flight.drain(..).chain(self.queue.drain(..)).collect();
        for one in waiting {
            match one {
                Waiting::Looking { reply, .. } => self.look(reply),
                Waiting::Decided(one) if one.retried => {
                    let error = StoreError::Io("the stream changed twice while the command was decided".to_owned());
                    let _ = one.reply.send(Err(CommandError::Unavailable(error)));
                }
                Waiting::Decided(one) => self.accept(one.command, one.meta, one.reply, true),
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
        self.queue.push(Waiting::Looking { state: Box::new(self.state.clone()), reply });
    }

    /// Keeps a snapshot when enough has happened and the state in memory is exactly what is durable.
    fn keep_snapshot(&mut self) {
        if !self.queue.is_empty() || self.durable.0 < self.snapshot_at.0 + A::SNAPSHOT_EVERY {
            return;
        }
        self.snapshot_at = self.durable;
        let (store, stream) = (Arc::clone(&self.around.store), self.stream.clone());
        let (state, revision) = (self.state.clone(), self.durable);
        tokio::spawn(async move {
            let kept = match codec::encode_snapshot(&SnapshotOf { state }) {
                Ok(bytes) => {
                    let snapshot = Snapshot { revision, state_version: A::State::STATE_VERSION, bytes };
                    store.save_snapshot(&stream, snapshot).await.map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = kept {
                tracing::warn!(%stream, %error, "a snapshot could not be kept; loading will take longer");
            }
        });
    }
}

impl<A: Aggregate> Waiting<A> {
    fn events(&self) -> &[NewEvent] {
        match self {
            Self::Decided(Decided { outcome: Ok(events), .. }) => events,
            Self::Decided(_) | Self::Looking { .. } => &[],
        }
    }

    /// The asker may have gone away: what happened has happened all the same.
    fn settle(self, appended: Appended) {
        match self {
            Self::Looking { state, reply } => {
                let _ = reply.send(Ok(*state));
            }
            Self::Decided(Decided { outcome, reply, .. }) => {
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
            Self::Decided(Decided { reply, .. }) => {
                let _ = reply.send(Err(CommandError::Unavailable(error.clone())));
            }
        }
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(bound = "S: Fold")]
struct SnapshotOf<S> {
    state: S,
}

/// The state of a stream: its snapshot, if there is a usable one, and the events after it.
async fn fold_stream<S: Fold>(store: &dyn EventStore, stream: &StreamId) -> Result<Folded<S>, StoreError> {
    let mut folded = Folded {
        state: S::default(),
        revision: Revision::NONE,
        position: Position::START,
        snapshot_at: Revision::NONE,
    };
    if let Some(snapshot) = store.load_snapshot(stream).await?
        && snapshot.state_version == S::STATE_VERSION
        && let Ok(kept) = codec::decode_snapshot::<SnapshotOf<S>>(&snapshot.bytes)
    {
        // The position of the snapshot is not kept; the head is at or behind it, and only used for waiting.
        let (revision, position) = (snapshot.revision, store.head());
        folded = Folded { state: kept.state, revision, position, snapshot_at: revision };
    }
    loop {
        let page = store.read_stream(stream, folded.revision, PAGE).await?;
        for recorded in &page {
            let event = recorded
                .event()
                .map_err(|error| StoreError::Corrupt { position: recorded.position.0, reason: error.to_string() })?;
            if let Some(event) = S::Event::of(event) {
                folded.state.evolve(event, recorded.recorded_at);
            }
            folded.revision = recorded.revision;
            folded.position = recorded.position;
        }
        if page.len() < PAGE {
            return Ok(folded);
        }
    }
}

impl<A: Aggregate> Actor for Entity<A> {
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

impl<A: Aggregate> Handler<Execute<A>> for Entity<A> {
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

impl<A: Aggregate> Handler<Look<A>> for Entity<A> {
    type Result = ();

    fn handle(&mut self, message: Look<A>, ctx: &mut Self::Context) {
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
