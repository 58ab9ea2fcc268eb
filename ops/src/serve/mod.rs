//! `chronova serve`: a whole control plane, from the log to the listeners, and its graceful shutdown.

mod audit_index;
mod calls;
mod cluster;
mod event_log;
mod eventstoredb;
mod gauges;
mod identity;
mod images;
mod key_manager;
pub mod listen;
pub mod log_only;
mod memory;
mod network;
mod private;
mod read_models;
mod reconcilers;
mod reload;
mod report;
mod retention;
mod scheduler_hook;
mod vendor_data;
mod volumes;
mod wiring;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_projections::progress::WorkRegistry;
use chronova_web::health::HealthReport;
use chronova_web::startup_gate::{StartupGate, StartupGateOpener};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Config;
use crate::telemetry::Logging;
use crate::telemetry::traces::TraceExporter;
use cluster::{ClusterMembership, ClusterOptions};
use event_log::EventLog;
pub use reload::ReadConfig;
use reload::Reload;
use wiring::ControlPlane;

/// Serves until SIGTERM or SIGINT. `read_config` reads the configuration again at SIGHUP. An error says why the server
/// could not start or had to stop.
pub fn run(config: Config, read_config: ReadConfig) -> Result<()> {
    let endpoint = config.chronova.otlp_endpoint.as_deref();
    let instance = config.default.host.as_ref().unwrap_or(&config.chronova.public_host);
    let traces = endpoint.map(|endpoint| TraceExporter::start(endpoint, instance)).transpose()?;
    let (_exporter, traces) = traces.unzip();
    let logging = Logging::start_with(&config.targets().log, traces)?;
    let system = actix_rt::System::with_tokio_rt(|| {
        #[expect(clippy::expect_used, reason = "without the runtime's threads the server can do nothing")]
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("the threads can be started")
    });
    system.block_on(serve(config, logging, read_config))
}

async fn serve(config: Config, logging: Logging, read_config: ReadConfig) -> Result<()> {
    let targets = config.targets();
    let cluster = ClusterOptions::of(&config)?;
    let mut signals = ServeSignals::new()?;
    let event_log = tokio::select! {
        opened = EventLog::open(&config, &targets.store, cluster.as_ref().map(|own| &own.member)) => opened?,
        () = signals.end.told() => return Ok(()),
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
    let membership = match (cluster, event_log.postgres()) {
        (Some(options), Some(store)) => Some(ClusterMembership::join(options, Arc::clone(store))?),
        _ => None,
    };
    let peers = membership.as_ref().map(|membership| membership.door(&door, serving.workers)).transpose()?;
    let mut control_plane = tokio::select! {
        opened = ControlPlane::open(&config, targets, event_log.clone(), &works, membership.as_ref()) => opened?,
        () = signals.end.told() => {
            event_log.close().await;
            return Ok(());
        }
    };
    opener.open(&control_plane.app);
    tokio::spawn(memory::give_back());
    tracing::info!("ready");
    let hypervisors = config.chronova.hypervisors.0.clone().into();
    let certificates = serving.tls.iter().chain(&serving.proxies_tls).cloned().collect();
    let reload = Reload { logging, certificates, read_config, hypervisors };
    let mut ended = Ok(WorkEnd::Leads);
    if let Some(membership) = &membership {
        ended = Box::pin(follow((&reload, &mut signals), &config, &mut control_plane, membership, &opener)).await;
    }
    if let Ok(WorkEnd::Leads) = ended {
        let over = handed_over(membership.as_ref());
        ended = until_told((&reload, &mut signals), &config, &mut control_plane, over).await;
    }
    control_plane.app.feeds.close();
    control_plane.app.consoles.close();
    // All listeners close at once. The limit of `[DEFAULT] graceful_shutdown_timeout` is for all together.
    futures::future::join_all(handles.iter().map(|handle| handle.stop(true))).await;
    if let Some(peers) = peers {
        peers.close().await;
    }
    control_plane.close().await;
    match ended? {
        WorkEnd::HandedOver => Err(start_again()),
        WorkEnd::Told | WorkEnd::Leads => Ok(()),
    }
}

/// Executes the program again in this process, with the same arguments. The program then starts as a follower.
fn start_again() -> anyhow::Error {
    use std::os::unix::process::CommandExt as _;
    let program = std::env::current_exe().map_or_else(|_| "chronova".into(), installed);
    let failed = std::process::Command::new(program).args(std::env::args_os().skip(1)).exec();
    anyhow::Error::new(failed).context("this member handed over the lead, but cannot restart as a follower")
}

/// The path of the program's file. If the file was replaced since the start, the kernel appends ` (deleted)` to the
/// path; this function removes that. So a member that hands over after an upgrade of its package starts as the new
/// version.
fn installed(program: PathBuf) -> PathBuf {
    match program.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => program,
    }
}

/// Waits until an operator requests a switchover to another member.
async fn handed_over(membership: Option<&ClusterMembership>) -> Result<WorkEnd> {
    match membership {
        Some(membership) => {
            let to = membership.handed_over().await;
            tracing::warn!(to, "handing over to another member");
            Ok(WorkEnd::HandedOver)
        }
        None => std::future::pending().await,
    }
}

/// Why a member stops, or changes its role.
enum WorkEnd {
    /// A signal ends the process.
    Told,
    /// The member has taken the lead.
    Leads,
    /// An operator has requested a switchover to another member.
    HandedOver,
}

/// Follows the leader until this member has taken the lead, and begins to lead.
async fn follow(
    (reload, signals): (&Reload, &mut ServeSignals),
    config: &Config,
    control_plane: &mut ControlPlane,
    membership: &ClusterMembership,
    opener: &StartupGateOpener,
) -> Result<WorkEnd> {
    let leads = async { membership.lead().await.map(|()| WorkEnd::Leads) };
    let ended = Box::pin(until_told((reload, signals), config, control_plane, leads)).await?;
    if let WorkEnd::Leads = ended {
        control_plane.lead(config, membership).await?;
        opener.open(&control_plane.app);
        membership.promote();
    }
    Ok(ended)
}

/// The answer of `/healthz` until the control plane is ready.
fn beginning(works: &Arc<WorkRegistry>) -> HealthReport {
    let works = Arc::clone(works);
    Arc::new(move || json!({"work": read_models::under_way(&works)}))
}

/// The signals that end the program. They are registered once and early, because tokio drops a signal that comes while
/// nobody is registered.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one of the signals.
    pub(super) async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        tracing::info!("shutting down on a signal");
    }
}

/// The signals that a running control plane handles. A signal that comes while a member begins to lead is handled
/// afterwards.
struct ServeSignals {
    end: EndSignals,
    hang_up: Signal,
    rebuild: Signal,
    report: Signal,
}

impl ServeSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            end: EndSignals::new()?,
            hang_up: signal(SignalKind::hangup())?,
            rebuild: signal(SignalKind::user_defined1())?,
            report: signal(SignalKind::user_defined2())?,
        })
    }
}

/// Waits for a reason to stop, or for a change of the member's role.
async fn until_told(
    (reload, signals): (&Reload, &mut ServeSignals),
    config: &Config,
    control_plane: &mut ControlPlane,
    changes: impl Future<Output = Result<WorkEnd>>,
) -> Result<WorkEnd> {
    let ServeSignals { end, hang_up, rebuild, report } = signals;
    let mut broken = control_plane.member.broken();
    let mut changes = std::pin::pin!(changes);
    loop {
        tokio::select! {
            () = end.told() => return Ok(WorkEnd::Told),
            _ = hang_up.recv() => {
                let read = reload.all(&control_plane.app.policy);
                control_plane.renew(read.as_ref().map(|read| &read.targets));
                if let Some(read) = read {
                    reload.know(control_plane.add_hosts(read.new_hosts).await);
                }
            }
            _ = rebuild.recv() => control_plane.member.rebuild_all(),
            _ = report.recv() => {
                let now = control_plane.member.clock.now();
                let text = report::render(config, &control_plane.member.views, now);
                report::write(&text, config.oslo_reports.log_dir.as_deref(), now);
            },
            changed = &mut changes => return changed,
            reason = broken.wait_for(Option::is_some) => {
                let reason = reason.ok().and_then(|reason| (*reason).clone()).unwrap_or_default();
                anyhow::bail!("the read models can no longer follow the event log: {reason}");
            }
        }
    }
}

pub(crate) use wiring::SilentPlane;

/// The state that request handlers share.
pub type AppState = Arc<chronova_web::App>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_started_from_its_old_path() {
        for (found, expected) in
            [("/usr/bin/chronova", "/usr/bin/chronova"), ("/usr/bin/chronova (deleted)", "/usr/bin/chronova")]
        {
            assert_eq!(installed(PathBuf::from(found)), PathBuf::from(expected));
        }
    }
}
