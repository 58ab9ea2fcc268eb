//! The log in memory: the model that the other back ends are compared with, and the log of most tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use async_trait::async_trait;

use super::tail::{Subscription, Tail};
use super::{AppendError, Appended, EventStore, Expected, Snapshot, StoreError};
use crate::chain::{self, Content};
use crate::codec;
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};

#[derive(Debug, Default)]
struct Contents {
    all: Vec<Arc<Recorded>>,
    streams: BTreeMap<StreamId, Vec<usize>>,
    snapshots: BTreeMap<StreamId, Snapshot>,
}

/// Keeps everything in memory; lives as long as its last handle.
#[derive(Debug)]
pub struct MemoryStore {
    contents: Mutex<Contents>,
    tail: Arc<Tail>,
    this: Weak<Self>,
}

impl MemoryStore {
    pub fn new() -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            contents: Mutex::default(),
            tail: Tail::new(Position::START),
            this: this.clone(),
        })
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.tail.close();
    }
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        let mut encoded = Vec::with_capacity(events.len());
        for new in events {
            encoded.push((super::encode_payload(&new)?, new));
        }
        let mut contents = self.contents();
        let actual = Revision(contents.streams.get(stream).map_or(0, Vec::len) as u64);
        super::check_expected(stream, expected, actual)?;
        let (mut revision, mut position) = (actual, Position(contents.all.len() as u64));
        let mut head = contents.all.last().and_then(|last| last.hash).unwrap_or_default();
        let mut batch = Vec::with_capacity(encoded.len());
        for (data, new) in encoded {
            revision.0 += 1;
            position.0 += 1;
            head =
                chain::link(&head, position, revision, &Content::of_new(stream, &new, codec::BINCODE_2, &data).hash());
            let recorded = Arc::new(Recorded {
                position,
                stream: stream.clone(),
                revision,
                id: new.id,
                kind: Arc::from(new.event.kind()),
                version: new.event.version(),
                codec: codec::BINCODE_2,
                recorded_at: new.recorded_at,
                meta: new.meta,
                data: data.into(),
                hash: Some(head),
                decoded: OnceLock::from(new.event),
            });
            let index = contents.all.len();
            contents.all.push(Arc::clone(&recorded));
            contents.streams.entry(stream.clone()).or_default().push(index);
            batch.push(recorded);
        }
        // Published under the lock: the order of positions is the order of publication.
        self.tail.publish(batch);
        Ok(Appended { revision, position })
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let contents = self.contents();
        let skip = usize::try_from(after.0).unwrap_or(usize::MAX);
        let indexes = contents.streams.get(stream).map_or(&[][..], Vec::as_slice);
        Ok(indexes.iter().skip(skip).take(limit).map(|&i| Arc::clone(&contents.all[i])).collect())
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let skip = usize::try_from(after.0).unwrap_or(usize::MAX);
        Ok(self.contents().all.iter().skip(skip).take(limit).cloned().collect())
    }

    fn subscribe(&self, after: Position) -> Subscription {
        let store: Weak<dyn EventStore> = self.this.clone();
        Subscription::new(store, &self.tail, after)
    }

    fn head(&self) -> Position {
        self.tail.head()
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.contents().snapshots.get(stream).cloned())
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: Snapshot) -> Result<(), StoreError> {
        self.contents().snapshots.insert(stream.clone(), snapshot);
        Ok(())
    }
}
