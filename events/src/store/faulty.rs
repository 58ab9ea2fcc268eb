//! A log that fails at a chosen append, to simulate crashes for the crash tests.
//!
//! The crash that is hardest to recover from comes after an event became durable, and before its process gets the
//! reply. [`FuseStore`] wraps the log of a test world and simulates this crash at the nth append. Later writes of that
//! world do not reach the log. The test then builds a new world on the same inner log.
//!
//! A fuse can also blow right before its append, which then never reaches the log ([`FuseStore::lose`]). Hosts and
//! other services keep the effects of all calls since the previous append.
//!
//! A store can also lose the reply of one append and continue ([`FuseStore::lose_reply`]), as after a broken
//! connection.
//!
//! Appends are performed one at a time, so that "the nth append" is the same one in every run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::tail::{Subscription, Tail};
use super::{AppendError, AppendRight, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::holds::LegalHolds;
use crate::sealed::keys::KeyRing;

/// A log with a fuse. Before the fuse blows, all calls pass. Afterwards, reads and writes fail with
/// [`StoreError::Closed`].
pub struct FuseStore {
    inner: Arc<dyn EventStore>,
    /// The number of the append that becomes durable but loses its reply, counted from 1. 0: no such append.
    fuse: AtomicU64,
    /// Whether the fatal append is lost, instead of its reply.
    loses: AtomicBool,
    appends: AtomicU64,
    streams: std::sync::Mutex<Vec<StreamId>>,
    /// The category whose next append loses its reply, although the log continues.
    unanswered: std::sync::Mutex<Option<&'static str>>,
    /// The category whose streams cannot be read.
    unreadable: std::sync::Mutex<Option<&'static str>>,
    dead: Arc<AtomicBool>,
    /// A tail of its own, because subscribers of a dead world must not see the fatal event.
    tail: Arc<Tail>,
    one_at_a_time: Mutex<()>,
    this: Weak<Self>,
}

impl std::fmt::Debug for FuseStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FuseStore")
            .field("fuse", &self.fuse.load(Ordering::SeqCst))
            .field("appends", &self.appends())
            .field("dead", &self.is_blown())
            .finish_non_exhaustive()
    }
}

impl FuseStore {
    /// Wraps `inner`. With `fuse: None` the appends are only counted, until [`Self::arm`] or [`Self::blow`] is called.
    pub fn new(inner: Arc<dyn EventStore>, fuse: Option<u64>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            fuse: AtomicU64::new(fuse.unwrap_or(0)),
            loses: AtomicBool::new(false),
            appends: AtomicU64::new(0),
            streams: std::sync::Mutex::default(),
            unanswered: std::sync::Mutex::default(),
            unreadable: std::sync::Mutex::default(),
            dead: Arc::default(),
            tail: Tail::new(inner.head()),
            one_at_a_time: Mutex::new(()),
            this: this.clone(),
            inner,
        })
    }

    /// Whether the fuse has blown.
    pub fn is_blown(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// The number of durable appends, the fatal one included. Refused appends are not counted.
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::SeqCst)
    }

    /// The stream of each append, in order.
    pub fn streams(&self) -> Vec<StreamId> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Becomes true when the fuse blows, for drivers and ports that have to fail with their world.
    pub fn dead(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.dead)
    }

    /// Lets the fuse blow at the nth append from now; `None`: never.
    pub fn arm(&self, from_now: Option<u64>) {
        let fuse = from_now.map_or(0, |from_now| self.appends() + from_now.max(1));
        self.fuse.store(fuse, Ordering::SeqCst);
    }

    /// Makes the fatal append fail before it reaches the log.
    pub fn lose(&self) {
        self.loses.store(true, Ordering::SeqCst);
    }

    /// Lets the next append to a stream of this category become durable without a reply. Streams of the category cannot
    /// be read afterwards, until [`Self::answer_again`]. All other streams continue.
    pub fn lose_reply(&self, category: &'static str) {
        *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(category);
    }

    /// Ends the outage that [`Self::lose_reply`] began.
    pub fn answer_again(&self) {
        *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the append to this stream loses its reply.
    fn loses_reply(&self, stream: &StreamId) -> bool {
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(category) = unanswered.take_if(|category| *category == stream.category()) else { return false };
        *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = Some(category);
        true
    }

    /// Blows the fuse now.
    pub fn blow(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.tail.cut();
    }

    /// The log that survives this world.
    pub fn inner(&self) -> &Arc<dyn EventStore> {
        &self.inner
    }

    fn alive(&self) -> Result<(), StoreError> {
        if self.is_blown() { Err(StoreError::Closed) } else { Ok(()) }
    }

    async fn publish(&self) -> Result<(), StoreError> {
        loop {
            let batch = self.inner.read_all(self.tail.head(), 1_024).await?;
            if batch.is_empty() {
                return Ok(());
            }
            self.tail.publish(batch);
        }
    }
}

#[async_trait]
impl EventStore for FuseStore {
    fn append_right(&self) -> Option<AppendRight> {
        self.inner.append_right()
    }

    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        let _turn = self.one_at_a_time.lock().await;
        // An empty append writes nothing, so no crash is simulated there.
        let counts = !events.is_empty();
        let fatal = self.fuse.load(Ordering::SeqCst) == self.appends() + 1;
        if counts && fatal && self.loses.load(Ordering::SeqCst) {
            self.blow();
        }
        self.alive()?;
        let appended = self.inner.append(stream, expected, events).await?;
        if counts {
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream.clone());
            let nth = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
            if self.fuse.load(Ordering::SeqCst) == nth {
                self.blow();
            }
        }
        self.alive()?;
        self.publish().await?;
        match counts && self.loses_reply(stream) {
            true => Err(AppendError::Store(StoreError::Io("the reply is lost".to_owned()))),
            false => Ok(appended),
        }
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.alive()?;
        let unreadable = *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if unreadable == Some(stream.category()) {
            return Err(StoreError::Io("the stream cannot be read".to_owned()));
        }
        self.inner.read_stream(stream, after, limit).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.alive()?;
        self.inner.read_all(after, limit).await
    }

    fn subscribe(&self, after: Position) -> Subscription {
        let store: Weak<dyn EventStore> = self.this.clone();
        Subscription::new(store, &self.tail, after)
    }

    fn head(&self) -> Position {
        self.tail.head()
    }

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        self.inner.keys()
    }

    fn holds(&self) -> Result<LegalHolds, StoreError> {
        self.inner.holds()
    }

    async fn forget(&self, streams: &[StreamId]) -> Result<(), StoreError> {
        self.alive()?;
        self.tail.forget();
        self.inner.forget(streams).await
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        self.alive()?;
        self.inner.load_snapshot(stream).await
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        self.alive()?;
        self.inner.save_snapshot(stream, snapshot).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::envelope::{Meta, Timestamp};
    use crate::keypair;
    use crate::store::memory::MemoryStore;

    fn event() -> Vec<NewEvent> {
        let event = keypair::samples().remove(0);
        vec![NewEvent::new(event, Timestamp(1), &Meta::system("test"))]
    }

    #[tokio::test]
    async fn the_fatal_append_is_durable_without_a_reply_and_is_the_last() {
        let inner = MemoryStore::new();
        let store = FuseStore::new(inner.clone(), Some(2));
        let stream = StreamId::new("keypair", "a");
        let mut subscription = store.subscribe(Position::START);
        let refused = store.append(&stream, Expected::Exact(Revision(7)), event()).await;
        assert!(matches!(refused, Err(AppendError::Conflict { .. })), "the append must be refused");
        store.append(&stream, Expected::Any, event()).await.unwrap();
        assert_eq!(subscription.next().await.unwrap().len(), 1);
        let lost = store.append(&stream, Expected::Any, event()).await;
        assert_eq!(lost, Err(AppendError::Store(StoreError::Closed)));
        assert!(store.is_blown() && store.dead().load(Ordering::SeqCst));
        assert_eq!(store.appends(), 2);
        assert_eq!(inner.head(), Position(2), "the fatal append must be durable");
        assert_eq!(subscription.next().await.unwrap_err(), StoreError::Closed, "the subscriber must not get the event");
        assert_eq!(
            store.append(&stream, Expected::Any, event()).await.unwrap_err(),
            AppendError::Store(StoreError::Closed)
        );
        assert_eq!(store.read_all(Position::START, 9).await.unwrap_err(), StoreError::Closed);
        assert_eq!(store.read_stream(&stream, Revision::NONE, 9).await.unwrap_err(), StoreError::Closed);
        assert_eq!(inner.head(), Position(2), "a dead world must not append");
        let reborn = FuseStore::new(inner, None);
        assert_eq!(reborn.subscribe(Position::START).next().await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_lost_append_never_reaches_the_log() {
        let inner = MemoryStore::new();
        let store = FuseStore::new(inner.clone(), Some(2));
        store.lose();
        let stream = StreamId::new("keypair", "a");
        store.append(&stream, Expected::Any, event()).await.unwrap();
        assert!(!store.is_blown());
        let lost = store.append(&stream, Expected::Any, event()).await;
        assert_eq!(lost, Err(AppendError::Store(StoreError::Closed)));
        assert!(store.is_blown());
        assert_eq!(inner.head(), Position(1));
    }

    #[tokio::test]
    async fn a_waiting_subscriber_learns_of_the_death() {
        let store = FuseStore::new(MemoryStore::new(), None);
        let mut subscription = store.subscribe(Position::START);
        let waiting = tokio::spawn(async move { subscription.next().await });
        tokio::task::yield_now().await;
        store.blow();
        assert_eq!(waiting.await.unwrap().unwrap_err(), StoreError::Closed);
    }
}
