//! A position in the log that tasks can wait for.
//!
//! Waiting tasks are woken in the order in which they began to wait. So the same seed gives the same run
//! ([`crate::entropy`]). tokio's `watch` wakes them in random order.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::envelope::Position;

/// A position, and the tasks that wait for its next change.
#[derive(Debug)]
pub struct PositionWatch {
    at: AtomicU64,
    moved: Notify,
}

impl PositionWatch {
    pub fn new(at: Position) -> Self {
        Self { at: AtomicU64::new(at.0), moved: Notify::new() }
    }

    pub fn get(&self) -> Position {
        Position(self.at.load(Ordering::SeqCst))
    }

    /// Sets the position and wakes all waiting tasks.
    pub fn set(&self, at: Position) {
        self.at.store(at.0, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes all waiting tasks without a change of the position, because something else happened.
    pub fn wake(&self) {
        self.moved.notify_waiters();
    }

    /// Returns a future that completes at the first `set` or `wake` after this call, even if the future is polled only
    /// later. A task that calls this before it reads the position misses no change.
    pub fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Waits until the position is at `position` or beyond.
    pub async fn reaches(&self, position: Position) {
        loop {
            let moved = self.moved();
            if self.get() >= position {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn waiting_tasks_are_woken_in_their_order() {
        let (pointer, woken) = (Arc::new(PositionWatch::new(Position(1))), Arc::new(Mutex::new(Vec::new())));
        pointer.reaches(Position(1)).await;
        let waiting: Vec<_> = (0..20)
            .map(|nth| {
                let (pointer, woken) = (Arc::clone(&pointer), Arc::clone(&woken));
                tokio::spawn(async move {
                    pointer.reaches(Position(3)).await;
                    woken.lock().unwrap().push(nth);
                })
            })
            .collect();
        for position in 2..=3 {
            tokio::task::yield_now().await;
            assert_eq!(*woken.lock().unwrap(), Vec::<i32>::new());
            pointer.set(Position(position));
        }
        for one in waiting {
            one.await.unwrap();
        }
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_between_reading_and_waiting_is_not_missed() {
        let pointer = PositionWatch::new(Position(0));
        let moved = pointer.moved();
        pointer.set(Position(1));
        moved.await;
        let moved = pointer.moved();
        pointer.wake();
        moved.await;
        assert_eq!(pointer.get(), Position(1));
    }
}
