//! Puts the parts of a control plane together.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::reconcile::tally::ReconcilerTally;
use chronova_actors::runtime::{Contexts, Core, FollowingMember, Leader, Ports};
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_events::clock::SystemClock;
use chronova_hypervisor::backend::DriverOptions;
use chronova_hypervisor::driver::Driver;
use chronova_projections::progress::WorkRegistry;
use chronova_web::App;
use chronova_web::auth::{Authentication, TokenVerifier};
use chronova_web::cluster::seat::ClusterSeat;
use chronova_web::compute::{ComputeConfig, ComputeState};
use chronova_web::config::WebConfig;
use chronova_web::health::Health;
use chronova_web::identity::IdentityService;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::Enforcer;
use prometheus::IntGauge;
use serde_json::json;
use tokio::sync::watch;

use super::cluster::Membership;
use super::event_log::EventLog;
use super::gauges::Gauges;
use super::read_models::ReadModels;
use super::reconcilers::ReconcilerGauges;
use super::{AppState, identity, listen, vendor_data};
use crate::config::Config;
use crate::config::targets::Targets;

/// Everything that `serve` runs.
pub(super) struct ControlPlane {
    pub app: AppState,
    pub read_models: ReadModels,
    targets: Targets,
    event_log: EventLog,
    following: FollowingMember,
    /// The aggregates and services that the app uses.
    contexts: Contexts,
    leader: Option<Leader>,
    log_server: Option<chronova_web::eventstoredb::LogServer>,
}

/// The parts around one command gateway. A member that begins to lead gets new ones: actors that were loaded before may
/// have missed what another leader did.
struct MemberParts {
    core: Core,
    identity: Arc<IdentityService>,
    images: Arc<EmbeddedImages>,
    volumes: Arc<EmbeddedVolumes>,
    contexts: Contexts,
    apis: (WebConfig, ComputeConfig),
}

impl ControlPlane {
    /// One that leads, or that follows if it is a member of a cluster.
    pub(super) async fn open(
        config: &Config,
        targets: Targets,
        event_log: EventLog,
        works: &Arc<WorkRegistry>,
        cluster: Option<&Membership>,
    ) -> Result<Self> {
        let log = event_log.store();
        let read_models = ReadModels::open(config, &targets, &log, works).await?;
        let views = Arc::clone(&read_models.views);
        let core = Core::start(Arc::clone(&log), Arc::new(SystemClock), Arc::clone(&views), threads());
        let core = core.await.context("cannot fold the event log")?;
        let following = FollowingMember::start(log, views);
        let parts = MemberParts::assemble(config, targets.clone(), core, cluster, cluster.is_none())?;
        let seat = cluster.map(|cluster| cluster.follows(&read_models.views));
        let app = app(config, &parts, &[], &following, &event_log, &read_models, seat)?;
        let (leader, contexts) = (None, parts.contexts.clone());
        let mut opened = Self { app, read_models, targets, event_log, following, contexts, leader, log_server: None };
        if cluster.is_none() {
            opened.begin(config, parts, Duration::ZERO, None).await?;
        }
        Ok(opened)
    }

    /// Begins to lead, on read models that follow the log already. `hosts_in`: no host is called before.
    pub(super) async fn lead(&mut self, config: &Config, hosts_in: Duration, cluster: &Membership) -> Result<()> {
        let (log, views) = (self.event_log.store(), Arc::clone(&self.read_models.views));
        // The log ends there: nobody else appends any more.
        while !views.wait_for(log.head(), Duration::from_secs(1)).await {
            tracing::info!(position = %views.position(), head = %log.head(), "folding the rest of the log before leading");
        }
        let core = Core::beside(log, Arc::new(SystemClock), views, threads());
        let parts = MemberParts::assemble(config, self.targets.clone(), core, Some(cluster), true)?;
        self.contexts.steps.gateway.stop();
        self.begin(config, parts, hosts_in, Some(cluster)).await
    }

    async fn begin(
        &mut self,
        config: &Config,
        parts: MemberParts,
        hosts_in: Duration,
        cluster: Option<&Membership>,
    ) -> Result<()> {
        let log = self.event_log.store();
        identity::begin(config, &parts.core, &parts.identity).await?;
        parts.images.recover(&parts.core.gateway).await.context("cannot recover the image store")?;
        let leader = Leader::start(&parts.contexts, hosts_in).await;
        let eraser = parts.contexts.operations.eraser(&log, Some(&self.read_models.history));
        // Erasures that a crash interrupted are completed before the first request is served.
        let resumed = eraser.resume().await.context("cannot complete an erasure of personal data")?;
        if resumed > 0 {
            tracing::info!(resumed, "completed interrupted erasures of personal data");
        }
        self.read_models.attend();
        let seat = cluster.map(Membership::leads);
        let reconcilers = leader.reconcilers();
        self.app = app(config, &parts, reconcilers, &self.following, &self.event_log, &self.read_models, seat)?;
        self.log_server = super::eventstoredb::open(config, log).await?;
        (self.contexts, self.leader) = (parts.contexts, Some(leader));
        Ok(())
    }

    /// The reason why the read models do not follow the log any more; `None` while they do.
    pub(super) fn broken(&self) -> watch::Receiver<Option<String>> {
        self.following.broken()
    }

    /// Stops the tasks, folds the last events, writes a checkpoint, closes the log.
    pub(super) async fn close(self) {
        if let Some(server) = self.log_server {
            server.stop().await;
        }
        let led = self.leader.is_some();
        match self.leader {
            Some(leader) => leader.stop().await,
            None => self.contexts.steps.gateway.stop(),
        }
        // The read models may fold the last appended events.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.following.stop();
        // A member that follows writes nothing to the data folder: it may be the leader's, too.
        self.read_models.close(led).await;
        self.event_log.close().await;
    }
}

impl MemberParts {
    fn assemble(
        config: &Config,
        mut targets: Targets,
        core: Core,
        cluster: Option<&Membership>,
        leads: bool,
    ) -> Result<Self> {
        let folder = config.chronova.data_dir.clone();
        let key = cluster.map(|cluster| cluster.secret().derive("tokens"));
        let identity = identity::open(config, targets.identity, &core, key)?;
        let (gateway, views) = (Arc::clone(&core.gateway), Arc::clone(&core.views));
        let networks = EmbeddedNetworks::new(Arc::clone(&gateway), Arc::clone(&views));
        let files =
            ImageFiles::open(&folder, config.glance.image_size_cap).context("cannot use the folder of the images")?;
        let most = usize::try_from(config.glance.image_count_total).ok();
        let images = EmbeddedImages::limited(files, Arc::clone(&views), Arc::clone(&gateway), most);
        // Nobody but the leader has anything to do with a host.
        let drivers = if leads { drivers(config, &targets.drivers)? } else { Vec::new() };
        vendor_data::complete(&mut targets.runtime.servers.metadata, config)?;
        listen::consoles(config, &mut targets.compute.consoles);
        let options = targets.runtime;
        let volumes = EmbeddedVolumes::new(gateway, views, Arc::clone(&images) as _, options.volume.clone());
        let ports = Ports { networks, images: Arc::clone(&images) as _, volumes: Arc::clone(&volumes) as _ };
        let contexts = Contexts::assemble(core.clone(), drivers, ports, options);
        Ok(Self { core, identity, images, volumes, contexts, apis: (targets.web, targets.compute) })
    }
}

fn app(
    config: &Config,
    parts: &MemberParts,
    reconcilers: &[Arc<ReconcilerTally>],
    following: &FollowingMember,
    event_log: &EventLog,
    read_models: &ReadModels,
    seat: Option<ClusterSeat>,
) -> Result<AppState> {
    let (web, compute) = parts.apis.clone();
    let policy = Enforcer::load(&web.policy).context("cannot use the policy")?;
    let authentication = match config.api.auth_strategy.as_str() {
        "noauth2" => Authentication::NoAuth,
        _ => Authentication::Tokens(Arc::clone(&parts.identity) as Arc<dyn TokenVerifier>),
    };
    let registry = prometheus::Registry::new();
    let (log, written) = (event_log.store(), event_log.clone());
    let operations = Arc::clone(&parts.contexts.operations);
    registry.register(Box::new(Gauges::new(Arc::clone(operations.queries()), Arc::clone(&log))?))?;
    registry.register(Box::new(ReconcilerGauges::new(reconcilers.to_vec())?))?;
    registry.register(Box::new(read_models.gauges()?))?;
    if let Some(seat) = &seat {
        registry.register(Box::new(leads_gauge(seat)?))?;
    }
    let metrics = HttpMetrics::new(registry)?;
    let mut app = App::new(web, policy, authentication, metrics).with_operations(operations).with_log(log);
    app = app
        .with_identity(Arc::clone(&parts.identity))
        .with_images(Arc::clone(&parts.images))
        .with_volumes(Arc::clone(&parts.volumes))
        .with_history(Arc::clone(&read_models.history));
    app.compute = ComputeState::new(compute);
    let broken = following.broken();
    app.health = Health::default()
        .with("event log", Arc::new(move || written.health().map_err(|failure| failure.to_string())))
        .with("read models", Arc::new(move || broken.borrow().clone().map_or(Ok(()), Err)))
        .telling("read_models", read_models.tale());
    if let Some(seat) = &seat {
        let role = json!(seat.role());
        app.health = app.health.telling("role", Arc::new(move || role.clone()));
    }
    app.cluster = seat;
    Ok(Arc::new(app))
}

/// 1 at the member that leads.
fn leads_gauge(seat: &ClusterSeat) -> prometheus::Result<IntGauge> {
    let gauge = IntGauge::new("chronova_cluster_leads", "1 at the member that leads, 0 at one that follows.")?;
    gauge.set(i64::from(seat.leads()));
    Ok(gauge)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// The drivers of all `[chronova] hypervisors`.
fn drivers(config: &Config, options: &DriverOptions) -> Result<Vec<Arc<dyn Driver>>> {
    let mut all = Vec::new();
    for uri in &config.chronova.hypervisors.0 {
        all.extend(chronova_hypervisor::backend::open(uri, options).context("[chronova] hypervisors")?);
    }
    Ok(all)
}
