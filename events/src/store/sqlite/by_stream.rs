//! The index of events by stream, and the events that it does not have yet.
//!
//! An index that each transaction updates costs a page for nearly every event, because concurrent streams lie far apart
//! in the index. So the index is a separate table that is updated later. The writer adds some thousand events at once,
//! in index order, and writes each page once for all of its new entries. Readers of this process find the remaining
//! events here, in memory. Other processes scan those few events.
//!
//! The index is complete up to a position that is stored with it. It holds only data of the events. So after a crash,
//! the missing entries are added when the log is opened. It also has the events that are in the archive alone
//! ([`super::floor`]).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension};

use super::row::{signed, unsigned};
use super::schema::bound;
use crate::envelope::{Position, Recorded, Revision, StreamId};

/// The number of events that the writer adds at once.
pub(super) const STEP: usize = 8_192;

pub(super) const LAYOUT: &str = "
CREATE TABLE events_by_stream (
    stream INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (stream, revision)
) STRICT, WITHOUT ROWID;
CREATE TABLE indexed (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL) STRICT;
INSERT INTO indexed VALUES (1, 0);
";

/// The position up to which the index is complete.
pub(super) fn until(connection: &Connection) -> rusqlite::Result<Position> {
    connection
        .prepare_cached("SELECT position FROM indexed")?
        .query_row([], |row| row.get(0))
        .map(|position| Position(unsigned(position)))
}

/// Adds the events up to `head`, in one transaction.
pub(super) fn extend(connection: &Connection, head: Position) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    add(&transaction, head)?;
    transaction.commit()
}

/// Adds the events up to `head`, within the transaction of the caller.
pub(super) fn add(connection: &Connection, head: Position) -> rusqlite::Result<()> {
    let from = until(connection)?;
    if from >= head {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT INTO events_by_stream SELECT stream, revision, position FROM events \
             WHERE position > ?1 AND position <= ?2 ORDER BY stream, revision",
        )?
        .execute([bound(from.0), bound(head.0)])?;
    connection.prepare_cached("UPDATE indexed SET position = ?1")?.execute([signed(head.0)]).map(drop)
}

/// The revision of the stream's last event in the index.
pub(super) fn last(connection: &Connection, stream: i64) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT coalesce(max(revision), 0) FROM events_by_stream WHERE stream = ?1")?
        .query_row([stream], |row| row.get(0))
        .map(unsigned)
}

/// The revision of the stream's last event, for readers without the list of unindexed events.
pub(super) fn reached(connection: &Connection, stream: i64) -> rusqlite::Result<u64> {
    let later = look(connection, stream, Revision::NONE, until(connection)?)?.len() as u64;
    Ok(last(connection, stream)? + later)
}

/// The positions of the stream's unindexed events after a revision. Scans all unindexed events.
pub(super) fn look(
    connection: &Connection,
    stream: i64,
    after: Revision,
    indexed: Position,
) -> rusqlite::Result<Vec<Position>> {
    connection
        .prepare_cached(
            "SELECT position FROM events WHERE position > ?1 AND stream = ?2 AND revision > ?3 ORDER BY revision",
        )?
        .query_map([bound(indexed.0), stream, bound(after.0)], |row| row.get(0).map(unsigned).map(Position))?
        .collect()
}

/// The positions of the stream's events after a revision that are at or below the floor, at most `limit` of them.
pub(super) fn below(
    connection: &Connection,
    stream: i64,
    after: Revision,
    (floor, limit): (u64, usize),
) -> rusqlite::Result<Vec<Position>> {
    let mut statement = connection.prepare_cached(
        "SELECT position FROM events_by_stream WHERE stream = ?1 AND revision > ?2 ORDER BY revision LIMIT ?3",
    )?;
    let mut rows = statement.query([stream, bound(after.0), super::schema::limit(limit)])?;
    let mut found = Vec::new();
    // Positions grow with revisions, so the first event above the floor ends the search.
    while let Some(row) = rows.next()? {
        match Position(unsigned(row.get(0)?)) {
            position if position.0 <= floor => found.push(position),
            _ => break,
        }
    }
    Ok(found)
}

/// A stream with events in a part of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartStream {
    pub stream: StreamId,
    /// Whether its first event is in the archive alone.
    pub is_archived: bool,
}

/// The streams with an event after `after` up to `until`. Reads the whole index for the part that is in the archive.
pub(super) fn streams(
    connection: &Connection,
    floor: u64,
    (after, until): (u64, u64),
) -> rusqlite::Result<Vec<PartStream>> {
    let mut numbers = BTreeSet::new();
    let mut add = |table: &str, from: u64, to: u64| {
        let sql = format!("SELECT DISTINCT stream FROM {table} WHERE position > ?1 AND position <= ?2");
        let mut statement = connection.prepare(&sql)?;
        for number in statement.query_map([bound(from), bound(to)], |row| row.get::<_, i64>(0))? {
            numbers.insert(number?);
        }
        Ok::<(), rusqlite::Error>(())
    };
    if after < floor {
        add("events_by_stream", after, until.min(floor))?;
    }
    add("events", after.max(floor), until)?;
    // If the first event of a stream is not indexed yet, the index has no position of it. Such an event is above the
    // floor.
    let mut named = connection.prepare_cached(
        "SELECT s.name, coalesce(i.position <= ?2, 0) FROM streams s \
         LEFT JOIN events_by_stream i ON i.stream = s.id AND i.revision = 1 WHERE s.id = ?1",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(PartStream { stream: StreamId::from_stored(row.get_ref(0)?.as_str()?), is_archived: row.get(1)? })
    };
    numbers.into_iter().map(|number| named.query_row([number, bound(floor)], read)).collect()
}

/// The position of a revision of a stream, from the index alone.
pub(super) fn at(connection: &Connection, stream: &StreamId, revision: Revision) -> rusqlite::Result<Option<Position>> {
    connection
        .prepare_cached(
            "SELECT i.position FROM streams s JOIN events_by_stream i ON i.stream = s.id AND i.revision = ?2 \
             WHERE s.name = ?1",
        )?
        .query_row(rusqlite::params![stream.as_str(), bound(revision.0)], |row| row.get(0).map(unsigned).map(Position))
        .optional()
}

/// The streams and revisions of the events after `after` up to `until`, from the index alone. Reads the whole index.
pub(super) fn places(
    connection: &Connection,
    after: u64,
    until: u64,
) -> rusqlite::Result<Vec<(Position, StreamId, Revision)>> {
    let sql = "SELECT i.position, s.name, i.revision FROM events_by_stream i JOIN streams s ON s.id = i.stream \
               WHERE i.position > ?1 AND i.position <= ?2 ORDER BY i.position";
    let read = |row: &rusqlite::Row<'_>| {
        let stream = StreamId::from_stored(row.get_ref(1)?.as_str()?);
        Ok((Position(unsigned(row.get(0)?)), stream, Revision(unsigned(row.get(2)?))))
    };
    connection.prepare(sql)?.query_map([bound(after), bound(until)], read)?.collect()
}

/// The stream and revision of an event, from the index alone.
pub(super) fn place_of(connection: &Connection, position: Position) -> Option<(StreamId, Revision)> {
    let sql =
        "SELECT s.name, i.revision FROM events_by_stream i JOIN streams s ON s.id = i.stream WHERE i.position = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        Ok((StreamId::from_stored(row.get_ref(0)?.as_str()?), Revision(unsigned(row.get(1)?))))
    };
    connection.query_row(sql, [signed(position.0)], read).optional().ok().flatten()
}

/// The differences between the index and the events: at most `limit` wrong entries, and a line if the number of entries
/// is wrong. The entries up to the floor are of events that the file does not have.
pub(super) fn differences(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<String>> {
    let transaction = connection.unchecked_transaction()?;
    let until = until(&transaction)?;
    let count: i64 = transaction.query_row("SELECT count(*) FROM events_by_stream", [], |row| row.get(0))?;
    let mut found = Vec::new();
    if unsigned(count) != until.0 {
        found.push(format!("the index by stream has {count} entries, but should reach position {until}"));
    }
    let mut wrong = transaction.prepare(
        "SELECT i.position, i.stream, i.revision FROM events_by_stream i LEFT JOIN events e ON e.position = i.position \
         WHERE i.position > coalesce((SELECT value FROM meta WHERE key = 'floor'), 0) \
         AND (e.stream IS NOT i.stream OR e.revision IS NOT i.revision) LIMIT ?1",
    )?;
    let mut rows = wrong.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    while let Some(row) = rows.next()? {
        let (position, stream, revision) = (row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?);
        found.push(format!(
            "the index by stream puts stream {stream}, revision {revision} at {position}, where the log has another \
             event"
        ));
    }
    Ok(found)
}

/// The events that the index does not have yet: revision and position, by stream.
#[derive(Debug, Default)]
pub(super) struct UnindexedEvents(Mutex<UnindexedRest>);

#[derive(Debug, Default)]
struct UnindexedRest {
    streams: HashMap<StreamId, Vec<(Revision, Position)>>,
    events: usize,
}

impl UnindexedEvents {
    /// Reads the events after the end of the index from the file.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut rest = UnindexedRest::default();
        let mut statement = connection.prepare(
            "SELECT s.name, e.revision, e.position FROM events e JOIN streams s ON s.id = e.stream \
             WHERE e.position > (SELECT position FROM indexed) ORDER BY e.position",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let stream = StreamId::from_stored(row.get_ref(0)?.as_str()?);
            rest.add(&stream, Revision(unsigned(row.get(1)?)), Position(unsigned(row.get(2)?)));
        }
        drop(rows);
        drop(statement);
        Ok(Self(Mutex::new(rest)))
    }

    fn rest(&self) -> MutexGuard<'_, UnindexedRest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds committed events. Returns the number of events that are not in the index.
    pub(super) fn add<'a>(&self, events: impl IntoIterator<Item = &'a Recorded>) -> usize {
        let mut rest = self.rest();
        for event in events {
            rest.add(&event.stream, event.revision, event.position);
        }
        rest.events
    }

    /// Forgets all events, because all of them are in the index now.
    pub(super) fn clear(&self) {
        *self.rest() = UnindexedRest::default();
    }

    pub(super) fn last(&self, stream: &StreamId) -> Option<Revision> {
        self.rest().streams.get(stream).and_then(|events| events.last()).map(|(revision, _)| *revision)
    }

    /// The positions of the stream's events after a revision, in the order of revisions.
    pub(super) fn after(&self, stream: &StreamId, after: Revision) -> Vec<Position> {
        let rest = self.rest();
        let events = rest.streams.get(stream).map_or(&[][..], Vec::as_slice);
        events.iter().filter(|(revision, _)| *revision > after).map(|(_, position)| *position).collect()
    }
}

impl UnindexedRest {
    fn add(&mut self, stream: &StreamId, revision: Revision, position: Position) {
        self.events += 1;
        match self.streams.get_mut(stream) {
            Some(events) => events.push((revision, position)),
            None => drop(self.streams.insert(stream.clone(), vec![(revision, position)])),
        }
    }
}
