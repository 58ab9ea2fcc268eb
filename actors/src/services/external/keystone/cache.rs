//! Caches Keystone's answers about tokens for a short time.
//!
//! A token's fingerprint is the key, so the cache holds no token. The number of entries is bounded, and the oldest
//! entry is removed first. A token that Keystone does not know is not cached, because anybody can make one up.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ports::identity::TokenOwner;

/// The SHA-256 of a token.
pub(super) type Fingerprint = [u8; 32];

/// The most entries. An entry has some kilobytes.
const MOST: usize = 10_000;

#[derive(Debug)]
pub(super) struct TokenCache {
    /// How long an entry is valid; `None`: nothing is cached.
    time: Option<Duration>,
    most: usize,
    kept: Mutex<KeptTokens>,
}

#[derive(Debug, Default)]
struct KeptTokens {
    by_fingerprint: HashMap<Fingerprint, (Arc<TokenOwner>, Instant)>,
    /// The entries in the order of their insertion. An entry that was inserted again is here twice; its time says which
    /// of the two is current.
    order: VecDeque<(Fingerprint, Instant)>,
}

impl TokenCache {
    pub(super) fn new(time: Option<Duration>) -> Self {
        Self { time, most: MOST, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, KeptTokens> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, token: &Fingerprint, now: Instant) -> Option<Arc<TokenOwner>> {
        let time = self.time?;
        let kept = self.kept();
        let (owner, since) = kept.by_fingerprint.get(token)?;
        (now.saturating_duration_since(*since) < time).then(|| Arc::clone(owner))
    }

    pub(super) fn put(&self, token: Fingerprint, owner: &Arc<TokenOwner>, now: Instant) {
        let Some(time) = self.time else { return };
        let mut kept = self.kept();
        kept.by_fingerprint.insert(token, (Arc::clone(owner), now));
        kept.order.push_back((token, now));
        while let Some((oldest, since)) = kept.order.front().copied() {
            let old = now.saturating_duration_since(since) >= time || kept.order.len() > self.most;
            if !old {
                break;
            }
            kept.order.pop_front();
            if kept.by_fingerprint.get(&oldest).is_some_and(|(_, put)| *put == since) {
                kept.by_fingerprint.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Arc<TokenOwner> {
        Arc::new(TokenOwner::unscoped("u".into()))
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_entry_counts_for_its_time() {
        let (cache, start) = (TokenCache::new(Some(SECOND * 5)), Instant::now());
        cache.put([1; 32], &owner(), start);
        assert!(cache.get(&[1; 32], start + SECOND * 4).is_some());
        assert!(cache.get(&[1; 32], start + SECOND * 5).is_none());
        assert!(cache.get(&[2; 32], start).is_none());
        cache.put([1; 32], &owner(), start + SECOND * 4);
        cache.put([2; 32], &owner(), start + SECOND * 6);
        assert!(cache.get(&[1; 32], start + SECOND * 6).is_some(), "the entry that was inserted again is there");
        assert_eq!(cache.kept().by_fingerprint.len(), 2);
        cache.put([3; 32], &owner(), start + SECOND * 60);
        let kept = cache.kept();
        assert_eq!((kept.by_fingerprint.len(), kept.order.len()), (1, 1), "expired entries are removed");
    }

    #[test]
    fn the_oldest_goes_first() {
        let cache = TokenCache { most: 2, ..TokenCache::new(Some(SECOND)) };
        let now = Instant::now();
        for token in 1..=3 {
            cache.put([token; 32], &owner(), now);
        }
        assert!(cache.get(&[1; 32], now).is_none());
        assert!(cache.get(&[2; 32], now).is_some() && cache.get(&[3; 32], now).is_some());
    }

    #[test]
    fn nothing_is_kept_without_a_time() {
        let (cache, now) = (TokenCache::new(None), Instant::now());
        cache.put([1; 32], &owner(), now);
        assert!(cache.get(&[1; 32], now).is_none());
    }
}
