//! `chronova serve`: a whole control plane, from the log to the listeners, and its graceful shutdown.

mod calls;
mod event_log;
mod eventstoredb;
mod gauges;
mod identity;
pub mod listen;
pub mod log_only;
mod private;
mod read_models;
mod reconcilers;
mod vendor_data;
mod wiring;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_projections::progress::WorkRegistry;
use chronova_web::health::HealthReport;
use chronova_web::startup_gate::StartupGate;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::telemetry::Logging;
use event_log::EventLog;
use wiring::ControlPlane;

/// Serves until SIGTERM or SIGINT. An error says why the server could not start or had to stop.
pub fn run(config: Config) -> Result<()> {
    let logging = Logging::start(&config.targets().log)?;
    let system = actix_rt::System::with_tokio_rt(|| {
        #[expect(clippy::expect_used, reason = "without threads nothing can be said or served")]
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("the threads can be started")
    });
    system.block_on(serve(config, logging))
}

async fn serve(config: Config, logging: Logging) -> Result<()> {
    let targets = config.targets();
    let event_log = tokio::select! {
        opened = EventLog::open(&config, &targets.store) => opened?,
        told = told_to_end() => return told,
    };
    let listeners = listen::listeners(&config)?;
    let serving = listen::serving(&config, &targets)?;
    // From now on the server accepts requests, but they wait until the read models are complete.
    let works = Arc::new(WorkRegistry::default());
    let (opener, door) = StartupGate::closed(beginning(&works));
    let servers = chronova_web::server::serve(&door, &listeners, &serving).context("cannot listen")?;
    let handles: Vec<_> = servers.iter().map(|(_, server)| server.handle()).collect();
    for (address, server) in servers {
        tracing::info!(%address, "listening");
        actix_rt::spawn(server);
    }
    let mut control_plane = tokio::select! {
        opened = ControlPlane::open(&config, targets, event_log.clone(), &works) => opened?,
        told = told_to_end() => {
            event_log.close().await;
            return told;
        }
    };
    opener.open(&control_plane.app);
    tracing::info!("ready");
    let ended = until_told(&logging, &mut control_plane).await;
    control_plane.app.feeds.close();
    control_plane.app.consoles.close();
    for handle in handles {
        handle.stop(true).await;
    }
    control_plane.close().await;
    ended
}

/// The answer of `/healthz` until the control plane is ready.
fn beginning(works: &Arc<WorkRegistry>) -> HealthReport {
    let works = Arc::clone(works);
    Arc::new(move || json!({"work": read_models::under_way(&works)}))
}

/// Waits for a signal that ends the server during start-up.
async fn told_to_end() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("shutting down on a signal");
    Ok(())
}

/// Waits for a reason to stop.
async fn until_told(logging: &Logging, control_plane: &mut ControlPlane) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut rebuild = signal(SignalKind::user_defined1())?;
    let mut broken = control_plane.member.broken();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hang_up.recv() => if let Err(error) = logging.reopen() {
                tracing::error!(%error, "cannot reopen the log file");
            },
            _ = rebuild.recv() => control_plane.member.rebuild_all(),
            reason = broken.wait_for(Option::is_some) => {
                let reason = reason.ok().and_then(|reason| (*reason).clone()).unwrap_or_default();
                anyhow::bail!("the read models can no longer follow the event log: {reason}");
            }
        }
    }
    tracing::info!("shutting down on a signal");
    Ok(())
}

/// The state that request handlers share.
pub type AppState = Arc<chronova_web::App>;
