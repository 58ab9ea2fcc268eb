//! Ends the associations of floating addresses with deleted ports, and removes ports of deleted routers.
//!
//! A floating address is in the stream of the external network. The port that it is associated with is in another
//! network's stream. So this reconciler ends the association when the server or the port is deleted, or when the port
//! loses the address. Until then, the read model hides an association with a deleted port. A router's ports are in
//! other streams than the router, too. The reconciler removes a port that was created while its router was deleted.
//!
//! Ids of routers are never reused, so a finding about a deleted router stays true. The reconciler can act on it at
//! once. After a finding about an association, a user may associate the floating address with another address of the
//! same port. So the command names the lost address. If the port gets the lost address back meanwhile, the association
//! ends all the same. This includes a server's port that another build attempt creates again with the same id.

use std::collections::BTreeSet;
use std::net::IpAddr;

use chronova_events::envelope::Meta;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId};
use chronova_events::network::{NetworkEvent, PortBinding};
use chronova_events::registry::Event;
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER, RouterEvent};
use chronova_projections::views::Views;

use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::services::embedded::network::{NetworkCommand, NetworkRoot};

/// A resource without its owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrphanedNetworkResource {
    Association { network: NetworkId, floating_ip: FloatingIpId, port: PortId, address: IpAddr },
    Port { network: NetworkId, port: PortId },
}

pub fn plan(views: &Views) -> BTreeSet<OrphanedNetworkResource> {
    views.networks.read(|networks| {
        let stale = networks.floating_ips().filter(|floating| networks.association(floating).is_none());
        let associations = stale.filter_map(|floating| {
            let (network, floating_ip, to) = (floating.network(), floating.id(), floating.association.as_ref()?);
            Some(OrphanedNetworkResource::Association { network, floating_ip, port: to.port, address: to.address })
        });
        let orphaned = networks
            .orphaned()
            .map(|port| OrphanedNetworkResource::Port { network: port.created.network, port: port.created.port });
        associations.chain(orphaned).collect()
    })
}

/// Associations with deleted ports, and ports of deleted routers.
#[derive(Debug)]
pub struct OrphanedNetworkResources;

impl Reconciler for OrphanedNetworkResources {
    type Finding = OrphanedNetworkResource;

    const NAME: &'static str = "floating-ips";
    const REPAIRS: &'static str = "associations of floating addresses and ports of routers that are gone";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
    const AT_START: bool = true;
    const FOLLOWS_LOG: bool = true;

    fn is_woken_by(event: &Event) -> bool {
        may_orphan(event)
    }

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe(loose: &Self::Finding) -> String {
        match loose {
            OrphanedNetworkResource::Association { network, floating_ip, port, address } => {
                format!(
                    "network {network}: floating address {floating_ip} stands for {address} of port {port}, which is gone"
                )
            }
            OrphanedNetworkResource::Port { network, port } => {
                format!("network {network}: port {port}, whose router is gone")
            }
        }
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        let mut failures = 0;
        for loose in findings {
            let (network, command) = match loose {
                OrphanedNetworkResource::Association { network, floating_ip, port, address } => {
                    (network, NetworkCommand::DisassociateFloatingIp { floating_ip, port, address })
                }
                OrphanedNetworkResource::Port { network, port } => (network, NetworkCommand::DeletePort { port }),
            };
            let meta = Meta::system("network-watch");
            if let Err(error) = context.gateway.send::<NetworkRoot>(&network, command, meta).await {
                failures += 1;
                tracing::warn!(%network, %error, "cannot clean up after a deleted port or router, retrying");
            }
        }
        failures
    }
}

fn may_orphan(event: &Event) -> bool {
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
