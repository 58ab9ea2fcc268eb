//! Builds all contexts. No other file knows all of them.

use std::sync::Arc;

use chronova_hypervisor::driver::Driver;
use chronova_projections::hosts::Hosts;

use super::leadership::Leadership;
use super::options::RuntimeOptions;
use crate::coordination::completion_timeout::CompletionTimeout;
use crate::coordination::disk_claims::DiskClaims;
use crate::coordination::image_holds::ImageHolds;
use crate::coordination::migration_queues::MigrationQueues;
use crate::coordination::passwords::OneTimePasswords;
use crate::coordination::running_processes::RunningProcesses;
use crate::coordination::server_numbers::ServerNumbers;
use crate::coordination::waiting_requests::{CreateRequests, ServerRequests};
use crate::hosts::context::HostContext;
use crate::hosts::fleet::ConnectedHosts;
use crate::image_signatures::ImageSignatures;
use crate::operations::{Operations, Queries};
use crate::ports::keys::{CertificateKeeper, KeyManager};
use crate::ports::{ImageService, NetworkService, VolumeService};
use crate::process::context::StepContext;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::placement::PlacementMirror;
use crate::scheduler::placing::Scheduler;

/// The services beside compute.
#[derive(Clone)]
pub struct Ports {
    pub networks: Arc<dyn NetworkService>,
    pub images: Arc<dyn ImageService>,
    pub volumes: Arc<dyn VolumeService>,
    pub keys: Arc<dyn KeyManager>,
    /// The key manager that has the certificates of signed images; `None`: there is none.
    pub certificates: Option<Arc<dyn CertificateKeeper>>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ports")
    }
}

/// The contexts of steps, host agents, reconcilers and queries. They share their parts.
#[derive(Debug, Clone)]
pub struct Contexts {
    pub operations: Arc<Operations>,
    pub steps: Arc<StepContext>,
    pub hosts: Arc<HostContext>,
    pub reconcile: Arc<ReconcileContext>,
}

impl Contexts {
    /// Builds the contexts, and starts nothing. `drivers` has one driver for each host of the fleet.
    pub fn assemble(
        leadership: Leadership,
        drivers: Vec<Arc<dyn Driver>>,
        ports: Ports,
        options: RuntimeOptions,
    ) -> Self {
        let Leadership { log, clock, views, gateway, host_gate, interference } = leadership;
        let Ports { networks, images, volumes, keys, certificates } = ports;
        let fleet = ConnectedHosts::new(views.hosts.read(Hosts::highest), drivers);
        let server_options = Arc::new(options.servers);
        let host_options = Arc::new(options.hosts);
        let placement = Arc::new(PlacementMirror {
            gateway: Arc::clone(&gateway),
            views: Arc::clone(&views),
            patience: host_options.resync,
        });
        let signatures = ImageSignatures::new(options.signatures, certificates, Arc::clone(&clock));
        let passwords = Arc::<OneTimePasswords>::default();
        let create_requests = Arc::<CreateRequests>::default();
        let server_requests = Arc::<ServerRequests>::default();
        let migration_queues = Arc::<MigrationQueues>::default();
        let disk_claims = Arc::<DiskClaims>::default();
        let image_holds = Arc::<ImageHolds>::default();
        let queries = Arc::new(Queries {
            views: Arc::clone(&views),
            log: Arc::clone(&log),
            clock: Arc::clone(&clock),
            networks: Arc::clone(&networks),
            images: Arc::clone(&images),
            volumes: Arc::clone(&volumes),
            signatures: Arc::clone(&signatures),
            server_options: Arc::clone(&server_options),
            live_migrations_per_host: options.live.per_host,
            scheduler_options: Arc::new(options.scheduler.clone()),
            fleet: Arc::clone(&fleet),
            migration_queues: Arc::clone(&migration_queues),
        });
        let hosts = Arc::new(HostContext {
            gateway: Arc::clone(&gateway),
            views: Arc::clone(&views),
            log: Arc::clone(&log),
            clock: Arc::clone(&clock),
            fleet: Arc::clone(&fleet),
            networks: Arc::clone(&networks),
            images: Arc::clone(&images),
            signatures: Arc::clone(&signatures),
            volumes: Arc::clone(&volumes),
            disk_claims: Arc::clone(&disk_claims),
            image_holds: Arc::clone(&image_holds),
            options: Arc::clone(&host_options),
            image_cache: options.image_cache.clone(),
        });
        let reconcile = Arc::new(ReconcileContext {
            gateway: Arc::clone(&gateway),
            views: Arc::clone(&views),
            log: Arc::clone(&log),
            clock: Arc::clone(&clock),
            fleet: Arc::clone(&fleet),
            networks: Arc::clone(&networks),
            image_holds: Arc::clone(&image_holds),
            placement: Arc::clone(&placement),
            options: options.reconcile,
            image_cache: options.image_cache,
            host_options,
            server_options: Arc::clone(&server_options),
        });
        let operations = Arc::new(Operations {
            queries,
            gateway: Arc::clone(&gateway),
            hosts: Arc::clone(&hosts),
            reconcile: Arc::clone(&reconcile),
            passwords: Arc::clone(&passwords),
            create_requests: Arc::clone(&create_requests),
            server_requests: Arc::clone(&server_requests),
            names: Arc::default(),
        });
        let steps = Arc::new(StepContext {
            scheduler: Scheduler::new(Arc::clone(&gateway), Arc::clone(&views), Arc::clone(&fleet), options.scheduler),
            gateway,
            views,
            log,
            clock,
            fleet,
            networks,
            images,
            signatures,
            volumes,
            keys,
            placement,
            passwords,
            create_requests,
            server_requests,
            server_numbers: ServerNumbers::default(),
            host_gate,
            migration_queues,
            disk_claims,
            image_holds,
            running: RunningProcesses::new(options.processes.max_processes),
            options: options.processes,
            completion_timeout: CompletionTimeout::new(options.live.completion_timeout),
            live_options: options.live,
            server_options,
            shares_volumes: options.volume.shared,
            interference,
        });
        Self { operations, steps, hosts, reconcile }
    }
}
