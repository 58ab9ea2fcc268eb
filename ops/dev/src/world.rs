//! A control plane to measure in this process: a durable log in a folder, the aggregates, the read models and the API.
//!
//! There is no network and no host that answers, so the figures are those of the control plane itself.

use std::path::Path;
use std::sync::Arc;

use actix_web::body::to_bytes;
use actix_web::test::{TestRequest, call_service, init_service};
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use chronova_actors::process::context::StepContext;
use chronova_actors::runtime::{Contexts, Leadership, Member, Ports, RuntimeOptions};
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_actors::services::embedded::network::service::EmbeddedNetworks;
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::registry::Event;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use chronova_projections::views::Views;
use chronova_web::auth::Authentication;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::Enforcer;
use chronova_web::server::configure;
use chronova_web::tables::Routers;
use futures::{StreamExt as _, TryStreamExt as _};

/// The number of events in one append while the log is filled.
const CHUNK: usize = 5_000;

/// The first events of a log, by stream.
pub(super) type Filling = Vec<(StreamId, Vec<Event>)>;

/// The number of streams that are filled at the same time.
const AT_ONCE: usize = 512;

pub(super) struct BenchWorld {
    contexts: Contexts,
    store: Arc<SqliteStore>,
    member: Member,
}

impl BenchWorld {
    /// Creates a log in `folder` with these events, and a control plane on it. The control plane runs no processes and
    /// no host agents.
    pub(super) async fn open(folder: &Path, filling: Filling, options: RuntimeOptions) -> Result<Self> {
        let store = SqliteStore::open(folder.join("log.db"), &SqliteOptions::default())?;
        let streams = filling.into_iter().map(|(stream, events)| fill(&store, stream, events));
        futures::stream::iter(streams).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let log = Arc::clone(&store) as Arc<dyn EventStore>;
        let member = Member::start(log, Arc::new(SystemClock), Views::new()).await?;
        let leadership = Leadership::take(&member, threads)?;
        let ports = Ports {
            networks: EmbeddedNetworks::new(
                Arc::clone(&leadership.gateway),
                Arc::clone(&leadership.views),
                Arc::clone(&leadership.clock),
            ),
            images: EmbeddedImages::new(
                ImageFiles::open(folder, u64::MAX)?,
                Arc::clone(&leadership.views),
                Arc::clone(&leadership.gateway),
            ),
            volumes: Arc::new(chronova_actors::ports::NoVolumeService),
            keys: Arc::new(chronova_actors::ports::keys::NoKeyManager),
            certificates: None,
        };
        let contexts = Contexts::assemble(leadership, Vec::new(), ports, options);
        Ok(Self { contexts, store, member })
    }

    pub(super) fn context(&self) -> &Arc<StepContext> {
        &self.contexts.steps
    }

    pub(super) async fn close(self) {
        self.contexts.steps.gateway.stop();
        self.member.stop().await;
        self.store.close().await;
    }

    /// The API of this world for a caller who may do everything.
    pub(super) fn api(&self) -> Result<BenchApi> {
        let config = chronova_web::config::WebConfig::default();
        let policy = Enforcer::load(&config.policy).context("the policy cannot be used")?;
        let metrics = HttpMetrics::new(prometheus::Registry::new())?;
        let app = chronova_web::App::new(config, policy, Authentication::NoAuth, metrics);
        let routers = Arc::new(Routers::all());
        routers.compile_all().map_err(anyhow::Error::msg)?;
        Ok(BenchApi { app: Arc::new(app.with_operations(Arc::clone(&self.contexts.operations))), routers })
    }
}

async fn fill(store: &SqliteStore, stream: StreamId, events: Vec<Event>) -> Result<()> {
    let (now, meta) = (SystemClock.now(), Meta::system("bench"));
    let mut events = events.into_iter().map(|event| NewEvent::new(event, now, &meta)).peekable();
    while events.peek().is_some() {
        store.append(&stream, Expected::Any, events.by_ref().take(CHUNK).collect()).await?;
    }
    Ok(())
}

/// Calls the API in this process, without a network.
pub(super) struct BenchApi {
    app: Arc<chronova_web::App>,
    routers: Arc<Routers>,
}

impl BenchApi {
    /// Sends this GET `times` times, one after the other; returns the durations and the last body.
    pub(super) async fn get(
        &self,
        path: &str,
        version: &'static str,
        times: usize,
    ) -> Result<(Vec<std::time::Duration>, Bytes)> {
        let configured = configure(Arc::clone(&self.app), Arc::clone(&self.routers), None);
        let service = init_service(actix_web::App::new().configure(configured)).await;
        let mut latencies = Vec::with_capacity(times);
        let mut last = Bytes::new();
        for _ in 0..times {
            let request = TestRequest::with_uri(path)
                .insert_header(("X-Auth-Token", "admin"))
                .insert_header(("OpenStack-API-Version", version))
                .to_request();
            let began = std::time::Instant::now();
            let response = call_service(&service, request).await;
            let status = response.status();
            let body = to_bytes(response.into_body()).await.map_err(|error| anyhow::anyhow!("{path}: {error}"))?;
            latencies.push(began.elapsed());
            if !status.is_success() {
                bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
            }
            last = body;
        }
        Ok((latencies, last))
    }
}
