//! Reading: a few read-only connections on blocking threads, and the queries.
//!
//! A missing row is an error: positions or revisions have a gap, or there are fewer rows than the head says. There is
//! one exception. If the index by stream lacks the last events of a stream, a read of the stream does not notice this;
//! a verification does.
//!
//! Events up to the [`super::floor`] are read from the archive.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Rows};
use tokio::sync::Semaphore;

use super::data_file::DataFile;
use super::floor::{self, ArchiveReader};
use super::row::{COLUMNS, Kinds, RowReader, unsigned};
use super::schema::{bound, connect, limit as sql_limit};
use super::{by_stream, error};
use crate::chain::{Chain, EventHash};
use crate::envelope::{Position, Recorded, Revision, StreamId};
use crate::ids::EventId;
use crate::sealed::keys::KeyRing;
use crate::store::StoreError;

/// One connection and its cache of kind names.
struct LogReader {
    connection: Connection,
    kinds: Kinds,
}

/// The connections that read.
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<LogReader>>,
    places: Arc<Semaphore>,
    count: u32,
    closed: AtomicBool,
    keys: Arc<KeyRing>,
    archive: ArchiveReader,
    // The last field, so that it is closed after the connections.
    _data: DataFile,
}

impl Readers {
    pub(super) fn new(path: &Path, data: DataFile, count: usize, keys: &Arc<KeyRing>) -> Arc<Self> {
        let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        Arc::new(Self {
            path: path.to_owned(),
            idle: Mutex::default(),
            places: Arc::new(Semaphore::new(count as usize)),
            count,
            closed: AtomicBool::new(false),
            keys: Arc::clone(keys),
            archive: ArchiveReader::default(),
            _data: data,
        })
    }

    /// Runs `query` with a connection on a blocking thread.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection, &Kinds) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let this = Arc::clone(self);
        let work = move || {
            let _place = place;
            let mut reader = this.take()?;
            reader.learn_kinds()?;
            let answer = query(&reader.connection, &reader.kinds);
            this.give_back(reader);
            answer
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(answer) => answer,
            Err(_) if self.closed.load(Ordering::SeqCst) => Err(StoreError::Closed),
            Err(failure) => Err(StoreError::Io(format!("a reader of the log failed: {failure}"))),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<LogReader>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Result<LogReader, StoreError> {
        if let Some(reader) = self.idle().pop() {
            return Ok(reader);
        }
        let connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(LogReader { connection, kinds: Kinds::with_keys(&self.keys, &self.archive) })
    }

    fn give_back(&self, reader: LogReader) {
        if !self.closed.load(Ordering::SeqCst) {
            self.idle().push(reader);
        }
    }

    /// Waits for unfinished reads and refuses later ones.
    pub(super) async fn close(&self) {
        // An error means that another caller has already closed the readers.
        let _ = self.places.acquire_many(self.count).await;
        self.closed.store(true, Ordering::SeqCst);
        self.places.close();
        self.idle().clear();
    }
}

impl LogReader {
    /// Reads new kinds. A kind is added before the first event that needs it, and is never changed or removed.
    fn learn_kinds(&mut self) -> Result<(), StoreError> {
        let known = i64::try_from(self.kinds.len()).unwrap_or(i64::MAX);
        let newest: i64 = self
            .connection
            .prepare_cached("SELECT coalesce(max(id), 0) FROM kinds")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|e| error::explain(&e, 0))?;
        if newest != known {
            let (keys, archive) = (self.kinds.keys.take(), self.kinds.archive.clone());
            self.kinds = Kinds { keys, archive, ..kinds(&self.connection)? };
        }
        Ok(())
    }
}

pub(super) fn kinds(connection: &Connection) -> Result<Kinds, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached("SELECT id, name FROM kinds")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, Arc::from(row.get_ref(1)?.as_str()?))))?;
        rows.collect::<rusqlite::Result<Kinds>>()
    };
    read().map_err(|e| error::explain(&e, 0))
}

pub(super) fn head(connection: &Connection) -> Result<Position, StoreError> {
    connection
        .prepare_cached("SELECT position FROM head")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map(|position| Position(unsigned(position)))
        .map_err(|e| error::explain(&e, 0))
}

/// Reads at most `limit` events after `after` and up to `until`.
pub(super) fn read_all(
    connection: &Connection,
    kinds: &Kinds,
    after: Position,
    limit: usize,
    until: Position,
) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let mut events = Vec::new();
    read_each(connection, kinds, after, limit, until, |event| {
        events.push(Arc::new(event));
        Ok(())
    })?;
    Ok(events)
}

/// The id of the log's first event, if there is one up to `until`.
pub(super) fn first_event(
    connection: &Connection,
    kinds: &Kinds,
    until: Position,
) -> Result<Option<EventId>, StoreError> {
    let _snapshot = floor::snapshot(connection)?;
    if let Some(noted) = floor::first_event(connection)? {
        return Ok(Some(noted));
    }
    Ok(read_all(connection, kinds, Position::START, 1, until)?.first().map(|first| first.id))
}

/// Calls `each` with the events after `after` and up to `until`, at most `limit` of them. A missing event is an error.
fn read_each(
    connection: &Connection,
    kinds: &Kinds,
    after: Position,
    limit: usize,
    until: Position,
    mut each: impl FnMut(Recorded) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let _snapshot = floor::snapshot(connection)?;
    // The head is read first, so that later appends are beyond it.
    let head = head(connection)?.min(until);
    let last = head.0.min(after.0.saturating_add(limit as u64));
    let mut expected = after.0;
    let floor = floor::anchor(connection)?;
    while expected < last.min(floor.position.0) {
        let cold = floor::archive(connection, kinds)?;
        for event in cold.read(expected, last.min(floor.position.0), kinds.keys.as_ref())? {
            expected = event.position.0;
            if expected == floor.position.0 && event.hash != Some(floor.hash) {
                return Err(floor::foreign(&cold, floor.position));
            }
            each(event)?;
        }
    }
    let after = Position(expected);
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN streams s ON s.id = e.stream \
         WHERE e.position > ?1 AND e.position <= ?2 ORDER BY e.position"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(|e| error::explain(&e, after.0 + 1))?;
    let mut rows = statement.query([bound(after.0), bound(last)]).map_err(|e| error::explain(&e, after.0 + 1))?;
    let mut reader = RowReader::new(kinds);
    // The loop does not read beyond the last row, because the next row may be damaged.
    while expected < last {
        let Some(event) = next(&mut rows, &mut reader, expected.saturating_add(1))? else { break };
        expected += 1;
        if event.position.0 != expected {
            return Err(missing(expected));
        }
        each(event)?;
    }
    if expected < last { Err(missing(expected + 1)) } else { Ok(()) }
}

/// Reads the events at these positions.
pub(super) fn read_at(
    connection: &Connection,
    kinds: &Kinds,
    positions: &[Position],
) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let _snapshot = floor::snapshot(connection)?;
    let floor = floor::position(connection)?;
    let sql = format!("SELECT {COLUMNS} FROM events e LEFT JOIN streams s ON s.id = e.stream WHERE e.position = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(|e| error::explain(&e, 0))?;
    let (mut reader, mut events) = (RowReader::new(kinds), Vec::with_capacity(positions.len()));
    for position in positions {
        if position.0 <= floor {
            events.push(Arc::new(floor::archive(connection, kinds)?.event(position.0, kinds.keys.as_ref())?));
            continue;
        }
        let mut rows = statement.query([bound(position.0)]).map_err(|e| error::explain(&e, position.0))?;
        let event = next(&mut rows, &mut reader, position.0)?.ok_or_else(|| missing(position.0))?;
        events.push(Arc::new(event));
    }
    Ok(events)
}

pub(super) fn next(
    rows: &mut Rows<'_>,
    reader: &mut RowReader<'_>,
    position: u64,
) -> Result<Option<Recorded>, StoreError> {
    match rows.next().map_err(|e| error::explain(&e, position))? {
        Some(row) => reader.read(row, position).map(Some),
        None => Ok(None),
    }
}

pub(super) fn missing(position: u64) -> StoreError {
    StoreError::Corrupt { position, reason: "the event is missing".to_owned() }
}

/// Reads at most `limit` events of a stream. `rest` has the positions of events that the index may lack, and the
/// position of the newest durable event. Without `rest` the table is searched for those events.
pub(super) fn read_stream(
    connection: &Connection,
    kinds: &Kinds,
    stream: &StreamId,
    after: Revision,
    limit: usize,
    rest: Option<(Vec<Position>, Position)>,
) -> Result<Vec<Arc<Recorded>>, StoreError> {
    let explain = |e: rusqlite::Error| error::explain(&e, 0);
    // One transaction, so that the index and the events that it lacks belong together.
    let transaction = connection.unchecked_transaction().map_err(explain)?;
    let number: Option<i64> = transaction
        .prepare_cached("SELECT id FROM streams WHERE name = ?1")
        .and_then(|mut statement| statement.query_row([stream.as_str()], |row| row.get(0)).optional())
        .map_err(explain)?;
    let Some(number) = number else {
        return Ok(Vec::new());
    };
    let indexed = by_stream::until(&transaction).map_err(explain)?;
    let (pending, until) = match rest {
        Some(rest) => rest,
        None => (by_stream::look(&transaction, number, after, indexed).map_err(explain)?, Position::END),
    };
    let mut events = StreamEvents { stream, reader: RowReader::new(kinds), revision: after.0, found: Vec::new() };
    let floor = floor::position(&transaction)?;
    if floor > 0 {
        for position in by_stream::below(&transaction, number, after, (floor, limit)).map_err(explain)? {
            events.add(floor::archive(&transaction, kinds)?.event(position.0, kinds.keys.as_ref())?)?;
        }
    }
    let (after, room) = (Revision(events.revision), limit - events.found.len());
    let sql = format!(
        "SELECT {COLUMNS} FROM events_by_stream i LEFT JOIN events e ON e.position = i.position \
         LEFT JOIN streams s ON s.id = e.stream \
         WHERE i.stream = ?1 AND i.revision > ?2 AND i.position <= ?4 ORDER BY i.revision LIMIT ?3"
    );
    let mut statement = transaction.prepare_cached(&sql).map_err(explain)?;
    let mut rows = statement.query([number, bound(after.0), sql_limit(room), bound(until.0)]).map_err(explain)?;
    events.take(&mut rows)?;
    let sql = format!("SELECT {COLUMNS} FROM events e LEFT JOIN streams s ON s.id = e.stream WHERE e.position = ?1");
    let mut statement = transaction.prepare_cached(&sql).map_err(explain)?;
    for position in pending.into_iter().filter(|position| *position > indexed && *position <= until) {
        if events.found.len() >= limit {
            break;
        }
        let mut rows = statement.query([bound(position.0)]).map_err(explain)?;
        events.take(&mut rows)?;
    }
    Ok(events.found)
}

/// The events of one stream, without gaps.
struct StreamEvents<'a> {
    stream: &'a StreamId,
    reader: RowReader<'a>,
    revision: u64,
    found: Vec<Arc<Recorded>>,
}

impl StreamEvents<'_> {
    fn take(&mut self, rows: &mut Rows<'_>) -> Result<(), StoreError> {
        loop {
            let position = self.found.last().map_or(0, |event| event.position.0 + 1);
            let Some(event) = next(rows, &mut self.reader, position)? else {
                return Ok(());
            };
            self.add(event)?;
        }
    }

    fn add(&mut self, event: Recorded) -> Result<(), StoreError> {
        self.revision += 1;
        if event.revision.0 != self.revision || event.stream != *self.stream {
            let (stream, revision) = (self.stream, self.revision);
            let reason = format!(
                "{stream} continues with revision {} of {} instead of {revision}",
                event.revision.0, event.stream
            );
            return Err(StoreError::Corrupt { position: event.position.0, reason });
        }
        self.found.push(Arc::new(event));
        Ok(())
    }
}

/// The error for an intact event that is not the original one.
pub(super) const BROKEN: &str = "the chain is broken: the event is not the one that was appended here";

/// The counts of [`super::SqliteStore::verify`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    pub events: u64,
    pub streams: u64,
    pub head: Position,
}

pub(super) fn verify(connection: &Connection, kinds: &Kinds) -> Result<Verified, StoreError> {
    let problem: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(|e| error::explain(&e, 0))?;
    if problem != "ok" {
        return Err(StoreError::Corrupt { position: 0, reason: problem });
    }
    if let Some(reason) = by_stream::differences(connection, 1).map_err(|e| error::explain(&e, 0))?.pop() {
        return Err(StoreError::Corrupt { position: 0, reason });
    }
    let mut revisions: std::collections::HashMap<StreamId, u64> = std::collections::HashMap::new();
    let (mut events, mut head) = (0, Position::START);
    let mut chain = Chain::after(EventHash::START);
    read_each(connection, kinds, Position::START, usize::MAX, Position::END, |event| {
        if !chain.accepts(&event) {
            return Err(StoreError::Corrupt { position: event.position.0, reason: BROKEN.to_owned() });
        }
        let revision = revisions.entry(event.stream.clone()).or_default();
        *revision += 1;
        if event.revision.0 != *revision {
            let reason = format!("{} continues with revision {} instead of {revision}", event.stream, event.revision.0);
            return Err(StoreError::Corrupt { position: event.position.0, reason });
        }
        events += 1;
        head = event.position;
        Ok(())
    })?;
    Ok(Verified { events, streams: revisions.len() as u64, head })
}
