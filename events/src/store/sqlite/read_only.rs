//! The read-only log for auditors and operators, with or without a running writer.
//!
//! It does not take the writer's lock, and writes nothing. It sees each commit of the writer at once, before the events
//! of the commit are synced and acknowledged. The opening makes all existing events durable first. If the log is
//! shorter than its head row or the note beside it says, the opening is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::data_file::DataFile;
use super::reader::{self, Readers, Verified};
use super::{schema, search, snapshots};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::holds::LegalHolds;
use crate::ids::EventId;
use crate::sealed::keys::KeyRing;
use crate::store::criteria::{Criteria, EventSearchResult};
use crate::store::tail::{Subscription, Tail};
use crate::store::{AppendError, Appended, EventStore, Expected, StoreError, StreamSnapshot};

/// The number of connections that read at the same time.
const READERS: usize = 2;

/// The log in one SQLite file, opened for reading only.
pub struct ReadOnlyLog {
    pub(super) readers: Arc<Readers>,
    keys: Arc<KeyRing>,
    /// The tail is closed from the start: a subscription returns the existing events and ends. To follow another
    /// process's log, call [`EventStore::read_all`] again.
    tail: Arc<Tail>,
    path: PathBuf,
    this: std::sync::Weak<Self>,
}

impl std::fmt::Debug for ReadOnlyLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlyLog").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ReadOnlyLog {
    /// Opens the log at `path`, which must exist. Blocks while it checks the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Self>, StoreError> {
        let path = path.as_ref();
        let missing = |reason: &dyn std::fmt::Display| StoreError::Io(format!("{}: {reason}", path.display()));
        let path = std::path::absolute(path).map_err(|error| missing(&error))?;
        // SQLite's own error would not say that the file is missing.
        let data = DataFile::open(&path).map_err(|error| missing(&error))?;
        let head = schema::open_read_only(&path)?;
        let tail = Tail::new(head.position);
        tail.close();
        let keys = KeyRing::open_read_only(super::schema::beside(&path, super::keys::SUFFIX))?;
        let readers = Readers::new(&path, data, READERS, &keys);
        Ok(Arc::new_cyclic(|this| Self { readers, keys, tail, path: path.clone(), this: this.clone() }))
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Verifies SQLite's own structures, and every event: checksum, chain, position, revision.
    pub async fn verify(&self) -> Result<Verified, StoreError> {
        self.readers.run(reader::verify).await
    }
}

#[async_trait]
impl EventStore for ReadOnlyLog {
    async fn append(&self, _: &StreamId, _: Expected, _: Vec<NewEvent>) -> Result<Appended, AppendError> {
        Err(StoreError::read_only().into())
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let stream = stream.clone();
        self.readers
            .run(move |connection, kinds| reader::read_stream(connection, kinds, &stream, after, limit, None))
            .await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.readers
            .run(move |connection, kinds| reader::read_all(connection, kinds, after, limit, Position::END))
            .await
    }

    async fn read_at(&self, positions: &[Position]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let positions = positions.to_vec();
        self.readers.run(move |connection, kinds| reader::read_at(connection, kinds, &positions)).await
    }

    async fn first_event(&self) -> Result<Option<EventId>, StoreError> {
        self.readers.run(|connection, kinds| reader::first_event(connection, kinds, Position::END)).await
    }

    async fn search(
        &self,
        after: Position,
        limit: usize,
        criteria: &Criteria,
    ) -> Result<EventSearchResult, StoreError> {
        let criteria = criteria.clone();
        self.readers
            .run(move |connection, kinds| search::search(connection, kinds, after, limit, &criteria, Position::END))
            .await
    }

    fn subscribe(&self, after: Position) -> Subscription {
        let store: std::sync::Weak<dyn EventStore> = self.this.clone();
        Subscription::new(store, &self.tail, after)
    }

    /// The head at the opening.
    fn head(&self) -> Position {
        self.tail.head()
    }

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        Some(&self.keys)
    }

    fn holds(&self) -> Result<LegalHolds, StoreError> {
        LegalHolds::read(&schema::beside(&self.path, super::HOLDS))
    }

    async fn forget(&self, _: &[StreamId]) -> Result<(), StoreError> {
        Err(StoreError::read_only())
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        let (stream, keys) = (stream.clone(), Arc::clone(&self.keys));
        self.readers.run(move |connection, _| snapshots::load(connection, &keys, &stream)).await
    }

    async fn save_snapshot(&self, _: &StreamId, _: StreamSnapshot) -> Result<(), StoreError> {
        Err(StoreError::read_only())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{SqliteOptions, SqliteStore};
    use super::*;
    use crate::envelope::{Meta, Timestamp};

    fn event() -> NewEvent {
        let released = crate::ledger::Released { consumer: "c".into() };
        NewEvent::new(crate::ledger::LedgerEvent::from(released), Timestamp(1), &Meta::system("test"))
    }

    #[tokio::test]
    async fn reads_beside_the_writer_and_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        assert!(matches!(ReadOnlyLog::open(&path), Err(StoreError::Io(_))));
        let writer = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        let stream = StreamId::new("ledger", "cell1");
        writer.append(&stream, Expected::Any, vec![event()]).await.unwrap();
        let log = ReadOnlyLog::open(&path).unwrap();
        assert_eq!(log.read_all(Position::START, 10).await.unwrap().len(), 1);
        writer.append(&stream, Expected::Any, vec![event()]).await.unwrap();
        assert_eq!(log.read_all(Position(1), 10).await.unwrap().len(), 1);
        assert!(log.append(&stream, Expected::Any, vec![event()]).await.is_err());
        assert_eq!(log.verify().await.unwrap().events, 2);
        writer.close().await;
        assert_eq!(ReadOnlyLog::open(&path).unwrap().head(), Position(2));
    }
}
