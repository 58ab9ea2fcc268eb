//! The parts that outlive a control plane (the log, the hosts, the image service), and one life of the control plane.
//!
//! A life has all of the control plane: actors, processes, reconcilers, host agents, the API. The seed decides where
//! the control plane is killed. The last append then becomes durable, but its reply is lost. Nothing more reaches the
//! log or the hosts. The next life starts with only what the log, the hosts and the image service have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::to_bytes;
use actix_web::test::{TestRequest, call_service, init_service};
use anyhow::{Context as _, Result};
use chronova_actors::hosts::options::HostOptions;
use chronova_actors::ports::keys::NoKeyManager;
use chronova_actors::process::context::StepContext;
use chronova_actors::process::interference::Interference;
use chronova_actors::process::options::LiveOptions;
use chronova_actors::reconcile::options::ReconcileOptions;
use chronova_actors::runtime::{Leader, Leadership, Member, Ports, RuntimeOptions};
use chronova_actors::server_options::ServerOptions;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_actors::services::embedded::volume::service::{EmbeddedVolumes, VolumeOptions};
use chronova_events::clock::Clock;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::HostId;
use chronova_events::store::EventStore;
use chronova_events::store::faulty::FuseStore;
use chronova_events::store::memory::MemoryStore;
use chronova_hypervisor::sim::{SimFleet, SimUri};
use chronova_projections::runner;
use chronova_projections::views::Views;
use chronova_web::auth::Authentication;
use chronova_web::config::WebConfig;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::Enforcer;
use chronova_web::server::configure;
use chronova_web::tables::Routers;
use serde_json::Value;
use tokio::time::Instant;

use super::images::ChaosImages;
use super::settings::Settings;

/// About how long a driver call takes.
const LATENCY: Duration = Duration::from_millis(20);
const TRAVEL: Duration = Duration::from_secs(5);

/// The clock of the run. It stands still while work is ready, and then jumps to the next due time.
#[derive(Debug)]
struct RunClock(Instant);

impl RunClock {
    fn at(&self, moment: Instant) -> Timestamp {
        /// 1 January 2026, in microseconds since 1970. A fixed time, so that the events do not depend on the date of
        /// the run.
        const BEGIN: i64 = 1_767_225_600_000_000;
        let since = moment.saturating_duration_since(self.0);
        Timestamp(BEGIN + i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Clock for RunClock {
    fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }
}

pub(super) struct ChaosWorld {
    pub(super) log: Arc<MemoryStore>,
    pub(super) fleet: Arc<SimFleet>,
    pub(super) images: Arc<ChaosImages>,
    clock: Arc<RunClock>,
    options: RuntimeOptions,
    interference: Option<Arc<dyn Interference>>,
    routers: Arc<Routers>,
    hosts: BTreeMap<HostId, usize>,
    pub(super) shares_volumes: bool,
}

impl ChaosWorld {
    /// Creates the world. Call it inside the tokio runtime that provides its clock.
    pub(super) fn new(settings: &Settings, interference: Option<Arc<dyn Interference>>) -> Result<Self> {
        let (hosts, seed) = (settings.hosts as usize, settings.seed);
        let uri = SimUri { seed, latency: LATENCY, vcpus: 16, memory_mib: 16_384, disk_gib: 400, ..SimUri::new(hosts) };
        let fleet = SimFleet::new(uri);
        fleet.set_travel(TRAVEL);
        fleet.share_storage(settings.shared_storage);
        if has_shared_volumes(seed) {
            fleet.share_volumes();
        }
        let routers = Arc::new(Routers::all());
        routers.compile_all().map_err(anyhow::Error::msg)?;
        Ok(Self {
            log: MemoryStore::new(),
            hosts: (0..hosts).map(|index| (fleet.uri().host_id(index), index)).collect(),
            fleet,
            images: Arc::default(),
            clock: Arc::new(RunClock(Instant::now())),
            options: options(seed),
            interference,
            routers,
            shares_volumes: has_shared_volumes(seed),
        })
    }

    /// How much simulated time has passed since the run began.
    pub(super) fn age(&self) -> Duration {
        self.clock.0.elapsed()
    }

    /// The log's timestamp of a moment.
    pub(super) fn moment(&self, moment: Instant) -> Timestamp {
        self.clock.at(moment)
    }

    pub(super) async fn begin(&self) -> Result<Life> {
        let store = FuseStore::new(Arc::clone(&self.log) as Arc<dyn EventStore>, None);
        let log = Arc::clone(&store) as Arc<dyn EventStore>;
        let member = Member::start(log, Arc::clone(&self.clock) as Arc<dyn Clock>, Views::new()).await?;
        // With 0 threads of their own, the aggregates run on this thread, in an order that the seed decides.
        let mut leadership = Leadership::take(&member, 0)?;
        leadership.interference.clone_from(&self.interference);
        let (gateway, views) = (Arc::clone(&leadership.gateway), Arc::clone(&leadership.views));
        let networks = EmbeddedNetworks::new(Arc::clone(&gateway), Arc::clone(&views), Arc::clone(&leadership.clock));
        let images = Arc::clone(&self.images);
        let volumes = EmbeddedVolumes::new(gateway, views, Arc::clone(&images) as _, self.options.volume.clone());
        let drivers = self.fleet.drivers_until(&store.dead());
        let ports = Ports {
            networks,
            images,
            volumes: Arc::clone(&volumes) as _,
            keys: Arc::new(NoKeyManager),
            certificates: None,
        };
        let leader = Leader::start(leadership, drivers, ports, self.options.clone()).await;
        let config = WebConfig::default();
        let policy = Enforcer::load(&config.policy).context("the policy cannot be used")?;
        let metrics = HttpMetrics::new(prometheus::Registry::new())?;
        let app = chronova_web::App::new(config, policy, Authentication::NoAuth, metrics);
        let app = Arc::new(app.with_operations(Arc::clone(leader.operations())).with_volumes(volumes));
        Ok(Life { member, leader, store, api: ChaosApi { app, routers: Arc::clone(&self.routers) } })
    }

    /// Folds the read models from the whole log.
    pub(super) async fn rebuilt(&self) -> Result<Views> {
        let views = Views::new();
        runner::catch_up(self.log.as_ref(), &views).await?;
        Ok(views)
    }

    pub(super) fn host_named(&self, id: HostId) -> Option<usize> {
        self.hosts.get(&id).copied()
    }
}

/// With some seeds, all hosts share the storage of volumes. With other seeds, each volume is on one host.
fn has_shared_volumes(seed: u64) -> bool {
    seed % 4 < 2
}

/// The default options, with changes that let a run reach more states and more kinds of work.
fn options(seed: u64) -> RuntimeOptions {
    RuntimeOptions {
        servers: ServerOptions {
            // With an odd seed, users can restore a deleted server for five minutes.
            reclaim_interval: Duration::from_secs(if seed.is_multiple_of(2) { 0 } else { 300 }),
            shelved_offload: Some(Duration::from_mins(2)),
            ..ServerOptions::default()
        },
        // The default period of the power sync is longer than the quiet time at the end of a run.
        hosts: HostOptions { power_sync: Some(Duration::from_mins(1)), ..HostOptions::default() },
        reconcile: ReconcileOptions { resize_confirm_window: Duration::from_mins(10), ..ReconcileOptions::default() },
        volume: VolumeOptions { shared: has_shared_volumes(seed), ..VolumeOptions::default() },
        live: LiveOptions { per_host: 2, permit_post_copy: true, ..LiveOptions::default() },
        ..RuntimeOptions::default()
    }
}

/// One life of the control plane.
pub(super) struct Life {
    member: Member,
    leader: Leader,
    pub(super) store: Arc<FuseStore>,
    pub(super) api: ChaosApi,
}

impl Life {
    pub(super) fn context(&self) -> &Arc<StepContext> {
        &self.leader.contexts.steps
    }

    pub(super) fn views(&self) -> &Views {
        &self.context().views
    }

    pub(super) async fn end(self) {
        self.leader.stop().await;
        self.member.stop().await;
    }
}

/// A request to one of the APIs.
#[derive(Debug, Clone)]
pub(super) struct ChaosRequest {
    pub(super) method: &'static str,
    /// The path, with the service's prefix (`/compute`).
    pub(super) path: String,
    pub(super) version: &'static str,
    pub(super) body: Option<Value>,
}

/// Calls the API in this process, without a network.
#[derive(Clone)]
pub(super) struct ChaosApi {
    app: Arc<chronova_web::App>,
    routers: Arc<Routers>,
}

impl ChaosApi {
    /// Sends a request as an administrator; returns status and body.
    pub(super) async fn ask(&self, request: ChaosRequest) -> (u16, Value) {
        let configured = configure(Arc::clone(&self.app), Arc::clone(&self.routers), None);
        let service = init_service(actix_web::App::new().configure(configured)).await;
        let mut asked = TestRequest::with_uri(&request.path)
            .insert_header(("X-Auth-Token", "admin:admin"))
            .insert_header(("OpenStack-API-Version", format!("compute {}", request.version)));
        asked = match request.method {
            "GET" => asked.method(actix_web::http::Method::GET),
            "PUT" => asked.method(actix_web::http::Method::PUT),
            "DELETE" => asked.method(actix_web::http::Method::DELETE),
            _ => asked.method(actix_web::http::Method::POST),
        };
        if let Some(body) = request.body {
            asked = asked.set_json(body);
        }
        let response = call_service(&service, asked.to_request()).await;
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body()).await.unwrap_or_default();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}
