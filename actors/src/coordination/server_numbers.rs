//! The counter that numbers servers. Two members that count at the same time would use a number twice.
//!
//! The number is part of the libvirt domain's name. The log has the numbers of earlier servers.

use std::sync::atomic::{AtomicU64, Ordering};

use chronova_projections::servers::Servers;
use chronova_projections::views::Views;

/// The numbers of new servers.
#[derive(Debug, Default)]
pub struct ServerNumbers(AtomicU64);

impl ServerNumbers {
    /// The number of the next server. Numbers may have gaps.
    pub fn next(&self, views: &Views) -> u64 {
        self.0.fetch_max(views.servers.read(Servers::requested), Ordering::Relaxed);
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
