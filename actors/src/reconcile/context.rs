//! The context of reconcilers: the read models that plans read, and the parts that actions use.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use chronova_hypervisor::driver::Driver;
use chronova_projections::views::Views;

use super::options::{ImageCacheOptions, ReconcileOptions};
use super::placement::PlacementMirror;
use super::reconciler::Situation;
use crate::coordination::image_holds::ImageHolds;
use crate::gateway::CommandGateway;
use crate::hosts::fleet::ConnectedHosts;
use crate::hosts::options::HostOptions;
use crate::ports::NetworkService;
use crate::server_options::ServerOptions;

/// Shared by all reconcilers.
pub struct ReconcileContext {
    pub gateway: Arc<CommandGateway>,
    pub views: Arc<Views>,
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub fleet: Arc<ConnectedHosts>,
    pub networks: Arc<dyn NetworkService>,
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

impl ReconcileContext {
    /// The drivers of the hosts that this log may drive.
    pub fn driven(&self) -> Vec<Arc<dyn Driver>> {
        let mut drivers = self.fleet.drivers();
        drivers.retain(|driver| !self.host_options.fenced || self.fleet.is_admitted(driver.uri()));
        drivers
    }

    /// Whether a host has not answered yet since start-up, so that nobody knows whether this log may drive it.
    pub fn awaits_hosts(&self) -> bool {
        self.host_options.fenced && self.fleet.drivers().iter().any(|driver| self.fleet.is_unheard(driver.uri()))
    }

    /// The present input of plans.
    pub fn situation(&self) -> Situation<'_> {
        Situation {
            views: &self.views,
            now: self.clock.now(),
            options: &self.options,
            server_options: &self.server_options,
            doubt: self.fleet.doubt(),
        }
    }
}
