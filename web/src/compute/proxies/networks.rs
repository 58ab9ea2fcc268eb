//! `/os-networks` and `/os-tenant-networks` until 2.35. With Neutron, Nova knows only the id and the name of a network.
//! The other fields are from the time of nova-network, and are null.
//!
//! Source: nova `api/openstack/compute/networks.py`, `tenant_networks.py`.

use chronova_actors::ports::{NetworkInfo, PortError};
use serde_json::{Map, Value, json};

use super::{networks, refused};
use crate::compute::answers::proxies as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("networks.index", "/os-networks", handler!(index))
        .until(2, 35)
        .policy("os_compute_api:os-networks:list")
        .answers(answers::networks),
    get("networks.show", "/os-networks/{id}", handler!(show))
        .until(2, 35)
        .policy("os_compute_api:os-networks:show")
        .answers(answers::network_shown),
    get("tenant_networks.index", "/os-tenant-networks", handler!(index_of_tenant))
        .until(2, 35)
        .policy("os_compute_api:os-tenant-networks:list")
        .answers(answers::tenant_networks),
    get("tenant_networks.show", "/os-tenant-networks/{id}", handler!(show_of_tenant))
        .until(2, 35)
        .policy("os_compute_api:os-tenant-networks:show")
        .answers(answers::tenant_network_shown),
];

async fn visible(ctx: &Ctx) -> Result<Vec<NetworkInfo>, Fault> {
    networks(ctx)?.list_networks(&ctx.service_caller()).await.map_err(refused)
}

async fn find(ctx: &Ctx) -> Result<NetworkInfo, Fault> {
    let id = ctx.id("id", |_| "Network not found".to_owned())?;
    networks(ctx)?.find_network(id, &ctx.service_caller()).await.map_err(|error| match error {
        PortError::NotFound(_) => Fault::not_found("Network not found"),
        other => refused(other),
    })
}

fn of_nova(ctx: &Ctx, network: &NetworkInfo) -> Value {
    let admin = answers::NETWORK_FOR_ADMINISTRATORS.iter().filter(|_| ctx.caller().is_admin);
    let mut shown: Map<String, Value> =
        answers::NETWORK_FOR_ALL.iter().chain(admin).map(|field| ((*field).to_owned(), Value::Null)).collect();
    shown.insert("id".to_owned(), json!(network.id));
    shown.insert("label".to_owned(), json!(network.name));
    Value::Object(shown)
}

/// A network in the tenant form. `cidr` is the string `None`, as in Nova, which does not know the address range.
fn of_tenant(network: &NetworkInfo) -> Value {
    json!({"id": network.id, "cidr": "None", "label": network.name})
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let all: Vec<Value> = visible(&ctx).await?.iter().map(|network| of_nova(&ctx, network)).collect();
    Ok(Reply::ok(json!({"networks": all})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"network": of_nova(&ctx, &find(&ctx).await?)})))
}

async fn index_of_tenant(ctx: Ctx) -> Result<Reply, Fault> {
    let all: Vec<Value> = visible(&ctx).await?.iter().map(of_tenant).collect();
    Ok(Reply::ok(json!({"networks": all})))
}

async fn show_of_tenant(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"network": of_tenant(&find(&ctx).await?)})))
}
