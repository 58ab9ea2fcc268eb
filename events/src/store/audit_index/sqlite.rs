//! The file of the index, a SQLite database.
//!
//! The file is not synced, because syncs would delay the log on the same disk. So a power failure may damage the file.
//! (SQLite syncs only when it empties a damaged file.) The checksums of the parts show such damage, and the index is
//! made again. The file is opened for each use, so an index that somebody removed is not used any longer.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, TransactionBehavior, ffi};
use uuid::Uuid;

use super::part::{EncodedPart, PartBuilder, PartChunk, PartDirectory, PartPlace, StoredPart};
use super::terms::Term;
use super::{AuditIndexError, IndexOptions};
use crate::chain::EventHash;

/// "ChrI", the magic number for `file(1)`.
const APPLICATION_ID: i32 = 0x4368_7249;
/// The version of the file, of the parts and of the terms. An index of another version is made again. Raise it when a
/// term, a part or the layout changes. Otherwise, a search by new terms in an old index would miss events.
const FORMAT: i32 = 2;
/// A part's first position and a chunk's number make the chunk's key.
const NUMBERS: u32 = 20;

const LAYOUT: &str = "
CREATE TABLE form (one INTEGER PRIMARY KEY CHECK (one = 1), id BLOB NOT NULL, part INTEGER NOT NULL,
    block INTEGER NOT NULL) STRICT;
CREATE TABLE parts (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, directory BLOB NOT NULL) STRICT;
CREATE TABLE chunks (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
";

/// Where the index ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEnd {
    pub index: u128,
    /// The position of the last event in the index; 0 if it is empty.
    pub last: u64,
    /// The chain's hash at that event.
    pub hash: EventHash,
}

/// An open index.
pub(super) struct IndexFile {
    connection: Connection,
    index: u128,
}

impl From<rusqlite::Error> for AuditIndexError {
    fn from(error: rusqlite::Error) -> Self {
        use ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed, OutOfMemory,
            PermissionDenied, ReadOnly, SystemIoFailure,
        };
        let busy = matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked));
        let outside = match &error {
            rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
                SystemIoFailure => failure.extended_code != ffi::SQLITE_IOERR_SHORT_READ,
                DiskFull | CannotOpen | OutOfMemory | PermissionDenied | FileLockingProtocolFailed => true,
                // Another process crashed, or removed the file, and this process may not write here.
                ReadOnly => {
                    [ffi::SQLITE_READONLY_ROLLBACK, ffi::SQLITE_READONLY_DIRECTORY, ffi::SQLITE_READONLY_DBMOVED]
                        .contains(&failure.extended_code)
                }
                // A damaged file can have any other error: a table is missing, or a byte of the head says read-only.
                _ => false,
            },
            _ => false,
        };
        match outside {
            _ if busy => Self::Busy,
            true => Self::Io(error.to_string()),
            false => Self::Damaged(error.to_string()),
        }
    }
}

impl IndexFile {
    /// Opens the index for reading; `None` if there is none.
    pub(super) fn read(path: &Path, options: &IndexOptions) -> Result<Option<Self>, AuditIndexError> {
        if !path.exists() {
            return Ok(None);
        }
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // All that one search reads is of one moment. The transaction ends with the connection.
        connection.execute_batch("BEGIN")?;
        match form(&connection, options)? {
            IndexForm::Empty => Ok(None),
            IndexForm::Of(index) => Ok(Some(Self { connection, index })),
        }
    }

    /// Opens the index for writing. Creates one if there is none, or if the file cannot be used.
    pub(super) fn write(path: &Path, options: &IndexOptions) -> Result<Self, AuditIndexError> {
        create(path).map_err(|error| AuditIndexError::Io(format!("{}: {error}", path.display())))?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let index = match current(&connection, options, TransactionBehavior::Deferred) {
            Ok(Some(end)) => end.index,
            Ok(None) => begin(&connection, options)?,
            Err(AuditIndexError::Damaged(reason)) => {
                tracing::warn!(reason, "the index for audit queries is made again");
                clear(&connection, options, None)?;
                begin(&connection, options)?
            }
            Err(error) => return Err(error),
        };
        Ok(Self { connection, index })
    }

    /// Empties the index, or removes it if it cannot be emptied, so that it is made again. `index` is the id of the
    /// index that the caller has found unusable, if it could be read. Another process may have replaced that index.
    pub(super) fn reset(path: &Path, options: &IndexOptions, index: Option<u128>) -> Result<(), AuditIndexError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        match clear(&connection, options, index).and_then(|()| begin(&connection, options)) {
            Ok(_) => Ok(()),
            Err(AuditIndexError::Damaged(_)) => {
                std::fs::remove_file(path).map_err(|error| AuditIndexError::Io(format!("{}: {error}", path.display())))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn end(&self) -> Result<IndexEnd, AuditIndexError> {
        end(&self.connection, self.index)
    }

    /// Calls `each` for every part that ends after `after`, in order, until it returns `false`. The parts have no gaps,
    /// and the chain leads from each to the next.
    pub(super) fn each_part(
        &self,
        after: u64,
        mut each: impl FnMut(PartPlace, PartDirectory) -> Result<bool, AuditIndexError>,
    ) -> Result<(), AuditIndexError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT first, last, directory FROM parts \
             WHERE first >= coalesce((SELECT max(first) FROM parts WHERE first <= ?1), 0) ORDER BY first",
        )?;
        let mut rows = statement.query([sql(after.saturating_add(1))])?;
        let mut previous: Option<(u64, [u8; 32])> = None;
        while let Some(row) = rows.next()? {
            let (place, stored) = part(row, self.index)?;
            let directory = PartDirectory::read(&place, &stored)?;
            let follows = match previous {
                Some((last, hash)) => place.first == last + 1 && directory.before == hash,
                None => {
                    (1..=after + 1).contains(&place.first)
                        && (place.first > 1 || directory.before == EventHash::START.0)
                }
            };
            if !follows || place.last < place.first {
                let last = previous.map_or(after, |(last, _)| last);
                return Err(AuditIndexError::Damaged(format!("no part follows position {last}")));
            }
            previous = Some((place.last, directory.hash));
            if place.last > after && !each(place, directory)? {
                break;
            }
        }
        Ok(())
    }

    /// The first part that ends after `after`, as it is stored.
    pub(super) fn part_after(&self, after: u64) -> Result<Option<StoredPart>, AuditIndexError> {
        let mut found = None;
        self.each_part(after, |place, directory| {
            let count = u32::try_from(directory.chunks.len()).unwrap_or(u32::MAX);
            let chunks: Result<Vec<_>, _> = (0..count).map(|number| self.stored_chunk(&place, number)).collect();
            found = Some(StoredPart { place, directory, chunks: chunks? });
            Ok(false)
        })?;
        Ok(found)
    }

    pub(super) fn chunk(&self, place: &PartPlace, number: u32) -> Result<PartChunk, AuditIndexError> {
        PartChunk::read(place, number, self.stored_chunk(place, number)?)
    }

    fn stored_chunk(&self, place: &PartPlace, number: u32) -> Result<Vec<u8>, AuditIndexError> {
        let mut statement = self.connection.prepare_cached("SELECT data FROM chunks WHERE id = ?1")?;
        Ok(statement.query_row([key(place, number)], |row| row.get(0))?)
    }

    /// The chunks of these terms, each once. The terms are sorted.
    pub(super) fn chunks_of(directory: &PartDirectory, terms: &[Term]) -> Vec<u32> {
        let mut numbers: Vec<u32> = terms.iter().filter_map(|term| directory.chunk_of(*term)).collect();
        numbers.dedup();
        numbers
    }

    /// Adds a part, if the index still ends where `after` says. Parts that fill a block become one part.
    pub(super) fn add(
        &self,
        part: &EncodedPart,
        after: &IndexEnd,
        options: &IndexOptions,
    ) -> Result<(), AuditIndexError> {
        let transaction = rusqlite::Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        if self.end()? != *after {
            // Another process has added a part.
            return Ok(());
        }
        self.insert(part)?;
        if part.place.last.is_multiple_of(options.block) && part.place.first + options.part - 1 == part.place.last {
            self.merge(part.place.last - options.block + 1, part.place.last)?;
        }
        Ok(transaction.commit()?)
    }

    fn insert(&self, part: &EncodedPart) -> Result<(), AuditIndexError> {
        let mut statement = self.connection.prepare_cached("INSERT INTO chunks VALUES (?1, ?2)")?;
        for (number, chunk) in (0..).zip(&part.chunks) {
            statement.execute(rusqlite::params![key(&part.place, number), chunk])?;
        }
        let (first, last) = (part.place.first, part.place.last);
        let mut statement = self.connection.prepare_cached("INSERT INTO parts VALUES (?1, ?2, ?3)")?;
        statement.execute(rusqlite::params![sql(first), sql(last), part.directory])?;
        Ok(())
    }

    /// Replaces the parts from `first` to `last` by one.
    fn merge(&self, first: u64, last: u64) -> Result<(), AuditIndexError> {
        let mut merged: Option<PartBuilder> = None;
        self.each_part(first - 1, |place, directory| {
            let count = u32::try_from(directory.chunks.len()).unwrap_or(u32::MAX);
            let chunks: Result<Vec<_>, _> = (0..count).map(|number| self.chunk(&place, number)).collect();
            let merged = merged.get_or_insert_with(|| PartBuilder::new(first, EventHash(directory.before)));
            merged.add_part(&place, directory, &chunks?);
            Ok(true)
        })?;
        let Some(merged) = merged else {
            return Err(AuditIndexError::Damaged(format!("no part begins at position {first}")));
        };
        let (from, to) = (PartPlace { index: 0, first, last }, PartPlace { index: 0, first: last + 1, last });
        self.connection
            .prepare_cached("DELETE FROM chunks WHERE id >= ?1 AND id < ?2")?
            .execute([key(&from, 0), key(&to, 0)])?;
        self.connection
            .prepare_cached("DELETE FROM parts WHERE first >= ?1 AND first <= ?2")?
            .execute([sql(first), sql(last)])?;
        self.insert(&merged.encode(self.index)?)
    }
}

/// Creates the file if there is none. If a command of another user created the file, this user may not be able to write
/// to it; then a new file replaces it. Only SQLite opens an existing file. If this process closed a descriptor of that
/// file, the process would lose its locks on the file (fcntl(2)).
fn create(path: &Path) -> io::Result<()> {
    match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    if access(path, AccessFlags::R_OK | AccessFlags::W_OK) != Err(Errno::EACCES) {
        return Ok(());
    }
    std::fs::remove_file(path)?;
    create_new(path)
}

/// Creates the file for the owner of its folder, who runs the server.
fn create_new(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if let Some(folder) = path.parent().and_then(|folder| folder.metadata().ok()) {
        // Only root may change the owner. For any other user the call fails, and the file stays this user's.
        let _ = fchown(&file, Some(folder.uid()), Some(folder.gid()));
    }
    Ok(())
}

/// The key of a chunk.
fn key(place: &PartPlace, number: u32) -> i64 {
    sql((place.first << NUMBERS) | u64::from(number))
}

/// Converts a number for SQLite, whose integers are signed.
fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn part(row: &rusqlite::Row<'_>, index: u128) -> rusqlite::Result<(PartPlace, Vec<u8>)> {
    Ok((PartPlace { index, first: number(row, 0)?, last: number(row, 1)? }, row.get(2)?))
}

fn end(connection: &Connection, index: u128) -> Result<IndexEnd, AuditIndexError> {
    let newest = connection
        .prepare_cached("SELECT first, last, directory FROM parts ORDER BY first DESC LIMIT 1")?
        .query_row([], |row| part(row, index))
        .optional()?;
    let Some((place, stored)) = newest else {
        return Ok(IndexEnd { index, last: 0, hash: EventHash::START });
    };
    let directory = PartDirectory::read(&place, &stored)?;
    Ok(IndexEnd { index, last: place.last, hash: EventHash(directory.hash) })
}

fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, AuditIndexError> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // The pragma reads the file. If the file is damaged, the next statement says so.
    let _ = connection.pragma_update(None, "synchronous", "OFF");
    Ok(connection)
}

/// The form of the file.
enum IndexForm {
    /// Nothing yet.
    Empty,
    /// An index with this id.
    Of(u128),
}

/// Where the index of this file ends; `None` if the file is empty. Another process may write meanwhile, so everything
/// is read in one transaction.
fn current(
    connection: &Connection,
    options: &IndexOptions,
    behavior: TransactionBehavior,
) -> Result<Option<IndexEnd>, AuditIndexError> {
    let transaction = rusqlite::Transaction::new_unchecked(connection, behavior)?;
    match form(&transaction, options)? {
        IndexForm::Empty => Ok(None),
        IndexForm::Of(index) => end(&transaction, index).map(Some),
    }
}

/// Reads the form, in a transaction of the caller.
fn form(connection: &Connection, options: &IndexOptions) -> Result<IndexForm, AuditIndexError> {
    let ask = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
    let (application, format) = (ask("PRAGMA application_id")?, ask("PRAGMA user_version")?);
    if (application, format) == (0, 0) && ask("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(IndexForm::Empty);
    }
    if (application, format) != (APPLICATION_ID, FORMAT) {
        return Err(AuditIndexError::Damaged("the file has another form".to_owned()));
    }
    let (id, part, block): (Vec<u8>, u64, u64) =
        connection.query_row("SELECT id, part, block FROM form", [], |row| {
            Ok((row.get(0)?, number(row, 1)?, number(row, 2)?))
        })?;
    match <[u8; 16]>::try_from(id) {
        Ok(id) if (part, block) == (options.part, options.block) => Ok(IndexForm::Of(u128::from_le_bytes(id))),
        _ => Err(AuditIndexError::Damaged("the parts have another size".to_owned())),
    }
}

/// Makes the file an empty database, whatever it contains. Other connections notice. A usable index with another id than
/// `unusable` stays.
fn clear(connection: &Connection, options: &IndexOptions, unusable: Option<u128>) -> Result<(), AuditIndexError> {
    match current(connection, options, TransactionBehavior::Immediate) {
        Ok(None) => return Ok(()),
        Ok(Some(end)) if Some(end.index) != unusable => return Ok(()),
        Ok(Some(_)) | Err(AuditIndexError::Damaged(_)) => {}
        Err(error) => return Err(error),
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    let cleared = connection.execute_batch("VACUUM");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    cleared?;
    Ok(connection.pragma_update(None, "synchronous", "OFF")?)
}

fn begin(connection: &Connection, options: &IndexOptions) -> Result<u128, AuditIndexError> {
    let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if let Ok(IndexForm::Of(index)) = form(&transaction, options) {
        // Another process was faster.
        return Ok(index);
    }
    let index = Uuid::new_v4().as_u128();
    transaction.execute_batch(LAYOUT)?;
    transaction.execute(
        "INSERT INTO form VALUES (1, ?1, ?2, ?3)",
        rusqlite::params![index.to_le_bytes().as_slice(), sql(options.part), sql(options.block)],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(index)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::sync::{Arc, OnceLock};

    use super::*;
    use crate::codec;
    use crate::envelope::{Cause, Meta, Position, Recorded, RequestSource, Revision, StreamId, Timestamp};
    use crate::ids::{EventId, ProcessId, ProjectId, RequestId, UserId};
    use crate::store::audit_index::terms::of_event;

    /// The hash of the terms and of the part that the test makes.
    const GOLDEN: &str = "8a31b689aff0dea5d5598bd84292b8cb5728b07202a9d061fd7ba789b2670965";

    fn meta(n: u64) -> Arc<Meta> {
        let source = RequestSource::new("192.0.2.1".parse().ok(), Some("curl"));
        let user = |project, source| Cause::User { user: UserId::new("anna"), project, roles: Vec::new(), source };
        let cause = match n % 4 {
            0 => user(Some(ProjectId::new("p1")), source),
            1 => user(None, None),
            2 => Cause::Process { process: ProcessId(Uuid::from_u128(3)) },
            _ => Cause::System { part: "test".to_owned() },
        };
        let request_id = (!n.is_multiple_of(3)).then(|| RequestId::new(format!("req-{n}")));
        Arc::new(Meta { request_id, correlation: Uuid::from_u128(7), causation: None, cause })
    }

    /// An event with fixed bytes. The samples would change the golden value with each new kind of event.
    fn event(n: u64) -> Recorded {
        let thing = |nth: u64| Uuid::new_v5(&Uuid::NAMESPACE_OID, &nth.to_le_bytes());
        let (kind, data): (&str, Vec<u8>) = match n % 5 {
            0 => ("access.logged_in", Vec::new()),
            1 => ("instance.renamed", thing(n).into_bytes().to_vec()),
            2 => ("instance.placed", thing(n).to_string().into_bytes()),
            3 => ("quota.released", thing(n).simple().to_string().into_bytes()),
            _ => ("host.seen", (n..n + 65).flat_map(|nth| thing(nth).into_bytes()).collect()),
        };
        Recorded {
            position: Position(n),
            stream: StreamId::new(kind.split_once('.').unwrap().0, thing(n % 100)),
            revision: Revision(1),
            id: EventId(Uuid::from_u128(n.into())),
            kind: Arc::from(kind),
            version: 1,
            codec: codec::BINCODE_2,
            recorded_at: Timestamp(1_000),
            meta: meta(n),
            data: data.into(),
            hash: Some(EventHash([7; 32])),
            keys: None,
            decoded: OnceLock::new(),
        }
    }

    #[test]
    fn a_change_of_the_terms_or_parts_raises_the_format() {
        let (mut hasher, mut part) = (blake3::Hasher::new(), PartBuilder::new(1, EventHash::START));
        // So many events that the list of the correlation is stored with a bit for each event.
        for n in 1..=5_000 {
            let (recorded, mut terms) = (event(n), BTreeSet::new());
            of_event(&recorded, &mut terms);
            for term in terms {
                hasher.update(&term.to_le_bytes());
            }
            part.add(&recorded, 1_000).unwrap();
        }
        let part = part.encode(1).unwrap();
        hasher.update(&part.directory);
        for chunk in &part.chunks {
            hasher.update(chunk);
        }
        hasher.update(LAYOUT.as_bytes());
        let found = hasher.finalize().to_hex().to_string();
        assert_eq!(found, GOLDEN, "the form of the index has changed: raise FORMAT, then set GOLDEN to {found}");
    }
}
