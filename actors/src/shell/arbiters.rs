//! The threads on which actors live.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use actix::{Arbiter, ArbiterHandle};

/// A fixed set of actor threads. Must be made, and outlived, by an actix system.
#[derive(Debug)]
pub struct Arbiters {
    arbiters: Vec<Arbiter>,
}

impl Arbiters {
    pub fn start(threads: usize) -> Self {
        Self { arbiters: (0..threads.max(1)).map(|_| Arbiter::new()).collect() }
    }

    /// The thread on which the actor of `key` lives; always the same one.
    pub fn of(&self, key: &impl Hash) -> ArbiterHandle {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % self.arbiters.len() as u64).unwrap_or(0);
        self.arbiters[index].handle()
    }

    /// Ends all actors. What was acknowledged is in the log; what was not is not.
    pub fn stop(&self) {
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
    }
}

impl Drop for Arbiters {
    fn drop(&mut self) {
        self.stop();
    }
}
