//! Puts the parts of a control plane together.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::coordination::HostGate;
use chronova_actors::erasure::error::ErasureError;
use chronova_actors::erasure::work::Eraser;
use chronova_actors::fleet::keeper::HostSource;
use chronova_actors::fleet::{FleetId, FleetRoot};
use chronova_actors::gateway::CommandGateway;
use chronova_actors::operations::Operations;
use chronova_actors::operations::change_fleet::ChangeFleetReject;
use chronova_actors::reconcile::run_counts::ReconcilerTally;
use chronova_actors::runtime::{Follower, Leader, Leadership, Member, Ports};
use chronova_actors::scheduler::SharedSchedulerHook;
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_actors::services::external::http::ServiceClient;
use chronova_actors::services::external::keystone::SharedUserTokens;
use chronova_actors::services::external::scheduler_hook::HttpSchedulerHook;
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::error_chain::ErrorChain;
use chronova_events::store::sqlite::SqliteOptions;
use chronova_events::store::{EventStore, StoreError};
use chronova_hypervisor::backend::DriverOptions;
use chronova_hypervisor::driver::Driver;
use chronova_projections::progress::WorkRegistry;
use chronova_projections::views::Views;
use chronova_web::App;
use chronova_web::access::AccessLog;
use chronova_web::auth::Authentication;
use chronova_web::cluster::seat::ClusterSeat;
use chronova_web::compute::{ComputeConfig, ComputeState};
use chronova_web::config::WebConfig;
use chronova_web::health::Health;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::Enforcer;
use chronova_web::service::Service;
use prometheus::{IntGauge, Opts};
use serde_json::json;

use super::audit_index::IndexKeeper;
use super::calls::CallGauges;
use super::cluster::ClusterMembership;
use super::event_log::EventLog;
use super::gauges::Gauges;
use super::identity::OpenedIdentity;
use super::images::OpenedImages;
use super::key_manager::OpenedKeyManagers;
use super::network::OpenedNetworks;
use super::read_models::{self, ReadModelGauges};
use super::reconcilers::ReconcilerGauges;
use super::retention::RetentionKeeper;
use super::volumes::OpenedVolumes;
use super::{AppState, audit_index, identity, images, listen, scheduler_hook, vendor_data, volumes};
use crate::config::Config;
use crate::config::targets::Targets;

/// How often a member logs that it still waits for its read models before it leads.
const FOLDS: Duration = Duration::from_secs(2);
/// How often an interrupted erasure tries again whether the archive can be read.
const ARCHIVE_BACK: Duration = Duration::from_mins(1);
/// How long the end of the process waits for the last records of access.
const FLUSH: Duration = Duration::from_secs(5);

/// Everything that `serve` runs.
pub(super) struct ControlPlane {
    pub app: AppState,
    pub member: Member,
    targets: Targets,
    /// `None` while another member leads.
    leader: Option<Leader>,
    event_log: EventLog,
    index: IndexKeeper,
    /// `None` for a log that keeps all its events.
    retention: Option<RetentionKeeper>,
    log_server: Option<chronova_web::eventstoredb::LogServer>,
}

/// The services beside Compute. On a follower they use a gateway that refuses every command.
struct OpenedServices {
    identity: OpenedIdentity,
    networks: OpenedNetworks,
    images: OpenedImages,
    volumes: OpenedVolumes,
    keys: OpenedKeyManagers,
    hook: Option<Arc<HttpSchedulerHook>>,
}

impl ControlPlane {
    /// Adds the hosts of `uris`, which the configuration files did not name before SIGHUP. The log keeps these hosts.
    /// Returns the URIs whose hosts are there now. A member that does not lead adds no hosts.
    pub(super) async fn add_hosts(&self, uris: Vec<String>) -> Vec<String> {
        let mut there = Vec::new();
        let Some(leader) = &self.leader else { return there };
        for uri in uris {
            match leader.operations().add_configured_host(&uri, Meta::system("configuration")).await {
                Ok(_) => tracing::info!(uri, "the host is added from the configuration"),
                // `chronova host add` has added this host, or the configuration has named it before.
                Err(ChangeFleetReject::IsThere(host)) => tracing::info!(uri, host, "the host is there already"),
                Err(error) => {
                    tracing::error!(uri, error = %ErrorChain(&error), "the host is not added: SIGHUP tries it again");
                    continue;
                }
            }
            there.push(uri);
        }
        there
    }

    /// Starts the parts that every member runs, and the APIs. Without a `cluster`, this process also begins to lead.
    pub(super) async fn open(
        config: &Config,
        targets: Targets,
        event_log: EventLog,
        works: &Arc<WorkRegistry>,
        cluster: Option<&ClusterMembership>,
    ) -> Result<Self> {
        let log = event_log.store();
        let checkpoints = read_models::load(config, &targets, &log, works).await?;
        let clock = Arc::new(SystemClock);
        let Some(cluster) = cluster else {
            let member = Member::start_with_checkpoints(log, clock, checkpoints);
            let (leader, services) = lead(config, targets.clone(), &member, &event_log).await?;
            let parts = ServingParts::leading(&leader, services, &member, &targets);
            let index = IndexKeeper::start(audit_index::indexed(config, &member.log));
            let app = app(config, &targets, &member, parts, &event_log, index.log(), None)?;
            let log_server = super::eventstoredb::open(config, index.log()).await?;
            let retention = RetentionKeeper::start(config, &event_log);
            return Ok(Self { app, member, targets, leader: Some(leader), event_log, index, retention, log_server });
        };
        let member = Member::start_from_checkpoints(log, clock, checkpoints);
        let parts = ServingParts::following(config, &targets, &member)?;
        let index = IndexKeeper::start(audit_index::indexed(config, &member.log));
        let seat = Some(cluster.follows(&member.views));
        let app = app(config, &targets, &member, parts, &event_log, index.log(), seat)?;
        let retention = RetentionKeeper::start(config, &event_log);
        Ok(Self { app, member, targets, leader: None, event_log, index, retention, log_server: None })
    }

    /// Begins to lead, on read models that follow the log already.
    pub(super) async fn lead(&mut self, config: &Config, cluster: &ClusterMembership) -> Result<()> {
        // Nobody else appends now, so this position stays the end of the log.
        let end = self.member.log.head();
        while !self.member.views.wait_for(end, FOLDS).await {
            tracing::info!(position = %self.member.views.position(), %end, "folding the rest of the log before leading");
        }
        self.member.keep_checkpoints();
        let (leader, services) = lead(config, self.targets.clone(), &self.member, &self.event_log).await?;
        let parts = ServingParts::leading(&leader, services, &self.member, &self.targets);
        // Open feeds read the follower's parts, so they end here. When a client connects again, its feed reads the
        // leader's parts.
        self.app.feeds.close();
        let (index, seat) = (self.index.log(), Some(cluster.leads()));
        self.app = app(config, &self.targets, &self.member, parts, &self.event_log, index, seat)?;
        self.leader = Some(leader);
        self.log_server = super::eventstoredb::open(config, self.index.log()).await?;
        Ok(())
    }

    /// Takes over the options that may change while the control plane runs. If this member leads, every host reports
    /// its resources and traits again.
    pub(super) fn renew(&mut self, read: Option<&Targets>) {
        if let Some(read) = read {
            let (had, has) = (&mut self.targets.runtime.live.completion_timeout, read.runtime.live.completion_timeout);
            if *had != has {
                tracing::info!("live_migration_completion_timeout is now {has} seconds for each GiB");
            }
            *had = has;
        }
        if let Some(leader) = &self.leader {
            leader.contexts.steps.completion_timeout.set(self.targets.runtime.live.completion_timeout);
            leader.contexts.hosts.fleet.renew_reports();
        }
    }

    /// Stops the tasks, folds the last events, writes a checkpoint, closes the log.
    pub(super) async fn close(self) {
        if let Some(server) = self.log_server {
            server.stop().await;
        }
        if let Some(access) = self.app.access_log() {
            // A log that cannot be written must not delay the end.
            let _ = tokio::time::timeout(FLUSH, access.flush()).await;
        }
        if let Some(leader) = self.leader {
            leader.stop().await;
        }
        self.index.stop().await;
        if let Some(retention) = self.retention {
            retention.stop().await;
        }
        self.member.stop().await;
        self.event_log.close().await;
    }
}

/// The APIs on a log for this process alone. Nobody leads, so no host is connected and every command is refused. With
/// `noauth2` every caller is believed, so the APIs must not get a listener.
pub(crate) struct SilentPlane {
    app: AppState,
    member: Member,
    event_log: EventLog,
}

impl SilentPlane {
    /// Opens the log in the data folder of the configuration.
    pub(crate) async fn open(config: &Config) -> Result<Self> {
        let targets = config.targets();
        let event_log = EventLog::open(config, &SqliteOptions::default(), None).await?;
        let member = Member::start(event_log.store(), Arc::new(SystemClock), Views::new()).await?;
        let parts = ServingParts::following(config, &targets, &member)?;
        let index = audit_index::indexed(config, &member.log);
        let app = app(config, &targets, &member, parts, &event_log, index, None)?;
        Ok(Self { app, member, event_log })
    }

    pub(crate) fn app(&self) -> AppState {
        Arc::clone(&self.app)
    }

    pub(crate) async fn close(self) {
        self.member.stop().await;
        self.event_log.close().await;
    }
}

/// Begins to lead: starts the embedded services, the processes, the host agents and the reconcilers.
async fn lead(
    config: &Config,
    mut targets: Targets,
    member: &Member,
    event_log: &EventLog,
) -> Result<(Leader, OpenedServices)> {
    let mut leadership = Leadership::take(member, threads()).context("cannot send commands")?;
    leadership.host_gate = host_gate(event_log);
    // The start needs the recorded changes of the fleet. Otherwise it would treat hosts that were added through the API
    // as removed.
    leadership.gateway.look::<FleetRoot>(&FleetId).await.context("cannot read the changes of the fleet")?;
    let services = OpenedServices::open(config, &targets, member, &leadership.gateway)?;
    services.begin(config, &leadership).await?;
    volumes::read_keyring(config, &mut targets.drivers.libvirt.images.rbd)?;
    let hosts = hosts(config, &targets.drivers)?;
    vendor_data::complete(&mut targets.runtime.servers.metadata, config, &member.clock)?;
    targets.runtime.scheduler.hook.program = services.hook.clone().map(|hook| SharedSchedulerHook(hook));
    let leader = Leader::start(leadership, hosts, services.ports(), targets.runtime).await;
    let history = member.checkpoints.as_ref().map(|kept| &kept.history);
    let eraser = leader.operations().eraser(&member.log, history);
    // Interrupted erasures are complete before this member serves requests as the leader.
    let resumed = eraser.resume().await;
    match resumed {
        Err(ErasureError::Log(error @ StoreError::ArchiveAway { .. })) => {
            tracing::error!(%error, "an erasure of personal data is not complete; trying again until it is");
            tokio::spawn(resume_later(eraser));
        }
        resumed => tell_resumed(resumed.context("cannot complete an erasure of personal data")?),
    }
    Ok((leader, services))
}

fn tell_resumed(resumed: usize) {
    if resumed > 0 {
        tracing::info!(resumed, "completed interrupted erasures of personal data");
    }
}

/// Completes interrupted erasures when the archive can be read again.
async fn resume_later(eraser: Eraser) {
    loop {
        tokio::time::sleep(ARCHIVE_BACK).await;
        match eraser.resume().await {
            Err(ErasureError::Log(StoreError::ArchiveAway { .. })) => {}
            Err(ErasureError::Log(StoreError::Closed)) => return,
            Err(error) => {
                tracing::error!(error = %ErrorChain(&error), "an erasure of personal data is not complete: the next start completes it");
                return;
            }
            Ok(resumed) => return tell_resumed(resumed),
        }
    }
}

/// The gate before work on hosts. It opens when the lease of the former leader has ended.
fn host_gate(event_log: &EventLog) -> HostGate {
    let after = event_log.hosts_after();
    if after.is_zero() {
        return HostGate::open();
    }
    tracing::warn!(seconds = after.as_secs_f64(), "work on hosts waits for the end of the former leader's lease");
    let (opener, gate) = HostGate::closed();
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        opener.send_replace(true);
        tracing::info!("work on hosts begins");
    });
    gate
}

/// The parts of the APIs that depend on the member's role.
struct ServingParts {
    /// `None` if requests are not recorded: on a member that follows, which may not append, or if the configuration
    /// turns the records off.
    access: Option<Arc<AccessLog>>,
    operations: Arc<Operations>,
    reconcilers: Vec<Arc<ReconcilerTally>>,
    services: OpenedServices,
}

impl ServingParts {
    fn leading(leader: &Leader, services: OpenedServices, member: &Member, targets: &Targets) -> Self {
        let (operations, reconcilers) = (Arc::clone(leader.operations()), leader.reconcilers().to_vec());
        let start = |rates| AccessLog::start(Arc::clone(&member.log), Arc::new(SystemClock), rates);
        let access = Some(targets.web.access).filter(|rates| rates.on).map(start);
        Self { access, operations, reconcilers, services }
    }

    fn following(config: &Config, targets: &Targets, member: &Member) -> Result<Self> {
        let follower = Follower::of(member);
        let services = OpenedServices::open(config, targets, member, follower.gateway())?;
        let operations = follower.operations(services.ports(), targets.runtime.clone());
        Ok(Self { access: None, operations, reconcilers: Vec::new(), services })
    }
}

impl OpenedServices {
    fn open(config: &Config, targets: &Targets, member: &Member, gateway: &Arc<CommandGateway>) -> Result<Self> {
        let views = &member.views;
        let identity = identity::open(config, &targets.identity, member)?;
        let networks = OpenedNetworks::open(config, member, gateway, &identity)?;
        let users = SharedUserTokens::default();
        let images = images::open(config, member, gateway, &identity, &users)?;
        let options = targets.runtime.volume.clone();
        let embedded = || EmbeddedVolumes::new(Arc::clone(gateway), Arc::clone(views), images.port(), options);
        let keys = OpenedKeyManagers::open(config, &identity, &users)?;
        let volumes = volumes::open(config, member, (&identity, &users, keys.volume_keys()), embedded)?;
        Ok(Self { identity, networks, images, volumes, keys, hook: scheduler_hook::open(config)? })
    }

    /// Creates the first users, and repairs what a crash left unfinished in the services.
    async fn begin(&self, config: &Config, leadership: &Leadership) -> Result<()> {
        identity::begin(config, leadership, &self.identity).await?;
        self.images.begin(leadership).await
    }

    /// The clients of other services, for metrics.
    fn clients(&self) -> Vec<Arc<ServiceClient>> {
        let mut clients = self.networks.clients();
        if let OpenedIdentity::Keystone { provider, accounts, .. } = &self.identity {
            clients.push(Arc::clone(provider.client()));
            clients.extend(accounts.vouching.iter().map(|account| Arc::clone(account.client())));
        }
        if let OpenedImages::Glance { images, .. } = &self.images {
            clients.extend(images.service().clients().iter().cloned());
        }
        clients.extend(self.volumes.clients());
        clients.extend(self.keys.clients());
        clients.extend(self.hook.iter().map(|hook| Arc::clone(hook.client())));
        clients
    }

    fn ports(&self) -> Ports {
        let (keys, certificates) = (Arc::clone(&self.keys.keys), self.keys.certificates());
        let (networks, images, volumes) = (self.networks.port(), self.images.port(), self.volumes.port());
        Ports { networks, images, volumes, keys, certificates }
    }
}

fn consoles(config: &Config, targets: &Targets) -> Result<ComputeConfig> {
    let mut compute = targets.compute.clone();
    listen::consoles(config, &mut compute.consoles);
    compute.consoles.vnc_security.check().context("cannot use [vnc] auth_schemes")?;
    if let Some(folder) = compute.consoles.missing_folder() {
        let folder = folder.display();
        tracing::warn!(%folder, "no console can be opened: [DEFAULT] record names a file in a folder that does not exist");
    }
    if let Some(page) = compute.consoles.missing_viewer() {
        let page = page.display();
        tracing::warn!(%page, "SPICE consoles have no viewer: [DEFAULT] web names a folder without this page of spice-html5");
    }
    Ok(compute)
}

fn app(
    config: &Config,
    targets: &Targets,
    member: &Member,
    parts: ServingParts,
    event_log: &EventLog,
    log: Arc<dyn EventStore>,
    seat: Option<ClusterSeat>,
) -> Result<AppState> {
    let web: WebConfig = targets.web.clone();
    let metrics = HttpMetrics::new(metrics(member, &parts, seat.as_ref())?)?;
    let ServingParts { access, operations, services, .. } = parts;
    let OpenedServices { identity, networks, images, volumes, keys, hook: _ } = services;
    let has_certificates = keys.certificates().is_some();
    let policy = Enforcer::load(&web.policy).context("cannot use the policy")?;
    let authentication = match config.api.auth_strategy.as_str() {
        "noauth2" => Authentication::NoAuth,
        _ => Authentication::Tokens(identity.provider()),
    };
    let app = App::new(web, policy, authentication, metrics).with_operations(operations);
    let app = with_identity(app.with_log(log), identity);
    let mut app = keys.serve(volumes.serve(images.serve(networks.show(app))));
    app.compute = ComputeState::new(ComputeConfig { has_certificates, ..consoles(config, targets)? });
    let (broken, written) = (member.broken(), event_log.clone());
    app.health = std::mem::take(&mut app.health)
        .with("event log", Arc::new(move || written.health().map_err(|failure| failure.to_string())))
        .with("read models", Arc::new(move || broken.borrow().clone().map_or(Ok(()), Err)));
    if let Some(access) = access {
        app = app.with_access_log(access);
    }
    if let Some(seat) = seat {
        let role = seat.role();
        app.health = app.health.telling("role", Arc::new(move || json!(role)));
        app.cluster = Some(seat);
    }
    if let Some(kept) = &member.checkpoints {
        app.health = app.health.telling("read_models", read_models::report(kept, Arc::clone(&member.log)));
        app = app.with_history(Arc::clone(&kept.history));
    }
    Ok(Arc::new(app))
}

/// Serves the embedded identity API, or tells clients where Keystone is. If Keystone does not answer, this member stays
/// healthy, because another member could not reach Keystone either.
fn with_identity(mut app: App, identity: OpenedIdentity) -> App {
    match identity {
        OpenedIdentity::Embedded(service) => app.with_identity(service),
        OpenedIdentity::Keystone { provider, place, .. } => {
            let (client, at) = (Arc::clone(provider.client()), place.clone());
            let tell = move || {
                let state = client.trouble().unwrap_or_else(|| "no trouble".to_owned());
                json!({"service": "keystone", "place": at, "state": state, "embedded": "not served"})
            };
            app.health = Health::default().telling("identity", Arc::new(tell));
            app.config.www_authenticate_uri.get_or_insert_with(|| place.clone());
            app.with_elsewhere(Service::Identity, place)
        }
    }
}

fn metrics(member: &Member, parts: &ServingParts, seat: Option<&ClusterSeat>) -> Result<prometheus::Registry> {
    let registry = prometheus::Registry::new();
    registry.register(Box::new(build_info()?))?;
    let queries = Arc::clone(parts.operations.queries());
    registry.register(Box::new(Gauges::new(queries, Arc::clone(&member.log))?))?;
    registry.register(Box::new(ReconcilerGauges::new(parts.reconcilers.clone())?))?;
    if let Some(seat) = seat {
        let leads = IntGauge::new("chronova_cluster_leads", "1 if this member of the cluster leads, 0 if it follows.")?;
        leads.set(matches!(seat, ClusterSeat::Leads(_)).into());
        registry.register(Box::new(leads))?;
    }
    if let Some(kept) = &member.checkpoints {
        registry.register(Box::new(ReadModelGauges::new(kept)?))?;
    }
    let clients = parts.services.clients();
    if !clients.is_empty() {
        registry.register(Box::new(CallGauges::new(clients)?))?;
    }
    Ok(registry)
}

/// The version of the program, and the commit if the build had the environment variable `CHRONOVA_COMMIT`.
fn build_info() -> prometheus::Result<IntGauge> {
    let described = Opts::new("chronova_build_info", "The running build; always 1.");
    let described = described.const_label("version", env!("CARGO_PKG_VERSION"));
    let info = IntGauge::with_opts(match option_env!("CHRONOVA_COMMIT") {
        Some(commit) => described.const_label("commit", commit),
        None => described,
    })?;
    info.set(1);
    Ok(info)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// The hosts in `[chronova] hypervisors`.
fn hosts(config: &Config, options: &DriverOptions) -> Result<HostSource> {
    let mut all: Vec<Arc<dyn Driver>> = Vec::new();
    for uri in &config.chronova.hypervisors.0 {
        all.extend(chronova_hypervisor::backend::open(uri, options).context("[chronova] hypervisors")?);
    }
    if all.is_empty() {
        tracing::warn!("[chronova] hypervisors names no host: no server can be built before one is added");
    }
    let options = options.clone();
    let opener = move |uri: &str| chronova_hypervisor::backend::open(uri, &options).map_err(|error| error.to_string());
    Ok(HostSource { configured: all, opener: Arc::new(opener) })
}
