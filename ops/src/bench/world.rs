//! A control plane to measure: a durable log in a folder, the aggregates, the read models that follow; and the API, called
//! in this process.
//!
//! There is no network between, and no host that answers: what is measured is the work of the control plane itself.

use std::path::Path;
use std::sync::Arc;

use actix_web::body::to_bytes;
use actix_web::test::{TestRequest, call_service, init_service};
use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use chronova_actors::house::{House, Options};
use chronova_actors::image::embedded::EmbeddedImages;
use chronova_actors::image::files::ImageFiles;
use chronova_actors::network::service::EmbeddedNetworks;
use chronova_actors::runtime::{Core, Runtime};
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::registry::Event;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use chronova_projections::views::Views;
use chronova_web::auth::Authentication;
use chronova_web::metrics::Metrics;
use chronova_web::policy::Enforcer;
use chronova_web::server::configure;
use chronova_web::tables::Routers;

/// Events in one append while the log is filled.
const CHUNK: usize = 5_000;

pub(super) struct World {
    runtime: Runtime,
    store: Arc<SqliteStore>,
}

impl World {
    /// Begins a log in `folder` with these events in one stream, and a control plane on it.
    pub(super) async fn open<E: Into<Event>>(
        folder: &Path,
        stream: &StreamId,
        events: Vec<E>,
        options: Options,
    ) -> Result<Self> {
        let store = SqliteStore::open(folder.join("log.db"), &SqliteOptions::default())?;
        let (now, meta) = (SystemClock.now(), Meta::system("bench"));
        let mut events = events.into_iter().map(|event| NewEvent::new(event, now, &meta)).peekable();
        while events.peek().is_some() {
            store.append(stream, Expected::Any, events.by_ref().take(CHUNK).collect()).await?;
        }
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let store_of_core = Arc::clone(&store) as Arc<dyn EventStore>;
        let core = Core::start(store_of_core, Arc::new(SystemClock), Views::new(), threads).await?;
        let networks = EmbeddedNetworks::new(Arc::clone(&core.gateway), Arc::clone(&core.views));
        let images = EmbeddedImages::new(ImageFiles::open(folder, u64::MAX)?, Arc::clone(&core.views));
        let runtime = Runtime::start(core, Vec::new(), networks, images, options).await;
        Ok(Self { runtime, store })
    }

    pub(super) fn house(&self) -> &Arc<House> {
        &self.runtime.house
    }

    pub(super) async fn close(self) {
        self.runtime.stop().await;
        self.store.close().await;
    }

    /// The API of this world for a caller who may do everything.
    pub(super) fn api(&self) -> Result<Api> {
        let config = chronova_web::config::WebConfig::default();
        let policy = Enforcer::load(&config.policy).context("the policy cannot be used")?;
        let metrics = Metrics::new(prometheus::Registry::new())?;
        let app = chronova_web::App::new(config, policy, Authentication::NoAuth, metrics);
        let routers = Arc::new(Routers::all());
        routers.compile_all().map_err(anyhow::Error::msg)?;
        Ok(Api { app: Arc::new(app.with_house(Arc::clone(self.house()))), routers })
    }
}

/// The API, called without a network.
pub(super) struct Api {
    app: Arc<chronova_web::App>,
    routers: Arc<Routers>,
}

impl Api {
    /// Sends this GET `times` times, one after the other; gives back how long each took, and the last body.
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
