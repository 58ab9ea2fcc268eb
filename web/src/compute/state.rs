//! What the Compute API has of its own: its options, the counter that numbers servers, and servers as written last.

use std::sync::atomic::{AtomicU64, Ordering};

use chronova_actors::house::House;

use super::config::ComputeConfig;
use super::rendered::Rendered;

/// One per process.
#[derive(Debug, Default)]
pub struct Compute {
    pub config: ComputeConfig,
    pub(super) rendered: Rendered,
    numbered: AtomicU64,
}

impl Compute {
    pub fn new(config: ComputeConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// The number of the next server: it names the domain, so no two servers share one. The log knows the numbers given
    /// out before this process started.
    pub(super) fn next_number(&self, house: &House) -> u64 {
        self.numbered
            .fetch_max(house.views.servers.read(chronova_projections::servers::Servers::requested), Ordering::Relaxed);
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }
}
