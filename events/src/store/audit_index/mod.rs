//! An index of the log for audit queries, in a file beside the log.
//!
//! [`IndexedLog`] is a log whose [`EventStore::search`] first asks the index which events may match. It then reads
//! these events from the log, and compares them with the query. So the index is never the source of an answer, and a
//! wrong entry only costs time. A missing entry would hide an event, so everything in the file has checksums. The
//! checksums find accidents, not forgery. A program that may write to the file can hide events from searches, but not
//! from the log.
//!
//! The index is complete up to a position. Later events are searched in the log itself. Anybody may remove the file at
//! any time. A file that is damaged, of another log, or of another version is made again.
//!
//! * [`terms`]: the properties under which an event is found. The index opens no seal.
//! * [`part`]: the form in which the terms of a range of positions are stored.
//! * [`sqlite`]: the file.
//! * [`comparing`]: the comparison with the log, by `chronova audit verify`.
//!
//! A query looks up each of its terms once in each part of 65,536 events. As soon as the log has 4,096 further events,
//! these become a new part. As soon as parts have 65,536 events together, they become one part.

mod comparing;
mod part;
mod sqlite;
mod terms;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use thiserror::Error;

use super::criteria::{Criteria, EventSearchResult};
use super::tail::Subscription;
use super::{AppendError, AppendRight, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use crate::chain::Anchor;
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId, Timestamp};
use crate::holds::LegalHolds;
use crate::ids::EventId;
use crate::sealed::keys::KeyRing;
pub use comparing::IndexComparison;
use part::{PartBuilder, PartDirectory, PartPlace, PlaceSet};
use sqlite::{IndexEnd, IndexFile};
use terms::{IndexFilter, IndexPlan};

/// After this many candidates, a search looks at no further part. One part may bring the number above this limit.
const CANDIDATES: usize = 8_192;
/// The largest number of parts in which one search looks for candidates.
const PARTS: usize = 256;
/// The number of candidates that are read from the log at once.
const READ: usize = 1_024;
/// If fewer candidates are left in a part, reading them is cheaper than the lookup of further terms.
const FEW: usize = 16;

/// The sizes of the parts of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexOptions {
    /// The number of events of a new part.
    pub part: u64,
    /// The number of events of a block, into which parts are combined: a multiple of `part`, at most 65,536.
    pub block: u64,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { part: 4_096, block: part::LARGEST }
    }
}

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AuditIndexError {
    /// The index must be made again.
    #[error("the index of the log is damaged: {0}")]
    Damaged(String),
    #[error("the index of the log cannot be read or written: {0}")]
    Io(String),
    #[error("another process writes to the index of the log")]
    Busy,
    #[error("a log without a hash chain has no index")]
    NoChain,
    #[error(transparent)]
    Log(#[from] StoreError),
}

/// The result of [`IndexedLog::extend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexProgress {
    /// The index ends here, and the log has enough events for another part.
    Behind(Position),
    /// The index ends here. The log has fewer further events than a part.
    Complete(Position),
}

/// A log whose searches use an index.
pub struct IndexedLog {
    log: Arc<dyn EventStore>,
    path: PathBuf,
    options: IndexOptions,
    /// A search has found damage, so [`IndexedLog::extend`] makes the index again.
    damaged: AtomicBool,
}

impl std::fmt::Debug for IndexedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexedLog").field("path", &self.path).finish_non_exhaustive()
    }
}

impl IndexedLog {
    /// The log, with the index in the file at `path`, which need not exist.
    pub fn new(log: Arc<dyn EventStore>, path: PathBuf, options: IndexOptions) -> Arc<Self> {
        Arc::new(Self { log, path, options, damaged: AtomicBool::new(false) })
    }

    /// Whether an index narrows the search for `criteria`.
    pub fn narrows(criteria: &Criteria) -> bool {
        IndexPlan::of(criteria).is_some()
    }

    /// Whether a search has found damage that [`IndexedLog::extend`] has not mended yet.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Adds at most one part to the index.
    pub async fn extend(&self) -> Result<IndexProgress, AuditIndexError> {
        if self.log.head().0 < self.options.part && !self.path.exists() {
            return Ok(IndexProgress::Complete(Position::START));
        }
        let (path, options) = (self.path.clone(), self.options);
        let end = match blocking(move || IndexFile::write(&path, &options)?.end()).await {
            Err(AuditIndexError::Damaged(reason)) => return self.reset(None, &reason).await,
            end => end?,
        };
        if self.damaged.swap(false, Ordering::Relaxed) {
            return self.reset(Some(end.index), "a search found damage").await;
        }
        if !self.is_of_log(&end).await? {
            return self.reset(Some(end.index), "it was made of another log").await;
        }
        let head = self.log.head().0;
        let size = match end.last.is_multiple_of(self.options.block) && head >= end.last + self.options.block {
            true => self.options.block,
            false => self.options.part,
        };
        let last = end.last + size;
        if head < last {
            return Ok(IndexProgress::Complete(Position(end.last)));
        }
        let part = self.build(&end, last).await?;
        if !self.is_of_log(&end).await? {
            return self.reset(Some(end.index), "it was made of another log").await;
        }
        let (path, options) = (self.path.clone(), self.options);
        let add = move || {
            let part = part.encode(end.index)?;
            IndexFile::write(&path, &options)?.add(&part, &end, &options)
        };
        match blocking(add).await {
            Err(AuditIndexError::Damaged(reason)) => self.reset(Some(end.index), &reason).await,
            added => added.map(|()| IndexProgress::Behind(Position(last))),
        }
    }

    /// The part of the events after `end` up to `last`.
    async fn build(&self, end: &IndexEnd, last: u64) -> Result<PartBuilder, AuditIndexError> {
        let (mut part, step) = (PartBuilder::new(end.last + 1, end.hash), self.options.part);
        while part.last < last {
            let most = usize::try_from((last - part.last).min(READ as u64)).unwrap_or(READ);
            let page = self.log.read_all(Position(part.last), most).await?;
            if page.is_empty() {
                return Err(
                    StoreError::Corrupt { position: part.last + 1, reason: "the event is missing".to_owned() }.into()
                );
            }
            part = blocking(move || {
                page.iter().try_for_each(|recorded| part.add(recorded, step))?;
                Ok(part)
            })
            .await?;
        }
        Ok(part)
    }

    /// Whether the index was made of this log. The chain's hash at its end stands for all events before. Another
    /// process may replace the index at any time, so the result is not cached.
    async fn is_of_log(&self, end: &IndexEnd) -> Result<bool, StoreError> {
        if end.last == 0 {
            return Ok(true);
        }
        // The index may end after the head that this process knows: another process has extended it.
        match self.log.read_at(&[Position(end.last)]).await {
            Ok(events) => Ok(events.first().is_some_and(|last| last.hash == Some(end.hash))),
            Err(StoreError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Empties the index with the id `index`. If the id could not be read, empties the file.
    async fn reset(&self, index: Option<u128>, reason: &str) -> Result<IndexProgress, AuditIndexError> {
        tracing::warn!(reason, "the index for audit queries is made again");
        let (path, options) = (self.path.clone(), self.options);
        blocking(move || IndexFile::reset(&path, &options, index)).await?;
        Ok(IndexProgress::Behind(Position::START))
    }

    /// Reads these events, up to the first one that cannot be read.
    async fn readable(&self, places: &[Position]) -> (Vec<Arc<Recorded>>, Result<(), StoreError>) {
        if let Ok(events) = self.log.read_at(places).await {
            return (events, Ok(()));
        }
        let mut events = Vec::new();
        for place in places {
            match self.log.read_at(&[*place]).await {
                Ok(read) => events.extend(read),
                Err(error) => return (events, Err(error)),
            }
        }
        (events, Ok(()))
    }

    /// The search by the index; `None` if the index does not help.
    async fn by_index(
        &self,
        after: Position,
        limit: usize,
        criteria: &Criteria,
        plan: IndexPlan,
    ) -> Result<Option<EventSearchResult>, AuditIndexError> {
        let head = self.log.head();
        let (path, options) = (self.path.clone(), self.options);
        let look = move || match IndexFile::read(&path, &options)? {
            Some(file) => candidates(&file, &plan, after.0).map(Some),
            None => Ok(None),
        };
        let Some(found) = blocking(look).await? else { return Ok(None) };
        let until = Position(found.until).min(head);
        if until <= after {
            return Ok(None);
        }
        if !self.is_of_log(&found.end).await? {
            return Ok(None);
        }
        let mut events: Vec<Arc<Recorded>> = Vec::new();
        for places in found.positions.chunks(limit.clamp(64, READ)) {
            let places: Vec<Position> = places.iter().map(|place| Position(*place)).filter(|at| *at <= until).collect();
            let (read, outcome) = self.readable(&places).await;
            for recorded in read {
                if !criteria.admits(&recorded) {
                    continue;
                }
                let at = recorded.position;
                events.push(recorded);
                if events.len() >= limit.max(1) {
                    return Ok(Some(EventSearchResult { events, until: at }));
                }
            }
            if let Err(error) = outcome {
                // The next search begins after the last match, and reports the error.
                let last = events.last().map(|last| last.position).ok_or(error)?;
                return Ok(Some(EventSearchResult { events, until: last }));
            }
        }
        Ok(Some(EventSearchResult { events, until }))
    }
}

/// Positions whose events may match.
struct FoundCandidates {
    end: IndexEnd,
    positions: Vec<u64>,
    /// No other event up to here matches.
    until: u64,
}

fn candidates(file: &IndexFile, plan: &IndexPlan, after: u64) -> Result<FoundCandidates, AuditIndexError> {
    let mut found = FoundCandidates { end: file.end()?, positions: Vec::new(), until: after };
    if found.end.last <= after {
        return Ok(found);
    }
    let mut parts = 0;
    file.each_part(after, |place, directory| {
        let set = select(file, &place, &directory, plan)?;
        let base = (place.first - 1) / part::LARGEST * part::LARGEST + 1;
        found.positions.extend(set.places().map(|at| base + u64::from(at)).filter(|at| *at > after));
        found.until = place.last;
        parts += 1;
        Ok(found.positions.len() < CANDIDATES && parts < PARTS)
    })?;
    Ok(found)
}

/// The events of a part that may match.
fn select(
    file: &IndexFile,
    place: &PartPlace,
    directory: &PartDirectory,
    plan: &IndexPlan,
) -> Result<PlaceSet, AuditIndexError> {
    let mut set = in_time(place, directory, plan);
    for filter in &plan.filters {
        if set.len() <= FEW {
            break;
        }
        set.intersect(&having(file, place, directory, filter)?);
    }
    Ok(set)
}

/// The events of a part, without the steps that lie outside the plan's time range.
fn in_time(place: &PartPlace, directory: &PartDirectory, plan: &IndexPlan) -> PlaceSet {
    let mut set = PlaceSet::none();
    let (first, count) = ((place.first - 1) % part::LARGEST, place.last - place.first + 1);
    let step = count.div_ceil(directory.times.len().max(1) as u64);
    for ((earliest, latest), nth) in directory.times.iter().zip(0_u64..) {
        let late_enough = plan.since.is_none_or(|Timestamp(since)| *latest >= since);
        if late_enough && plan.until.is_none_or(|Timestamp(until)| *earliest < until) {
            set.insert_range(first + nth * step..(first + (nth + 1) * step).min(first + count));
        }
    }
    set
}

/// The events that have one of the terms of a filter.
fn having(
    file: &IndexFile,
    place: &PartPlace,
    directory: &PartDirectory,
    filter: &IndexFilter,
) -> Result<PlaceSet, AuditIndexError> {
    let (mut set, terms) = (PlaceSet::none(), filter.terms(&directory.kinds, &directory.categories));
    for number in IndexFile::chunks_of(directory, &terms) {
        let chunk = file.chunk(place, number)?;
        for term in terms.iter().filter(|term| directory.chunk_of(**term) == Some(number)) {
            chunk.add_to(*term, &mut set);
        }
    }
    Ok(set)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuditIndexError> + Send + 'static,
) -> Result<T, AuditIndexError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| AuditIndexError::Io(error.to_string()))?
}

#[async_trait]
impl EventStore for IndexedLog {
    fn append_right(&self) -> Option<AppendRight> {
        self.log.append_right()
    }

    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        self.log.append(stream, expected, events).await
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.log.read_stream(stream, after, limit).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.log.read_all(after, limit).await
    }

    async fn read_at(&self, positions: &[Position]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.log.read_at(positions).await
    }

    async fn first_event(&self) -> Result<Option<EventId>, StoreError> {
        self.log.first_event().await
    }

    /// If the index cannot be used, the log alone answers. A search changes no index.
    async fn search(
        &self,
        after: Position,
        limit: usize,
        criteria: &Criteria,
    ) -> Result<EventSearchResult, StoreError> {
        if let Some(plan) = IndexPlan::of(criteria) {
            match self.by_index(after, limit, criteria, plan).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(AuditIndexError::Log(error)) => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "searching without the index");
                    if matches!(error, AuditIndexError::Damaged(_)) {
                        self.damaged.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        self.log.search(after, limit, criteria).await
    }

    fn subscribe(&self, after: Position) -> Subscription {
        self.log.subscribe(after)
    }

    fn head(&self) -> Position {
        self.log.head()
    }

    async fn anchor(&self) -> Result<Option<Anchor>, StoreError> {
        self.log.anchor().await
    }

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        self.log.keys()
    }

    fn holds(&self) -> Result<LegalHolds, StoreError> {
        self.log.holds()
    }

    async fn forget(&self, streams: &[StreamId]) -> Result<(), StoreError> {
        self.log.forget(streams).await
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        self.log.load_snapshot(stream).await
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        self.log.save_snapshot(stream, snapshot).await
    }
}
