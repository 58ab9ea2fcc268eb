//! `/os-floating-ips` and `/os-floating-ip-pools` until 2.35, `addFloatingIp` and `removeFloatingIp` until 2.43.
//!
//! Pools are the external networks. The embedded network service has no routers, so no address can float: nobody has any,
//! and none is to be had. Answers are those of a Nova before such a Neutron.
//!
//! Source: nova `api/openstack/compute/floating_ips.py`, `floating_ip_pools.py`, `network/neutron.py`.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::network::NetworkRow;
use serde_json::{Value, json};

use crate::compute::bodies::{proxies as bodies, server_actions as actions};
use crate::compute::servers::find;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post};

const PATH: &str = "/servers/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("floating_ip_pools.index", "/os-floating-ip-pools", handler!(pools))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ip-pools")
        .query(bodies::floating_ip_pools_query),
    get("floating_ips.index", "/os-floating-ips", handler!(index))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:list"),
    post("floating_ips.create", "/os-floating-ips", handler!(create))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:create")
        .body(bodies::floating_ip_body),
    delete("floating_ips.delete", "/os-floating-ips/{id}", handler!(one))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:delete"),
    get("floating_ips.show", "/os-floating-ips/{id}", handler!(one))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:show"),
    action("floating_ips.addFloatingIp", PATH, "addFloatingIp", handler!(add))
        .until(2, 43)
        .policy_on_target("os_compute_api:os-floating-ips:add")
        .body(actions::floating_ips_add_body),
    action("floating_ips.removeFloatingIp", PATH, "removeFloatingIp", handler!(remove))
        .until(2, 43)
        .policy_on_target("os_compute_api:os-floating-ips:remove")
        .body(actions::floating_ips_remove_body),
];

fn external(ctx: &Ctx) -> Result<Vec<Arc<NetworkRow>>, Fault> {
    Ok(ctx
        .house()?
        .views
        .networks
        .read(|view| view.networks().filter(|row| row.settings().external).cloned().collect()))
}

fn pool_name(row: &NetworkRow) -> String {
    match row.settings().name.as_str() {
        "" => row.created.network.to_string(),
        name => name.to_owned(),
    }
}

async fn pools(ctx: Ctx) -> Result<Reply, Fault> {
    let pools: Vec<Value> = external(&ctx)?.iter().map(|row| json!({"name": pool_name(row)})).collect();
    Ok(Reply::ok(json!({"floating_ip_pools": pools})))
}

async fn index(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"floating_ips": []})))
}

/// `[neutron] default_floating_pool`
const DEFAULT_POOL: &str = "nova";

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let pool = ctx.body["pool"].as_str().filter(|pool| !pool.is_empty());
    let wanted = pool.unwrap_or(DEFAULT_POOL);
    let known =
        external(&ctx)?.iter().any(|row| row.settings().name == wanted || row.created.network.to_string() == wanted);
    Err(Fault::not_found(match (known, pool) {
        (false, _) => "Floating IP pool not found.".to_owned(),
        (true, Some(pool)) => format!("No more floating IPs in pool {pool}."),
        (true, None) => "No more floating IPs available.".to_owned(),
    }))
}

async fn one(ctx: Ctx) -> Result<Reply, Fault> {
    Err(Fault::not_found(format!("Floating IP not found for ID {}", ctx.param("id"))))
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let wish = ctx.action_body();
    let nics = &found.server()?.nics;
    if nics.is_empty() {
        return Err(Fault::bad_request("Instance network is not ready yet"));
    }
    let own: Vec<IpAddr> =
        nics.iter().flat_map(|nic| &nic.fixed_ips).filter_map(|ip| ip.address.parse().ok()).collect();
    if own.is_empty() {
        return Err(Fault::bad_request("No fixed IPs associated to instance"));
    }
    match wish["fixed_address"].as_str() {
        Some(fixed) if !own.iter().any(|ip| fixed.parse() == Ok(*ip)) => {
            Err(Fault::bad_request("Specified fixed address not assigned to instance"))
        }
        None if !own.iter().any(IpAddr::is_ipv4) => Err(Fault::bad_request(format!(
            "Unable to associate floating IP {} to any fixed IPs for instance {}. Instance has no fixed IPv4 addresses to \
             associate.",
            wish["address"].as_str().unwrap_or_default(),
            found.id
        ))),
        _ => Err(Fault::not_found("floating IP not found")),
    }
}

/// The address is looked up before the server, which is not asked at all if there is no such address.
async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    let address = ctx.action_body()["address"].as_str().unwrap_or_default();
    Err(Fault::not_found(format!("Floating IP not found for address {address}.")))
}
