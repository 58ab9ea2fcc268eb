//! Writes a new log from the events of another one, for a restore: positions, hashes and times do not change.
//!
//! The log is complete only after [`LogImport::finish`]. A crash before that leaves an incomplete file, which the
//! caller must recognise and remove. The chain is verified while the events are written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use super::row::{INSERT, checksum, insert, signed};
use super::{SqliteOptions, by_stream, error, keys, schema};
use crate::chain::{Anchor, Chain, EventHash};
use crate::envelope::{Position, Recorded, StreamId};
use crate::sealed::keys::KeyRing;
use crate::store::StoreError;

/// Pages in the write-ahead log before SQLite moves them to the data file.
const CHECKPOINT_PAGES: u32 = 4_000;

/// A log that is being written.
#[derive(Debug)]
pub struct LogImport {
    connection: Connection,
    streams: HashMap<StreamId, i64>,
    kinds: HashMap<Arc<str>, i64>,
    chain: Chain,
    head: Position,
    scratch: Vec<u8>,
    path: PathBuf,
}

impl LogImport {
    /// Begins a log at `path`, where no file may be.
    ///
    /// # Errors
    /// The file exists already, or cannot be created.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(|e| StoreError::Io(format!("{}: {e}", path.display())))?;
        if path.exists() {
            return Err(StoreError::Io(format!("{} exists already", path.display())));
        }
        // Only the owner may read the file, from its first byte on.
        drop(super::data_file::DataFile::create(&path).map_err(|e| io(&path, &e))?);
        let connection = schema::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let explain = |e: rusqlite::Error| error::explain(&e, 0);
        schema::prepare(&connection, &SqliteOptions::default()).map_err(explain)?;
        // `finish` makes the whole file durable at once.
        connection.pragma_update(None, "synchronous", "OFF").map_err(explain)?;
        let checkpoints = format!("PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}");
        connection.query_row(&checkpoints, [], |_| Ok(())).map_err(explain)?;
        schema::begin(&connection).map_err(explain)?;
        Ok(Self {
            connection,
            streams: HashMap::new(),
            kinds: HashMap::new(),
            chain: Chain::after(EventHash::START),
            head: Position::START,
            scratch: Vec::new(),
            path,
        })
    }

    /// The newest event that was written.
    pub fn head(&self) -> Anchor {
        Anchor { position: self.head, hash: self.chain.head }
    }

    /// Writes the next events, in one transaction. After an error the log has none of them.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if an event does not follow the one before it in the chain, or an error of the disk.
    pub fn append<'a>(&mut self, events: impl IntoIterator<Item = &'a Recorded>) -> Result<(), StoreError> {
        let before = self.head();
        self.connection.execute_batch("BEGIN").map_err(|e| error::explain(&e, before.position.0))?;
        self.write_all(events).inspect_err(|_| self.roll_back(before))
    }

    fn write_all<'a>(&mut self, events: impl IntoIterator<Item = &'a Recorded>) -> Result<(), StoreError> {
        let at = self.head.0;
        let explain = |e: rusqlite::Error| error::explain(&e, at);
        for event in events {
            if event.position.0 != self.head.0 + 1 || !self.chain.accepts(event) {
                let reason = "the event does not match the hash chain".to_owned();
                return Err(StoreError::Corrupt { position: event.position.0, reason });
            }
            self.write(event).map_err(explain)?;
            self.head = event.position;
        }
        let written = self.connection.execute("UPDATE head SET position = ?1", [signed(self.head.0)]);
        written.and_then(|_| self.connection.execute_batch("COMMIT")).map_err(explain)
    }

    fn roll_back(&mut self, to: Anchor) {
        // SQLite itself has ended the transaction after some errors of the disk.
        let _ = self.connection.execute_batch("ROLLBACK");
        (self.head, self.chain) = (to.position, Chain::after(to.hash));
        let last = |table: &str| {
            let newest = format!("SELECT coalesce(max(id), 0) FROM {table}");
            self.connection.query_row(&newest, [], |row| row.get::<_, i64>(0)).unwrap_or(0)
        };
        let (stream, kind) = (last("streams"), last("kinds"));
        self.streams.retain(|_, number| *number <= stream);
        self.kinds.retain(|_, number| *number <= kind);
    }

    fn write(&mut self, event: &Recorded) -> rusqlite::Result<()> {
        let add = |sql: &str, name: &str| self.connection.prepare_cached(sql)?.insert([name]);
        let stream = match self.streams.get(&event.stream) {
            Some(number) => *number,
            None => {
                let number = add("INSERT INTO streams (name) VALUES (?1)", event.stream.as_str())?;
                self.streams.insert(event.stream.clone(), number);
                number
            }
        };
        let kind = match self.kinds.get(&event.kind) {
            Some(number) => *number,
            None => {
                let number = add("INSERT INTO kinds (name) VALUES (?1)", &event.kind)?;
                self.kinds.insert(Arc::clone(&event.kind), number);
                number
            }
        };
        let sum = checksum(event, &mut self.scratch);
        insert(&mut self.connection.prepare_cached(INSERT)?, event, stream, kind, sum)
    }

    /// Completes the log, and makes it durable. `ring` has the keys of its personal fields. Returns the log's end.
    ///
    /// # Errors
    /// An error of the disk.
    pub fn finish(self, ring: Option<&KeyRing>) -> Result<Anchor, StoreError> {
        let end = self.head();
        let explain = |e: rusqlite::Error| error::explain(&e, end.position.0);
        by_stream::extend(&self.connection, end.position).map_err(explain)?;
        if let Some(ring) = ring {
            keys::note(&self.connection, ring).map_err(explain)?;
        }
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(explain)?;
        self.connection.close().map_err(|(_, e)| explain(e))?;
        std::fs::File::open(&self.path).and_then(|file| file.sync_all()).map_err(|e| io(&self.path, &e))?;
        schema::sync_folder(&self.path)?;
        Ok(end)
    }
}

fn io(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::Full,
        _ => StoreError::Io(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::verify::{VerifyOptions, verify};
    use super::super::{ReadOnlyLog, SqliteStore};
    use super::*;
    use crate::envelope::{Meta, NewEvent, Timestamp};
    use crate::store::{EventStore as _, Expected};

    /// A log with five events in two streams.
    async fn log_of_five(path: &Path) -> std::sync::Arc<SqliteStore> {
        let source = SqliteStore::open(path, &SqliteOptions::default()).unwrap();
        for n in 0..5 {
            let released = crate::ledger::Released { consumer: n.to_string().into() };
            let event = NewEvent::new(crate::ledger::LedgerEvent::from(released), Timestamp(n), &Meta::system("test"));
            source.append(&StreamId::new("ledger", n % 2), Expected::Any, vec![event]).await.unwrap();
        }
        source
    }

    #[tokio::test]
    async fn a_refused_part_leaves_nothing_and_the_import_continues() {
        let folder = tempfile::tempdir().unwrap();
        let source = log_of_five(&folder.path().join("log.db")).await;
        let events = source.read_all(Position::START, 9).await.unwrap();
        let mut import = LogImport::create(&folder.path().join("new.db")).unwrap();
        let gap = import.append([&*events[0], &*events[2]]);
        assert!(matches!(gap, Err(StoreError::Corrupt { position: 3, .. })), "{gap:?}");
        assert_eq!(import.head(), Anchor { position: Position::START, hash: EventHash::START });
        import.append(events[0..2].iter().map(|event| &**event)).unwrap();
        let before = import.head();
        let gap = import.append([&*events[2], &*events[4]]);
        assert!(matches!(gap, Err(StoreError::Corrupt { position: 5, .. })), "{gap:?}");
        assert_eq!(import.head(), before);
        import.append(events[2..5].iter().map(|event| &**event)).unwrap();
        assert_eq!(Some(import.finish(None).unwrap()), source.anchor().await.unwrap());
        let found = verify(&folder.path().join("new.db"), &VerifyOptions::default()).unwrap();
        assert!(found.is_whole() && found.events == 5 && found.streams == 2, "{found:?}");
    }

    #[tokio::test]
    async fn an_imported_log_is_the_same_log_and_a_changed_event_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("log.db"), folder.path().join("new.db"));
        let source = log_of_five(&from).await;
        let events = source.read_all(Position::START, 9).await.unwrap();
        let part = |from: usize, to: usize| events[from..to].iter().map(|event| &**event);
        let mut import = LogImport::create(&to).unwrap();
        assert!(LogImport::create(&to).is_err(), "the import overwrote a file");
        import.append(part(0, 2)).unwrap();
        import.append(part(2, 5)).unwrap();
        let end = import.finish(None).unwrap();
        assert_eq!(Some(end), source.anchor().await.unwrap());
        let opened = SqliteStore::open(&to, &SqliteOptions::default()).unwrap();
        assert_eq!(opened.anchor().await.unwrap(), Some(end));
        opened.close().await;
        let found = verify(&to, &VerifyOptions::default()).unwrap();
        assert!(found.is_whole() && found.events == 5 && found.streams == 2 && found.pages > 0, "{found:?}");
        let read = ReadOnlyLog::open(&to).unwrap();
        assert_eq!(
            read.read_stream(&StreamId::new("ledger", 1), crate::envelope::Revision(1), 9).await.unwrap().len(),
            1
        );

        let mut forged = LogImport::create(&folder.path().join("forged.db")).unwrap();
        assert!(
            matches!(forged.append(part(1, 5)), Err(StoreError::Corrupt { position: 2, .. })),
            "the import accepted a log whose first event is missing"
        );
        let mut other = LogImport::create(&folder.path().join("other.db")).unwrap();
        other.chain = Chain::after(EventHash([1; 32]));
        assert!(
            matches!(other.append(part(0, 1)), Err(StoreError::Corrupt { position: 1, .. })),
            "the import accepted an event of another chain"
        );
    }
}
