//! Limits on open consoles: in total, for each token and for each server. So a client with one token, or with many
//! tokens of one server, cannot use up all consoles.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chronova_events::ids::InstanceId;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most consoles with one token. It is above one, because a viewer may reconnect before its old connection has
/// timed out.
pub(super) const OF_TOKEN: usize = 4;
/// The most consoles of one server.
pub(super) const OF_SERVER: usize = 8;

/// The exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum NoConsoleSlot {
    #[error("the limit of open consoles is reached")]
    Full,
    #[error("the limit of open consoles of this token or server is reached")]
    TooMany,
}

/// The keys that open consoles are counted by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SlotCountedBy {
    Token(String),
    Server(InstanceId),
}

type Counts = HashMap<SlotCountedBy, usize>;

#[derive(Debug)]
pub(super) struct ConsoleSlots {
    all: Arc<Semaphore>,
    counts: Arc<Mutex<Counts>>,
}

/// A console that counts as open until this value is dropped.
#[derive(Debug)]
pub(super) struct ConsoleSlot {
    _of_all: OwnedSemaphorePermit,
    by: [SlotCountedBy; 2],
    counts: Arc<Mutex<Counts>>,
}

impl ConsoleSlots {
    pub(super) fn new(most: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), counts: Arc::default() }
    }

    /// Refuses all further consoles.
    pub(super) fn close(&self) {
        self.all.close();
    }

    /// Counts a console of `server` with the token of this hash, or refuses it.
    pub(super) fn take(&self, token_hash: &str, server: InstanceId) -> Result<ConsoleSlot, NoConsoleSlot> {
        let of_all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| NoConsoleSlot::Full)?;
        let by = [SlotCountedBy::Token(token_hash.to_owned()), SlotCountedBy::Server(server)];
        let mut counts = lock(&self.counts);
        for (by, most) in by.iter().zip([OF_TOKEN, OF_SERVER]) {
            if counts.get(by).is_some_and(|count| *count >= most) {
                return Err(NoConsoleSlot::TooMany);
            }
        }
        for by in &by {
            *counts.entry(by.clone()).or_default() += 1;
        }
        Ok(ConsoleSlot { _of_all: of_all, by, counts: Arc::clone(&self.counts) })
    }
}

impl Drop for ConsoleSlot {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        for by in &self.by {
            if let Some(count) = counts.get_mut(by) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(by);
                }
            }
        }
    }
}

/// Ignores poisoning, because no change of the counts can panic half-way.
fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_token_and_each_server_has_a_limit() {
        let places = ConsoleSlots::new(20);
        let (one, two) = (InstanceId::random(), InstanceId::random());
        let mut held: Vec<_> = (0..OF_TOKEN).map(|_| places.take("a", one).unwrap()).collect();
        assert!(matches!(places.take("a", one), Err(NoConsoleSlot::TooMany)));
        held.extend((OF_TOKEN..OF_SERVER).map(|_| places.take("b", one).unwrap()));
        assert!(matches!(places.take("c", one), Err(NoConsoleSlot::TooMany)), "another token of the same server");
        let other = places.take("d", two).unwrap();
        held.pop();
        drop(places.take("c", one).unwrap());
        drop((held, other));
        assert!(lock(&places.counts).is_empty());
        let full: Vec<_> = (0..20).map(|n| places.take(&n.to_string(), InstanceId::random()).unwrap()).collect();
        assert!(matches!(places.take("e", one), Err(NoConsoleSlot::Full)));
        drop(full);
        places.close();
        assert!(matches!(places.take("e", one), Err(NoConsoleSlot::Full)));
    }
}
