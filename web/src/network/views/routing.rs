//! The views of routers and floating IPs.

use chronova_events::network::{Association, FloatingIp, Port};
use chronova_events::router::RouterRow;
use chronova_projections::hosts::Hosts;
use chronova_projections::networks::NetworksView;
use chronova_projections::views::Views;
use serde_json::{Value, json};

use super::parts::{fixed_ips, plane, port_status, time};
use crate::ctx::Ctx;

pub(in crate::network) fn router(networks: &NetworksView, row: &RouterRow) -> Value {
    let settings = row.settings();
    let gateway = networks.gateway_of(row.id()).map(|port| {
        json!({
            "network_id": port.created.network,
            "enable_snat": settings.snat,
            "external_fixed_ips": fixed_ips(port.addresses()),
        })
    });
    json!({
        "id": row.id(),
        "name": settings.name,
        "description": settings.description,
        "tenant_id": row.project(),
        "project_id": row.project(),
        "admin_state_up": settings.admin_state_up,
        "status": "ACTIVE",
        "external_gateway_info": gateway,
        "availability_zone_hints": row.created.availability_zone_hints,
        "availability_zones": ["nova"],
        "routes": [],
        "tags": settings.tags,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "revision_number": row.revision,
    })
}

/// Whether the port gets the traffic of a floating IP. OVN and simulated hosts route floating IPs. With libvirt
/// networks nothing routes them, because Chronova runs no router on real hosts. As in Neutron, a floating IP without a
/// handling agent is `DOWN`.
fn is_routed(ctx: &Ctx, hosts: &Hosts, port: &Port) -> bool {
    let host = port.binding().host.as_str();
    match plane(ctx) {
        Some(plane) => !host.is_empty() && plane.routes_floating_addresses(),
        None => !host.is_empty() && hosts.named(host).is_some_and(|host| host.uri.starts_with("sim:")),
    }
}

pub(in crate::network) fn floating_ip(ctx: &Ctx, views: &Views, row: &FloatingIp) -> Value {
    views.networks.read(|networks| views.hosts.read(|hosts| shown(ctx, networks, hosts, row)))
}

fn shown(ctx: &Ctx, networks: &NetworksView, hosts: &Hosts, row: &FloatingIp) -> Value {
    let settings = row.settings();
    let to: Option<&Association> = networks.association(row);
    let port = to.and_then(|to| networks.port(to.port));
    json!({
        "id": row.id(),
        "tenant_id": row.project(),
        "project_id": row.project(),
        "description": settings.description,
        "floating_ip_address": row.address(),
        "floating_network_id": row.network(),
        "router_id": to.map(|to| to.router),
        "port_id": to.map(|to| to.port),
        "fixed_ip_address": to.map(|to| to.address),
        "port_details": port.map(|port| details(ctx, port)),
        "status": if port.is_some_and(|port| is_routed(ctx, hosts, port)) { "ACTIVE" } else { "DOWN" },
        "dns_name": settings.dns_name,
        "dns_domain": settings.dns_domain,
        "qos_policy_id": null,
        "tags": settings.tags,
        "created_at": time(row.created_at),
        "updated_at": time(row.updated_at),
        "revision_number": row.revision,
    })
}

fn details(ctx: &Ctx, port: &Port) -> Value {
    json!({
        "name": port.settings().name,
        "network_id": port.created.network,
        "mac_address": port.created.mac,
        "admin_state_up": port.settings().admin_state_up,
        "status": port_status(ctx, port),
        "device_id": port.binding().device,
        "device_owner": port.binding().owner,
    })
}
