//! `chronova serve-log`: serves the event log alone, in EventStoreDB's protocol.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_events::store::sqlite::SqliteStore;
use tokio::signal::unix::{SignalKind, signal};

use super::{eventstoredb, private};
use crate::config::Config;
use crate::telemetry::Logging;

/// Serves until SIGTERM or SIGINT.
pub fn run(config: Config) -> Result<()> {
    let _logging = Logging::start(&config.targets().log)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config))
}

async fn serve(config: Config) -> Result<()> {
    let folder = &config.chronova.data_dir;
    private::close(folder).with_context(|| format!("cannot use the data folder {}", folder.display()))?;
    let path = folder.join("log.db");
    let store = SqliteStore::open(&path, &config.targets().store)
        .with_context(|| format!("cannot open the event log {}", path.display()))?;
    let server = eventstoredb::open(&config, Arc::clone(&store) as _)
        .await?
        .context("[eventstoredb] listen is empty: set at least one HOST:PORT")?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("shutting down on a signal");
    server.stop().await;
    store.close().await;
    Ok(())
}
