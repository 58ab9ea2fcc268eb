//! Rate limits: each project has a bucket of tokens that refills steadily, and each request takes one token. A user
//! whose token has no project has a separate bucket.
//!
//! The limits are off unless `[chronova] rate_limit` sets a number of requests per second. They do not apply to
//! administrators and services, who must be able to repair an overloaded deployment. Invariant: memory is bounded.
//! Above [`MOST_BUCKETS`], full buckets are dropped. If too many remain, new projects share one bucket.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Above this number of buckets, full buckets are dropped.
const MOST_BUCKETS: usize = 10_000;
/// The key of the bucket that new projects share when there are too many buckets.
const EVERYBODY_ELSE: &str = "";

#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    tokens: f64,
    at: Instant,
}

/// A bucket for each key, for example for each project.
#[derive(Debug)]
pub struct RateLimits {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<String, TokenBucket>>,
}

impl RateLimits {
    /// Full buckets that refill at this rate. `None` if `per_second` is 0, which means no limit.
    pub fn new(per_second: f64, burst: u32) -> Option<Self> {
        let burst = f64::from(burst.max(1)).max(per_second);
        (per_second > 0.0).then(|| Self { per_second, burst, buckets: Mutex::default() })
    }

    /// Takes a token from the bucket of `key`. `Err`: the seconds until the bucket has a token again.
    pub fn take(&self, key: &str, now: Instant) -> Result<(), u64> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = key;
        if buckets.len() >= MOST_BUCKETS && !buckets.contains_key(key) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
            if buckets.len() >= MOST_BUCKETS {
                key = EVERYBODY_ELSE;
            }
        }
        let bucket = buckets.entry(key.to_owned()).or_insert(TokenBucket { tokens: self.burst, at: now });
        *bucket = TokenBucket { tokens: self.filled(bucket, now), at: now };
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        let seconds = ((1.0 - bucket.tokens) / self.per_second).ceil();
        // `seconds` is small, because it is at most the time in which one token refills.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
        Err((seconds as u64).max(1))
    }

    /// Puts a token back, for an attempt that is not counted after all.
    pub fn give_back(&self, key: &str) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = if buckets.contains_key(key) { key } else { EVERYBODY_ELSE };
        if let Some(bucket) = buckets.get_mut(key) {
            bucket.tokens = (bucket.tokens + 1.0).min(self.burst);
        }
    }

    fn filled(&self, bucket: &TokenBucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_passes_and_then_the_rate_counts() {
        let limits = RateLimits::new(2.0, 3).unwrap();
        let begin = Instant::now();
        for _ in 0..3 {
            assert_eq!(limits.take("p", begin), Ok(()));
        }
        assert_eq!(limits.take("p", begin), Err(1));
        assert_eq!(limits.take("other", begin), Ok(()), "one project used up the bucket of another");
        assert_eq!(limits.take("p", begin + Duration::from_millis(500)), Ok(()));
        assert_eq!(limits.take("p", begin + Duration::from_millis(600)), Err(1));
        let later = begin + Duration::from_mins(1);
        assert_eq!((0..4).filter(|_| limits.take("p", later).is_ok()).count(), 3, "tokens after a long pause");
        assert!(RateLimits::new(0.0, 3).is_none());
    }

    #[test]
    fn slow_rates_say_how_long() {
        let limits = RateLimits::new(0.1, 1).unwrap();
        let begin = Instant::now();
        assert_eq!(limits.take("p", begin), Ok(()));
        assert_eq!(limits.take("p", begin), Err(10));
    }

    #[test]
    fn full_buckets_are_forgotten_when_there_are_many() {
        let limits = RateLimits::new(1.0, 1).unwrap();
        let begin = Instant::now();
        for n in 0..MOST_BUCKETS {
            limits.take(&n.to_string(), begin).unwrap();
        }
        limits.take("one more", begin + Duration::from_secs(5)).unwrap();
        assert_eq!(limits.buckets.lock().unwrap().len(), 1);
    }

    #[test]
    fn new_projects_share_a_bucket_when_too_many_are_in_use() {
        let limits = RateLimits::new(0.001, 2).unwrap();
        let begin = Instant::now();
        for n in 0..MOST_BUCKETS + 2 {
            limits.take(&n.to_string(), begin).unwrap();
        }
        assert!(limits.take("one more", begin).is_err());
        assert_eq!(limits.buckets.lock().unwrap().len(), MOST_BUCKETS + 1);
        limits.give_back("one more");
        assert_eq!(limits.take("another", begin), Ok(()));
        assert_eq!(limits.take("7", begin), Ok(()), "a known project takes tokens from the shared bucket");
    }
}
