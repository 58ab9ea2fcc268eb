//! The floor: the last event that is in the archive alone.
//!
//! The row `floor` of the table `meta` has its position, `floor_hash` its hash, and `archive` the archive's address. The
//! step that removes events from the file also raises the floor, in one transaction. So at every moment an event is in
//! the file, or it is at or below the floor. Readers take their rows and the floor from one snapshot of the file, and
//! read the events up to the floor from the archive. Each step also notes the id of the log's first event in the row
//! `first_event`: it names the installation, which each start needs to know.
//!
//! The index by stream and the names of streams keep their rows. So the events of a stream are found in the archive by
//! their positions, and revisions go on after the removed ones.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction};
use uuid::Uuid;

use super::row::{Kinds, signed, unsigned};
use super::schema::{ARCHIVED, bound};
use super::{by_stream, error};
use crate::archive::cold::ColdEvents;
use crate::chain::{Anchor, EventHash};
use crate::envelope::Position;
use crate::ids::EventId;
use crate::place::{self, PlaceAddress};
use crate::store::StoreError;

/// After a failed read, reads do not ask the archive for this time.
const PAUSE: Duration = Duration::from_secs(5);

/// Opens the archive once for all readers of a log.
#[derive(Debug, Clone, Default)]
pub(super) struct ArchiveReader(Arc<Mutex<Option<OpenedArchive>>>);

#[derive(Debug, Clone)]
struct OpenedArchive {
    cold: Arc<ColdEvents>,
    /// Whether the archive has the event at the floor.
    is_ours: bool,
}

/// One step of a removal: the new floor, and the archive that has the events up to it.
#[derive(Debug)]
pub(super) struct FloorStep {
    pub(super) to: Anchor,
    pub(super) archive: String,
    /// The id of the log's first event; `None` keeps the present note.
    pub(super) first: Option<EventId>,
}

/// A snapshot of the file for several queries, unless the caller has one already.
pub(super) fn snapshot(connection: &Connection) -> Result<Option<Transaction<'_>>, StoreError> {
    let begin = connection.is_autocommit().then(|| connection.unchecked_transaction());
    begin.transpose().map_err(|e| error::explain(&e, 0))
}

/// The floor's position.
pub(super) fn position(connection: &Connection) -> Result<u64, StoreError> {
    stored(connection).map_err(|e| error::explain(&e, 0))
}

/// The row of the floor; 0 without one.
fn stored(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = 'floor'")?;
    let position: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
    Ok(position.map_or(0, unsigned))
}

/// The floor, and the hash of its event; [`Anchor::START`] if the file has all events.
pub(super) fn anchor(connection: &Connection) -> Result<Anchor, StoreError> {
    let position = position(connection)?;
    if position == 0 {
        return Ok(Anchor::START);
    }
    let hash: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM meta WHERE key = 'floor_hash'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map_err(|e| error::explain(&e, position))?;
    let damaged =
        || StoreError::Corrupt { position, reason: "the hash at the floor of the file is damaged".to_owned() };
    let hash = hash.and_then(|bytes| EventHash::from_slice(&bytes)).ok_or_else(damaged)?;
    Ok(Anchor { position: Position(position), hash })
}

/// The noted id of the log's first event; `None` if the file has all events, or if an older program has moved some.
pub(super) fn first_event(connection: &Connection) -> Result<Option<EventId>, StoreError> {
    let noted: Option<Vec<u8>> = connection
        .prepare_cached("SELECT value FROM meta WHERE key = 'first_event'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map_err(|e| error::explain(&e, 1))?;
    let damaged = |_| StoreError::Corrupt { position: 1, reason: "the id of the first event is damaged".to_owned() };
    noted.map(|bytes| Uuid::from_slice(&bytes).map(EventId)).transpose().map_err(damaged)
}

/// The address of the archive that has the events up to the floor.
pub(super) fn address(connection: &Connection) -> Result<PlaceAddress, StoreError> {
    let text: String = connection
        .prepare_cached("SELECT value FROM meta WHERE key = 'archive'")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(|e| error::explain(&e, 0))?;
    Ok(match text.parse::<PlaceAddress>() {
        Ok(address @ PlaceAddress::S3(_)) => address,
        _ => PlaceAddress::Folder(beside(connection).join(text)),
    })
}

/// The folder of the log.
fn beside(connection: &Connection) -> &Path {
    connection.path().and_then(|path| Path::new(path).parent()).unwrap_or(Path::new(""))
}

/// Opens the archive that has the events up to the floor.
pub(super) fn open(connection: &Connection) -> Result<ColdEvents, StoreError> {
    let address = address(connection)?;
    let opened = place::open(&address, &beside(connection).join(place::LOCAL));
    // The message is the same as for an archive that cannot be read.
    let lost = |error: std::io::Error| StoreError::Io(format!("the archive cannot be read: {address}: {error}"));
    Ok(ColdEvents::new(opened.map_err(lost)?))
}

/// The note of an archive in the log at `path`. A folder beside the log is noted without its beginning, so that both
/// can be moved together.
pub(super) fn note_of(path: &Path, address: &PlaceAddress) -> Result<String, StoreError> {
    let Some(folder) = address.folder() else { return Ok(address.note()) };
    let io = |reason: &dyn std::fmt::Display| StoreError::Io(format!("{}: {reason}", folder.display()));
    let whole = std::path::absolute(folder).map_err(|error| io(&error))?;
    let inside = path.parent().and_then(|beside| whole.strip_prefix(beside).ok()).unwrap_or(&whole);
    inside.to_str().map(ToOwned::to_owned).ok_or_else(|| io(&"the name is not UTF-8"))
}

/// The archive of this log. The first call compares it with the floor, so that the archive of another log is refused.
pub(super) fn archive(connection: &Connection, kinds: &Kinds) -> Result<Arc<ColdEvents>, StoreError> {
    let address = address(connection)?;
    let opened = || kinds.archive.0.lock().unwrap_or_else(PoisonError::into_inner);
    let known = opened().clone().filter(|known| *known.cold.address() == address);
    let cold = match known {
        Some(OpenedArchive { cold, is_ours: true }) => return Ok(cold),
        Some(OpenedArchive { cold, is_ours: false }) => cold,
        None => Arc::new(open(connection)?.sparing(PAUSE)),
    };
    // No lock is held during this read, because an object store may be slow and other readers must not wait.
    let floor = anchor(connection)?;
    let read = cold.event(floor.position.0, None);
    // An archive that is away is kept, because it counts the time until it is asked again.
    let is_ours = read.as_ref().is_ok_and(|event| event.hash == Some(floor.hash));
    let is_away = matches!(read, Err(StoreError::ArchiveAway { .. }));
    *opened() = (is_ours || is_away).then(|| OpenedArchive { cold: Arc::clone(&cold), is_ours });
    match read {
        Ok(_) if !is_ours => Err(foreign(&cold, floor.position)),
        // A damaged part of the archive does not hide its other parts. The next read looks again.
        Ok(_) | Err(StoreError::Corrupt { .. }) => Ok(cold),
        Err(error) => Err(error),
    }
}

/// The error for an archive that has another event at the floor.
pub(super) fn foreign(cold: &ColdEvents, position: Position) -> StoreError {
    let reason = format!("the archive in {} is of another log, or was changed", cold.address());
    StoreError::Corrupt { position: position.0, reason }
}

/// Removes the events up to `step.to` from the file, within the transaction of the caller. Does nothing if a faster
/// move has raised the floor above `step.to`. A lower floor would be wrong, because the file no longer has the events
/// up to the higher one.
pub(super) fn raise(connection: &Connection, step: &FloorStep) -> rusqlite::Result<()> {
    let to = step.to.position;
    if stored(connection)? > to.0 {
        return Ok(());
    }
    by_stream::add(connection, to)?;
    connection.prepare_cached("DELETE FROM events WHERE position <= ?1")?.execute([bound(to.0)])?;
    let put = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    let mut put = connection.prepare_cached(put)?;
    put.execute(rusqlite::params!["floor", signed(to.0)])?;
    put.execute(rusqlite::params!["floor_hash", step.to.hash.0.as_slice()])?;
    put.execute(rusqlite::params!["archive", step.archive])?;
    if let Some(first) = step.first {
        put.execute(rusqlite::params!["first_event", first.0.as_bytes().as_slice()])?;
    }
    connection.pragma_update(None, "user_version", ARCHIVED)
}
