//! Time travel: the read models as of a past moment.
//!
//! A query names a position or a time. History folds the read models of that moment from the nearest earlier state (a
//! checkpoint, a held state, or the live read models). It holds the result for the next query.
//!
//! A query for a time sees all events before the first event that is later than this time. So a clock that steps back
//! cannot give one query two answers.
//!
//! Invariants: the memory of held states and states under construction is bounded. The numbers of running and waiting
//! queries are bounded; further queries are refused. If several queries name one moment, one of them builds the state,
//! and the others wait for it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::store::criteria::Criteria;
use chronova_events::store::{EventStore, StoreError};
use thiserror::Error;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::checkpoint::{CheckpointError, Checkpoints, Era, is_by};
use crate::progress::WorkProgress;
use crate::replay::{BATCH, ReplayEnd, replay, replay_while};
use crate::runner::ProjectionError;
use crate::views::{Mark, Views};

/// The part of the read models that a query about the past needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastPart {
    /// The names of its read models, of [`Views::NAMES`].
    pub names: BTreeSet<&'static str>,
    /// Whether the log has so few events of these read models that a search for them is faster than to read all events.
    pub is_sparse: bool,
}

/// A past moment of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastMoment {
    Position(Position),
    Time(Timestamp),
}

impl PastMoment {
    /// Whether a state at `mark` is at or before the moment.
    fn includes(self, mark: &Mark) -> bool {
        match self {
            Self::Position(position) => mark.position <= position,
            Self::Time(time) => is_by(mark, time),
        }
    }

    fn until(self) -> ReplayEnd {
        match self {
            Self::Position(position) => ReplayEnd::Position(position),
            Self::Time(time) => ReplayEnd::Time(time),
        }
    }

    fn check(self, head: Position, now: Timestamp) -> Result<(), HistoryError> {
        match self {
            Self::Position(asked) if asked > head => Err(HistoryError::AfterHead { asked, head }),
            Self::Time(asked) if asked > now => Err(HistoryError::Future { asked, now }),
            _ => Ok(()),
        }
    }

    /// The read models as of this moment, for a program that asks once. They are folded from the nearest checkpoint.
    /// Nothing is held or stored.
    pub async fn views(
        self,
        store: &dyn EventStore,
        checkpoints: &Arc<Checkpoints>,
        now: Timestamp,
    ) -> Result<Arc<Views>, HistoryError> {
        let head = store.head();
        self.check(head, now)?;
        let nearest = checkpoints.nearest_of(store, |mark| self.includes(mark)).await.map_err(unloaded)?;
        let views = Arc::new(nearest.unwrap_or_default());
        let progress = WorkProgress::new("time travel", head.0.saturating_sub(views.position().0));
        replay(store, &views, self.until(), &progress).await?;
        Ok(views)
    }

    /// Like [`Self::views`], but only a part of the read models. The others are empty.
    pub async fn part(
        self,
        store: &dyn EventStore,
        checkpoints: &Arc<Checkpoints>,
        now: Timestamp,
        part: &PastPart,
    ) -> Result<Arc<Views>, HistoryError> {
        let head = store.head();
        self.check(head, now)?;
        let nearest = checkpoints.nearest_part(store, |mark| self.includes(mark), &part.names).await;
        let nearest = nearest.map_err(unloaded)?;
        let views = Arc::new(nearest.unwrap_or_else(|| Views::only(part.names.clone())));
        if part.is_sparse {
            self.search(store, &views).await?;
        } else {
            let progress = WorkProgress::new("time travel", head.0.saturating_sub(views.position().0));
            replay(store, &views, self.until(), &progress).await?;
        }
        Ok(views)
    }

    /// Folds the events up to this moment that the read models use.
    async fn search(self, store: &dyn EventStore, views: &Views) -> Result<(), HistoryError> {
        let mut at = views.position();
        let end = match self {
            Self::Position(position) => position,
            Self::Time(time) => last_by(store, at, time).await?,
        };
        let criteria = Criteria { kinds: views.kinds(), ..Criteria::default() };
        while at < end {
            let found = store.search(at, BATCH, &criteria).await?;
            let due: Vec<_> = found.events.into_iter().take_while(|recorded| recorded.position <= end).collect();
            views.apply(&due).map_err(ProjectionError::from)?;
            if found.until == at {
                break;
            }
            at = found.until;
        }
        let last = store.read_all(Position(end.0.saturating_sub(1)), 1).await?;
        if let Some(last) = last.first().filter(|last| last.position == end) {
            let moment = views.marked().moment.max(last.recorded_at);
            views.set_mark(Mark { position: end, event: Some(last.id), moment });
        }
        Ok(())
    }
}

/// The error of a checkpoint that cannot be loaded.
fn unloaded(error: CheckpointError) -> ProjectionError {
    match error {
        // The error may name an archive that cannot be read now.
        CheckpointError::Store(error) => ProjectionError::Store(error),
        error => ProjectionError::Failed(error.to_string()),
    }
}

/// The last position before the first event after `after` that is later than `time`.
async fn last_by(store: &dyn EventStore, after: Position, time: Timestamp) -> Result<Position, StoreError> {
    let later = Criteria { since: Some(Timestamp(time.0.saturating_add(1))), ..Criteria::default() };
    let mut at = after;
    loop {
        let found = store.search(at, 1, &later).await?;
        if let Some(first) = found.events.first() {
            return Ok(Position(first.position.0.saturating_sub(1)));
        }
        if found.until == at {
            return Ok(at);
        }
        at = found.until;
    }
}

#[derive(Debug, Error)]
pub enum HistoryError {
    #[error("position {asked} is after the end of the log, which is at {head}")]
    AfterHead { asked: Position, head: Position },
    #[error("{asked} is in the future; it is {now}")]
    Future { asked: Timestamp, now: Timestamp },
    #[error("too many queries about the past are running")]
    Busy,
    #[error("the state of that moment takes more memory than the {limit} MiB that queries about the past may take")]
    TooLarge { limit: u64 },
    #[error(transparent)]
    Projection(#[from] ProjectionError),
}

impl From<StoreError> for HistoryError {
    fn from(error: StoreError) -> Self {
        Self::Projection(error.into())
    }
}

/// The limits on queries about the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryOptions {
    /// The number of states that are held for later queries.
    pub held: usize,
    /// The limit on the bytes of all states, held and under construction.
    pub memory: u64,
    /// The number of states under construction at the same time.
    pub at_once: usize,
    /// The number of queries that may wait for a construction slot, or for another query that builds the same state.
    pub waiting: usize,
    /// How long a query waits for a slot.
    pub patience: Duration,
    /// To fold at most this many events costs less than to read a checkpoint. It also costs less than a fork of the
    /// live read models, because the next change after a fork copies a read model.
    pub near: u64,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self { held: 4, memory: 4 << 30, at_once: 2, waiting: 32, patience: Duration::from_secs(30), near: 20_000 }
    }
}

/// A state that is held.
#[derive(Debug)]
struct HeldState {
    views: Arc<Views>,
    mark: Mark,
    weight: u64,
    used: u64,
}

/// The held states, and a clock that orders their uses.
#[derive(Debug, Default)]
struct HeldStates {
    held: Vec<HeldState>,
    clock: u64,
}

/// The lock of one moment. A query holds it while it builds the state of that moment.
type MomentTurn = tokio::sync::Mutex<()>;

/// Answers queries about the past.
pub struct History {
    store: Arc<dyn EventStore>,
    live: Arc<Views>,
    checkpoints: Option<Arc<Checkpoints>>,
    options: HistoryOptions,
    held_states: Arc<Mutex<HeldStates>>,
    bytes_under_construction: Arc<AtomicU64>,
    slots: Arc<Semaphore>,
    /// The moments for which queries are running or waiting.
    turns: Mutex<Vec<(PastMoment, Weak<MomentTurn>)>>,
    waiting: AtomicUsize,
    /// Raised after an erasure. States from before the erasure are neither held nor stored.
    forgotten: Arc<AtomicU64>,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("options", &self.options).finish_non_exhaustive()
    }
}

impl History {
    pub fn new(
        store: Arc<dyn EventStore>,
        live: Arc<Views>,
        checkpoints: Option<Arc<Checkpoints>>,
        options: HistoryOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            live,
            checkpoints,
            options,
            held_states: Arc::default(),
            bytes_under_construction: Arc::default(),
            slots: Arc::new(Semaphore::new(options.at_once.max(1))),
            turns: Mutex::default(),
            waiting: AtomicUsize::new(0),
            forgotten: Arc::default(),
        })
    }

    /// Drops every past state, held or on disk, because data was erased from the log. Blocks.
    pub fn forget(&self) -> std::io::Result<()> {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.held_states().held.clear();
        self.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.discard_all())
    }

    /// The number of held states and their approximate size in bytes.
    pub fn held(&self) -> (usize, u64) {
        let held_states = self.held_states();
        (held_states.held.len(), held_states.held.iter().map(|held| held.weight).sum())
    }

    /// The read models as of `moment`; `now` is the control plane's time.
    pub async fn at(&self, moment: PastMoment, now: Timestamp) -> Result<Arc<Views>, HistoryError> {
        moment.check(self.store.head(), now)?;
        if let Some(views) = self.find(moment).await? {
            return Ok(views);
        }
        let _turn = self.turn(moment).await?;
        // Another query for the same moment may have finished while this query waited.
        if let Some(views) = self.find(moment).await? {
            return Ok(views);
        }
        let _slot = self.slot().await?;
        self.make(moment).await
    }

    /// Waits until no other query builds the state of this moment.
    async fn turn(&self, moment: PastMoment) -> Result<OwnedMutexGuard<()>, HistoryError> {
        let turn = self.turn_of(moment);
        if let Ok(free) = Arc::clone(&turn).try_lock_owned() {
            return Ok(free);
        }
        let waiting = WaitingQuery::join(&self.waiting, self.options.waiting).ok_or(HistoryError::Busy)?;
        // This wait ends, because the query that builds the state is bounded itself.
        let free = turn.lock_owned().await;
        drop(waiting);
        Ok(free)
    }

    fn turn_of(&self, moment: PastMoment) -> Arc<MomentTurn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|(_, turn)| turn.strong_count() > 0);
        let known = turns.iter().find(|(known, _)| *known == moment).and_then(|(_, turn)| turn.upgrade());
        known.unwrap_or_else(|| {
            let turn = Arc::<MomentTurn>::default();
            turns.push((moment, Arc::downgrade(&turn)));
            turn
        })
    }

    async fn slot(&self) -> Result<OwnedSemaphorePermit, HistoryError> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let waiting = WaitingQuery::join(&self.waiting, self.options.waiting).ok_or(HistoryError::Busy)?;
        let slot = tokio::time::timeout(self.options.patience, Arc::clone(&self.slots).acquire_owned()).await;
        drop(waiting);
        slot.ok().and_then(Result::ok).ok_or(HistoryError::Busy)
    }

    /// A held state of exactly this moment.
    async fn find(&self, moment: PastMoment) -> Result<Option<Arc<Views>>, HistoryError> {
        let Some((views, mark)) = self.held_states().nearest(moment) else { return Ok(None) };
        let exact = match moment {
            PastMoment::Position(position) => mark.position == position,
            // The state is exact if the next event of the log is later than the time.
            PastMoment::Time(time) => {
                let next = self.store.read_all(mark.position, 1).await?;
                next.first().is_none_or(|next| next.recorded_at > time)
            }
        };
        Ok(exact.then_some(views))
    }

    /// Builds the state within the bounds and holds it.
    async fn make(&self, moment: PastMoment) -> Result<Arc<Views>, HistoryError> {
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let era = self.checkpoints.as_ref().map(|checkpoints| checkpoints.era());
        let base = self.base(moment).await?;
        let begin = base.position();
        let progress = WorkProgress::new("time travel", self.store.head().0.saturating_sub(begin.0));
        let under_construction = StateUnderConstruction::begin(&self.bytes_under_construction, &base);
        let limit = self.options.memory;
        let (held_states, sum, weight) = (
            Arc::clone(&self.held_states),
            Arc::clone(&self.bytes_under_construction),
            Arc::clone(&under_construction.weight),
        );
        let is_too_large = move |views: &Views| {
            let now = views.weight();
            let before = weight.swap(now, Ordering::Relaxed);
            sum.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            !lock(&held_states).make_room(sum.load(Ordering::Relaxed), limit)
        };
        let made = replay_while(&*self.store, &base, moment.until(), &progress, is_too_large.clone()).await;
        match made {
            Err(ProjectionError::Enough) => return Err(self.too_large()),
            Err(error) => return Err(error.into()),
            Ok(_) if is_too_large(&base) => return Err(self.too_large()),
            Ok(_) => {}
        }
        drop(under_construction);
        {
            let mut held_states = self.held_states();
            if self.forgotten.load(Ordering::SeqCst) == forgotten {
                held_states.hold(&base, &self.options, self.bytes_under_construction.load(Ordering::Relaxed));
            }
        }
        self.remember(&base, begin, era);
        Ok(base)
    }

    fn too_large(&self) -> HistoryError {
        HistoryError::TooLarge { limit: self.options.memory >> 20 }
    }

    /// The nearest state at or before the moment, from which the fold continues.
    async fn base(&self, moment: PastMoment) -> Result<Arc<Views>, HistoryError> {
        let held = self.held_states().nearest(moment);
        let reached = held.as_ref().map_or(Position::START, |(_, mark)| mark.position);
        let live = self.live.marked();
        if moment.includes(&live) && live.position.0.saturating_sub(reached.0) > self.options.near {
            return Ok(Arc::new(self.live.fork()));
        }
        let far = reached.0.saturating_add(self.options.near);
        let closer = move |mark: &Mark| mark.position.0 > far && moment.includes(mark);
        let loaded = match self.checkpoints.clone() {
            Some(checkpoints) => tokio::task::spawn_blocking(move || checkpoints.nearest(closer))
                .await
                .map_err(|error| ProjectionError::Failed(error.to_string()))?,
            None => None,
        };
        Ok(Arc::new(match (loaded, held) {
            (Some(loaded), _) => loaded,
            (None, Some((held, _))) => held.fork(),
            (None, None) => Views::new(),
        }))
    }

    /// Stores a state as a checkpoint if its construction folded many events, so that the next query for that moment is
    /// fast.
    fn remember(&self, views: &Arc<Views>, begin: Position, era: Option<Era>) {
        let (Some(checkpoints), Some(era)) = (self.checkpoints.clone(), era) else { return };
        if views.position().0.saturating_sub(begin.0) < checkpoints.options().spacing {
            return;
        }
        let fork = views.fork();
        tokio::task::spawn_blocking(move || {
            // A state from before an erasure belongs to an era that has ended, so it is not written.
            if let Err(error) = checkpoints.save_in(era, &fork) {
                tracing::warn!(%error, "writing a checkpoint of a past state failed");
            }
        });
    }

    fn held_states(&self) -> MutexGuard<'_, HeldStates> {
        lock(&self.held_states)
    }
}

fn lock(held_states: &Mutex<HeldStates>) -> MutexGuard<'_, HeldStates> {
    held_states.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeldStates {
    /// The latest held state at or before the moment. Notes that the state was just used.
    fn nearest(&mut self, moment: PastMoment) -> Option<(Arc<Views>, Mark)> {
        self.clock += 1;
        let found =
            self.held.iter_mut().filter(|held| moment.includes(&held.mark)).max_by_key(|held| held.mark.position)?;
        found.used = self.clock;
        Some((Arc::clone(&found.views), found.mark))
    }

    fn hold(&mut self, views: &Arc<Views>, options: &HistoryOptions, others: u64) {
        let (mark, weight) = (views.marked(), views.weight());
        self.clock += 1;
        self.held.retain(|held| held.mark.position != mark.position);
        self.held.push(HeldState { views: Arc::clone(views), mark, weight, used: self.clock });
        while self.held.len() > options.held.max(1) {
            self.forget_one();
        }
        self.make_room(others, options.memory);
    }

    /// Drops held states until `needed` more bytes fit. Returns whether they fit.
    fn make_room(&mut self, needed: u64, limit: u64) -> bool {
        while !self.held.is_empty() && needed + self.held.iter().map(|held| held.weight).sum::<u64>() > limit {
            self.forget_one();
        }
        needed <= limit
    }

    fn forget_one(&mut self) {
        if let Some((at, _)) = self.held.iter().enumerate().min_by_key(|(_, held)| held.used) {
            self.held.swap_remove(at);
        }
    }
}

/// The bytes of one state under construction, counted while it is being built.
struct StateUnderConstruction {
    sum: Arc<AtomicU64>,
    weight: Arc<AtomicU64>,
}

impl StateUnderConstruction {
    fn begin(sum: &Arc<AtomicU64>, views: &Views) -> Self {
        let weight = views.weight();
        sum.fetch_add(weight, Ordering::Relaxed);
        Self { sum: Arc::clone(sum), weight: Arc::new(AtomicU64::new(weight)) }
    }
}

impl Drop for StateUnderConstruction {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.weight.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Counts a waiting query.
struct WaitingQuery<'a>(&'a AtomicUsize);

impl<'a> WaitingQuery<'a> {
    fn join(count: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        // Above the limit, this value is dropped at the end of this function. The drop takes the query out of the count
        // again.
        let joined = Self(count);
        (before < limit).then_some(joined)
    }
}

impl Drop for WaitingQuery<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
