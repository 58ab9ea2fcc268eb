//! Limits on open consoles: in total, for each token, for each server and for each user who got tokens. So a user with
//! many servers cannot use up all consoles.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{InstanceId, UserId};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most consoles with one token. A SPICE viewer opens one for each of its four channels, and a viewer may reconnect
/// before its old connections have timed out.
pub(super) const OF_TOKEN: usize = 8;
/// The most consoles of one server.
pub(super) const OF_SERVER: usize = 16;
/// The most consoles with tokens of one user.
pub(super) const OF_USER: usize = 64;

/// The exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum NoConsoleSlot {
    #[error("the limit of open consoles is reached")]
    Full,
    #[error("the limit of open consoles of this token, server or user is reached")]
    TooMany,
}

/// The keys that open consoles are counted by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SlotCountedBy {
    Token(String),
    Server(InstanceId),
    User(UserId),
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
    by: Vec<SlotCountedBy>,
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

    /// Counts a console of `server` with the token of this hash, or refuses it. `user` got the token.
    pub(super) fn take(
        &self,
        token_hash: &str,
        server: InstanceId,
        user: Option<&UserId>,
    ) -> Result<ConsoleSlot, NoConsoleSlot> {
        let of_all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| NoConsoleSlot::Full)?;
        let mut by = vec![SlotCountedBy::Token(token_hash.to_owned()), SlotCountedBy::Server(server)];
        by.extend(user.cloned().map(SlotCountedBy::User));
        let mut counts = lock(&self.counts);
        for (by, most) in by.iter().zip([OF_TOKEN, OF_SERVER, OF_USER]) {
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
        let mut held: Vec<_> = (0..OF_TOKEN).map(|_| places.take("a", one, None).unwrap()).collect();
        assert!(matches!(places.take("a", one, None), Err(NoConsoleSlot::TooMany)));
        held.extend((OF_TOKEN..OF_SERVER).map(|_| places.take("b", one, None).unwrap()));
        assert!(matches!(places.take("c", one, None), Err(NoConsoleSlot::TooMany)), "another token of the same server");
        let other = places.take("d", two, None).unwrap();
        held.pop();
        drop(places.take("c", one, None).unwrap());
        drop((held, other));
        assert!(lock(&places.counts).is_empty());
        let full: Vec<_> = (0..20).map(|n| places.take(&n.to_string(), InstanceId::random(), None).unwrap()).collect();
        assert!(matches!(places.take("e", one, None), Err(NoConsoleSlot::Full)));
        drop(full);
        places.close();
        assert!(matches!(places.take("e", one, None), Err(NoConsoleSlot::Full)));
    }

    #[test]
    fn a_user_with_many_servers_leaves_consoles_for_others() {
        let places = ConsoleSlots::new(OF_USER * 2);
        let (one, other) = (UserId::new("one"), UserId::new("other"));
        let take = |n: usize, user: &UserId| places.take(&n.to_string(), InstanceId::random(), Some(user));
        let mut held: Vec<_> = (0..OF_USER).map(|n| take(n, &one).unwrap()).collect();
        assert!(matches!(take(OF_USER, &one), Err(NoConsoleSlot::TooMany)));
        drop(take(OF_USER + 1, &other).unwrap());
        held.pop();
        held.push(take(OF_USER, &one).unwrap());
        drop(held);
        assert!(lock(&places.counts).is_empty());
    }
}
