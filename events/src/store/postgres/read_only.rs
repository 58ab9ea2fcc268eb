//! The read-only log in PostgreSQL, for auditors and operators, with or without a leader.

use std::path::Path;
use std::sync::{Arc, Weak};

use async_trait::async_trait;

use super::link::DatabaseLink;
use super::reading::PostgresReader;
use super::{address, schema};
use crate::chain::Anchor;
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::keys::KeyRing;
use crate::store::tail::{Subscription, Tail};
use crate::store::{AppendError, Appended, EventStore, Expected, StoreError, StreamSnapshot};

/// The log in a PostgreSQL database, up to its last event at the opening. This store takes no epoch and no lease, and
/// writes nothing.
pub struct ReadOnlyPostgres {
    reader: PostgresReader,
    head: Anchor,
    this: Weak<Self>,
}

impl std::fmt::Debug for ReadOnlyPostgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlyPostgres").field("head", &self.reader.tail.head()).finish_non_exhaustive()
    }
}

impl ReadOnlyPostgres {
    /// Opens the log of `cell`, which must exist. `keys` is the file with the keys of personal fields; without the file
    /// the fields stay sealed.
    pub async fn open(url: &str, cell: &str, keys: &Path) -> Result<Arc<Self>, StoreError> {
        let config = address::parse(url)?;
        let link = DatabaseLink::open(&config).await?;
        let head = schema::head(&link.client, cell).await?;
        let tail = Tail::new(head.position);
        // The tail is closed from the start: a subscription returns the existing events and ends.
        tail.close();
        let keys = if keys.exists() { Some(KeyRing::open_read_only(keys)?) } else { None };
        let reader = PostgresReader::new(config, keys, tail);
        Ok(Arc::new_cyclic(|this| Self { reader, head, this: this.clone() }))
    }

    /// The position and hash in the head row at the opening.
    pub(super) fn head_row(&self) -> Anchor {
        self.head
    }
}

#[async_trait]
impl EventStore for ReadOnlyPostgres {
    async fn append(&self, _: &StreamId, _: Expected, _: Vec<NewEvent>) -> Result<Appended, AppendError> {
        Err(StoreError::read_only().into())
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.reader.read_stream(stream, after, limit).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.reader.read_all(after, limit).await
    }

    async fn read_at(&self, positions: &[Position]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.reader.read_at(positions).await
    }

    fn subscribe(&self, after: Position) -> Subscription {
        let store: Weak<dyn EventStore> = self.this.clone();
        Subscription::new(store, &self.reader.tail, after)
    }

    /// The head at the opening.
    fn head(&self) -> Position {
        self.reader.tail.head()
    }

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        self.reader.keys.as_ref()
    }

    async fn forget(&self, _: &[StreamId]) -> Result<(), StoreError> {
        Err(StoreError::read_only())
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        self.reader.load_snapshot(stream).await
    }

    async fn save_snapshot(&self, _: &StreamId, _: StreamSnapshot) -> Result<(), StoreError> {
        Err(StoreError::read_only())
    }
}
