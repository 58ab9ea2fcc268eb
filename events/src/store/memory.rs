//! The log in memory: the model for comparisons with the other back ends, and the log of most tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use async_trait::async_trait;

use super::tail::{Subscription, Tail};
use super::{AppendError, AppendRight, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use crate::chain::{self, EventContent};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::keys::KeyRing;

#[derive(Debug, Default)]
struct MemoryContents {
    all: Vec<Arc<Recorded>>,
    streams: BTreeMap<StreamId, Vec<usize>>,
    snapshots: BTreeMap<StreamId, StreamSnapshot>,
}

/// Keeps all events in memory, as long as its last handle lives.
#[derive(Debug)]
pub struct MemoryStore {
    contents: Mutex<MemoryContents>,
    keys: Option<Arc<KeyRing>>,
    tail: Arc<Tail>,
    this: Weak<Self>,
}

impl MemoryStore {
    /// A log without keys: personal fields are not encrypted.
    pub fn new() -> Arc<Self> {
        Self::with_keys(None)
    }

    /// A log that seals personal fields with these keys.
    pub fn with_keys(keys: Option<Arc<KeyRing>>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            contents: Mutex::default(),
            keys,
            tail: Tail::new(Position::START),
            this: this.clone(),
        })
    }

    fn contents(&self) -> MutexGuard<'_, MemoryContents> {
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
    fn append_right(&self) -> Option<AppendRight> {
        Some(AppendRight(()))
    }

    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        super::make_keys(self.keys.as_ref(), stream, &events).await?;
        let mut encoded = Vec::with_capacity(events.len());
        for new in events {
            encoded.push((super::encode_payload(self.keys.as_ref(), stream, &new)?, new));
        }
        let mut contents = self.contents();
        let actual = Revision(contents.streams.get(stream).map_or(0, Vec::len) as u64);
        super::check_expected(stream, expected, actual)?;
        let (mut revision, mut position) = (actual, Position(contents.all.len() as u64));
        let mut head = contents.all.last().and_then(|last| last.hash).unwrap_or_default();
        let mut batch = Vec::with_capacity(encoded.len());
        for (stored, new) in encoded {
            revision.0 += 1;
            position.0 += 1;
            head = chain::link(
                &head,
                position,
                revision,
                &EventContent::of_new(stream, &new, stored.codec, &stored.data).hash(),
            );
            let recorded = Arc::new(Recorded {
                position,
                stream: stream.clone(),
                revision,
                id: new.id,
                kind: Arc::from(new.event.kind()),
                version: new.event.version(),
                codec: stored.codec,
                recorded_at: new.recorded_at,
                meta: new.meta,
                data: stored.data.into(),
                hash: Some(head),
                keys: self.keys.clone(),
                decoded: OnceLock::from(new.event),
            });
            let index = contents.all.len();
            contents.all.push(Arc::clone(&recorded));
            contents.streams.entry(stream.clone()).or_default().push(index);
            batch.push(recorded);
        }
        // Publishing under the lock makes the order of publication the order of positions.
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

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        self.keys.as_ref()
    }

    async fn forget(&self, streams: &[StreamId]) -> Result<(), StoreError> {
        self.tail.forget();
        let mut contents = self.contents();
        let MemoryContents { all, streams: indexes, snapshots } = &mut *contents;
        for stream in streams {
            snapshots.remove(stream);
            for &index in indexes.get(stream).into_iter().flatten() {
                all[index] = Arc::new(all[index].encoded());
            }
        }
        Ok(())
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        Ok(self.contents().snapshots.get(stream).cloned())
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        let mut contents = self.contents();
        if contents.snapshots.get(stream).is_none_or(|kept| kept.revision <= snapshot.revision) {
            contents.snapshots.insert(stream.clone(), snapshot);
        }
        Ok(())
    }
}
