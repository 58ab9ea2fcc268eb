//! The completion timeout of live migrations.
//!
//! Two members must not watch the same live migration. Only the leader watches, so only the leader's memory has the
//! timeout. SIGHUP replaces the timeout, and the next poll of each migration reads it.

use std::sync::atomic::{AtomicU64, Ordering};

/// `[libvirt] live_migration_completion_timeout`: seconds for each GiB; 0 means no limit.
#[derive(Debug)]
pub struct CompletionTimeout(AtomicU64);

impl CompletionTimeout {
    pub fn new(seconds: u64) -> Self {
        Self(AtomicU64::new(seconds))
    }

    pub fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the timeout, also for migrations under way.
    pub fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}
