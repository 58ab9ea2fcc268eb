//! `chronova serve`: the whole house, from the log to the listeners, and its orderly end.

mod eventstoredb;
mod gauges;
mod identity;
pub mod log_only;
pub mod settings;
mod wiring;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::telemetry::{LogSettings, Logging};
use wiring::House;

/// Serves until SIGTERM or SIGINT; an error says why it could not, or no longer.
pub fn run(config: Config) -> Result<()> {
    let logging = Logging::start(&LogSettings::from_config(&config))?;
    let system = actix_rt::System::with_tokio_rt(|| {
        #[expect(clippy::expect_used, reason = "without threads nothing can be said or served")]
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("the threads can be started")
    });
    system.block_on(serve(config, logging))
}

async fn serve(config: Config, logging: Logging) -> Result<()> {
    let house = House::open(&config).await?;
    let listeners = settings::listeners(&config)?;
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let servers = chronova_web::server::serve(&house.app, &listeners, workers).context("cannot listen")?;
    let handles: Vec<_> = servers.iter().map(|(_, server)| server.handle()).collect();
    for (address, server) in servers {
        tracing::info!(%address, "listening");
        actix_rt::spawn(server);
    }
    let ended = until_told(&logging, &house).await;
    for handle in handles {
        handle.stop(true).await;
    }
    house.close().await?;
    ended
}

/// Waits for a reason to end.
async fn until_told(logging: &Logging, house: &House) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut broken = house.runtime.broken();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => if let Err(error) = logging.reopen() {
                tracing::error!(%error, "the log file cannot be opened anew");
            },
            reason = broken.wait_for(Option::is_some) => {
                let reason = reason.ok().and_then(|reason| (*reason).clone()).unwrap_or_default();
                anyhow::bail!("the read models can no longer follow the event log: {reason}");
            }
        }
    }
    tracing::info!("told to end");
    Ok(())
}

/// Shared with the request handlers.
pub type AppState = Arc<chronova_web::App>;
