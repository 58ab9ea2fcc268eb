//! What the Compute API has of its own: its options, and servers as written last.

use super::config::ComputeConfig;
use super::rendered::Rendered;

/// Shared by all requests.
#[derive(Debug, Default)]
pub struct Compute {
    pub config: ComputeConfig,
    pub(super) rendered: Rendered,
}

impl Compute {
    pub fn new(config: ComputeConfig) -> Self {
        Self { config, ..Self::default() }
    }
}
