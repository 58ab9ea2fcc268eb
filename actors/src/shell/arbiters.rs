//! The threads on which actors run.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use actix::{Arbiter, ArbiterHandle};

/// A fixed set of actor threads. An actix system must create and outlive it.
#[derive(Debug)]
pub struct Arbiters {
    arbiters: Vec<Arbiter>,
    handles: Vec<ArbiterHandle>,
}

impl Arbiters {
    /// Starts the threads. With 0, the actors run on the calling thread, so that everything runs there in one order.
    pub fn start(threads: usize) -> Self {
        let arbiters: Vec<_> = (0..threads).map(|_| Arbiter::new()).collect();
        let handles = match threads {
            0 => vec![Arbiter::current()],
            _ => arbiters.iter().map(Arbiter::handle).collect(),
        };
        Self { arbiters, handles }
    }

    /// No thread, for a process that starts no actor.
    pub fn none() -> Self {
        Self { arbiters: Vec::new(), handles: Vec::new() }
    }

    /// The thread of the actor of `key`; `None` if there is no thread. The same key always gives the same thread.
    pub fn of(&self, key: &impl Hash) -> Option<ArbiterHandle> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let index = hasher.finish().checked_rem(self.handles.len() as u64)?;
        self.handles.get(usize::try_from(index).ok()?).cloned()
    }

    /// Ends all actors. Acknowledged commands are in the log; others may be lost.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_actor_threads_has_a_thread_for_no_key() {
        assert!(Arbiters::none().of(&"instance").is_none());
    }
}
