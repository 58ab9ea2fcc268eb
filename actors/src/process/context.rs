//! What a process step has at hand: the ports, the drivers and the command gateway.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use chronova_projections::views::Views;

use super::interference::Interference;
use super::options::{LiveOptions, ProcessOptions};
use crate::coordination::create_requests::CreateRequests;
use crate::coordination::disk_claims::DiskClaims;
use crate::coordination::image_holds::ImageHolds;
use crate::coordination::migration_queues::MigrationQueues;
use crate::coordination::passwords::OneTimePasswords;
use crate::coordination::server_numbers::ServerNumbers;
use crate::gateway::Gateway;
use crate::hosts::fleet::Fleet;
use crate::ports::{Images, Networks, Volumes};
use crate::reconcile::placement::PlacementMirror;
use crate::scheduler::placing::Scheduler;
use crate::server_options::ServerOptions;

/// Shared by all processes.
pub struct StepContext {
    pub gateway: Arc<Gateway>,
    pub views: Arc<Views>,
    /// A step reads it where no read model keeps the answer.
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub fleet: Arc<Fleet>,
    pub networks: Arc<dyn Networks>,
    pub images: Arc<dyn Images>,
    pub volumes: Arc<dyn Volumes>,
    pub scheduler: Arc<Scheduler>,
    pub placement: Arc<PlacementMirror>,
    pub passwords: Arc<OneTimePasswords>,
    pub create_requests: Arc<CreateRequests>,
    pub server_numbers: ServerNumbers,
    pub migration_queues: Arc<MigrationQueues>,
    pub disk_claims: Arc<DiskClaims>,
    pub image_holds: Arc<ImageHolds>,
    pub options: ProcessOptions,
    pub live_options: LiveOptions,
    pub server_options: Arc<ServerOptions>,
    /// Whether all hosts have the volumes on one storage.
    pub shares_volumes: bool,
    /// Only in proofs; `None` in a control plane.
    pub interference: Option<Arc<dyn Interference>>,
}

impl std::fmt::Debug for StepContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepContext").field("options", &self.options).finish_non_exhaustive()
    }
}
