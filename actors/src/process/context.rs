//! The context of a process step: the ports, the drivers and the command gateway.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use chronova_projections::views::Views;

use super::interference::Interference;
use super::options::{LiveOptions, ProcessOptions};
use crate::coordination::completion_timeout::CompletionTimeout;
use crate::coordination::disk_claims::DiskClaims;
use crate::coordination::host_gate::HostGate;
use crate::coordination::image_holds::ImageHolds;
use crate::coordination::migration_queues::MigrationQueues;
use crate::coordination::passwords::OneTimePasswords;
use crate::coordination::running_processes::RunningProcesses;
use crate::coordination::server_numbers::ServerNumbers;
use crate::coordination::waiting_requests::{CreateRequests, ServerRequests};
use crate::gateway::CommandGateway;
use crate::hosts::fleet::ConnectedHosts;
use crate::image_signatures::ImageSignatures;
use crate::ports::keys::KeyManager;
use crate::ports::{ImageService, NetworkService, VolumeService};
use crate::reconcile::placement::PlacementMirror;
use crate::scheduler::placing::Scheduler;
use crate::server_options::ServerOptions;

/// Shared by all processes.
pub struct StepContext {
    pub gateway: Arc<CommandGateway>,
    pub views: Arc<Views>,
    /// The log. Steps read it for data that no read model has.
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub fleet: Arc<ConnectedHosts>,
    pub networks: Arc<dyn NetworkService>,
    pub images: Arc<dyn ImageService>,
    pub signatures: Arc<ImageSignatures>,
    pub volumes: Arc<dyn VolumeService>,
    pub keys: Arc<dyn KeyManager>,
    pub scheduler: Arc<Scheduler>,
    pub placement: Arc<PlacementMirror>,
    pub passwords: Arc<OneTimePasswords>,
    pub create_requests: Arc<CreateRequests>,
    pub server_requests: Arc<ServerRequests>,
    pub server_numbers: ServerNumbers,
    pub migration_queues: Arc<MigrationQueues>,
    pub disk_claims: Arc<DiskClaims>,
    pub image_holds: Arc<ImageHolds>,
    /// Opens when the processes may work on hosts.
    pub host_gate: HostGate,
    pub running: Arc<RunningProcesses>,
    pub options: ProcessOptions,
    pub live_options: LiveOptions,
    /// The present value of [`LiveOptions::completion_timeout`].
    pub completion_timeout: CompletionTimeout,
    pub server_options: Arc<ServerOptions>,
    /// Whether all hosts have the volumes on one storage.
    pub shares_volumes: bool,
    /// A test's hook into steps; `None` outside of tests.
    pub interference: Option<Arc<dyn Interference>>,
}

impl std::fmt::Debug for StepContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepContext").field("options", &self.options).finish_non_exhaustive()
    }
}
