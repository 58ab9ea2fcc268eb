//! What the Compute API has of its own: its options, and the counter that numbers servers.

use std::sync::atomic::{AtomicU64, Ordering};

use chronova_actors::house::House;

use super::config::ComputeConfig;

/// One per process.
#[derive(Debug, Default)]
pub struct Compute {
    pub config: ComputeConfig,
    numbered: AtomicU64,
}

impl Compute {
    pub fn new(config: ComputeConfig) -> Self {
        Self { config, numbered: AtomicU64::new(0) }
    }

    /// The number of the next server: it names the domain, so no two servers share one. The log knows the numbers given
    /// out before this process started.
    pub(super) fn next_number(&self, house: &House) -> u64 {
        self.numbered
            .fetch_max(house.views.servers.read(chronova_projections::servers::Servers::requested), Ordering::Relaxed);
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }
}
