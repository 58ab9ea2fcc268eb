//! Moves the first events of a log out of its file, into an archive that has them already.
//!
//! The move has steps of some thousand events. Each step compares the events of the archive with those of the file, and
//! then one transaction removes them from the file and raises the [`super::floor`]. So a crash at any moment leaves a
//! whole log: a step was done or it was not. The next move goes on where the last one stopped. Appends and reads go on
//! meanwhile.
//!
//! The file does not become smaller. Later events use the space of the removed ones.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::floor::{self, FloorStep};
use super::row::{Kinds, unsigned};
use super::writer::WriteJob;
use super::{KeptSnapshot, PartStream, ReadOnlyLog, SqliteStore, by_stream, error, reader, snapshots};
use crate::archive::cold::ColdEvents;
use crate::chain::Anchor;
use crate::envelope::{Position, StreamId};
use crate::ids::EventId;
use crate::place::{FilePlace, PlaceAddress};
use crate::store::{EventStore as _, StoreError};

/// The number of events that one transaction removes.
pub const STEP: u64 = 4_096;
/// The approximate number of bytes of these events.
pub(super) const STEP_BYTES: usize = 4_096 * 305;

/// How fast a move goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovePace {
    /// The number of events between two pauses; at least 1.
    pub batch: u64,
    /// The pause, in which others have the disk.
    pub pause: Duration,
}

impl Default for MovePace {
    /// Without pauses.
    fn default() -> Self {
        Self { batch: u64::MAX, pause: Duration::ZERO }
    }
}

/// The sizes of a log's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSize {
    /// The bytes of the pages that hold something.
    pub used: u64,
    /// The bytes of the pages that later events will use.
    pub free: u64,
}

/// The part of a log that is in the archive alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedPart {
    /// Its last event.
    pub end: Anchor,
    /// The address of the archive; `None` if the file has all events.
    pub archive: Option<PlaceAddress>,
    /// The noted id of the log's first event; `None` if an older program has moved the events.
    pub first: Option<EventId>,
}

impl SqliteStore {
    /// The part of the log that is in the archive alone.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn archived(&self) -> Result<ArchivedPart, StoreError> {
        self.readers.run(|connection, _| archived(connection)).await
    }

    /// The sizes of the log's file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn size(&self) -> Result<LogSize, StoreError> {
        self.readers.run(|connection, _| size(connection)).await
    }

    /// The streams with an event after `after` up to `until`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn streams_between(&self, after: Position, until: Position) -> Result<Vec<PartStream>, StoreError> {
        let read = move |connection: &Connection, _: &Kinds| {
            let _snapshot = floor::snapshot(connection)?;
            let floor = floor::position(connection)?;
            by_stream::streams(connection, floor, (after.0, until.0)).map_err(|e| error::explain(&e, 0))
        };
        self.readers.run(read).await
    }

    /// The streams that have or had a snapshot. Those that were forgotten for ever are left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn kept_snapshots(&self) -> Result<Vec<KeptSnapshot>, StoreError> {
        let keys = Arc::clone(&self.keys);
        self.readers.run(move |connection, _| snapshots::kept(connection, &keys)).await
    }

    /// Removes snapshots that nobody needs any more.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn forget_for_ever(&self, streams: Vec<StreamId>) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.submit(WriteJob::Forget { streams, for_ever: true, reply }, answer).await?
    }

    /// Removes the events up to `to` from the file. The archive in `place` must have them; from now on the log reads
    /// them there. After each step, `tell` gets the position that was reached, and may end the move. Returns the last
    /// event that is in the archive alone.
    ///
    /// # Errors
    /// The archive lacks an event or has another one, or the file cannot be written. Earlier steps are done.
    pub async fn move_to_archive(
        &self,
        to: Position,
        place: Arc<dyn FilePlace>,
        tell: impl FnMut(Position) -> ControlFlow<()>,
    ) -> Result<Anchor, StoreError> {
        self.move_at_pace(to, place, MovePace::default(), tell).await
    }

    /// Like [`Self::move_to_archive`], with pauses. No step goes beyond the end of a batch. At the end of a batch,
    /// `tell` is called after the pause.
    ///
    /// # Errors
    /// As for [`Self::move_to_archive`].
    pub async fn move_at_pace(
        &self,
        to: Position,
        place: Arc<dyn FilePlace>,
        pace: MovePace,
        mut tell: impl FnMut(Position) -> ControlFlow<()>,
    ) -> Result<Anchor, StoreError> {
        if to > self.tail.head() {
            return Err(StoreError::Io(format!("the log ends at position {}, before {to}", self.tail.head())));
        }
        let mut at = self.archived().await?.end;
        let to = to.max(at.position);
        if to == Position::START {
            return Ok(at);
        }
        let archive = floor::note_of(&self.path, place.address())?;
        let cold = Arc::new(ColdEvents::new(place));
        // A call that only notes another place moves no event.
        let moves = to > at.position;
        let checked = Arc::clone(&cold);
        let durable = tokio::task::spawn_blocking(move || checked.make_durable(to.0)).await;
        durable.map_err(|error| StoreError::Io(error.to_string()))??;
        let first = if moves { self.first_event().await? } else { None };
        let mut left = pace.batch.max(1);
        loop {
            let (begin, cold) = (at, Arc::clone(&cold));
            let next = Position(to.0.min(begin.position.0 + STEP.min(left)));
            at = self.readers.run(move |connection, kinds| compare(connection, kinds, &cold, begin, next)).await?;
            let (reply, answer) = oneshot::channel();
            let step = FloorStep { to: at, archive: archive.clone(), first };
            self.submit(WriteJob::Archived { step, reply }, answer).await??;
            left = left.saturating_sub(at.position.0 - begin.position.0);
            if left == 0 && at.position < to {
                left = pace.batch.max(1);
                if !pace.pause.is_zero() {
                    tokio::time::sleep(pace.pause).await;
                }
            }
            // After the pause, because a hold may have been set meanwhile.
            if tell(at.position).is_break() || at.position >= to {
                return Ok(at);
            }
        }
    }
}

impl ReadOnlyLog {
    /// The part of the log that is in the archive alone.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn archived(&self) -> Result<ArchivedPart, StoreError> {
        self.readers.run(|connection, _| archived(connection)).await
    }

    /// The sizes of the log's file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn size(&self) -> Result<LogSize, StoreError> {
        self.readers.run(|connection, _| size(connection)).await
    }
}

fn archived(connection: &Connection) -> Result<ArchivedPart, StoreError> {
    let _snapshot = floor::snapshot(connection)?;
    let end = floor::anchor(connection)?;
    let archive = if end.position == Position::START { None } else { Some(floor::address(connection)?) };
    Ok(ArchivedPart { end, archive, first: floor::first_event(connection)? })
}

fn size(connection: &Connection) -> Result<LogSize, StoreError> {
    let ask = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(unsigned);
    let read = || {
        let (page, free) = (ask("PRAGMA page_size")?, ask("PRAGMA freelist_count")?);
        let used = ask("PRAGMA page_count")?.saturating_sub(free);
        Ok::<_, rusqlite::Error>(LogSize { used: used.saturating_mul(page), free: free.saturating_mul(page) })
    };
    read().map_err(|e| error::explain(&e, 0))
}

/// Compares the events after `begin` up to `to` in the archive with those in the file. Returns the last one. If there
/// are none, the event at `begin` is compared.
fn compare(
    connection: &Connection,
    kinds: &Kinds,
    cold: &ColdEvents,
    begin: Anchor,
    to: Position,
) -> Result<Anchor, StoreError> {
    if to == begin.position {
        let same = cold.event(to.0, None)?.hash == Some(begin.hash);
        return if same { Ok(begin) } else { Err(floor::foreign(cold, to)) };
    }
    let mut at = begin;
    while at.position < to {
        let archived = cold.read(at.position.0, to.0, None)?;
        let kept = reader::read_all(connection, kinds, at.position, archived.len(), to)?;
        if kept.len() != archived.len() {
            return Err(StoreError::Io(format!("the log ends before position {to}")));
        }
        for (archived, kept) in archived.iter().zip(&kept) {
            match kept.hash {
                Some(hash) if archived.hash == Some(hash) && archived.position == kept.position => {
                    at = Anchor { position: kept.position, hash };
                }
                _ => return Err(floor::foreign(cold, kept.position)),
            }
        }
    }
    Ok(at)
}
