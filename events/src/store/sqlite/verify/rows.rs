//! Checks the events with several threads. Each thread takes the next part of the log.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::{Findings, LogDamage, Verification, VerifyOptions};
use crate::chain::{Anchor, EventContent, EventHash, link};
use crate::codec::BINCODE_2;
use crate::envelope::{Position, Recorded, StreamId};
use crate::sealed::keys::KeyRing;
use crate::sealed::{self, Personal};
use crate::store::StoreError;
use crate::store::sqlite::keys::SUFFIX;
use crate::store::sqlite::row::{COLUMNS, Kinds, RowReader, unsigned};
use crate::store::sqlite::schema::{beside, bound, connect};
use crate::store::sqlite::{by_stream, error, floor, reader};

/// The number of events in one part.
const PART: u64 = 8_192;

/// A stream within one part: its first position there, and its first and last revision.
#[derive(Debug, Clone, Copy)]
struct StreamStretch {
    position: Position,
    first: u64,
    last: u64,
}

#[derive(Debug, Default)]
struct VerifiedRows {
    events: u64,
    streams: HashMap<StreamId, StreamStretch>,
    /// The numbers of events with erased personal fields, and with lost keys.
    erased: u64,
    lost: u64,
}

/// Verifies every event up to `head`.
pub(super) fn check(
    path: &Path,
    head: Position,
    options: &VerifyOptions,
    findings: &Findings,
    found: &mut Verification,
) {
    let parts = head.0.div_ceil(PART);
    let next = AtomicU64::new(0);
    let done: Mutex<Vec<(u64, VerifiedRows)>> = Mutex::default();
    let work = || {
        let worker = match RowVerifier::open(path, findings) {
            Ok(worker) => worker,
            Err(error) => {
                findings.of_log(error.to_string());
                return;
            }
        };
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= parts || findings.is_full() {
                return;
            }
            let (after, last) = (number * PART, head.0.min((number + 1) * PART));
            let part = worker.check(after, last);
            options.progress.add(last - after);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, part));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.clamp(1, 64) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    let mut streams: HashMap<StreamId, u64> = HashMap::new();
    let (mut erased, mut lost) = (0, 0);
    for (_, part) in done {
        erased += part.erased;
        lost += part.lost;
        found.events += part.events;
        for (stream, stretch) in part.streams {
            let last = streams.entry(stream.clone()).or_default();
            if stretch.first != *last + 1 {
                let what = format!("{stream} continues with revision {} instead of {}", stretch.first, *last + 1);
                findings.add(LogDamage { position: Some(stretch.position), stream: Some(stream), page: None, what });
            }
            *last = stretch.last;
        }
    }
    found.streams = streams.len() as u64;
    if erased > 0 {
        found.remarks.push(format!("the personal fields of {erased} events were erased on purpose"));
    }
    if lost > 0 {
        let file = beside(path, SUFFIX);
        found.remarks.push(format!(
            "the personal fields of {lost} events cannot be read: their keys are not in {} (the events themselves are whole)",
            file.display()
        ));
    }
}

/// The state of one thread: its connection to the file.
struct RowVerifier<'a> {
    connection: Connection,
    kinds: Kinds,
    keys: Arc<KeyRing>,
    findings: &'a Findings,
}

impl<'a> RowVerifier<'a> {
    fn open(path: &Path, findings: &'a Findings) -> Result<Self, StoreError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let kinds = reader::kinds(&connection)?;
        let keys = KeyRing::open_read_only(beside(path, SUFFIX))?;
        Ok(Self { connection, kinds, keys, findings })
    }

    /// Checks the events after `after` up to `last`.
    fn check(&self, after: u64, last: u64) -> VerifiedRows {
        let mut part = VerifiedRows::default();
        // A writer may raise the floor meanwhile, so the whole part is read from one snapshot. An error here is
        // ignored, because the reads report it again.
        let _snapshot = floor::snapshot(&self.connection);
        let floor = floor::anchor(&self.connection).unwrap_or(Anchor::START);
        let mut before = match after {
            0 => Some(EventHash::START),
            _ => hash_at(&self.connection, &self.kinds, Position(after)).unwrap_or(None),
        };
        let mut at = after;
        if at < floor.position.0 {
            self.go_in_archive(&mut at, (last.min(floor.position.0), floor), &mut before, &mut part);
        }
        // This loop usually runs once. If SQLite cannot read a row, the loop continues with the next row.
        while at < last {
            let stopped = self.go(&mut at, last, &mut before, &mut part);
            if let Err(error) = stopped {
                at += 1;
                before = None;
                if !self.damaged(at, reason_of(error), &mut part) {
                    return part;
                }
            }
        }
        part
    }

    fn go(
        &self,
        at: &mut u64,
        last: u64,
        before: &mut Option<EventHash>,
        part: &mut VerifiedRows,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM events e LEFT JOIN streams s ON s.id = e.stream \
             WHERE e.position > ?1 AND e.position <= ?2 ORDER BY e.position"
        );
        let explain = |e: rusqlite::Error| error::explain(&e, 0);
        let mut statement = self.connection.prepare_cached(&sql).map_err(explain)?;
        let mut rows = statement.query([bound(*at), bound(last)]).map_err(explain)?;
        let mut reader = RowReader::new(&self.kinds);
        while let Some(row) = rows.next().map_err(explain)? {
            let position = row.get(0).map(unsigned).map_err(explain)?;
            while *at + 1 < position.min(last + 1) {
                *at += 1;
                *before = None;
                if !self.damaged(*at, "the event is missing".to_owned(), part) {
                    *at = last;
                    return Ok(());
                }
            }
            *at = position;
            part.events += 1;
            let stored = row.get_ref(17).ok().and_then(|hash| hash.as_blob().ok()).and_then(EventHash::from_slice);
            match reader.read(row, position).and_then(|event| Self::judge(&event, *before).map(|()| event)) {
                Ok(event) => self.count(&event, part),
                Err(error) => {
                    let reason = reason_of(error);
                    if !self.damaged(position, reason, part) {
                        *at = last;
                        return Ok(());
                    }
                }
            }
            *before = stored;
        }
        while *at < last {
            *at += 1;
            if !self.damaged(*at, "the event is missing".to_owned(), part) {
                *at = last;
            }
        }
        Ok(())
    }

    /// Checks the events after `at` up to `last`, which are in the archive alone.
    fn go_in_archive(
        &self,
        at: &mut u64,
        (last, floor): (u64, Anchor),
        before: &mut Option<EventHash>,
        part: &mut VerifiedRows,
    ) {
        while *at < last {
            let cold = match floor::archive(&self.connection, &self.kinds) {
                Ok(cold) => cold,
                Err(error) => {
                    let lost = (*at + 1, last);
                    self.damaged_archive(at, lost, error, part);
                    *before = None;
                    return;
                }
            };
            match cold.read(*at, last, None) {
                Ok(events) => {
                    for event in &events {
                        *at = event.position.0;
                        self.judge_archived(event, *before, floor, part);
                        *before = event.hash;
                    }
                }
                Err(error) => {
                    let first = match &error {
                        StoreError::Corrupt { position, .. } if *position > *at => *position,
                        _ => *at + 1,
                    };
                    let end = cold.end_of_part(*at + 1).unwrap_or(last).min(last);
                    self.damaged_archive(at, (first, end), error, part);
                    *before = None;
                }
            }
        }
    }

    /// Checks one event of the archive: chain, payload, the seam to the file, and the entry in the index by stream.
    fn judge_archived(&self, event: &Recorded, before: Option<EventHash>, floor: Anchor, part: &mut VerifiedRows) {
        part.events += 1;
        let corrupt = |reason: &str| StoreError::Corrupt { position: event.position.0, reason: reason.to_owned() };
        let judged = Self::judge(event, before).and_then(|()| {
            if event.position == floor.position && event.hash != Some(floor.hash) {
                return Err(corrupt("the archive does not end where the file begins"));
            }
            match by_stream::at(&self.connection, &event.stream, event.revision) {
                Ok(Some(position)) if position == event.position => Ok(()),
                Ok(_) => Err(corrupt("the index by stream does not have the archived event")),
                Err(error) => Err(error::explain(&error, event.position.0)),
            }
        });
        if let Err(error) = judged {
            self.damaged(event.position.0, reason_of(error), part);
        } else {
            self.count(event, part);
        }
    }

    /// Reports that the archive lacks events from `first` on, and goes on after `end`. The index by stream still has
    /// the places of all events up to `end`.
    fn damaged_archive(&self, at: &mut u64, (first, end): (u64, u64), error: StoreError, part: &mut VerifiedRows) {
        let places = by_stream::places(&self.connection, *at, end).unwrap_or_default();
        let stream = places.iter().find(|(position, ..)| position.0 == first).map(|(_, stream, _)| stream.clone());
        for (position, stream, revision) in &places {
            self.place(stream, revision.0, *position, part);
        }
        let rest = if first < end { format!(" (positions {first} to {end} cannot be checked)") } else { String::new() };
        self.findings.add(LogDamage {
            position: Some(Position(first)),
            stream,
            page: None,
            what: reason_of(error) + &rest,
        });
        *at = end.max(*at + 1);
    }

    /// Whether the event is the next one of the chain and its payload is readable.
    fn judge(event: &Recorded, before: Option<EventHash>) -> Result<(), StoreError> {
        let corrupt = |reason: String| StoreError::Corrupt { position: event.position.0, reason };
        if let Some(before) = before {
            let hash = link(&before, event.position, event.revision, &EventContent::of(event).hash());
            if event.hash != Some(hash) {
                return Err(corrupt(reader::BROKEN.to_owned()));
            }
        }
        let payload = event.event().map_err(|e| {
            let source = std::error::Error::source(&e).map_or(String::new(), |source| format!(": {source}"));
            corrupt(format!("{e}{source}"))
        })?;
        if event.codec != BINCODE_2 || event.version != payload.version() {
            return Ok(());
        }
        match payload.encode() {
            Ok(bytes) if bytes == event.data => Ok(()),
            _ => Err(corrupt(format!("{} v{} is not encoded as this program encodes it", event.kind, event.version))),
        }
    }

    fn count(&self, event: &Recorded, part: &mut VerifiedRows) {
        match sealed::state(Some(&self.keys), event.codec, &event.data) {
            Personal::Clear | Personal::Sealed => {}
            Personal::Erased => part.erased += 1,
            Personal::Lost => part.lost += 1,
        }
        self.place(&event.stream, event.revision.0, event.position, part);
    }

    fn place(&self, stream: &StreamId, revision: u64, position: Position, part: &mut VerifiedRows) {
        let Some(stretch) = part.streams.get_mut(stream) else {
            part.streams.insert(stream.clone(), StreamStretch { position, first: revision, last: revision });
            return;
        };
        if revision != stretch.last + 1 {
            let what = format!("{stream} continues with revision {revision} instead of {}", stretch.last + 1);
            self.findings.add(LogDamage { position: Some(position), stream: Some(stream.clone()), page: None, what });
        }
        stretch.last = revision;
    }

    /// Reports a changed event, whose stream comes from the index. Returns whether the damage was added to the report.
    fn damaged(&self, position: u64, what: String, part: &mut VerifiedRows) -> bool {
        let position = Position(position);
        let place = by_stream::place_of(&self.connection, position);
        if let Some((stream, revision)) = &place {
            self.place(stream, revision.0, position, part);
        }
        self.findings.add(LogDamage {
            position: Some(position),
            stream: place.map(|(stream, _)| stream),
            page: None,
            what,
        })
    }
}

/// Why an event is damaged. The finding already names its position.
fn reason_of(error: StoreError) -> String {
    match error {
        StoreError::Corrupt { reason, .. } | StoreError::ArchiveAway { reason, .. } => reason,
        other => other.to_string(),
    }
}

pub(super) fn hash_at(
    connection: &Connection,
    kinds: &Kinds,
    position: Position,
) -> Result<Option<EventHash>, StoreError> {
    // A writer may raise the floor meanwhile, so all reads are from one snapshot.
    let _snapshot = floor::snapshot(connection)?;
    let floor = floor::anchor(connection)?;
    if position == floor.position {
        return Ok(Some(floor.hash));
    }
    if position < floor.position {
        return match position {
            Position::START => Ok(Some(EventHash::START)),
            Position(position) => Ok(floor::archive(connection, kinds)?.event(position, None)?.hash),
        };
    }
    let read = |row: &rusqlite::Row<'_>| Ok(EventHash::from_slice(row.get_ref(0)?.as_blob()?));
    connection
        .prepare_cached("SELECT hash FROM events WHERE position = ?1")
        .and_then(|mut statement| statement.query_row([bound(position.0)], read).optional())
        .map(Option::flatten)
        .map_err(|e| error::explain(&e, position.0))
}

/// Checks that the index by stream has every event that it should have, and no other.
pub(super) fn check_index(connection: &Connection, findings: &Findings) -> Result<(), StoreError> {
    let found = by_stream::differences(connection, findings.limit.min(10)).map_err(|e| error::explain(&e, 0))?;
    for difference in found {
        findings.of_log(difference);
    }
    Ok(())
}

/// Checks that snapshots are intact and not newer than their streams.
pub(super) fn check_snapshots(
    connection: &Connection,
    findings: &Findings,
    found: &mut Verification,
) -> Result<(), StoreError> {
    let explain = |e: rusqlite::Error| error::explain(&e, 0);
    let sql = "SELECT n.stream, n.revision, n.data, n.checksum, s.id \
               FROM snapshots n LEFT JOIN streams s ON s.name = n.stream ORDER BY n.id";
    let mut statement = connection.prepare(sql).map_err(explain)?;
    let mut rows = statement.query([]).map_err(explain)?;
    while let Some(row) = rows.next().map_err(explain)? {
        found.snapshots += 1;
        let read = || {
            let sum = crc32fast::hash(row.get_ref(2)?.as_blob()?);
            Ok::<_, rusqlite::Error>((row.get::<_, String>(0)?, unsigned(row.get(1)?), sum == row.get::<_, u32>(3)?))
        };
        let (stream, revision, whole) = read().map_err(explain)?;
        let reached = match row.get::<_, Option<i64>>(4).map_err(explain)? {
            // Only a few newest events are not in the index, so most snapshots need no search for these events.
            Some(number) => match by_stream::last(connection, number).map_err(explain)? {
                indexed if indexed >= revision => indexed,
                _ => by_stream::reached(connection, number).map_err(explain)?,
            },
            None => 0,
        };
        if !whole {
            findings.of_log(format!("the snapshot of {stream} is damaged"));
        } else if revision > reached {
            findings.of_log(format!(
                "the snapshot of {stream} is of revision {revision}, but the stream ends at revision {reached}"
            ));
        }
    }
    Ok(())
}
