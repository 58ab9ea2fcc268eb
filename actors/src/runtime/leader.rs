//! The parts that only the leader of a cluster runs: the supervisor of processes, the host agents, the reconcilers and
//! the sweeps at start-up.
//!
//! Two leaders at the same time would both drive each host. [`crate::coordination`] lists what else must not run twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::fleet::FleetChanges;
use chronova_events::ids::HostId;
use chronova_hypervisor::driver::Driver;
use tokio::task::JoinSet;

use super::contexts::{Contexts, Ports};
use super::leadership::Leadership;
use super::options::RuntimeOptions;
use crate::coordination::HostGate;
use crate::fleet::keeper::{HostKeeper, HostSource};
use crate::fleet::{FleetId, FleetRoot};
use crate::host::{HostCommand, HostRoot};
use crate::hosts::agent;
use crate::hosts::fence::LogIdentity;
use crate::notifications::publisher::NotificationPublisher;
use crate::notifications::{NotificationOptions, NotificationTransport};
use crate::operations::Operations;
use crate::process::context::StepContext;
use crate::process::supervisor;
use crate::reconcile::run_counts::ReconcilerTally;
use crate::reconcile::table::RECONCILERS;
use crate::services::external::amqp::AmqpTransport;

/// The leader's work.
#[derive(Debug)]
pub struct Leader {
    pub contexts: Contexts,
    tasks: JoinSet<()>,
    tallies: Vec<Arc<ReconcilerTally>>,
}

impl Leader {
    /// Runs the sweeps, continues unfinished processes, and starts the reconcilers and the host agents. No request may
    /// be served before this function returns. Work on hosts waits for the gate of `leadership`. `hosts`: those of the
    /// configuration file.
    pub async fn start(
        leadership: Leadership,
        hosts: impl Into<HostSource>,
        ports: Ports,
        options: RuntimeOptions,
    ) -> Self {
        let hosts = hosts.into();
        // The keeper of hosts reads the events after this position; a repeated event is harmless.
        let followed = leadership.log.subscribe(leadership.views.position());
        let changes = leadership.gateway.look::<FleetRoot>(&FleetId).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the changes of the fleet cannot be read: only configured hosts are used");
            FleetChanges::default()
        });
        let notifications = options.notifications.clone();
        let contexts = Contexts::assemble(leadership, hosts.at_start(&changes), ports, options);
        let (store, drivers) = (&contexts.reconcile.log, contexts.hosts.fleet.drivers());
        // The reconcilers must know of a copy before they run.
        match LogIdentity::of(&**store).await {
            Ok(identity) => contexts.hosts.fleet.doubt_until(identity.and_then(|identity| identity.copied_at)),
            Err(error) => {
                tracing::error!(%error, "the identity of the log cannot be read, so the log is taken for a copy");
                contexts.hosts.fleet.doubt_until(Some(contexts.hosts.clock.now()));
            }
        }
        retire(&contexts.steps, &drivers).await;
        let tallies: Vec<_> = RECONCILERS.iter().map(|row| Arc::new(ReconcilerTally::new(row.name))).collect();
        for (reconciler, tally) in RECONCILERS.iter().zip(&tallies) {
            (reconciler.sweep)(&contexts.reconcile, tally).await;
        }
        let (mut tasks, gate) = (JoinSet::new(), &contexts.steps.host_gate);
        tasks.spawn(supervisor::supervise(Arc::clone(&contexts.steps), Arc::clone(store)));
        for (reconciler, tally) in RECONCILERS.iter().zip(&tallies) {
            tasks.spawn(behind(gate, (reconciler.run)(Arc::clone(&contexts.reconcile), Arc::clone(tally))));
        }
        let mut agents = BTreeMap::new();
        for driver in drivers {
            let attended = agent::attend(Arc::clone(&contexts.hosts), Arc::clone(store), Arc::clone(&driver));
            agents.insert(driver.uri().to_owned(), tasks.spawn(behind(gate, attended)));
        }
        let keeper = HostKeeper {
            context: Arc::clone(&contexts.hosts),
            store: Arc::clone(store),
            operations: Arc::clone(&contexts.operations),
            opener: hosts.opener,
            agents,
        };
        tasks.spawn(behind(gate, keeper.keep(followed)));
        tasks.spawn(publisher(&contexts, *notifications).run());
        Self { contexts, tasks, tallies }
    }

    /// The operations of an API.
    pub fn operations(&self) -> &Arc<Operations> {
        &self.contexts.operations
    }

    /// The run counts of each reconciler, in the order of the table.
    pub fn reconcilers(&self) -> &[Arc<ReconcilerTally>] {
        &self.tallies
    }

    /// Stops all work at once. The next start continues from the log.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        self.contexts.steps.gateway.stop();
    }
}

/// The work, which begins when the gate is open.
fn behind(
    gate: &HostGate,
    work: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let gate = gate.clone();
    async move {
        gate.passed().await;
        work.await;
    }
}

/// The publisher of notifications. The checks of the configuration have refused a transport URL that cannot be used.
fn publisher(contexts: &Contexts, options: NotificationOptions) -> NotificationPublisher {
    let transport = options.needs_broker().then(|| AmqpTransport::new(options.broker.clone()));
    let transport = match transport {
        Some(Err(reason)) => {
            tracing::error!("no notification is sent: the transport URL {reason}");
            None
        }
        Some(Ok(transport)) => Some(Box::new(transport) as Box<dyn NotificationTransport>),
        None => None,
    };
    let options = match transport.is_none() && options.needs_broker() {
        true => NotificationOptions { drivers: Vec::new(), ..options },
        false => options,
    };
    let (gateway, log) = (Arc::clone(&contexts.steps.gateway), Arc::clone(&contexts.reconcile.log));
    NotificationPublisher { gateway, log, options, servers: Arc::clone(&contexts.steps.server_options), transport }
}

/// Records as down the hosts that are not configured any more, because they will never answer.
async fn retire(context: &StepContext, drivers: &[Arc<dyn Driver>]) {
    let configured: BTreeSet<&str> = drivers.iter().map(|driver| driver.uri()).collect();
    let gone: Vec<HostId> = context.views.hosts.read(|hosts| {
        hosts.all().filter(|host| host.up && !configured.contains(host.uri.as_str())).map(|host| host.id).collect()
    });
    for host in gone {
        let down = HostCommand::ReportDown { reason: "it is not configured any more".to_owned() };
        if let Err(error) = context.gateway.send::<HostRoot>(&host, down, Meta::system("host-watch")).await {
            tracing::error!(%host, %error, "recording a removed host as down failed");
        }
    }
}
