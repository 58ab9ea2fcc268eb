//! The file: its layout, its version, and the checks before it is used.
//!
//! `user_version` is the version of the layout. A change of any table, or of the checksum, is a new version with a
//! migration in [`super::migrate`]. A file of a newer version is refused unread.
//!
//! Side tables store each stream name and kind once. Otherwise each row and the index would repeat a name of 45 bytes.
//! Auditors read the view `audit_events`, which combines everything as text.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use super::by_stream::{self, UnindexedEvents};
use super::data_file::DataFile;
use super::lock::LogLock;
use super::row::{signed, unsigned};
use super::seals::{Seals, WalRemains};
use super::witness::{Witness, WitnessNote};
use super::{SqliteOptions, error, floor, migrate, reader, snapshots, wal};
use crate::chain::{Anchor, Chain, EventHash};
use crate::envelope::Position;
use crate::store::StoreError;

/// "Chro", the magic number for `file(1)`.
const APPLICATION_ID: i32 = 0x4368_726f;
/// The version of the layout.
pub const FORMAT: u32 = 3;
/// The version of a file that does not have the first events any more ([`super::floor`]). The layout is the same, but
/// older programs would report the events as lost.
pub(super) const ARCHIVED: u32 = 4;
/// How many of the newest events the opening reads before it trusts the log.
const TRUST: u64 = 256;

const LAYOUT: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL) STRICT;
INSERT INTO head VALUES (1, 0);
CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE kinds (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE events (
    position INTEGER PRIMARY KEY,  -- 1, 2, 3, ... without gaps
    stream INTEGER NOT NULL REFERENCES streams (id),
    revision INTEGER NOT NULL,     -- 1, 2, 3, ... without gaps, per stream
    id BLOB NOT NULL,
    kind INTEGER NOT NULL REFERENCES kinds (id),
    version INTEGER NOT NULL,
    codec INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,  -- microseconds since 1970
    request_id TEXT,
    correlation BLOB NOT NULL,
    causation BLOB,
    -- An event comes from a user with project and roles, from a process, or from a part of the system.
    user TEXT,
    project TEXT,
    roles TEXT,                    -- JSON
    process BLOB,
    system TEXT,
    data BLOB NOT NULL,
    checksum INTEGER NOT NULL,     -- CRC-32 over all of the others
    hash BLOB NOT NULL             -- BLAKE3 over the event and the hash before it
) STRICT;
CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    state_version INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
";

/// The log as text, for auditors with a SQLite client.
const AUDIT: &str = "
CREATE VIEW audit_events AS SELECT
    e.position,
    strftime('%Y-%m-%dT%H:%M:%S', e.recorded_at / 1000000, 'unixepoch')
        || printf('.%06dZ', e.recorded_at % 1000000) AS recorded_at,
    s.name AS stream,
    e.revision,
    k.name AS kind,
    e.version,
    e.user,
    e.project,
    e.roles,
    $process AS process,
    e.system,
    e.request_id,
    $correlation AS correlation,
    $causation AS causation,
    $id AS id,
    e.codec,
    e.data,
    lower(hex(e.hash)) AS hash
FROM events e JOIN streams s ON s.id = e.stream JOIN kinds k ON k.id = e.kind;
";

pub(super) fn audit_view() -> String {
    let dashed = |column: &str| {
        let part = |from: u8, length: u8| format!("substr(hex(e.{column}), {from}, {length})");
        let parts = [part(1, 8), part(9, 4), part(13, 4), part(17, 4), part(21, 12)].join(" || '-' || ");
        format!("iif(e.{column} IS NULL, NULL, lower({parts}))")
    };
    ["process", "correlation", "causation", "id"]
        .iter()
        .fold(AUDIT.to_owned(), |sql, column| sql.replace(&format!("${column} "), &format!("{} ", dashed(column))))
}

/// A log that is open for writing.
pub(super) struct OpenedLog {
    pub(super) connection: Connection,
    pub(super) head: Anchor,
    pub(super) note: WitnessNote,
    pub(super) witness: Witness,
    pub(super) seals: Seals,
    pub(super) pending: UnindexedEvents,
    pub(super) path: PathBuf,
    pub(super) lock: LogLock,
    /// The last field, so that it is closed after the connection.
    pub(super) data: DataFile,
}

/// With the suffix `lock`, `log.db` becomes `log.db.lock`.
pub(super) fn beside(data: &Path, suffix: &str) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<OpenedLog, StoreError> {
    let path = &std::path::absolute(path).map_err(|e| io(path, &e))?;
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| io(folder, &e))?;
    }
    let remains = WalRemains::of(path);
    let lock = LogLock::take(path)?;
    let mut witness = Witness::beside(path);
    let note = witness.read();
    check_size(path, note)?;
    // This process opens the data file before SQLite does, and closes it after SQLite.
    let data = DataFile::create(path).map_err(|e| io(path, &e))?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // SQLite's last client moves the write-ahead log into the data file without sealing it. From here on this process
    // has the file open, so no other process can be the last client.
    let overtaken = remains.are_overtaken(path);
    let format = check_format(path, &connection)?;
    prepare(&connection, options).map_err(|e| error::explain(&e, 0))?;
    match format {
        None => {
            begin(&connection).map_err(|e| error::explain(&e, 0))?;
            sync_folder(path)?;
        }
        Some(1) => {
            migrate::from_1(&connection)?;
            migrate::from_2(&connection)?;
        }
        Some(2) => migrate::from_2(&connection)?,
        Some(_) => {}
    }
    let log = log_id(&connection)?;
    let head = check_head(&connection)?;
    check_note(&witness, note, log, head.position)?;
    sync_recovered(path)?;
    if let Err(error) = snapshots::drop_clear(&connection) {
        // The disk is probably full. No code uses an unencrypted snapshot, and the next start tries again.
        tracing::warn!(%error, "removing the unsealed snapshots failed; the next start tries again");
    }
    let known = note.filter(|note| note.log == log).map_or(0, |note| note.file);
    if let Err(error) = by_stream::extend(&connection, head.position) {
        if error::is_fatal(&error) {
            return Err(error::explain(&error, head.position.0));
        }
        // The disk is probably full. The existing events can still be read.
        tracing::warn!(%error, "updating the log's index by stream failed; retrying later");
    }
    let pending = UnindexedEvents::read(&connection).map_err(|e| error::explain(&e, head.position.0))?;
    let page_size: u32 =
        connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(|e| error::explain(&e, 0))?;
    let shared = data.share().map_err(|e| io(path, &e))?;
    let mut seals = Seals::open(path, shared, log, page_size, overtaken);
    let file = match checkpoint(&connection, path, &mut seals, true) {
        Ok(size) => size.unwrap_or(known),
        Err(error) => {
            // The disk is probably full. The existing events can still be read.
            tracing::warn!(%error, "moving the write-ahead log into the data file failed; retrying later");
            known
        }
    };
    let note = WitnessNote { log, head: head.position, file };
    witness.write(note);
    Ok(OpenedLog { connection, head, note, witness, seals, pending, path: path.clone(), lock, data })
}

/// Checks a log like [`open`] and changes nothing. Returns its head.
pub(super) fn open_read_only(path: &Path) -> Result<Anchor, StoreError> {
    let witness = Witness::beside(path);
    let note = witness.read();
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    check_current(path, &connection)?;
    let log = log_id(&connection)?;
    // One transaction, because the writer may be running. The note was read before, so it cannot be ahead of the log.
    let transaction = connection.unchecked_transaction().map_err(|e| error::explain(&e, 0))?;
    let head = check_head(&transaction)?;
    check_note(&witness, note, log, head.position)?;
    if let Err(error) = sync_recovered(path) {
        // On a read-only file system the sync fails, but these pages cannot be lost.
        tracing::debug!(%error, "the write-ahead log cannot be synced");
    }
    Ok(head)
}

/// Refuses a file that is not a log of the newest format, for callers that may not migrate it.
pub(super) fn check_current(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    match check_format(path, connection)? {
        Some(FORMAT | ARCHIVED) => Ok(()),
        Some(found) => Err(StoreError::OlderFormat { found, supported: FORMAT }),
        None => Err(StoreError::Io(format!("{} holds no log", path.display()))),
    }
}

/// Syncs the write-ahead log that a killed process left, because it may be only in the kernel's memory. It must be on
/// disk before readers see it.
fn sync_recovered(path: &Path) -> Result<(), StoreError> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    match File::open(&wal) {
        Ok(file) => file.sync_all().map_err(|e| io(path, &e)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io(path, &error)),
    }
}

/// Moves the write-ahead log into the data file and seals the pages. Empties the write-ahead log if `truncate` is set.
/// Returns the size of the data file; `None` if the write-ahead log was not moved, or not completely.
pub(super) fn checkpoint(
    connection: &Connection,
    path: &Path,
    seals: &mut Seals,
    truncate: bool,
) -> rusqlite::Result<Option<u64>> {
    let run = |mode: &str| {
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })
    };
    if !seals.may_change() {
        return Ok(None);
    }
    let (busy, frames, done) = run("PASSIVE")?;
    seals.renew(unsigned(done.max(0)));
    // A reader still uses an old part of the write-ahead log. SQLite moves the rest at a later checkpoint.
    if busy != 0 || frames != done {
        return Ok(None);
    }
    if truncate {
        run("TRUNCATE")?;
    }
    Ok(path.metadata().ok().map(|metadata| metadata.len()))
}

fn io(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Io(format!("{}: {error}", path.display()))
}

/// Checks the size before SQLite opens the file, because SQLite treats an empty file as a new one.
fn check_size(path: &Path, note: Option<WitnessNote>) -> Result<(), StoreError> {
    let Some(note) = note else {
        return Ok(());
    };
    let size = path.metadata().map_or(0, |metadata| metadata.len());
    if size < note.file {
        return Err(StoreError::Corrupt {
            position: 0,
            reason: format!("{} has {size} bytes, but had {}: it was truncated", path.display(), note.file),
        });
    }
    Ok(())
}

pub(super) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(folder) => File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| io(folder, &e)),
        None => Ok(()),
    }
}

pub(super) fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    match connect_to(path, access) {
        Err(error) if access == OpenFlags::SQLITE_OPEN_READ_ONLY && is_at_rest(path, &error) => {
            let access = access | OpenFlags::SQLITE_OPEN_URI;
            connect_to(Path::new(&immutable(path)), access).map_err(|e| error::explain(&e, 0))
        }
        connected => connected.map_err(|e| error::explain(&e, 0)),
    }
}

fn connect_to(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // An auditor's client may hold a lock for a moment.
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(32);
    // A refused log stays unchanged, with all evidence.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // SQLite opens the files only at its first read.
    connection.query_row("PRAGMA user_version", [], |_| Ok(()))?;
    Ok(connection)
}

/// Whether the file can be read as immutable, because nobody writes it. Readers of a write-ahead log share an index in
/// a file, which cannot be created on read-only media. But if there is no write-ahead log, there is no writer.
fn is_at_rest(path: &Path, error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    let cannot = matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly));
    cannot && path.exists() && wal::path_of(path).metadata().map_or(true, |wal| wal.len() == 0)
}

/// The path as a URI that declares the file immutable (<https://www.sqlite.org/uri.html>).
fn immutable(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            other => {
                // Writing to a `String` cannot fail.
                let _ = write!(uri, "%{other:02x}");
            }
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// The format of the log in this file; `None` if there is no log. Writes nothing.
fn check_format(path: &Path, connection: &Connection) -> Result<Option<u32>, StoreError> {
    let ask = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|e| error::explain(&e, 0));
    let (application, format) = (ask("PRAGMA application_id")?, ask("PRAGMA user_version")?);
    if application == 0 && format == 0 && ask("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(None);
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(StoreError::Io(format!("{} is a database of another program", path.display())));
    }
    match u32::try_from(format) {
        Ok(found @ 1..=ARCHIVED) => Ok(Some(found)),
        Ok(found) if found > ARCHIVED => Err(StoreError::NewerFormat { found, supported: ARCHIVED }),
        _ => Err(StoreError::Corrupt { position: 0, reason: format!("file format {format} never existed") }),
    }
}

pub(super) fn prepare(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        tracing::error!(mode, "the file system of the log does not allow a write-ahead log");
        return Err(rusqlite::Error::InvalidQuery);
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    // The writer decides when to checkpoint: between batches, not inside a commit.
    connection.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
    connection.pragma_update(None, "cache_size", -65_536)?;
    // The content of a deleted snapshot must disappear from its page.
    connection.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
    // The writer knows that its references are valid. Checking them would cost a third of the time of each event.
    connection.pragma_update(None, "foreign_keys", false)?;
    if let Some(pages) = options.max_pages {
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    }
    Ok(())
}

pub(super) fn begin(connection: &Connection) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(LAYOUT)?;
    transaction.execute_batch(by_stream::LAYOUT)?;
    transaction.execute_batch(&audit_view())?;
    transaction.execute("INSERT INTO meta VALUES ('log_id', ?1)", [Uuid::new_v4().as_bytes().as_slice()])?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

pub(super) fn log_id(connection: &Connection) -> Result<Uuid, StoreError> {
    let bytes: Vec<u8> = connection
        .query_row("SELECT value FROM meta WHERE key = 'log_id'", [], |row| row.get(0))
        .map_err(|e| error::explain(&e, 0))?;
    Uuid::from_slice(&bytes)
        .map_err(|_| StoreError::Corrupt { position: 0, reason: "the id of the log is damaged".to_owned() })
}

/// Each transaction with events also writes the head row, so the row reveals events that are missing at the end.
fn check_head(connection: &Connection) -> Result<Anchor, StoreError> {
    let (head, floor) = (reader::head(connection)?, floor::anchor(connection)?);
    let last: Option<i64> = connection
        .query_row("SELECT max(position) FROM events", [], |row| row.get(0))
        .map_err(|e| error::explain(&e, head.0))?;
    let last = last.map_or(floor.position.0, unsigned);
    if last != head.0 {
        return Err(StoreError::Corrupt {
            position: last.min(head.0) + 1,
            reason: format!("the last event is at {last}, but {} events were written", head.0),
        });
    }
    let kinds = reader::kinds(connection)?;
    // This check does not read the archive, so that a log opens without it.
    let from = Position(head.0.saturating_sub(TRUST)).max(floor.position);
    let newest = reader::read_all(connection, &kinds, from, usize::MAX, head)?;
    let mut chain: Option<Chain> = (from == floor.position).then_some(Chain::after(floor.hash));
    for event in &newest {
        // Earlier events are not checked here.
        let Some(chain) = &mut chain else {
            chain = event.hash.map(Chain::after);
            continue;
        };
        if !chain.accepts(event) {
            return Err(StoreError::Corrupt { position: event.position.0, reason: reader::BROKEN.to_owned() });
        }
    }
    Ok(Anchor { position: head, hash: chain.unwrap_or(Chain::after(EventHash::START)).head })
}

fn check_note(witness: &Witness, note: Option<WitnessNote>, log: Uuid, head: Position) -> Result<(), StoreError> {
    match note {
        Some(note) if note.log != log => {
            tracing::warn!(
                path = %witness.path().display(),
                "ignoring the note of how far the log reached: it is about another log"
            );
            Ok(())
        }
        Some(note) if note.head > head => Err(StoreError::Corrupt {
            position: head.0 + 1,
            reason: format!(
                "the log ends at {head} and once reached {}: its end is lost (if an older copy was put back on purpose, \
                 remove {})",
                note.head,
                witness.path().display()
            ),
        }),
        _ => Ok(()),
    }
}

/// Converts a limit for SQL.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts a position for SQL.
pub(super) fn bound(position: u64) -> i64 {
    signed(position.min(unsigned(i64::MAX)))
}
