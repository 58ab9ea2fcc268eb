//! Measures SQLite itself on this disk, for benchmarks of the log: the same table, bytes and batches, and an ordinary
//! index by stream. The measured reads and inserts use none of the log's own code.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::data_file::DataFile;
use super::{SqliteOptions, error, schema};
use crate::envelope::NewEvent;
use crate::store::StoreError;

/// A file with the layout of a log. SQLite alone writes it.
#[derive(Debug)]
pub struct Probe {
    connection: Connection,
    /// The revision that all streams in the file have.
    revision: i64,
    // The last field, so that it is closed after the connection.
    _data: DataFile,
}

/// Reads every column of the first `limit` events of a log and discards them. Returns their number.
pub fn read(path: &Path, limit: u64) -> Result<u64, StoreError> {
    let connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let read = || {
        let mut statement = connection.prepare("SELECT * FROM events WHERE position <= ?1 ORDER BY position")?;
        let columns = statement.column_count();
        let mut rows = statement.query([schema::bound(limit)])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                std::hint::black_box(row.get_ref(column)?);
            }
            count += 1;
        }
        Ok(count)
    };
    read().map_err(|e| error::explain(&e, 0))
}

impl Probe {
    /// Creates a file at `path`.
    pub fn begin(path: &Path) -> Result<Self, StoreError> {
        let options = SqliteOptions::default();
        let schema::OpenedLog { connection, data, .. } = schema::open(path, &options)?;
        // Checkpoints are as frequent as in the log, but SQLite decides when.
        let sql = format!("PRAGMA wal_autocheckpoint = {}", options.checkpoint_pages);
        connection.query_row(&sql, [], |_| Ok(())).map_err(|e| error::explain(&e, 0))?;
        let sql = "CREATE UNIQUE INDEX plain ON events (stream, revision)";
        connection.execute_batch(sql).map_err(|e| error::explain(&e, 0))?;
        Ok(Self { connection, revision: 0, _data: data })
    }

    /// Inserts `event` into `batch` streams in one transaction. It is durable when this returns.
    pub fn insert(&mut self, event: &NewEvent, data: &[u8], batch: i64) -> Result<(), StoreError> {
        self.revision += 1;
        self.transaction(event, data, batch).map_err(|e| error::explain(&e, 0))
    }

    fn transaction(&mut self, event: &NewEvent, data: &[u8], batch: i64) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let sql = "INSERT INTO events (stream, revision, id, kind, version, codec, recorded_at, request_id, correlation, \
                       user, project, roles, data, checksum, hash) \
                       VALUES (?1, ?2, ?3, 1, 1, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 4000000000, ?11)";
            let mut statement = transaction.prepare_cached(sql)?;
            for stream in 0..batch {
                statement.execute(params![
                    stream,
                    self.revision,
                    event.id.0.as_bytes().as_slice(),
                    event.recorded_at.0,
                    "req-3b8f1ab0-6d2c-4a52-9d5e-3f2a7c3d9a10",
                    event.meta.correlation.as_bytes().as_slice(),
                    "5f4dcc3b5aa765d61d8327deb882cf99",
                    "9f86d081884c7d659a2feaa0c55ad015",
                    "[\"member\",\"reader\"]",
                    data,
                    [7_u8; 32].as_slice(),
                ])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}
