//! Verifies a log, and reports the position of each damage.
//!
//! There are several checks. Each finds damage that the others cannot find:
//!
//! * the **pages** of the data file against their seals ([`super::seals`]): any flipped bit, also outside of events;
//! * the **write-ahead log**, and the **note** of how far the log reached: a lost end;
//! * **SQLite's own structures** (`PRAGMA integrity_check`): trees, indexes, free lists;
//! * the **events**: checksum, chain, positions and revisions without gaps. Each payload is decoded. A payload of the
//!   plain codec and of the newest version is encoded again, and must have the same bytes;
//! * the **archive**, if the file does not have the first events any more: its events, checked like those of the file;
//!   the seam between archive and file; and the entries of the archived events in the index by stream;
//! * the **snapshots**;
//! * **anchors** that were stored elsewhere: an attacker who can write the file can forge all of the above, but not
//!   these.
//!
//! A verification writes nothing. A writer may append meanwhile; its later appends are not checked. Several threads
//! check the events, each with its own connection. If SQLite cannot open the log, its pages are still checked.

mod pages;
mod rows;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::data_file::DataFile;
use super::row::{Kinds, unsigned};
use super::witness::NoteState;
use super::{floor, reader, schema};
use crate::chain::{Anchor, EventHash};
use crate::envelope::{Position, StreamId};
use crate::store::StoreError;

/// The progress of a verification. The caller keeps a clone, and reads it during the verification.
#[derive(Debug, Clone, Default)]
pub struct VerifyProgress(Arc<(AtomicU64, AtomicU64)>);

impl VerifyProgress {
    /// Counts events that were checked.
    pub(crate) fn add(&self, events: u64) {
        self.0.0.fetch_add(events, Ordering::Relaxed);
    }

    /// Sets the number of events of the log.
    pub(crate) fn expect(&self, events: u64) {
        self.0.1.store(events, Ordering::Relaxed);
    }

    /// The number of checked events, and of all events. The second is 0 until the log is open.
    pub fn now(&self) -> (u64, u64) {
        (self.0.0.load(Ordering::Relaxed), self.0.1.load(Ordering::Relaxed))
    }
}

/// The scope of a verification, and its number of threads.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Anchors that were stored elsewhere.
    pub against: Vec<Anchor>,
    /// The number of threads that check events.
    pub threads: usize,
    /// The largest number of reported damages. Those of a lost disk would fill the terminal.
    pub limit: usize,
    /// Whether only files, pages and anchors are checked, as fast as the disk reads. If the seals are current, such a
    /// check finds any flipped bit, but no forged event.
    pub quick: bool,
    pub progress: VerifyProgress,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { against: Vec::new(), threads, limit: 20, quick: false, progress: VerifyProgress::default() }
    }
}

/// Damage: a place in the log that differs from the written state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogDamage {
    /// The damaged event, or the first event on the damaged page.
    pub position: Option<Position>,
    pub stream: Option<StreamId>,
    /// The number of the page in the data file, from 1.
    pub page: Option<u64>,
    pub what: String,
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "position {position}")?;
            if let Some(stream) = &self.stream {
                write!(f, " ({stream})")?;
            }
            write!(f, ": ")?;
        }
        f.write_str(&self.what)
    }
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// The end of the verified part; `None` if it cannot be read.
    pub head: Option<Anchor>,
    pub events: u64,
    pub streams: u64,
    pub snapshots: u64,
    /// The number of pages that were compared with a seal.
    pub pages: u64,
    /// The last event that got its hash from a migration, and not at its append.
    pub chained_until: Position,
    /// The anchors that match the log.
    pub anchors: Vec<Anchor>,
    pub damages: Vec<LogDamage>,
    /// Whether there is more damage than reported.
    pub more: bool,
    /// Parts that could not be checked, with the reason, and other messages for operators.
    pub remarks: Vec<String>,
}

impl Verification {
    /// Whether no damage was found.
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty()
    }
}

/// Collects damage from several threads.
struct Findings {
    limit: usize,
    damages: Mutex<Vec<LogDamage>>,
    more: AtomicBool,
}

impl Findings {
    fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), damages: Mutex::default(), more: AtomicBool::new(false) }
    }

    /// Adds a damage. Returns whether the damage was added.
    fn add(&self, damage: LogDamage) -> bool {
        let mut damages = self.damages.lock().unwrap_or_else(PoisonError::into_inner);
        if damages.len() >= self.limit {
            self.more.store(true, Ordering::Relaxed);
            return false;
        }
        damages.push(damage);
        true
    }

    fn of_log(&self, what: impl Into<String>) -> bool {
        self.add(LogDamage { position: None, stream: None, page: None, what: what.into() })
    }

    fn is_full(&self) -> bool {
        self.more.load(Ordering::Relaxed)
    }
}

/// Verifies the log at `path`. An error means that it could not be verified. Damage is not an error.
pub fn verify(path: &Path, options: &VerifyOptions) -> Result<Verification, StoreError> {
    let path = std::path::absolute(path).map_err(|e| StoreError::Io(format!("{}: {e}", path.display())))?;
    // The file stays open until all connections are closed.
    let data = DataFile::open(&path).map_err(|e| StoreError::Io(format!("{}: {e}", path.display())))?;
    let findings = Findings::new(options.limit);
    let mut found = Verification::default();
    let bad_pages = pages::check(&path, &data, &findings, &mut found);
    pages::check_write_ahead(&path, &mut found);
    match check_database(&path, options, &findings, &mut found) {
        Ok(()) => {}
        Err(StoreError::Corrupt { position, reason } | StoreError::ArchiveAway { position, reason }) => {
            let position = (position > 0).then_some(Position(position));
            findings.add(LogDamage { position, stream: None, page: None, what: reason });
        }
        // SQLite reports a damaged file with many different errors. So if a page is wrong, any error is damage.
        Err(error) if !bad_pages.is_empty() => {
            findings.of_log(error.to_string());
        }
        Err(error) => return Err(error),
    }
    found.more = findings.more.into_inner();
    found.damages = findings.damages.into_inner().unwrap_or_else(PoisonError::into_inner);
    let head = found.head.map_or(Position(u64::MAX), |head| head.position);
    add_pages(&path, &data, &bad_pages, head, options.limit.max(1), &mut found);
    // Damages that name an event come first.
    found.damages.sort_by_key(|damage| (damage.position.is_none(), damage.page.is_some(), damage.position));
    Ok(found)
}

/// Adds damaged pages. Half of the report is reserved for pages, however many events are damaged. The position of a
/// page on the disk helps an operator most. Only the reported pages are looked up (their table and events), because a
/// lost disk has too many.
fn add_pages(path: &Path, data: &DataFile, bad: &[u64], head: Position, limit: usize, found: &mut Verification) {
    let room = limit.saturating_sub(found.damages.len()).max(limit.div_ceil(2));
    let reported = bad.get(..room).unwrap_or(bad);
    found.more |= reported.len() < bad.len() || found.damages.len() + reported.len() > limit;
    found.damages.truncate(limit - reported.len());
    found.damages.extend(pages::locate(path, data, reported, head));
}

/// Checks everything that SQLite has to read.
fn check_database(
    path: &Path,
    options: &VerifyOptions,
    findings: &Findings,
    found: &mut Verification,
) -> Result<(), StoreError> {
    let note = super::witness::Witness::look(path);
    let connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    schema::check_current(path, &connection)?;
    let log = schema::log_id(&connection)?;
    let head = reader::head(&connection)?;
    check_note(note, log, head, findings, found);
    let explain = |e: rusqlite::Error| super::error::explain(&e, 0);
    let last: Option<i64> =
        connection.query_row("SELECT max(position) FROM events", [], |row| row.get(0)).map_err(explain)?;
    let floor = floor::anchor(&connection)?.position;
    let last = last.map_or(floor.0, unsigned);
    if last < head.0 {
        let what = format!("the last event is at {last}, but {head} events were written");
        findings.add(LogDamage { position: Some(Position(last + 1)), stream: None, page: None, what });
    }
    found.chained_until = chained_until(&connection).map_err(explain)?;
    if floor != Position::START {
        let (address, how) = (floor::address(&connection)?, if options.quick { " (not checked)" } else { "" });
        found.remarks.push(format!("positions 1 to {floor} are in the archive in {address}{how}"));
    }
    if !options.quick {
        options.progress.expect(head.0);
        check_contents(path, head, options, findings, found)?;
        rows::check_index(&connection, findings)?;
        check_archive(&connection, floor, findings)?;
        rows::check_snapshots(&connection, findings, found)?;
    }
    let kinds = reader::kinds(&connection)?;
    let hash = rows::hash_at(&connection, &kinds, head)?;
    found.head = hash.map(|hash| Anchor { position: head, hash });
    for anchor in &options.against {
        check_anchor(&connection, &kinds, *anchor, head, findings, found)?;
    }
    Ok(())
}

/// Checks SQLite's structures and the events at the same time.
fn check_contents(
    path: &Path,
    head: Position,
    options: &VerifyOptions,
    findings: &Findings,
    found: &mut Verification,
) -> Result<(), StoreError> {
    let structures = std::thread::scope(|scope| {
        let structures = scope.spawn(|| check_structures(path, findings));
        rows::check(path, head, options, findings, found);
        structures.join()
    });
    structures.map_err(|_| StoreError::Io("the check of the file's structure failed".to_owned()))?
}

/// Checks the files of the archive that has the events up to the floor. Some bits of a file change no event.
fn check_archive(connection: &Connection, floor: Position, findings: &Findings) -> Result<(), StoreError> {
    if floor == Position::START {
        return Ok(());
    }
    let cold = match floor::open(connection) {
        Ok(cold) => cold,
        Err(error) => {
            findings.of_log(error.to_string());
            return Ok(());
        }
    };
    match cold.changed_files(floor.0) {
        Ok(changed) => {
            for path in changed {
                findings.of_log(format!("{}: the file is not as it was written", path.display()));
            }
        }
        Err(fault) => {
            findings.of_log(fault.to_string());
        }
    }
    Ok(())
}

fn chained_until(connection: &Connection) -> rusqlite::Result<Position> {
    let sql = "SELECT value FROM meta WHERE key = 'chained_until'";
    let found: Option<i64> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(Position(found.map_or(0, unsigned)))
}

fn check_note(note: NoteState, log: uuid::Uuid, head: Position, findings: &Findings, found: &mut Verification) {
    match note {
        NoteState::Missing => {
            found.remarks.push("there is no note of how far the log once reached (log.db.witness)".to_owned());
        }
        NoteState::Damaged => {
            findings.of_log("the note of how far the log reached (log.db.witness) is damaged");
        }
        NoteState::Says(note) if note.log != log => {
            findings.of_log("the note of how far the log reached (log.db.witness) is about another log");
        }
        NoteState::Says(note) if note.head > head => {
            let what = format!("the log ends at {head} and once reached {}: its end is lost", note.head);
            findings.add(LogDamage { position: Some(Position(head.0 + 1)), stream: None, page: None, what });
        }
        NoteState::Says(_) => {}
    }
}

fn check_structures(path: &Path, findings: &Findings) -> Result<(), StoreError> {
    let connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let limit = findings.limit.min(10);
    let read = || {
        let mut statement = connection.prepare(&format!("PRAGMA integrity_check({limit})"))?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.collect::<rusqlite::Result<Vec<String>>>()
    };
    match read() {
        Ok(problems) => {
            for problem in problems.iter().filter(|problem| *problem != "ok") {
                findings.of_log(format!("the file's structure: {problem}"));
            }
        }
        Err(error) => {
            findings.of_log(format!("the file's structure: {error}"));
        }
    }
    Ok(())
}

fn check_anchor(
    connection: &Connection,
    kinds: &Kinds,
    anchor: Anchor,
    head: Position,
    findings: &Findings,
    found: &mut Verification,
) -> Result<(), StoreError> {
    if anchor.position > head {
        let what = format!("the log ends at {head}, before the anchor at {}", anchor.position);
        findings.add(LogDamage { position: Some(anchor.position), stream: None, page: None, what });
        return Ok(());
    }
    let hash = match anchor.position {
        Position::START => Some(EventHash::START),
        position => rows::hash_at(connection, kinds, position)?,
    };
    if hash == Some(anchor.hash) {
        found.anchors.push(anchor);
        return Ok(());
    }
    let hash = hash.map_or_else(|| "missing".to_owned(), |hash| hash.to_string());
    let what =
        format!("the anchor says {} and the hash is {hash}: the log is not the one that was anchored", anchor.hash);
    findings.add(LogDamage { position: Some(anchor.position), stream: None, page: None, what });
    Ok(())
}
