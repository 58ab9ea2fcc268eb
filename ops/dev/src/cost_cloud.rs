//! A control plane with one simulated host, whose boots and deletes `chronova-dev cost` counts.
//!
//! Nothing in it works by the clock, so that a slow machine counts the same instructions.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::hosts::options::HostOptions;
use chronova_actors::instance::creation::CreateServersRequest;
use chronova_actors::instance::{CallerRights, InstanceRequest, InstanceRoot};
use chronova_actors::ports::NoVolumeService;
use chronova_actors::process::options::ProcessOptions;
use chronova_actors::quota::DefaultLimits;
use chronova_actors::reconcile::options::ReconcileOptions;
use chronova_actors::runtime::{Leader, Leadership, Member, Ports, RuntimeOptions};
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_events::clock::SystemClock;
use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::process::ProcessEvent;
use chronova_events::registry::NounEvent as _;
use chronova_events::store::EventStore;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_hypervisor::sim::{SimFleet, SimUri};
use chronova_projections::views::Views;

use super::schedule;

/// Longer than any count.
const NEVER: Duration = Duration::from_hours(24);
/// The longest wait for the host, and for the end of one process.
const PATIENCE: Duration = Duration::from_mins(5);

pub(super) struct CostCloud {
    store: Arc<SqliteStore>,
    member: Member,
    leader: Leader,
    /// The servers that are up.
    servers: Mutex<Vec<InstanceId>>,
}

impl CostCloud {
    pub(super) async fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let store = SqliteStore::open(folder.join("log.db"), &SqliteOptions::default())?;
        let log = Arc::clone(&store) as Arc<dyn EventStore>;
        let member = Member::start(log, Arc::new(SystemClock), Views::new()).await?;
        let leadership = Leadership::take(&member, 1)?;
        let (gateway, views) = (Arc::clone(&leadership.gateway), Arc::clone(&leadership.views));
        let ports = Ports {
            networks: EmbeddedNetworks::new(Arc::clone(&gateway), Arc::clone(&views)),
            images: EmbeddedImages::new(ImageFiles::open(folder, u64::MAX)?, views, gateway),
            volumes: Arc::new(NoVolumeService),
        };
        let options = RuntimeOptions {
            hosts: HostOptions { heartbeat: NEVER, resync: NEVER, ..HostOptions::default() },
            processes: ProcessOptions { records_wait: NEVER, ..ProcessOptions::default() },
            reconcile: ReconcileOptions { period: NEVER, ..ReconcileOptions::default() },
            ..RuntimeOptions::default()
        };
        let fleet = SimFleet::new(SimUri { vcpus: 64, memory_mib: 1 << 20, disk_gib: 1 << 14, ..SimUri::new(1) });
        let leader = Leader::start(leadership, fleet.drivers(), ports, options).await;
        let cloud = Self { store, member, leader, servers: Mutex::default() };
        let views = &cloud.leader.contexts.steps.views;
        let answers = async {
            while !views.hosts.read(|hosts| hosts.all().any(|host| host.up)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, answers).await.context("the simulated host does not come up")?;
        Ok(cloud)
    }

    /// Builds so many servers, one after the other.
    pub(super) async fn boot(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            let before = self.store.head();
            let request = CreateServersRequest {
                template: schedule::build(InstanceId::random()),
                hostname: None,
                mapped: None,
                files: None,
                min_count: 1,
                max_count: 1,
                most: 1,
                group: None,
                defaults: DefaultLimits { instances: -1, cores: -1, memory_mib: -1 },
            };
            let created = self.leader.operations().create_servers(Meta::system("bench"), request, None).await?;
            self.servers.lock().unwrap_or_else(PoisonError::into_inner).extend(created.instances);
            self.next_end(before).await?;
        }
        Ok(())
    }

    /// Deletes so many servers, one after the other.
    pub(super) async fn delete(&self, times: usize) -> Result<()> {
        for _ in 0..times {
            let before = self.store.head();
            let last = self.servers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let (process, asker) = (ProcessId::random(), CallerRights { overrides_lock: true });
            let delete = InstanceRequest::Delete { process, force: false, asker };
            let server = last.context("more deletes than boots")?;
            self.leader.operations().send::<InstanceRoot>(&server, delete, Meta::system("bench")).await?;
            self.next_end(before).await?;
        }
        Ok(())
    }

    /// Waits until the log has the end of a process after `position`.
    async fn next_end(&self, position: Position) -> Result<()> {
        let mut events = self.store.subscribe(position);
        let waiting = async {
            loop {
                for recorded in events.next().await? {
                    if matches!(ProcessEvent::of(recorded.event()?), Some(ProcessEvent::Finished(_))) {
                        return anyhow::Ok(());
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("a process does not end")?
    }

    pub(super) async fn close(self) {
        self.leader.stop().await;
        self.member.stop().await;
        self.store.close().await;
    }
}
