//! A router's interfaces: `add_router_interface` and `remove_router_interface`. Each interface is a port of a project's
//! network.

use std::sync::Arc;

use chronova_actors::services::embedded::network::creation::NewNetworkResource;
use chronova_actors::services::embedded::network::router::INTERFACE_OWNER;
use chronova_actors::services::embedded::network::{FixedIpRequest, NetworkCommand, PortPatch, PortRequest};
use chronova_events::ids::{NetworkId, PortId, RouterId, SubnetId};
use chronova_events::network::{FixedAddress, Ipv6Mode, Port, PortBinding, PortSettings, Subnet};
use chronova_events::router::RouterRow;
use serde_json::json;

use super::attributes::Attributes;
use super::gateways::send;
use super::{answers, faults, preconditions, quotas, targets};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, put};

pub(super) const ROUTES: &[Route] = &[
    put("routers.add_interface", "/routers/{id}/add_router_interface", handler!(add))
        .policy_on_target("add_router_interface")
        .any_body()
        .answers(answers::router_interface),
    put("routers.remove_interface", "/routers/{id}/remove_router_interface", handler!(remove))
        .policy_on_target("remove_router_interface")
        .any_body()
        .answers(answers::router_interface),
];

/// The port or subnet that a body names. Refuses `If-Match`. A network's aggregate decides about the change, and it
/// does not know the router's revision.
fn named(ctx: &Ctx) -> Result<(Option<PortId>, Option<SubnetId>), Fault> {
    preconditions::refuse(ctx)?;
    let mut body = Attributes::whole(ctx)?;
    let (port, subnet) = (body.id("port_id")?, body.id("subnet_id")?);
    body.finish()?;
    if port.is_none() && subnet.is_none() {
        return Err(faults::bad("router", "Either subnet_id or port_id must be specified"));
    }
    Ok((port, subnet))
}

fn answer(router: RouterId, port: &Port, subnets: &[SubnetId]) -> Reply {
    let project = &port.created.project;
    Reply::ok(json!({
        "id": router,
        "tenant_id": project,
        "project_id": project,
        "port_id": port.created.port,
        "network_id": port.created.network,
        "subnet_id": subnets.last(),
        "subnet_ids": subnets,
    }))
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_router(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::router(&row))?;
    match named(&ctx)? {
        (Some(_), Some(_)) => Err(faults::bad("router", "Cannot specify both subnet-id and port-id")),
        (Some(port), None) => by_port(&ctx, &permit, &row, port).await,
        (None, Some(subnet)) => by_subnet(&ctx, &permit, &row, subnet).await,
        (None, None) => Err(Fault::malformed()),
    }
}

fn binding(router: RouterId) -> PortBinding {
    PortBinding { device: router.to_string(), owner: INTERFACE_OWNER.to_owned(), host: String::new() }
}

async fn by_port(ctx: &Ctx, permit: &Permit, row: &RouterRow, id: PortId) -> Result<Reply, Fault> {
    let (port, target) = targets::find_port(ctx, &id.to_string())?;
    // The owner of a network sees all its ports, but may not use ports of other projects as interfaces.
    ctx.authorize_rule("update_port", &target)?;
    let (network, device) = (port.created.network, &port.binding().device);
    if !device.is_empty() {
        return Err(Fault::conflict(format!(
            "Unable to complete operation on port {id} for network {network}. Port already has an attached device {device}."
        ))
        .key("PortInUse"));
    }
    if port.addresses().is_empty() {
        return Err(faults::bad("router", "Router port must have at least one fixed IP"));
    }
    if port.addresses().iter().filter(|fixed| fixed.address.is_ipv4()).count() > 1 {
        return Err(faults::bad("router", "Cannot have multiple IPv4 subnets on router port"));
    }
    for fixed in port.addresses() {
        check_overlaps(ctx, row.id(), network, Some(fixed.subnet))?;
    }
    // If two requests name the same port, the network aggregate accepts only one of them.
    let project = port.created.project.clone();
    send(ctx, permit, network, NetworkCommand::BindPort { port: id, project, binding: binding(row.id()) }).await?;
    let subnets: Vec<SubnetId> = port.addresses().iter().map(|fixed| fixed.subnet).collect();
    Ok(answer(row.id(), &port, &subnets))
}

async fn by_subnet(ctx: &Ctx, permit: &Permit, row: &RouterRow, id: SubnetId) -> Result<Reply, Fault> {
    let (subnet, _) = targets::find_subnet(ctx, &id.to_string())?;
    let address = gateway_of(&subnet)?;
    check_owner(ctx, &subnet)?;
    let (router, network) = (row.id(), subnet.added.network);
    check_overlaps(ctx, router, network, Some(id))?;
    let port = PortId::random();
    let wanted = PortRequest {
        port,
        project: row.project().clone(),
        mac: None,
        addresses: Some(vec![FixedIpRequest { subnet: Some(id), address: Some(address) }]),
        settings: PortSettings::default(),
        port_security: Some(false),
        security_groups: Some(vec![]),
        binding: binding(router),
        made_for: None,
    };
    quotas::create(ctx, permit, NewNetworkResource::Port(network, wanted)).await?;
    let made = ctx.views()?.networks.read(|view| view.port(port).cloned());
    let made = made.ok_or_else(|| faults::not_found("PortNotFound", "Port", &port.to_string()))?;
    Ok(answer(router, &made, &[id]))
}

/// Only the subnet's owner and administrators may assign the gateway's address, because the holder of that address
/// receives the guests' outward traffic. On a shared network a project may create a port, and use that port as an
/// interface of its router. Source: neutron `db/l3_db.py` (`_add_interface_by_subnet`).
fn check_owner(ctx: &Ctx, subnet: &Subnet) -> Result<(), Fault> {
    let caller = ctx.caller();
    if caller.is_admin || caller.project.as_ref() == Some(&subnet.added.project) {
        return Ok(());
    }
    let why = format_args!(
        "Cannot add interface to router because subnet {} is not owned by project making the request",
        subnet.added.subnet
    );
    Err(faults::bad("router", why))
}

/// The address of an interface: the gateway address, to which the guests in the subnet send.
fn gateway_of(subnet: &Subnet) -> Result<std::net::IpAddr, Fault> {
    let added = &subnet.added;
    if added.ipv6_address_mode.is_some_and(|_: Ipv6Mode| added.ipv6_ra_mode.is_none()) {
        let why = format_args!(
            "IPv6 subnet {} configured to receive RAs from an external router cannot be added to Neutron Router.",
            added.subnet
        );
        return Err(faults::bad("router", why));
    }
    added.settings.gateway.ok_or_else(|| faults::bad("router", "Subnet for router interface must have a gateway IP"))
}

/// Refuses a second port of a router in a subnet, and subnets that overlap. `subnet`: the new subnet; `None`: all
/// subnets of the gateway's network.
pub(super) fn check_overlaps(
    ctx: &Ctx,
    router: RouterId,
    network: NetworkId,
    subnet: Option<SubnetId>,
) -> Result<(), Fault> {
    let (new, known): (Vec<Arc<Subnet>>, Vec<Arc<Subnet>>) = ctx.views()?.networks.read(|view| {
        let all = view.whole(network).into_iter().flat_map(|network| network.subnets.values());
        let new = all.filter(|row| subnet.is_none_or(|id| id == row.added.subnet)).cloned().collect();
        // In a check of a new gateway, the present gateway is left out, because the new one replaces it.
        let kept = |port: &&Arc<Port>| subnet.is_some() || port.binding().owner == INTERFACE_OWNER;
        let at = view.of_router(router).filter(kept).flat_map(|port| port.addresses());
        (new, at.filter_map(|fixed: &FixedAddress| view.subnet(fixed.subnet)).cloned().collect())
    });
    for one in &new {
        for other in &known {
            let (new, old) = (&one.added, &other.added);
            if new.subnet == old.subnet {
                return Err(faults::bad("router", format_args!("Router already has a port on subnet {}", new.subnet)));
            }
            if new.cidr.contains(&old.cidr) || old.cidr.contains(&new.cidr) {
                let why = format_args!(
                    "Cidr {} of subnet {} overlaps with cidr {} of subnet {}",
                    new.cidr, new.subnet, old.cidr, old.subnet
                );
                return Err(faults::bad("router", why));
            }
        }
    }
    Ok(())
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_router(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::router(&row))?;
    let (port, subnet) = named(&ctx)?;
    let found = find(&ctx, row.id(), port, subnet)?;
    // A request that names only a subnet removes this subnet from the interface. The interface is deleted with its last
    // subnet.
    let leaving = match (port, subnet) {
        (None, Some(subnet)) => vec![subnet],
        _ => found.addresses().iter().map(|fixed| fixed.subnet).collect(),
    };
    check_unneeded(&ctx, row.id(), &leaving)?;
    send(&ctx, &permit, found.created.network, without(&found, &leaving)).await?;
    Ok(answer(row.id(), &found, &leaving))
}

/// Removes the addresses in `subnets` from the interface. Deletes an interface that would have no address left.
fn without(port: &Port, subnets: &[SubnetId]) -> NetworkCommand {
    let stays = |fixed: &&FixedAddress| !subnets.contains(&fixed.subnet);
    let kept: Vec<FixedIpRequest> = port.addresses().iter().filter(stays).map(|fixed| (*fixed).into()).collect();
    let port = port.created.port;
    match kept.is_empty() {
        true => NetworkCommand::DeletePort { port },
        false => {
            NetworkCommand::ChangePort { port, patch: PortPatch { addresses: Some(kept), ..PortPatch::default() } }
        }
    }
}

fn find(ctx: &Ctx, router: RouterId, port: Option<PortId>, subnet: Option<SubnetId>) -> Result<Arc<Port>, Fault> {
    let stands = |port: &Port, subnet: SubnetId| port.addresses().iter().any(|fixed| fixed.subnet == subnet);
    let found = ctx.views()?.networks.read(|view| {
        let mut all = view.interfaces_of(router);
        match (port, subnet) {
            (Some(id), _) => all.find(|row| row.created.port == id).cloned(),
            (None, Some(subnet)) => all.find(|row| stands(row, subnet)).cloned(),
            (None, None) => None,
        }
    });
    match (found, port, subnet) {
        (Some(found), Some(id), Some(subnet)) if !stands(&found, subnet) => {
            Err(Fault::bad_request(format!("Subnet on port {id} does not match the requested subnet {subnet}."))
                .key("SubnetMismatchForPort"))
        }
        (Some(found), _, _) => Ok(found),
        (None, Some(id), _) => {
            Err(Fault::not_found(format!("Router {router} does not have an interface with id {id}"))
                .key("RouterInterfaceNotFound"))
        }
        (None, None, subnet) => {
            // A subnet that the caller may not see gets the same answer as a missing subnet.
            let subnet = subnet.map(|id| id.to_string()).unwrap_or_default();
            targets::find_subnet(ctx, &subnet)?;
            Err(Fault::not_found(format!("Router {router} has no interface on subnet {subnet}"))
                .key("RouterInterfaceNotFoundForSubnet"))
        }
    }
}

fn check_unneeded(ctx: &Ctx, router: RouterId, subnets: &[SubnetId]) -> Result<(), Fault> {
    let needed = ctx
        .app
        .queries()?
        .views
        .networks
        .read(|view| view.routed_by(router).map(|(_, to)| to.subnet).find(|subnet| subnets.contains(subnet)));
    match needed {
        Some(subnet) => Err(Fault::conflict(format!(
            "Router interface for subnet {subnet} on router {router} cannot be deleted, as it is required by one or more \
             floating IPs."
        ))
        .key("RouterInterfaceInUseByFloatingIP")),
        None => Ok(()),
    }
}
