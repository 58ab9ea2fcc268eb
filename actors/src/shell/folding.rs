//! Folds a stream into the state of its aggregate, and keeps that state in a snapshot.
//!
//! A snapshot makes a load short. When the first events of a stream leave the log's file for the archive, a snapshot of
//! the stream must be there before ([`keep_state`]). So a start can load the state while the archive cannot be read.

use chronova_events::codec;
use chronova_events::envelope::{Position, Revision, StreamId};
use chronova_events::fold::Fold;
use chronova_events::registry::NounEvent as _;
use chronova_events::sealed::DataSubject;
use chronova_events::sealed::keys::KeySlot;
use chronova_events::store::{EventStore, StoreError, StreamSnapshot};

/// Events read at once.
const PAGE: usize = 4_096;
/// Events read at once to keep a state. Each of them may be in another part of the archive, and other reads of the log
/// wait for the reader meanwhile.
const KEPT_PAGE: usize = 256;
/// The most attempts to keep the state of a stream whose actor writes snapshots meanwhile, or whose data is erased.
const TRIES: u32 = 5;

/// The state at a revision of the stream.
pub(super) struct FoldedState<S> {
    pub(super) state: S,
    pub(super) revision: Revision,
    pub(super) position: Position,
    /// The revision of the snapshot from which the fold began.
    pub(super) snapshot_at: Revision,
}

impl<S: Fold> FoldedState<S> {
    /// The state before the first event.
    fn begin() -> Self {
        Self { state: S::default(), revision: Revision::NONE, position: Position::START, snapshot_at: Revision::NONE }
    }

    /// The state of the stream's snapshot; the state before the first event if there is no usable snapshot.
    async fn begin_at_snapshot(store: &dyn EventStore, stream: &StreamId) -> Result<Self, StoreError> {
        if let Some(snapshot) = store.load_snapshot(stream).await?
            && snapshot.state_version == S::STATE_VERSION
            && let Ok(kept) = codec::decode_snapshot::<SnapshotOf<S>>(&snapshot.bytes)
        {
            // The snapshot does not record the position of its last event. The log's head is at or after that position,
            // and can be used instead, because readers only wait until a read model reaches the position.
            let (revision, position) = (snapshot.revision, store.head());
            return Ok(Self { state: kept.state, revision, position, snapshot_at: revision });
        }
        Ok(Self::begin())
    }

    /// Folds the events that are not folded yet, and reads `most` of them at once.
    async fn go_on(&mut self, store: &dyn EventStore, stream: &StreamId, most: usize) -> Result<(), StoreError> {
        loop {
            let page = store.read_stream(stream, self.revision, most).await?;
            for recorded in &page {
                let event = recorded.event().map_err(|error| StoreError::Corrupt {
                    position: recorded.position.0,
                    reason: error.to_string(),
                })?;
                if let Some(event) = S::Event::of(event) {
                    self.state.evolve(event, recorded.recorded_at);
                }
                self.revision = recorded.revision;
                self.position = recorded.position;
            }
            if page.len() < most {
                return Ok(());
            }
        }
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(bound = "S: Fold")]
struct SnapshotOf<S> {
    state: S,
}

/// The snapshot of a state.
pub(super) fn snapshot<S: Fold>(state: S, revision: Revision) -> Result<StreamSnapshot, StoreError> {
    let bytes = codec::encode_snapshot(&SnapshotOf { state });
    let bytes = bytes.map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(StreamSnapshot { revision, state_version: S::STATE_VERSION, bytes })
}

/// The state of a stream: its snapshot, if there is a usable one, and the events after it.
pub(super) async fn fold_stream<S: Fold>(
    store: &dyn EventStore,
    stream: &StreamId,
) -> Result<FoldedState<S>, StoreError> {
    let mut folded = FoldedState::begin_at_snapshot(store, stream).await?;
    folded.go_on(store, stream, PAGE).await?;
    Ok(folded)
}

/// The state of a stream that no actor has.
///
/// # Errors
/// The log cannot be read.
pub async fn state_of<S: Fold>(store: &dyn EventStore, stream: &StreamId) -> Result<S, StoreError> {
    Ok(fold_stream(store, stream).await?.state)
}

/// The result of [`keep_state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKeeping {
    /// A snapshot has the state.
    Kept,
    /// The aggregate has ended, or the stream has no aggregate. So nothing needs a snapshot.
    NotNeeded,
}

/// Writes a snapshot of the state that all events of `stream` fold into, and compares what the store gives back. If the
/// present snapshot `is_proved`, the fold begins there. Such a snapshot was compared before the stream's first events
/// left the file. A fold from the first event would read the archive again for each stream.
///
/// # Errors
/// The log cannot be read or written, or the snapshot is not the state.
pub(crate) async fn keep_state<S: Fold>(
    store: &dyn EventStore,
    stream: &StreamId,
    is_proved: bool,
    has_ended: fn(&S) -> bool,
) -> Result<StateKeeping, StoreError> {
    let mut folded = match is_proved {
        true => FoldedState::<S>::begin_at_snapshot(store, stream).await?,
        false => FoldedState::<S>::begin(),
    };
    for _ in 0..TRIES {
        let key = caches_key(store)?;
        folded.go_on(store, stream, KEPT_PAGE).await?;
        if has_ended(&folded.state) {
            return Ok(StateKeeping::NotNeeded);
        }
        let kept = snapshot(folded.state.clone(), folded.revision)?;
        store.save_snapshot(stream, kept.clone()).await?;
        let found = store.load_snapshot(stream).await?;
        // An erasure may have ended since the events were read. Then the snapshot repeats erased data under a new key.
        // The erasure's event was appended before the old key was destroyed, so the next attempt folds it.
        if caches_key(store)? != key || found.is_none() {
            store.forget(std::slice::from_ref(stream)).await?;
            continue;
        }
        // The actor of the stream may have written a newer snapshot in between. Then the newer one is compared.
        if found.is_some_and(|found| found == kept && decodes_to::<S>(&found)) {
            return Ok(StateKeeping::Kept);
        }
    }
    Err(StoreError::Io(format!("the snapshot of {stream} is not the state that its events fold into")))
}

/// The key that seals new snapshots; `None` if the store seals none. Every erasure destroys it.
fn caches_key(store: &dyn EventStore) -> Result<Option<KeySlot>, StoreError> {
    let Some(keys) = store.keys() else { return Ok(None) };
    Ok(Some(keys.current(&DataSubject::Caches)?.0))
}

/// Whether a load would get the state of these bytes.
fn decodes_to<S: Fold>(found: &StreamSnapshot) -> bool {
    let decoded = codec::decode_snapshot::<SnapshotOf<S>>(&found.bytes);
    let again = decoded.ok().and_then(|kept| snapshot(kept.state, found.revision).ok());
    again.as_ref() == Some(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use chronova_events::envelope::{Meta, NewEvent, Recorded, Timestamp};
    use chronova_events::fleet::{self, FleetChanges};
    use chronova_events::sealed::keys::KeyRing;
    use chronova_events::store::memory::MemoryStore;
    use chronova_events::store::tail::Subscription;
    use chronova_events::store::{AppendError, Appended, Expected};

    use super::*;

    /// The events of the fleet, and their stream.
    fn events() -> (Vec<NewEvent>, StreamId) {
        let new = |event: fleet::FleetEvent| NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        (fleet::samples().into_iter().map(new).collect(), StreamId::new("fleet", "main"))
    }

    async fn fleet() -> (Arc<MemoryStore>, StreamId) {
        let (store, (events, stream)) = (MemoryStore::new(), events());
        store.append(&stream, Expected::Any, events).await.unwrap();
        (store, stream)
    }

    /// A log in which an erasure ends just before the first snapshot is written. Its event stays in `erasure` until then.
    struct ErasedMeanwhile {
        log: Arc<MemoryStore>,
        erasure: Mutex<Option<NewEvent>>,
    }

    #[async_trait]
    impl EventStore for ErasedMeanwhile {
        async fn append(
            &self,
            stream: &StreamId,
            expected: Expected,
            events: Vec<NewEvent>,
        ) -> Result<Appended, AppendError> {
            self.log.append(stream, expected, events).await
        }

        async fn read_stream(
            &self,
            stream: &StreamId,
            after: Revision,
            limit: usize,
        ) -> Result<Vec<Arc<Recorded>>, StoreError> {
            self.log.read_stream(stream, after, limit).await
        }

        async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
            self.log.read_all(after, limit).await
        }

        fn subscribe(&self, after: Position) -> Subscription {
            self.log.subscribe(after)
        }

        fn head(&self) -> Position {
            self.log.head()
        }

        fn keys(&self) -> Option<&Arc<KeyRing>> {
            self.log.keys()
        }

        async fn forget(&self, streams: &[StreamId]) -> Result<(), StoreError> {
            self.log.forget(streams).await
        }

        async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
            self.log.load_snapshot(stream).await
        }

        async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
            let erasure = self.erasure.lock().unwrap().take();
            if let Some(event) = erasure {
                self.log.append(stream, Expected::Any, vec![event]).await.unwrap();
                let keys = self.log.keys().unwrap();
                keys.destroy(&DataSubject::Caches, keys.next()).unwrap();
            }
            self.log.save_snapshot(stream, snapshot).await
        }
    }

    #[tokio::test]
    async fn an_erasure_meanwhile_leaves_no_snapshot_from_before_it() {
        let (mut events, stream) = events();
        let erasure = events.pop();
        let log = MemoryStore::with_keys(Some(KeyRing::in_memory().unwrap()));
        log.append(&stream, Expected::Any, events).await.unwrap();
        let store = ErasedMeanwhile { log: Arc::clone(&log), erasure: Mutex::new(erasure) };
        let kept = keep_state::<FleetChanges>(&store, &stream, false, |_| false).await;
        assert_eq!(kept, Ok(StateKeeping::Kept));
        let snapshot = log.load_snapshot(&stream).await.unwrap().unwrap();
        assert_eq!(snapshot.revision, Revision(2), "the snapshot lacks the erasure");
    }

    #[tokio::test]
    async fn a_kept_state_replaces_a_wrong_snapshot() {
        let (store, stream) = fleet().await;
        let right = state_of::<FleetChanges>(&*store, &stream).await.unwrap();
        let revision = fold_stream::<FleetChanges>(&*store, &stream).await.unwrap().revision;
        store.save_snapshot(&stream, snapshot(FleetChanges::default(), revision).unwrap()).await.unwrap();
        let bytes = |state: &FleetChanges| snapshot(state.clone(), revision).unwrap().bytes;
        let wrong = state_of::<FleetChanges>(&*store, &stream).await.unwrap();
        assert_ne!(bytes(&wrong), bytes(&right), "the test has no wrong snapshot");
        // A proved snapshot is taken as it is, and a fold from the first event replaces it.
        for (is_proved, expected) in [(true, &wrong), (false, &right)] {
            let kept = keep_state::<FleetChanges>(&*store, &stream, is_proved, |_| false).await;
            assert_eq!(kept, Ok(StateKeeping::Kept));
            let state = state_of::<FleetChanges>(&*store, &stream).await.unwrap();
            assert_eq!(bytes(&state), bytes(expected), "proved: {is_proved}");
        }
    }

    #[tokio::test]
    async fn the_state_of_an_ended_aggregate_is_not_kept() {
        let (store, stream) = fleet().await;
        let kept = keep_state::<FleetChanges>(&*store, &stream, false, |_| true).await;
        assert_eq!(kept, Ok(StateKeeping::NotNeeded));
        assert_eq!(store.load_snapshot(&stream).await.unwrap(), None);
    }
}
