//! `chronova serve-log`: serves the event log alone, in EventStoreDB's protocol.

use anyhow::{Context as _, Result};

use super::EndSignals;
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
    let mut signals = EndSignals::new()?;
    let event_log = tokio::select! {
        opened = EventLog::open(&config, &targets.store, None) => opened?,
        () = signals.told() => return Ok(()),
    };
    let server = eventstoredb::open(&config, event_log.store())
        .await?
        .context("[eventstoredb] listen is empty: set at least one HOST:PORT")?;
    signals.told().await;
    server.stop().await;
    event_log.close().await;
    Ok(())
}
