//! The newest events in memory, so that live subscribers need not read them back from the store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::{EventStore, StoreError};
use crate::envelope::{Position, Recorded};
use crate::pointer::PositionWatch;

/// The number of recent events in memory. A subscriber that is further behind reads from the store.
const KEPT: usize = 16_384;
/// The largest number of events that a subscriber gets at once.
const BATCH: usize = 4_096;

/// The newest events: all events after `floor`.
#[derive(Debug)]
struct RecentEvents {
    floor: Position,
    events: VecDeque<Arc<Recorded>>,
}

/// The live end of a log. The back end publishes each durable batch in the order of positions.
#[derive(Debug)]
pub struct Tail {
    recent: Mutex<RecentEvents>,
    head: PositionWatch,
    closed: AtomicBool,
}

impl Tail {
    pub fn new(head: Position) -> Arc<Self> {
        Arc::new(Self {
            recent: Mutex::new(RecentEvents { floor: head, events: VecDeque::new() }),
            head: PositionWatch::new(head),
            closed: AtomicBool::new(false),
        })
    }

    fn recent(&self) -> MutexGuard<'_, RecentEvents> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn head(&self) -> Position {
        self.head.get()
    }

    /// Publishes a durable batch. Batches come in the order of positions.
    pub fn publish(&self, batch: impl IntoIterator<Item = Arc<Recorded>>) {
        let mut recent = self.recent();
        recent.events.extend(batch);
        while recent.events.len() > KEPT {
            if let Some(gone) = recent.events.pop_front() {
                recent.floor = gone.position;
            }
        }
        if let Some(last) = recent.events.back() {
            self.head.set(last.position);
        }
    }

    /// Drops the events in memory. A subscriber that has not received them reads them from the store, without the
    /// erased fields.
    pub fn forget(&self) {
        let mut recent = self.recent();
        recent.floor = self.head.get();
        recent.events.clear();
    }

    /// Waits up to `patience` until the event at `position` is published. The event is durable, but its publication may
    /// be late.
    pub async fn reached(&self, position: Position, patience: Duration) -> Result<(), StoreError> {
        let here = async {
            loop {
                let moved = self.head.moved();
                if self.head() >= position || self.is_closed() {
                    return;
                }
                moved.await;
            }
        };
        if tokio::time::timeout(patience, here).await.is_err() {
            return Err(StoreError::Io(format!(
                "the event at {position} was appended, but reading the log does not return it"
            )));
        }
        if self.head() < position { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Closes the tail: subscribers get the events in memory, then [`StoreError::Closed`].
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.head.wake();
    }

    /// Like [`Tail::close`], but also drops the events that subscribers have not received yet.
    pub fn cut(&self) {
        *self.recent() = RecentEvents { floor: Position(u64::MAX), events: VecDeque::new() };
        self.close();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// The events after `after`; `None` if some of them are no longer in memory.
    fn after(&self, after: Position) -> Option<Vec<Arc<Recorded>>> {
        let recent = self.recent();
        if after < recent.floor {
            return None;
        }
        let start = recent.events.partition_point(|event| event.position <= after);
        Some(recent.events.iter().skip(start).take(BATCH).cloned().collect())
    }
}

/// Reads the log from a position on, and then follows it live. Events come in order, without gaps or duplicates.
pub struct Subscription {
    store: Weak<dyn EventStore>,
    tail: Arc<Tail>,
    after: Position,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("after", &self.after).finish_non_exhaustive()
    }
}

impl Subscription {
    /// `store` is held weakly, so that a forgotten subscription does not keep a closed log open.
    pub fn new(store: Weak<dyn EventStore>, tail: &Arc<Tail>, after: Position) -> Self {
        Self { store, tail: Arc::clone(tail), after }
    }

    /// The position of the last delivered event.
    pub fn position(&self) -> Position {
        self.after
    }

    /// The next events, at least one. Waits for them.
    pub async fn next(&mut self) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let tail = Arc::clone(&self.tail);
        loop {
            let moved = tail.head.moved();
            let batch = self.available().await?;
            if let Some(last) = batch.last() {
                self.after = last.position;
                return Ok(batch);
            }
            moved.await;
        }
    }

    /// The events that are available now, possibly none. Does not wait.
    pub async fn poll(&mut self) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let batch = self.available().await?;
        if let Some(last) = batch.last() {
            self.after = last.position;
        }
        Ok(batch)
    }

    async fn available(&self) -> Result<Vec<Arc<Recorded>>, StoreError> {
        if self.tail.head() <= self.after {
            return if self.tail.is_closed() { Err(StoreError::Closed) } else { Ok(Vec::new()) };
        }
        match self.tail.after(self.after) {
            Some(batch) => Ok(batch),
            None => self.store.upgrade().ok_or(StoreError::Closed)?.read_all(self.after, BATCH).await,
        }
    }
}
