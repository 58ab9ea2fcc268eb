//! What a reconciler has at hand: the read models that its plan reads, and what its actions need.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use chronova_projections::views::Views;

use super::options::{ImageCacheOptions, ReconcileOptions};
use super::placement::PlacementMirror;
use crate::coordination::image_holds::ImageHolds;
use crate::gateway::Gateway;
use crate::hosts::fleet::Fleet;
use crate::hosts::options::HostOptions;
use crate::ports::Networks;
use crate::server_options::ServerOptions;

/// Shared by all reconcilers.
pub struct ReconcileContext {
    pub gateway: Arc<Gateway>,
    pub views: Arc<Views>,
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub fleet: Arc<Fleet>,
    pub networks: Arc<dyn Networks>,
    pub image_holds: Arc<ImageHolds>,
    pub placement: Arc<PlacementMirror>,
    pub options: ReconcileOptions,
    pub image_cache: ImageCacheOptions,
    pub host_options: Arc<HostOptions>,
    pub server_options: Arc<ServerOptions>,
}

impl std::fmt::Debug for ReconcileContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReconcileContext").field("options", &self.options).finish_non_exhaustive()
    }
}
