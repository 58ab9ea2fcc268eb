//! Floating addresses whose port is gone, and ports of routers that are gone.
//!
//! A floating address is in the stream of the external network, the port that it stands for in another: when a server or a
//! port is deleted, or a port gives an address up, the association ends here. Nobody sees it in between, as the read model
//! shows no association with what is not there. A router's ports are in other streams than the router, too; one that came
//! into being while its router was deleted is taken away.
//!
//! What is loose stays so: ids of ports and routers are never taken again. So nothing has to be waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId};
use chronova_events::network::{NetworkEvent, PortBinding};
use chronova_events::registry::Event;
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER, RouterEvent};
use chronova_events::store::EventStore;
use chronova_projections::views::Views;

use crate::reconcile::context::ReconcileContext;
use crate::services::embedded::network::{NetworkAggregate, NetworkCommand};

/// What is there without what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loose {
    pub associations: BTreeSet<(NetworkId, FloatingIpId, PortId)>,
    pub ports: BTreeSet<(NetworkId, PortId)>,
}

impl Loose {
    pub fn is_empty(&self) -> bool {
        self.associations.is_empty() && self.ports.is_empty()
    }
}

pub fn plan(views: &Views) -> Loose {
    views.networks.read(|networks| {
        let stale = networks.floating_ips().filter(|floating| networks.association(floating).is_none());
        let associations = stale.filter_map(|floating| {
            let to = floating.association.as_ref()?;
            Some((floating.network(), floating.id(), to.port))
        });
        let orphaned = networks.orphaned().map(|port| (port.created.network, port.created.port));
        Loose { associations: associations.collect(), ports: orphaned.collect() }
    })
}

pub async fn mend(context: &ReconcileContext, loose: &Loose) {
    for (network, floating_ip, port) in &loose.associations {
        let (floating_ip, port) = (*floating_ip, *port);
        send(context, *network, NetworkCommand::DisassociateFloatingIp { floating_ip, port }).await;
    }
    for (network, port) in &loose.ports {
        send(context, *network, NetworkCommand::DeletePort { port: *port }).await;
    }
}

async fn send(context: &ReconcileContext, network: NetworkId, command: NetworkCommand) {
    let sent = context.gateway.send::<NetworkAggregate>(&network, command, Meta::system("network-watch")).await;
    if let Err(error) = sent {
        tracing::warn!(%network, %error, "what belongs to a port or router that is gone is still there");
    }
}

/// Follows the log for ever.
pub async fn keep(context: Arc<ReconcileContext>, store: Arc<dyn EventStore>) {
    let mut subscription = store.subscribe(context.views.position());
    drop(store);
    loop {
        let Ok(batch) = subscription.next().await else { return };
        if !batch.iter().any(|recorded| recorded.event().is_ok_and(|event| loosens(event))) {
            continue;
        }
        context.views.wait_for(subscription.position(), context.host_options.resync).await;
        mend(&context, &plan(&context.views)).await;
    }
}

fn loosens(event: &Event) -> bool {
    let routers = |binding: &PortBinding| matches!(binding.owner.as_str(), GATEWAY_OWNER | INTERFACE_OWNER);
    match event {
        Event::NetworkEvent(NetworkEvent::PortCreated(created)) => routers(&created.binding),
        Event::NetworkEvent(NetworkEvent::PortBound(bound)) => routers(&bound.binding),
        Event::NetworkEvent(
            NetworkEvent::PortDeleted(_) | NetworkEvent::PortReaddressed(_) | NetworkEvent::FloatingIpAssociated(_),
        )
        | Event::RouterEvent(RouterEvent::RouterDeleted(_)) => true,
        _ => false,
    }
}
