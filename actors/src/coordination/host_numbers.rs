//! The counter that numbers hosts. Two members that count at the same time would give one number to two hosts.
//!
//! After a restart, the counter continues after the highest number in the log.

use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of new hosts.
#[derive(Debug, Default)]
pub struct HostNumbers(AtomicU64);

impl HostNumbers {
    /// `highest`: the highest number that a host has in the log.
    pub fn after(highest: u64) -> Self {
        Self(AtomicU64::new(highest))
    }

    /// The number of the next host. Numbers may have gaps.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
