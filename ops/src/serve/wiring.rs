//! Puts the parts of a control plane together.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_actors::runtime::{Leader, Leadership, Member, Ports};
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_events::clock::SystemClock;
use chronova_hypervisor::backend::DriverOptions;
use chronova_hypervisor::driver::Driver;
use chronova_projections::progress::WorkRegistry;
use chronova_web::App;
use chronova_web::auth::Authentication;
use chronova_web::compute::{ComputeConfig, ComputeState};
use chronova_web::config::WebConfig;
use chronova_web::health::Health;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::Enforcer;
use chronova_web::service::Service;
use serde_json::json;

use super::calls::CallGauges;
use super::event_log::EventLog;
use super::gauges::Gauges;
use super::identity::OpenedIdentity;
use super::read_models::{self, ReadModelGauges};
use super::reconcilers::ReconcilerGauges;
use super::{AppState, identity, listen, vendor_data};
use crate::config::Config;
use crate::config::targets::Targets;

/// Everything that `serve` runs.
pub(super) struct ControlPlane {
    pub app: AppState,
    pub member: Member,
    leader: Leader,
    event_log: EventLog,
    log_server: Option<chronova_web::eventstoredb::LogServer>,
}

/// The services beside Compute. The embedded ones send commands, so only a member that leads has them.
struct OpenedServices {
    identity: OpenedIdentity,
    networks: Arc<EmbeddedNetworks>,
    images: Arc<EmbeddedImages>,
    volumes: Arc<EmbeddedVolumes>,
}

impl ControlPlane {
    /// Starts what every member runs, then what the leader runs, then what clients reach.
    pub(super) async fn open(
        config: &Config,
        targets: Targets,
        event_log: EventLog,
        works: &Arc<WorkRegistry>,
    ) -> Result<Self> {
        let log = event_log.store();
        let checkpoints = read_models::load(config, &targets, &log, works).await?;
        let member = Member::start_with_checkpoints(Arc::clone(&log), Arc::new(SystemClock), checkpoints);
        let apis = (targets.web.clone(), consoles(config, &targets));
        let (leader, services) = lead(config, targets, &member).await?;
        let app = app(config, apis, &member, &leader, services, &event_log)?;
        let log_server = super::eventstoredb::open(config, log).await?;
        Ok(Self { app, member, leader, event_log, log_server })
    }

    /// Stops the tasks, folds the last events, writes a checkpoint, closes the log.
    pub(super) async fn close(self) {
        if let Some(server) = self.log_server {
            server.stop().await;
        }
        self.leader.stop().await;
        self.member.stop().await;
        self.event_log.close().await;
    }
}

/// Begins to lead: starts the embedded services, the processes, the host agents and the reconcilers.
async fn lead(config: &Config, mut targets: Targets, member: &Member) -> Result<(Leader, OpenedServices)> {
    let leadership = Leadership::take(member, threads()).context("cannot send commands")?;
    let services = OpenedServices::open(config, &targets, &leadership).await?;
    let drivers = drivers(config, &targets.drivers)?;
    vendor_data::complete(&mut targets.runtime.servers.metadata, config)?;
    let leader = Leader::start(leadership, drivers, services.ports(), targets.runtime).await;
    let history = member.checkpoints.as_ref().map(|kept| &kept.history);
    let eraser = leader.operations().eraser(&member.log, history);
    // The server completes interrupted erasures before it serves the first request.
    let resumed = eraser.resume().await.context("cannot complete an erasure of personal data")?;
    if resumed > 0 {
        tracing::info!(resumed, "completed interrupted erasures of personal data");
    }
    Ok((leader, services))
}

impl OpenedServices {
    /// Opens the services, and mends what a crash left in them.
    async fn open(config: &Config, targets: &Targets, leadership: &Leadership) -> Result<Self> {
        let (gateway, views) = (&leadership.gateway, &leadership.views);
        let identity = identity::open(config, targets.identity.clone(), leadership).await?;
        let networks = EmbeddedNetworks::new(Arc::clone(gateway), Arc::clone(views));
        let (folder, size_cap) = (&config.chronova.data_dir, config.glance.image_size_cap);
        let files = ImageFiles::open(folder, size_cap).context("cannot use the folder of the images")?;
        let most = usize::try_from(config.glance.image_count_total).ok();
        let images = EmbeddedImages::limited(files, Arc::clone(views), Arc::clone(gateway), most);
        images.recover(gateway).await.context("cannot recover the image store")?;
        let (port, options) = (Arc::clone(&images), targets.runtime.volume.clone());
        let volumes = EmbeddedVolumes::new(Arc::clone(gateway), Arc::clone(views), port as _, options);
        Ok(Self { identity, networks, images, volumes })
    }

    fn ports(&self) -> Ports {
        Ports {
            networks: Arc::clone(&self.networks) as _,
            images: Arc::clone(&self.images) as _,
            volumes: Arc::clone(&self.volumes) as _,
        }
    }
}

fn consoles(config: &Config, targets: &Targets) -> ComputeConfig {
    let mut compute = targets.compute.clone();
    listen::consoles(config, &mut compute.consoles);
    if let Some(page) = compute.consoles.missing_viewer() {
        let page = page.display();
        tracing::warn!(%page, "SPICE consoles have no viewer: [DEFAULT] web names a folder without this page of spice-html5");
    }
    compute
}

fn app(
    config: &Config,
    (web, compute): (WebConfig, ComputeConfig),
    member: &Member,
    leader: &Leader,
    services: OpenedServices,
    event_log: &EventLog,
) -> Result<AppState> {
    let OpenedServices { identity, images, volumes, .. } = services;
    let policy = Enforcer::load(&web.policy).context("cannot use the policy")?;
    let authentication = match config.api.auth_strategy.as_str() {
        "noauth2" => Authentication::NoAuth,
        _ => Authentication::Tokens(identity.provider()),
    };
    let operations = Arc::clone(leader.operations());
    let metrics = HttpMetrics::new(metrics(member, leader, &identity)?)?;
    let app = App::new(web, policy, authentication, metrics).with_operations(operations);
    let app = with_identity(app.with_log(Arc::clone(&member.log)), identity);
    let mut app = app.with_images(images).with_volumes(volumes);
    app.compute = ComputeState::new(compute);
    let (broken, written) = (member.broken(), event_log.clone());
    app.health = std::mem::take(&mut app.health)
        .with("event log", Arc::new(move || written.health().map_err(|failure| failure.to_string())))
        .with("read models", Arc::new(move || broken.borrow().clone().map_or(Ok(()), Err)));
    if let Some(kept) = &member.checkpoints {
        app.health = app.health.telling("read_models", read_models::report(kept, Arc::clone(&member.log)));
        app = app.with_history(Arc::clone(&kept.history));
    }
    Ok(Arc::new(app))
}

/// Serves the embedded identity API, or tells clients where Keystone is. A Keystone that does not answer makes no
/// member unhealthy, because another member of the cluster would not do better.
fn with_identity(mut app: App, identity: OpenedIdentity) -> App {
    match identity {
        OpenedIdentity::Embedded(service) => app.with_identity(service),
        OpenedIdentity::Keystone { provider, place } => {
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

fn metrics(member: &Member, leader: &Leader, identity: &OpenedIdentity) -> Result<prometheus::Registry> {
    let registry = prometheus::Registry::new();
    let queries = Arc::clone(leader.operations().queries());
    registry.register(Box::new(Gauges::new(queries, Arc::clone(&member.log))?))?;
    registry.register(Box::new(ReconcilerGauges::new(leader.reconcilers().to_vec())?))?;
    if let Some(kept) = &member.checkpoints {
        registry.register(Box::new(ReadModelGauges::new(kept)?))?;
    }
    if let OpenedIdentity::Keystone { provider, .. } = identity {
        registry.register(Box::new(CallGauges::new(vec![Arc::clone(provider.client())])?))?;
    }
    Ok(registry)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// The drivers of all hosts in `[chronova] hypervisors`.
fn drivers(config: &Config, options: &DriverOptions) -> Result<Vec<Arc<dyn Driver>>> {
    let mut all = Vec::new();
    for uri in &config.chronova.hypervisors.0 {
        all.extend(chronova_hypervisor::backend::open(uri, options).context("[chronova] hypervisors")?);
    }
    Ok(all)
}
