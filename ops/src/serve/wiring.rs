//! Puts the parts of a control plane together.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_actors::runtime::{Core, Ports, Runtime};
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
use super::read_models::ReadModels;
use super::reconcilers::ReconcilerGauges;
use super::{AppState, identity, listen, vendor_data};
use crate::config::Config;
use crate::config::targets::Targets;

/// Everything that `serve` runs.
pub(super) struct ControlPlane {
    pub app: AppState,
    pub runtime: Runtime,
    event_log: EventLog,
    pub read_models: ReadModels,
    log_server: Option<chronova_web::eventstoredb::LogServer>,
}

impl ControlPlane {
    pub(super) async fn open(
        config: &Config,
        mut targets: Targets,
        event_log: EventLog,
        works: &Arc<WorkRegistry>,
    ) -> Result<Self> {
        let folder = config.chronova.data_dir.clone();
        let log = event_log.store();
        let mut read_models = ReadModels::open(config, &targets, &log, works).await?;
        let core = Core::start(Arc::clone(&log), Arc::new(SystemClock), Arc::clone(&read_models.views), threads())
            .await
            .context("cannot fold the event log")?;
        let identity_service = identity::open(config, targets.identity, &core).await?;
        let networks = EmbeddedNetworks::new(Arc::clone(&core.gateway), Arc::clone(&core.views));
        let files =
            ImageFiles::open(&folder, config.glance.image_size_cap).context("cannot use the folder of the images")?;
        let most = usize::try_from(config.glance.image_count_total).ok();
        let (views, gateway) = (Arc::clone(&core.views), Arc::clone(&core.gateway));
        let images = EmbeddedImages::limited(files, views, gateway, most);
        images.recover(&core.gateway).await.context("cannot recover the image store")?;
        let drivers = drivers(config, &targets.drivers)?;
        vendor_data::complete(&mut targets.runtime.servers.metadata, config)?;
        listen::consoles(config, &mut targets.compute.consoles);
        let options = targets.runtime;
        let (gateway, views) = (Arc::clone(&core.gateway), Arc::clone(&core.views));
        let volumes = EmbeddedVolumes::new(gateway, views, Arc::clone(&images) as _, options.volume.clone());
        let ports = Ports { networks, images: Arc::clone(&images) as _, volumes: Arc::clone(&volumes) as _ };
        let runtime = Runtime::start(core, drivers, ports, options).await;
        let eraser = runtime.operations().eraser(&log, Some(&read_models.history));
        // Erasures that a crash interrupted are completed before the first request is served.
        let resumed = eraser.resume().await.context("cannot complete an erasure of personal data")?;
        if resumed > 0 {
            tracing::info!(resumed, "completed interrupted erasures of personal data");
        }
        read_models.attend();
        let apis = (targets.web, targets.compute);
        let app = app(config, apis, &runtime, identity_service, (images, volumes), &event_log, &read_models)?;
        let log_server = super::eventstoredb::open(config, log).await?;
        Ok(Self { app, runtime, event_log, read_models, log_server })
    }

    /// Stops the tasks, folds the last events, writes a checkpoint, closes the log.
    pub(super) async fn close(self) {
        if let Some(server) = self.log_server {
            server.stop().await;
        }
        self.runtime.stop().await;
        self.read_models.close().await;
        self.event_log.close().await;
    }
}

fn app(
    config: &Config,
    (web, compute): (WebConfig, ComputeConfig),
    runtime: &Runtime,
    identity: OpenedIdentity,
    (images, volumes): (Arc<EmbeddedImages>, Arc<EmbeddedVolumes>),
    event_log: &EventLog,
    read_models: &ReadModels,
) -> Result<AppState> {
    let policy = Enforcer::load(&web.policy).context("cannot use the policy")?;
    let authentication = match config.api.auth_strategy.as_str() {
        "noauth2" => Authentication::NoAuth,
        _ => Authentication::Tokens(identity.provider()),
    };
    let registry = prometheus::Registry::new();
    let (log, written) = (event_log.store(), event_log.clone());
    registry.register(Box::new(Gauges::new(Arc::clone(runtime.operations().queries()), Arc::clone(&log))?))?;
    registry.register(Box::new(ReconcilerGauges::new(runtime.reconcilers().to_vec())?))?;
    registry.register(Box::new(read_models.gauges()?))?;
    if let OpenedIdentity::Keystone { provider, .. } = &identity {
        registry.register(Box::new(CallGauges::new(vec![Arc::clone(provider.client())])?))?;
    }
    let metrics = HttpMetrics::new(registry)?;
    let operations = Arc::clone(runtime.operations());
    let app = App::new(web, policy, authentication, metrics).with_operations(operations).with_log(log);
    let mut app = with_identity(app, identity)
        .with_images(images)
        .with_volumes(volumes)
        .with_history(Arc::clone(&read_models.history));
    app.compute = ComputeState::new(compute);
    let broken = runtime.broken();
    app.health = std::mem::take(&mut app.health)
        .with("event log", Arc::new(move || written.health().map_err(|failure| failure.to_string())))
        .with("read models", Arc::new(move || broken.borrow().clone().map_or(Ok(()), Err)))
        .telling("read_models", read_models.tale());
    Ok(Arc::new(app))
}

/// The embedded identity API, or the place of Keystone. A Keystone that does not answer makes nothing unhealthy: another
/// member of the cluster would not do better.
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
