//! The interfaces of servers, when the embedded network service changes their ports behind their back.
//!
//! A real Neutron tells Nova with `network-changed` and `network-vif-deleted`; the embedded service is in the same log, so
//! what it does is seen there. A port with other addresses, a network with another name: the server shows them. A port
//! that was deleted: its guest loses the interface. What a process of the server itself did (a detachment, a delete) is
//! left to that process. After a start everything is compared once.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Recorded};
use chronova_events::ids::{InstanceId, PortId, ProcessId};
use chronova_events::instance::Alive;
use chronova_events::network::NetworkEvent;
use chronova_events::process::Task;
use chronova_events::registry::Event;
use chronova_events::store::EventStore;

use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::reconcile::context::ReconcileContext;

/// Follows the log for ever.
pub async fn keep(context: Arc<ReconcileContext>, store: Arc<dyn EventStore>) {
    let mut subscription = store.subscribe(context.views.position());
    drop(store);
    let all: Vec<InstanceId> = context
        .views
        .servers
        .read(|servers| servers.all().filter(|row| row.instance.alive().is_some()).map(|row| row.id).collect());
    for server in all {
        refresh(&context, server).await;
    }
    loop {
        let Ok(batch) = subscription.next().await else { return };
        if !batch.iter().any(|recorded| is_of_network(recorded)) {
            continue;
        }
        context.views.wait_for(subscription.position(), context.host_options.resync).await;
        for server in concerned(&context, &batch) {
            refresh(&context, server).await;
        }
    }
}

fn is_of_network(recorded: &Recorded) -> bool {
    recorded.stream.category() == "network"
}

/// The servers whose interfaces may be others now.
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

/// The port is no longer bound, so only the servers know who had it.
fn holders_of(context: &ReconcileContext, gone: impl Fn(PortId) -> bool) -> Vec<InstanceId> {
    context.views.servers.read(|servers| {
        let has = |server: &Alive| server.nics.iter().any(|nic| gone(nic.port));
        servers.all().filter(|row| row.instance.alive().is_some_and(has)).map(|row| row.id).collect()
    })
}

/// Says how the server's interfaces are, and has it lose those that are gone. Called by `network-changed`, too.
pub async fn refresh(context: &ReconcileContext, server: InstanceId) {
    let row = context.views.servers.read(|servers| servers.get(server).cloned());
    let Some(known) = row.as_ref().and_then(|row| row.instance.alive()) else { return };
    // A build and a move record their interfaces themselves, and a delete gives them all back.
    if known.ongoing.is_some() || known.building().is_some() || known.nics.is_empty() {
        return;
    }
    let Ok(now) = context.networks.refresh(server, &known.nics).await else { return };
    let gone: Vec<PortId> =
        known.nics.iter().map(|nic| nic.port).filter(|port| now.iter().all(|nic| nic.port != *port)).collect();
    if now.iter().any(|nic| !known.nics.contains(nic)) {
        send(context, server, InstanceCommand::RefreshNics { nics: now }).await;
    }
    for port in gone.into_iter().filter(|port| !is_leaving(context, server, *port)) {
        send(context, server, InstanceCommand::LoseNic { process: ProcessId::random(), port }).await;
    }
}

/// Whether a detachment is at it already.
fn is_leaving(context: &ReconcileContext, server: InstanceId, leaving: PortId) -> bool {
    context.views.processes.read(|processes| {
        processes.pending().any(|pending| {
            matches!(&pending.task, Task::DetachInterface { instance, port } if (*instance, *port) == (server, leaving))
        })
    })
}

async fn send(context: &ReconcileContext, server: InstanceId, command: InstanceCommand) {
    let sent = context.gateway.send::<InstanceAggregate>(&server, command, Meta::system("network-watch")).await;
    if let Err(error) = sent {
        tracing::warn!(%server, %error, "a server does not yet show what the network service changed");
    }
}
