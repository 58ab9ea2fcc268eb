//! `/os-networks` and `/os-tenant-networks` until 2.35. With Neutron, Nova knows only the id and the name of a network.
//! The other fields come from nova-network, and are null.
//!
//! Source: nova `api/openstack/compute/networks.py`, `tenant_networks.py`.

use std::sync::Arc;

use chronova_events::network::NetworkRow;
use serde_json::{Map, Value, json};

use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::network::targets;
use crate::reply::Reply;
use crate::route::{Route, get};
use crate::service::Service;

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("networks.index", "/os-networks", handler!(index)).until(2, 35).policy("os_compute_api:os-networks:list"),
    get("networks.show", "/os-networks/{id}", handler!(show)).until(2, 35).policy("os_compute_api:os-networks:show"),
    get("tenant_networks.index", "/os-tenant-networks", handler!(index_of_tenant))
        .until(2, 35)
        .policy("os_compute_api:os-tenant-networks:list"),
    get("tenant_networks.show", "/os-tenant-networks/{id}", handler!(show_of_tenant))
        .until(2, 35)
        .policy("os_compute_api:os-tenant-networks:show"),
];

const FOR_ALL: &[&str] =
    &["broadcast", "cidr", "cidr_v6", "dns1", "dns2", "gateway", "gateway_v6", "netmask", "netmask_v6"];
const FOR_ADMINISTRATORS: &[&str] = &[
    "bridge",
    "bridge_interface",
    "created_at",
    "deleted",
    "deleted_at",
    "dhcp_server",
    "dhcp_start",
    "enable_dhcp",
    "host",
    "injected",
    "mtu",
    "multi_host",
    "priority",
    "project_id",
    "rxtx_base",
    "share_address",
    "updated_at",
    "vlan",
    "vpn_private_address",
    "vpn_public_address",
    "vpn_public_port",
];

fn is_visible(ctx: &Ctx, row: &NetworkRow) -> bool {
    ctx.app.policy.allows(Service::Network, "get_network", ctx.caller(), &targets::network(row))
}

fn visible(ctx: &Ctx) -> Result<Vec<Arc<NetworkRow>>, Fault> {
    let all: Vec<_> = ctx.queries()?.views.networks.read(|view| view.networks().cloned().collect());
    Ok(all.into_iter().filter(|row| is_visible(ctx, row)).collect())
}

fn find(ctx: &Ctx) -> Result<Arc<NetworkRow>, Fault> {
    let id = ctx.id("id", |_| "Network not found".to_owned())?;
    let found = ctx.queries()?.views.networks.read(|view| view.network(id).cloned());
    found.filter(|row| is_visible(ctx, row)).ok_or_else(|| Fault::not_found("Network not found"))
}

fn of_nova(ctx: &Ctx, row: &NetworkRow) -> Value {
    let admin = FOR_ADMINISTRATORS.iter().filter(|_| ctx.caller().is_admin);
    let mut shown: Map<String, Value> =
        FOR_ALL.iter().chain(admin).map(|field| ((*field).to_owned(), Value::Null)).collect();
    shown.insert("id".to_owned(), json!(row.created.network));
    shown.insert("label".to_owned(), json!(row.settings().name));
    Value::Object(shown)
}

/// `cidr` is Python's text of `None`: Nova knows no address range of a network any more.
fn of_tenant(row: &NetworkRow) -> Value {
    json!({"id": row.created.network, "cidr": "None", "label": row.settings().name})
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let all: Vec<Value> = visible(&ctx)?.iter().map(|row| of_nova(&ctx, row)).collect();
    Ok(Reply::ok(json!({"networks": all})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"network": of_nova(&ctx, &*find(&ctx)?)})))
}

async fn index_of_tenant(ctx: Ctx) -> Result<Reply, Fault> {
    let all: Vec<Value> = visible(&ctx)?.iter().map(|row| of_tenant(row)).collect();
    Ok(Reply::ok(json!({"networks": all})))
}

async fn show_of_tenant(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"network": of_tenant(&*find(&ctx)?)})))
}
