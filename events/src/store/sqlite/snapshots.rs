//! The table of snapshots. [`crate::store::sealed_snapshots`] encrypts their bytes.

use rusqlite::{Connection, OptionalExtension};

use super::error;
use super::row::{signed, unsigned};
use super::schema::limit;
use crate::envelope::{Revision, StreamId};
use crate::sealed::keys::KeyRing;
use crate::sealed::whole::{SealMark, WholeSeal};
use crate::store::{StoreError, StreamSnapshot, sealed_snapshots};

/// The row of `meta` that says that every snapshot of this file is encrypted.
const SEALED: &str = "snapshots_sealed";

/// Writes a sealed snapshot over an older one. A newer snapshot stays. An actor may be late with an older one, and the
/// events between the two may have left the file since.
pub(super) fn save(connection: &Connection, stream: &StreamId, sealed: &StreamSnapshot) -> rusqlite::Result<()> {
    let sql = "INSERT INTO snapshots (stream, revision, state_version, data, checksum) VALUES (?1, ?2, ?3, ?4, ?5) \
               ON CONFLICT (stream) DO UPDATE SET revision = excluded.revision, \
               state_version = excluded.state_version, data = excluded.data, checksum = excluded.checksum \
               WHERE excluded.revision >= snapshots.revision";
    connection.prepare_cached(sql)?.execute(rusqlite::params![
        stream.as_str(),
        signed(sealed.revision.0),
        sealed.state_version,
        sealed.bytes,
        crc32fast::hash(&sealed.bytes),
    ])?;
    Ok(())
}

/// Loads a snapshot; `None` if it is missing or damaged, or if its key was destroyed or lost.
pub(super) fn load(
    connection: &Connection,
    keys: &KeyRing,
    stream: &StreamId,
) -> Result<Option<StreamSnapshot>, StoreError> {
    let sql = "SELECT revision, state_version, data, checksum FROM snapshots WHERE stream = ?1";
    let found = connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                let snapshot = StreamSnapshot {
                    revision: Revision(unsigned(row.get(0)?)),
                    state_version: row.get(1)?,
                    bytes: row.get(2)?,
                };
                Ok((snapshot, row.get::<_, u32>(3)?))
            };
            statement.query_row([stream.as_str()], read).optional()
        })
        .map_err(|e| error::explain(&e, 0))?;
    Ok(found.and_then(|(snapshot, sum)| {
        if crc32fast::hash(&snapshot.bytes) != sum {
            tracing::warn!(%stream, "ignoring a damaged snapshot");
            return None;
        }
        sealed_snapshots::open(keys, stream, &snapshot)
    }))
}

/// Removes a snapshot. SQLite overwrites its page. Unless it is `for_ever`, an empty row stays, so that
/// [`kept`] still names the stream.
pub(super) fn forget(connection: &Connection, stream: &StreamId, for_ever: bool) -> rusqlite::Result<()> {
    let sql = match for_ever {
        true => "DELETE FROM snapshots WHERE stream = ?1",
        false => {
            "UPDATE snapshots SET revision = 0, state_version = 0, data = zeroblob(0), checksum = 0 WHERE stream = ?1"
        }
    };
    connection.prepare_cached(sql)?.execute([stream.as_str()])?;
    Ok(())
}

/// A stream with a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSnapshot {
    pub stream: StreamId,
    pub state_version: u32,
    /// Whether the snapshot is there and its key exists. An erasure destroys the keys of all snapshots.
    pub is_readable: bool,
}

/// All streams that have or had a snapshot.
pub(super) fn kept(connection: &Connection, keys: &KeyRing) -> Result<Vec<KeptSnapshot>, StoreError> {
    let read = || {
        let mut statement =
            connection.prepare_cached("SELECT stream, state_version, substr(data, 1, ?1) FROM snapshots")?;
        let rows = statement.query_map([limit(SealMark::BYTES)], |row| {
            // SQLite gives NULL as the beginning of an empty value.
            let mark = row.get_ref(2)?.as_blob().ok().and_then(SealMark::of);
            Ok(KeptSnapshot {
                stream: StreamId::from_stored(row.get_ref(0)?.as_str()?),
                state_version: row.get(1)?,
                is_readable: mark.is_some_and(|mark| WholeSeal::of(keys, mark).is_ok()),
            })
        })?;
        rows.collect::<rusqlite::Result<Vec<KeptSnapshot>>>()
    };
    read().map_err(|e| error::explain(&e, 0))
}

/// Removes unencrypted snapshots of an earlier version. Each file needs this only once.
pub(super) fn drop_clear(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT 1 FROM meta WHERE key = ?1";
    if connection.query_row(sql, [SEALED], |_| Ok(())).optional()?.is_some() {
        return Ok(());
    }
    let transaction = connection.unchecked_transaction()?;
    transaction.execute("DELETE FROM snapshots", [])?;
    transaction.execute("INSERT INTO meta VALUES (?1, 1)", [SEALED])?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::store::EventStore;
    use crate::store::sqlite::{SqliteOptions, SqliteStore};

    fn snapshot(bytes: &[u8]) -> StreamSnapshot {
        StreamSnapshot { revision: Revision(3), state_version: 1, bytes: bytes.to_vec() }
    }

    #[tokio::test]
    async fn a_file_with_clear_snapshots_loses_them_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let stream = StreamId::new("instance", "a");
        SqliteStore::open(&path, &SqliteOptions::default()).unwrap().close().await;
        let earlier = rusqlite::Connection::open(&path).unwrap();
        earlier.execute("DELETE FROM meta WHERE key = ?1", [SEALED]).unwrap();
        save(&earlier, &stream, &snapshot(&b"anna ".repeat(3_000))).unwrap();
        drop(earlier);
        for _ in 0..2 {
            let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
            for entry in std::fs::read_dir(folder.path()).unwrap() {
                let bytes = std::fs::read(entry.unwrap().path()).unwrap();
                assert!(!bytes.windows(4).any(|window| window == b"anna"));
            }
            store.save_snapshot(&stream, snapshot(b"bob")).await.unwrap();
            assert_eq!(store.load_snapshot(&stream).await.unwrap(), Some(snapshot(b"bob")));
            store.close().await;
        }
        let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        assert_eq!(store.load_snapshot(&stream).await.unwrap(), Some(snapshot(b"bob")));
    }
}
