//! The parts that host agents share.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::ids::HostId;
use chronova_events::store::EventStore;
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;

use super::fleet::ConnectedHosts;
use super::options::HostOptions;
use crate::coordination::disk_claims::DiskClaims;
use crate::coordination::image_holds::ImageHolds;
use crate::gateway::CommandGateway;
use crate::image_signatures::ImageSignatures;
use crate::ports::{ImageService, NetworkService, VolumeService};
use crate::reconcile::options::ImageCacheOptions;

/// Shared by the agents of all hosts.
pub struct HostContext {
    pub gateway: Arc<CommandGateway>,
    pub views: Arc<Views>,
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub fleet: Arc<ConnectedHosts>,
    pub networks: Arc<dyn NetworkService>,
    pub images: Arc<dyn ImageService>,
    pub signatures: Arc<ImageSignatures>,
    pub volumes: Arc<dyn VolumeService>,
    pub disk_claims: Arc<DiskClaims>,
    pub image_holds: Arc<ImageHolds>,
    pub options: Arc<HostOptions>,
    pub image_cache: ImageCacheOptions,
}

impl std::fmt::Debug for HostContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostContext").field("options", &self.options).finish_non_exhaustive()
    }
}

impl HostContext {
    /// Whether the log is right about the server on this host. It is right if no other generation drove the hosts.
    /// Otherwise, it is right only about a deleted server, a server that it has created since, and a server that it has
    /// moved from or to this host since.
    pub(crate) fn knows_place_of(&self, server: &ServerRow, host: HostId) -> bool {
        let Some(since) = self.fleet.doubt().0 else { return true };
        let created = server.instance.alive().is_none_or(|alive| alive.created_at >= since);
        created || self.views.migrations.read(|all| all.touched(server.id, host, since))
    }
}
