//! `chronova serve-log`: serves the event log alone, in EventStoreDB's protocol.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

use super::event_log::EventLog;
use super::eventstoredb;
use crate::config::Config;
use crate::telemetry::Logging;

/// Serves until SIGTERM or SIGINT.
pub fn run(config: Config) -> Result<()> {
    let _logging = Logging::start(&config.targets().log)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config))
}

async fn serve(config: Config) -> Result<()> {
    let targets = config.targets();
    let event_log = tokio::select! {
        opened = EventLog::open(&config, &targets.store, None) => opened?,
        ended = super::told_to_end() => return ended,
    };
    let server = eventstoredb::open(&config, event_log.store())
        .await?
        .context("[eventstoredb] listen is empty: set at least one HOST:PORT")?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("shutting down on a signal");
    server.stop().await;
    event_log.close().await;
    Ok(())
}
