//! Notifies servers when the network service changes their ports.
//!
//! A real Neutron notifies Nova with `network-changed` and `network-vif-deleted`. The embedded service reads its own
//! events in the log instead, and makes compute refresh the servers concerned. After a start, it refreshes every server
//! once. A server with a task is refreshed again later.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::ids::{InstanceId, PortId};
use chronova_events::instance::Alive;
use chronova_events::network::NetworkEvent;
use chronova_events::registry::Event;
use chronova_events::store::tail::Subscription;
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::interfaces::refresh;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::reconcile::run_counts::ReconcilerTally;
use crate::reconcile::runner;

/// Refreshes every server once, and then the servers that new events concern.
async fn follow(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>, mut subscription: Subscription) {
    let retry = context.host_options.resync;
    let mut owed = ServerInterfaces::plan(context.situation());
    let mut due = Some(Instant::now());
    loop {
        let mut servers = tokio::select! {
            batch = subscription.next() => match batch {
                Ok(batch) if batch.iter().any(|recorded| is_of_network(recorded)) => {
                    context.views.wait_for(subscription.position(), retry).await;
                    concerned(&context, &batch)
                }
                // A busy log must not delay the servers that still need a refresh.
                Ok(_) if !has_come(due) => continue,
                Ok(_) => BTreeSet::new(),
                Err(error) => {
                    tracing::warn!(%error, "the watch of ports cannot follow the log any more");
                    return;
                }
            },
            () = runner::until(due) => BTreeSet::new(),
        };
        if has_come(due) {
            servers.append(&mut owed);
            due = None;
        }
        let begun = std::time::Instant::now();
        let mut failures = 0;
        for server in servers {
            // `refresh` skips a server with a task, so such a server is refreshed again later.
            let is_busy = is_busy(&context, server);
            let is_shown = refresh(&context, server).await;
            failures += usize::from(!is_shown);
            if is_busy || !is_shown {
                owed.insert(server);
            }
        }
        if !owed.is_empty() {
            due.get_or_insert_with(|| Instant::now() + retry);
        }
        tally.record(begun, context.clock.now(), failures);
    }
}

fn has_come(due: Option<Instant>) -> bool {
    due.is_some_and(|due| due <= Instant::now())
}

fn is_busy(context: &ReconcileContext, server: InstanceId) -> bool {
    context.views.servers.read(|servers| {
        let known = servers.get(server).and_then(|row| row.instance.alive());
        known.is_some_and(|known| known.ongoing.is_some() || known.building().is_some())
    })
}

fn is_of_network(recorded: &Recorded) -> bool {
    recorded.stream.category() == "network"
}

/// The servers with interfaces that may have changed.
fn concerned(context: &ReconcileContext, batch: &[Arc<Recorded>]) -> BTreeSet<InstanceId> {
    let mut servers = BTreeSet::new();
    let ports_of = |port: PortId| {
        context
            .views
            .networks
            .read(|view| view.port(port).and_then(|port| port.binding().device.parse::<InstanceId>().ok()))
    };
    for recorded in batch {
        let Ok(event) = recorded.event() else { continue };
        let Event::NetworkEvent(event) = event.as_ref() else { continue };
        match event {
            NetworkEvent::PortReaddressed(changed) => servers.extend(ports_of(changed.port)),
            NetworkEvent::PortSettingsReplaced(changed) => servers.extend(ports_of(changed.port)),
            NetworkEvent::PortDeleted(gone) => servers.extend(holders_of(context, |port| port == gone.port)),
            NetworkEvent::PortUnbound(gone) => servers.extend(holders_of(context, |port| port == gone.port)),
            NetworkEvent::NetworkSettingsReplaced(changed) => {
                let on_it = context.views.networks.read(|view| {
                    let whole = view.whole(changed.network);
                    let ports = whole.into_iter().flat_map(|network| network.ports.values());
                    ports.filter_map(|port| port.binding().device.parse().ok()).collect::<Vec<InstanceId>>()
                });
                servers.extend(on_it);
            }
            _ => {}
        }
    }
    servers
}

/// The servers with an interface whose port is gone. The port no longer names its server, so this searches the servers'
/// own rows.
fn holders_of(context: &ReconcileContext, gone: impl Fn(PortId) -> bool) -> Vec<InstanceId> {
    context.views.servers.read(|servers| {
        let has = |server: &Alive| server.nics.iter().any(|nic| gone(nic.port));
        servers.all().filter(|row| row.instance.alive().is_some_and(has)).map(|row| row.id).collect()
    })
}

/// Servers whose recorded interfaces may differ from those in the network service. Only that service knows which
/// servers differ, so the plan has every server.
#[derive(Debug)]
pub struct ServerInterfaces;

impl Reconciler for ServerInterfaces {
    type Finding = InstanceId;

    const NAME: &'static str = "server-interfaces";
    const REPAIRS: &'static str = "interfaces of servers that the network service changed";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::IsHarmless("a guest loses only an interface whose port is deleted");
    const BY_CLOCK: bool = false;
    const FOLLOWS_LOG: bool = true;
    const FROM_LOG_ALONE: bool = false;

    fn run(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>) -> BoxFuture<'static, ()> {
        let subscription = context.log.subscribe(context.views.position());
        Box::pin(follow(context, tally, subscription))
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        situation
            .views
            .servers
            .read(|servers| servers.all().filter(|row| row.instance.alive().is_some()).map(|row| row.id).collect())
    }

    fn describe(server: &Self::Finding) -> String {
        format!("interfaces of server {server}")
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for server in findings {
            failures += usize::from(!refresh(context, server).await);
        }
        failures
    }
}
