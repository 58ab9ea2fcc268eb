//! Floating addresses whose port is gone, and ports of routers that are gone.
//!
//! A floating address is in the stream of the external network, the port that it stands for in another: when a server or a
//! port is deleted, or a port gives an address up, the association ends here. Nobody sees it in between, as the read model
//! shows no association with what is not there. A router's ports are in other streams than the router, too; one that came
//! into being while its router was deleted is taken away.
//!
//! A loose end stays loose: ids of ports and routers are never taken again. So nothing has to be waited for.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId};
use chronova_events::network::{NetworkEvent, PortBinding};
use chronova_events::registry::Event;
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER, RouterEvent};
use chronova_projections::views::Views;

use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::services::embedded::network::{NetworkAggregate, NetworkCommand};

/// A resource that is there without what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LooseEnd {
    Association { network: NetworkId, floating_ip: FloatingIpId, port: PortId },
    Port { network: NetworkId, port: PortId },
}

pub fn plan(views: &Views) -> BTreeSet<LooseEnd> {
    views.networks.read(|networks| {
        let stale = networks.floating_ips().filter(|floating| networks.association(floating).is_none());
        let associations = stale.filter_map(|floating| {
            let (network, floating_ip) = (floating.network(), floating.id());
            Some(LooseEnd::Association { network, floating_ip, port: floating.association.as_ref()?.port })
        });
        let orphaned =
            networks.orphaned().map(|port| LooseEnd::Port { network: port.created.network, port: port.created.port });
        associations.chain(orphaned).collect()
    })
}

/// Floating addresses and ports without their owner.
#[derive(Debug)]
pub struct LooseAddresses;

impl Reconciler for LooseAddresses {
    type Finding = LooseEnd;

    const NAME: &'static str = "floating-ips";
    const MENDS: &'static str = "associations of floating addresses and ports of routers that are gone";
    const AT_START: bool = true;
    const FOLLOWS_LOG: bool = true;

    fn is_woken_by(event: &Event) -> bool {
        loosens(event)
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe(loose: &Self::Finding) -> String {
        match loose {
            LooseEnd::Association { network, floating_ip, port } => {
                format!("network {network}: floating address {floating_ip} stands for port {port}, which is gone")
            }
            LooseEnd::Port { network, port } => format!("network {network}: port {port}, whose router is gone"),
        }
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for loose in findings {
            let (network, command) = match loose {
                LooseEnd::Association { network, floating_ip, port } => {
                    (network, NetworkCommand::DisassociateFloatingIp { floating_ip, port })
                }
                LooseEnd::Port { network, port } => (network, NetworkCommand::DeletePort { port }),
            };
            let meta = Meta::system("network-watch");
            if let Err(error) = context.gateway.send::<NetworkAggregate>(&network, command, meta).await {
                failures += 1;
                tracing::warn!(%network, %error, "what belongs to a port or router that is gone is still there");
            }
        }
        failures
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
