//! The context of a query: the read models, the services beside compute, and measurements of hosts.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::ids::{HostId, InstanceId, ProcessId};
use chronova_events::instance::{Alive, LiveProgress};
use chronova_events::store::EventStore;
use chronova_hypervisor::capability::device_locations::GuestDevice;
use chronova_hypervisor::guest::HostUsage;
use chronova_projections::views::Views;

use crate::coordination::migration_queues::MigrationQueues;
use crate::hosts::fleet::ConnectedHosts;
use crate::hosts::readings::HostReadings;
use crate::image_signatures::ImageSignatures;
use crate::metadata::sources;
use crate::ports::{ImageService, NetworkService, VolumeService};
use crate::scheduler::SchedulerOptions;
use crate::server_options::ServerOptions;

/// The context that all requests share. It has no command gateway and gives out no driver.
pub struct Queries {
    pub views: Arc<Views>,
    /// The log, for answers that no read model has: scheduling decisions, and the results of processes.
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub networks: Arc<dyn NetworkService>,
    pub images: Arc<dyn ImageService>,
    pub volumes: Arc<dyn VolumeService>,
    /// Verifies images that are uploaded to the embedded service.
    pub signatures: Arc<ImageSignatures>,
    pub server_options: Arc<ServerOptions>,
    /// `[DEFAULT] max_concurrent_live_migrations`; 0 means no limit.
    pub live_migrations_per_host: usize,
    /// The scheduler's options, for forecasts and for heals of allocations.
    pub scheduler_options: Arc<SchedulerOptions>,
    pub(crate) fleet: Arc<ConnectedHosts>,
    pub(crate) migration_queues: Arc<MigrationQueues>,
}

impl std::fmt::Debug for Queries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queries").field("server_options", &self.server_options).finish_non_exhaustive()
    }
}

impl Queries {
    /// The readings of a host; `None` if it has not answered since start-up.
    pub fn host(&self, host: HostId) -> Option<HostReadings> {
        self.fleet.member(host).map(HostReadings::new)
    }

    /// The usage in the host's last heartbeat, and its time in microseconds since the epoch.
    pub fn usage(&self, host: HostId) -> Option<(HostUsage, i64)> {
        self.fleet.member(host).map(|member| member.usage())
    }

    /// The latest progress of a live migration that its process has read.
    pub fn progress(&self, migration: ProcessId) -> Option<LiveProgress> {
        self.migration_queues.progress(migration)
    }

    /// The addresses of the guest's devices, if any of them have tags.
    pub async fn devices(&self, instance: InstanceId, server: &Alive) -> Vec<GuestDevice> {
        sources::devices(&self.fleet, instance, server).await
    }
}
