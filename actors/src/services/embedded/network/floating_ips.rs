//! Answers questions about floating addresses that concern several networks: with which port an address can be
//! associated, and how many a project has.
//!
//! Source: neutron `db/l3_db.py`.

use std::net::IpAddr;

use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, RouterId, SubnetId};
use chronova_events::network::{Association, FixedAddress, FloatingIpSettings, Port};
use chronova_projections::networks::NetworksView;
use thiserror::Error;

use super::FloatingIpRequest;

/// Why a floating address cannot be associated with a port, in Neutron's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FloatingIpTargetReject {
    #[error(
        "External network {external} is not reachable from subnet {subnet}.  Therefore, cannot associate Port {port} with \
         a Floating IP."
    )]
    NotReachable { external: NetworkId, subnet: SubnetId, port: PortId },
    #[error("Cannot add floating IP to port {0} that has no fixed IPv4 addresses")]
    NoIpv4(PortId),
    #[error(
        "Port {0} has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when assigning a floating IP"
    )]
    SeveralIpv4(PortId),
    #[error("Cannot process floating IP association with {0}, since that is not an IPv4 address")]
    NotIpv4(IpAddr),
    #[error("Port {port} does not have fixed ip {address}")]
    NoSuchAddress { port: PortId, address: IpAddr },
}

/// A request for any free floating address of the network, without an association. The caller fills in the quota
/// (`limit`, `elsewhere`).
pub fn any(project: ProjectId) -> FloatingIpRequest {
    let floating_ip = FloatingIpId::random();
    FloatingIpRequest {
        floating_ip,
        port: PortId::derive(floating_ip.0, "holder"),
        project,
        address: None,
        settings: FloatingIpSettings::default(),
        association: None,
        limit: 0,
        elsewhere: 0,
    }
}

/// The number of floating addresses that the project has on other networks. A network checks the project's quota, but
/// it knows only its own floating addresses. The number must not change before the network allocates the address. So
/// the caller first waits for its turn among the project's allocations (`NetworkResources::floating_ip_turn`).
pub fn elsewhere(view: &NetworksView, project: &ProjectId, network: NetworkId) -> usize {
    let held = view.held(project).into_iter().flat_map(|held| &held.floating_ips);
    held.filter_map(|id| view.floating_ip(*id)).filter(|row| row.network() != network).count()
}

/// Finds the fixed address and the router with which a floating address of `external` is associated with a port.
///
/// # Errors
/// The port does not have the named address, or the named address is not IPv4. Or no address is named, and the port has
/// no IPv4 address, or has several. Or no router connects the external network with the subnet of the fixed address.
pub fn association(
    view: &NetworksView,
    external: NetworkId,
    port: &Port,
    fixed: Option<IpAddr>,
) -> Result<Association, FloatingIpTargetReject> {
    let fixed = fixed_of(port, fixed)?;
    let (id, subnet) = (port.created.port, fixed.subnet);
    let router = router_between(view, external, port, fixed);
    let router = router.ok_or(FloatingIpTargetReject::NotReachable { external, subnet, port: id })?;
    Ok(Association { network: port.created.network, port: id, subnet, address: fixed.address, router })
}

fn fixed_of(port: &Port, wanted: Option<IpAddr>) -> Result<FixedAddress, FloatingIpTargetReject> {
    let id = port.created.port;
    let Some(address) = wanted else {
        let mut all = port.addresses().iter().filter(|fixed| fixed.address.is_ipv4());
        return match (all.next(), all.next()) {
            (Some(only), None) => Ok(*only),
            (None, _) => Err(FloatingIpTargetReject::NoIpv4(id)),
            (Some(_), Some(_)) => Err(FloatingIpTargetReject::SeveralIpv4(id)),
        };
    };
    if !address.is_ipv4() {
        return Err(FloatingIpTargetReject::NotIpv4(address));
    }
    let found = port.addresses().iter().find(|fixed| fixed.address == address).copied();
    found.ok_or(FloatingIpTargetReject::NoSuchAddress { port: id, address })
}

/// A router with a gateway in the external network and an interface in the subnet. If several such routers exist, the
/// subnet's gateway is chosen, or else the first router.
fn router_between(view: &NetworksView, external: NetworkId, port: &Port, fixed: FixedAddress) -> Option<RouterId> {
    let gateway = view.subnet(fixed.subnet)?.added.settings.gateway;
    let mut first = None;
    for router in view.routers().map(|row| row.id()) {
        if view.gateway_of(router).is_none_or(|port| port.created.network != external) {
            continue;
        }
        let inside = view.interfaces_of(router).filter(|interface| interface.created.network == port.created.network);
        for at in inside.flat_map(|interface| interface.addresses()).filter(|at| at.subnet == fixed.subnet) {
            if Some(at.address) == gateway {
                return Some(router);
            }
            first = first.or(Some(router));
        }
    }
    first
}
