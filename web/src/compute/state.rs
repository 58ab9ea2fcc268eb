//! The state of the Compute API: its options, and the cache of rendered servers.

use super::config::ComputeConfig;
use super::rendered::RenderedServers;

/// All requests share this state.
#[derive(Debug, Default)]
pub struct ComputeState {
    pub config: ComputeConfig,
    pub(super) rendered: RenderedServers,
}

impl ComputeState {
    pub fn new(config: ComputeConfig) -> Self {
        Self { config, ..Self::default() }
    }
}
