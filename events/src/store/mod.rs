//! The event store: the trait and its back ends.
//!
//! Invariants of every back end (see [`conformance`]): an acknowledged append is durable. The revisions of a stream are
//! 1, 2, 3, ... without gaps, and positions grow. If events have hashes, the hashes form one chain ([`crate::chain`]).
//! A subscriber sees every event once, in the order of positions.
//!
//! A control plane and the operators' commands run on SQLite or PostgreSQL only. Positions there have no gaps, so a
//! difference of positions is a number of events. Positions on an EventStoreDB server have gaps.

pub mod audit_index;
pub mod conformance;
pub mod criteria;
pub mod eventstoredb;
pub mod faulty;
pub mod levels;
pub mod memory;
pub mod postgres;
mod sealed_snapshots;
pub mod sqlite;
pub mod tail;

use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;

use crate::chain::Anchor;
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::holds::LegalHolds;
use crate::ids::EventId;
use crate::sealed::keys::KeyRing;
use crate::sealed::{self, SealError, StoredPayload};
use criteria::{Criteria, EventSearchResult};
use tail::Subscription;

/// The expected revision of a stream at an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Exactly this revision; [`Revision::NONE`] for a stream that must not exist yet.
    Exact(Revision),
    /// Any revision.
    Any,
}

/// The end of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The revision of the last appended event.
    pub revision: Revision,
    /// The position of the last appended event.
    pub position: Position,
}

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// Nothing of the refused append was written. An operator must free disk space.
    #[error("the log's disk is full")]
    Full,
    /// Nothing of the refused append was written. The caller must send less.
    #[error("an event of {size} bytes exceeds the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    /// The bytes on disk differ from the written ones.
    #[error("the log is damaged at position {position}: {reason}")]
    Corrupt { position: u64, reason: String },
    /// Nothing is damaged. The event can be read again as soon as the archive can be read again.
    #[error("position {position} is in the archive alone: {reason}")]
    ArchiveAway { position: u64, reason: String },
    #[error("the log has file format {found}, newer than {supported}: use a newer version of chronova")]
    NewerFormat { found: u32, supported: u32 },
    #[error("the log has file format {found}, older than {supported}: `chronova serve` brings it up to date")]
    OlderFormat { found: u32, supported: u32 },
    #[error("the log at {path} is in use by another process{}", pid.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    Locked { path: String, pid: Option<u32> },
    #[error("the log cannot be read or written: {0}")]
    Io(String),
    #[error("the log is closed")]
    Closed,
    /// Nothing of the refused append was written, because some members could not read it.
    #[error("the log has level {level}, and {kind} cannot be written below level {needed}: upgrade all members")]
    BelowLevel { kind: String, needed: u16, level: u16 },
    #[error("the log has level {level}, and this version knows no level above {newest}: install the newer version")]
    NewerLevel { level: u16, newest: u16 },
    #[error(
        "this version does not know the event at position {position} ({kind} version {version}): install the newer version"
    )]
    UnknownEvent { position: u64, kind: String, version: u16 },
}

impl StoreError {
    /// The refusal to change a log that was opened for reading only.
    fn read_only() -> Self {
        Self::Io("the log was opened for reading only".to_owned())
    }
}

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// Another writer appended first. The caller must reload and decide again.
    #[error("stream {stream} is at revision {}, not {}", actual.0, expected.0)]
    Conflict { stream: StreamId, expected: Revision, actual: Revision },
    #[error("an event of {size} bytes exceeds the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("an event cannot be encoded: {0}")]
    Encode(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A cached state of one stream. The events are the truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSnapshot {
    pub revision: Revision,
    pub state_version: u32,
    pub bytes: Vec<u8>,
}

/// The proof that this process may append. Depending on the back end, the process holds the lock of the log's file,
/// holds the lease of the cluster, or needs neither.
#[derive(Debug)]
pub struct AppendRight(());

/// An append-only log of events in streams.
#[async_trait]
pub trait EventStore: Send + Sync + 'static {
    /// `None` while another process has the right to append, and in a log that is open for reading only.
    fn append_right(&self) -> Option<AppendRight> {
        None
    }

    /// Appends all of `events` to one stream, or nothing. Returns when they are durable.
    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError>;

    /// Reads up to `limit` events of `stream` after revision `after`.
    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError>;

    /// Reads up to `limit` events of the whole log after `after`, in order.
    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError>;

    /// Reads the events at these positions, which the log has. The positions are in order, each once.
    async fn read_at(&self, positions: &[Position]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let mut events = Vec::with_capacity(positions.len());
        for run in positions.chunk_by(|one, next| next.0 == one.0 + 1) {
            events.extend(self.read_all(Position(run[0].0.saturating_sub(1)), run.len()).await?);
        }
        Ok(events)
    }

    /// The id of the log's first event; `None` while the log is empty. This call does not read the archive if the log
    /// notes the id.
    async fn first_event(&self) -> Result<Option<EventId>, StoreError> {
        Ok(self.read_all(Position::START, 1).await?.first().map(|first| first.id))
    }

    /// Finds at most `limit` matching events after `after`. One call examines only a part of the log.
    async fn search(
        &self,
        after: Position,
        limit: usize,
        criteria: &Criteria,
    ) -> Result<EventSearchResult, StoreError> {
        Ok(criteria.select(after, limit, self.read_all(after, criteria::PAGE).await?))
    }

    /// Delivers all events after `after`, then new events as they are appended.
    fn subscribe(&self, after: Position) -> Subscription;

    /// The position of the newest event.
    fn head(&self) -> Position;

    /// The position and hash of the newest event. If both are stored elsewhere, they later prove all events up to this
    /// position. `None` in back ends without a hash chain.
    async fn anchor(&self) -> Result<Option<Anchor>, StoreError> {
        let head = self.head();
        if head == Position::START {
            return Ok(Some(Anchor::START));
        }
        let last = self.read_all(Position(head.0 - 1), 1).await?;
        Ok(last.first().and_then(|last| Some(Anchor { position: last.position, hash: last.hash? })))
    }

    /// The keys of personal fields; `None` in back ends that encrypt nothing.
    fn keys(&self) -> Option<&Arc<KeyRing>> {
        None
    }

    /// The legal holds on this log; none in back ends that keep no file beside the log.
    fn holds(&self) -> Result<LegalHolds, StoreError> {
        Ok(LegalHolds::default())
    }

    /// Drops all copies of the personal fields in these streams, in memory and on disk: snapshots and decoded events.
    /// The caller has already destroyed the keys.
    async fn forget(&self, _streams: &[StreamId]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError>;

    /// Stores a snapshot. The store may lose the snapshot or keep a newer one, because it is a cache, but never returns a
    /// wrong one.
    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError>;
}

/// Encodes the payload and seals it if there are `keys`. An error says why the event cannot be stored.
pub(crate) fn encode_payload(
    keys: Option<&Arc<KeyRing>>,
    stream: &StreamId,
    new: &NewEvent,
) -> Result<StoredPayload, AppendError> {
    encode_payload_as(keys, stream, new, new.event.version())
}

/// Like [`encode_payload`], in a version that can express the event.
pub(crate) fn encode_payload_as(
    keys: Option<&Arc<KeyRing>>,
    stream: &StreamId,
    new: &NewEvent,
    version: u16,
) -> Result<StoredPayload, AppendError> {
    let stored = sealed::encode(keys.map(Arc::as_ref), stream, &new.event, version)?;
    if stored.data.len() > crate::codec::MAX_PAYLOAD {
        return Err(AppendError::TooLarge { size: stored.data.len(), limit: crate::codec::MAX_PAYLOAD });
    }
    Ok(stored)
}

/// Creates the keys that [`encode_payload`] will need, on a thread that may wait for the disk.
pub(crate) async fn make_keys(
    keys: Option<&Arc<KeyRing>>,
    stream: &StreamId,
    events: &[NewEvent],
) -> Result<(), AppendError> {
    for new in events {
        if let Some(keys) = keys
            && sealed::needs_key(Some(keys), stream, &new.event)
            && let Some(subject) = sealed::fields::subject(stream, &new.event)
        {
            let keys = Arc::clone(keys);
            let made = tokio::task::spawn_blocking(move || keys.current(&subject).map(drop)).await;
            made.map_err(|error| StoreError::Io(error.to_string()))??;
        }
    }
    Ok(())
}

impl From<SealError> for StoreError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Keys { full: true, .. } => Self::Full,
            error => Self::Io(error.to_string()),
        }
    }
}

impl From<SealError> for AppendError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Encode(error) => Self::Encode(error.to_string()),
            error @ SealError::Keys { .. } => Self::Store(error.into()),
        }
    }
}

pub(crate) fn check_expected(stream: &StreamId, expected: Expected, actual: Revision) -> Result<(), AppendError> {
    match expected {
        Expected::Exact(revision) if revision != actual => {
            Err(AppendError::Conflict { stream: stream.clone(), expected: revision, actual })
        }
        _ => Ok(()),
    }
}
