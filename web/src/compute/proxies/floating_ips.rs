//! `/os-floating-ips` and `/os-floating-ip-pools` until 2.35, `addFloatingIp` and `removeFloatingIp` until 2.43.
//!
//! Pools are the external networks. The network service's policy decides which floating addresses the caller sees.
//!
//! Source: nova `api/openstack/compute/floating_ips.py`, `floating_ip_pools.py`, `network/neutron.py`.

use std::net::IpAddr;

use chronova_actors::ports::{FloatingIpAllocationReject, FloatingIpInfo, NetworkInfo, PortError};
use chronova_events::ids::{FloatingIpId, InstanceId, PortId};
use chronova_events::instance::NicInfo;
use serde_json::{Value, json};

use super::{networks, refused};
use crate::answers::accepted;
use crate::compute::answers::proxies as answers;
use crate::compute::bodies::{proxies as bodies, server_actions as actions};
use crate::compute::reject;
use crate::compute::servers::lookup::{PermittedServer, find};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post};

const PATH: &str = "/servers/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("floating_ip_pools.index", "/os-floating-ip-pools", handler!(pools))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ip-pools")
        .query(bodies::floating_ip_pools_query)
        .answers(answers::floating_ip_pools),
    get("floating_ips.index", "/os-floating-ips", handler!(index))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:list")
        .answers(answers::floating_ips),
    post("floating_ips.create", "/os-floating-ips", handler!(create))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:create")
        .body(bodies::floating_ip_body)
        .answers(answers::floating_ip_shown),
    delete("floating_ips.delete", "/os-floating-ips/{id}", handler!(remove_address))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:delete")
        .answers(accepted),
    get("floating_ips.show", "/os-floating-ips/{id}", handler!(show))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:show")
        .answers(answers::floating_ip_shown),
    action("floating_ips.addFloatingIp", PATH, "addFloatingIp", handler!(add))
        .until(2, 43)
        .policy_on_target("os_compute_api:os-floating-ips:add")
        .body(actions::floating_ips_add_body)
        .answers(accepted),
    action("floating_ips.removeFloatingIp", PATH, "removeFloatingIp", handler!(remove))
        .until(2, 43)
        .policy_on_target("os_compute_api:os-floating-ips:remove")
        .body(actions::floating_ips_remove_body)
        .answers(accepted),
];

/// The external networks that the caller may see.
async fn external(ctx: &Ctx) -> Result<Vec<NetworkInfo>, Fault> {
    let mut all = networks(ctx)?.list_networks(&ctx.service_caller()).await.map_err(refused)?;
    all.retain(|network| network.external);
    Ok(all)
}

fn pool_name(network: &NetworkInfo) -> String {
    match network.name.as_str() {
        "" => network.id.to_string(),
        name => name.to_owned(),
    }
}

fn render(row: &FloatingIpInfo) -> Value {
    json!({
        "id": row.id,
        "ip": row.address,
        "pool": row.pool,
        "fixed_ip": row.target.as_ref().map(|to| to.address),
        "instance_id": row.target.as_ref().map(|to| &to.device),
    })
}

async fn pools(ctx: Ctx) -> Result<Reply, Fault> {
    let pools: Vec<Value> = external(&ctx).await?.iter().map(|row| json!({"name": pool_name(row)})).collect();
    Ok(Reply::ok(json!({"floating_ip_pools": pools})))
}

async fn visible(ctx: &Ctx) -> Result<Vec<FloatingIpInfo>, Fault> {
    networks(ctx)?.list_floating_ips(&ctx.service_caller()).await.map_err(refused)
}

/// The floating addresses of the caller's project. Administrators see no others.
async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let own = ctx.caller().project.clone();
    let mut rows = visible(&ctx).await?;
    rows.retain(|row| own.as_ref() == Some(&row.project));
    let list: Vec<Value> = rows.iter().map(render).collect();
    Ok(Reply::ok(json!({"floating_ips": list})))
}

async fn by_id(ctx: &Ctx) -> Result<FloatingIpInfo, Fault> {
    let unknown = |id: &str| format!("Floating IP not found for ID {id}");
    let id: FloatingIpId = ctx.id("id", unknown)?;
    networks(ctx)?.find_floating_ip(id, &ctx.service_caller()).await.map_err(|error| match error {
        PortError::NotFound(_) => Fault::not_found(unknown(ctx.param("id"))),
        other => refused(other),
    })
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"floating_ip": render(&by_id(&ctx).await?)})))
}

/// The network that `pool` names, by its name or by its id.
async fn pool(ctx: &Ctx, pool: &str) -> Result<NetworkInfo, Fault> {
    let mut all = external(ctx).await?;
    all.retain(|network| network.name == pool || network.id.to_string() == pool);
    match (all.pop(), all.is_empty()) {
        (None, _) => Err(Fault::not_found("Floating IP pool not found.")),
        (Some(only), true) => Ok(only),
        (Some(_), false) => {
            Err(Fault::bad_request(format!("Multiple floating IP pools matches found for name '{pool}'")))
        }
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: Option<bodies::FloatingIpPoolBody> = ctx.parse()?;
    let named = body.and_then(|body| body.pool).filter(|pool| !pool.is_empty());
    let network = pool(&ctx, named.as_deref().unwrap_or(&ctx.app.config.default_floating_pool)).await?;
    let project = ctx.caller().project.clone().ok_or_else(Fault::malformed)?;
    let made = networks(&ctx)?.allocate_floating_ip(network.id, &project, &ctx.service_caller()).await;
    let row = made.map_err(|reject| of_pool(reject, named.as_deref()))?;
    Ok(Reply::ok(json!({"floating_ip": render(&row)})))
}

/// Maps a refusal of the network service to Nova's message.
fn of_pool(reject: FloatingIpAllocationReject, pool: Option<&str>) -> Fault {
    match (reject, pool) {
        (FloatingIpAllocationReject::NoneLeft, Some(pool)) => {
            Fault::not_found(format!("No more floating IPs in pool {pool}."))
        }
        (FloatingIpAllocationReject::NoneLeft, None) => Fault::not_found("No more floating IPs available."),
        (FloatingIpAllocationReject::OverQuota, Some(pool)) => {
            Fault::forbidden(format!("IP allocation over quota in pool {pool}."))
        }
        (FloatingIpAllocationReject::OverQuota, None) => Fault::forbidden("IP allocation over quota."),
        (FloatingIpAllocationReject::Service(error), _) => refused(error),
    }
}

async fn remove_address(ctx: Ctx) -> Result<Reply, Fault> {
    let row = by_id(&ctx).await?;
    // As in Nova, the answer is 404 if the address belongs to a server that the caller may not see.
    holder(&ctx, &row)?;
    networks(&ctx)?.release_floating_ip(row.id, &ctx.service_caller()).await.map_err(refused)?;
    Ok(Reply::empty(202))
}

/// The server that has the floating address, and the policy target for that server. `None` if the address belongs to no
/// device.
fn holder(ctx: &Ctx, row: &FloatingIpInfo) -> Result<Option<(InstanceId, PolicyTarget)>, Fault> {
    let device = row.target.as_ref().map(|to| &to.device).filter(|device| !device.is_empty());
    let Some(device) = device else { return Ok(None) };
    let unknown = || Fault::not_found(format!("Instance {device} could not be found."));
    let id: InstanceId = device.parse().map_err(|_| unknown())?;
    let server = ctx.views()?.servers.read(|servers| servers.get(id).cloned()).ok_or_else(unknown)?;
    let request = &server.instance.alive().ok_or_else(|| reject::no_instance(id))?.request;
    if !ctx.caller().is_admin && ctx.caller().project.as_ref() != Some(&request.project) {
        return Err(reject::no_instance(id));
    }
    Ok(Some((id, PolicyTarget::owned(&request.project, &request.user))))
}

/// The floating address with this text among those that the caller sees.
async fn by_address(ctx: &Ctx, text: &str) -> Result<Option<FloatingIpInfo>, Fault> {
    let address: Option<IpAddr> = text.parse().ok();
    let mut found = visible(ctx).await?;
    found.retain(|row| Some(row.address) == address);
    match (found.pop(), found.is_empty()) {
        (found, true) => Ok(found),
        _ => Err(Fault::conflict(format!("Multiple floating IPs are found for address {text}."))),
    }
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let action = ctx.action_body();
    let text = action["address"].as_str().unwrap_or_default();
    let fixed = fixed_of(&found.server()?.nics, action, found.id)?;
    let port = port_of(&ctx, &found, fixed).await?;
    let row = by_address(&ctx, text).await?.ok_or_else(|| Fault::not_found("floating IP not found"))?;
    let done = networks(&ctx)?.associate_floating_ip(row.id, Some((port, fixed)), &ctx.service_caller()).await;
    done.map_err(|error| not_associated(error, text, fixed, found.id))?;
    Ok(Reply::empty(202))
}

fn not_associated(error: PortError, text: &str, fixed: IpAddr, server: InstanceId) -> Fault {
    match error {
        PortError::Conflict(message) | PortError::NotHere(message) => Fault::bad_request(message),
        PortError::Invalid(message) | PortError::NotFound(message) => Fault::bad_request(format!(
            "Unable to associate floating IP {text} to fixed IP {fixed} for instance {server}. Error: {message}"
        )),
        other => refused(other),
    }
}

/// The requested fixed address of the server, or else its first IPv4 address.
fn fixed_of(nics: &[NicInfo], action: &Value, id: InstanceId) -> Result<IpAddr, Fault> {
    if nics.is_empty() {
        return Err(Fault::bad_request("Instance network is not ready yet"));
    }
    let own: Vec<IpAddr> =
        nics.iter().flat_map(|nic| &nic.fixed_ips).filter_map(|ip| ip.address.parse().ok()).collect();
    if own.is_empty() {
        return Err(Fault::bad_request("No fixed IPs associated to instance"));
    }
    match action["fixed_address"].as_str() {
        Some(fixed) => own
            .into_iter()
            .find(|ip| fixed.parse() == Ok(*ip))
            .ok_or_else(|| Fault::bad_request("Specified fixed address not assigned to instance")),
        None => own.into_iter().find(IpAddr::is_ipv4).ok_or_else(|| {
            Fault::bad_request(format!(
                "Unable to associate floating IP {} to any fixed IPs for instance {id}. Instance has no fixed IPv4 addresses \
                 to associate.",
                action["address"].as_str().unwrap_or_default(),
            ))
        }),
    }
}

/// The port of the server that has the fixed address.
async fn port_of(ctx: &Ctx, server: &PermittedServer, fixed: IpAddr) -> Result<PortId, Fault> {
    let ports: Vec<PortId> = server.server()?.nics.iter().map(|nic| nic.port).collect();
    let known = ctx.queries()?.networks.find_ports(&ports, &ctx.service_caller()).await.map_err(refused)?;
    let mut own = known.into_iter().filter(|port| port.server == Some(server.id));
    let having = own.find(|port| port.addresses.iter().any(|at| at.address == fixed));
    let unknown = || Fault::bad_request(format!("Fixed IP not found for address {fixed}."));
    having.map(|port| port.port).ok_or_else(unknown)
}

/// Removes a floating address. The address is looked up before the server, so a request with an unknown address never
/// reads the server.
async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    let (id, text) = (ctx.param("id"), ctx.action_body()["address"].as_str().unwrap_or_default());
    let row = by_address(&ctx, text).await?;
    let row = row.ok_or_else(|| Fault::not_found(format!("Floating IP not found for address {text}.")))?;
    let holder = holder(&ctx, &row)?;
    if let Some((_, target)) = &holder {
        ctx.authorize(target)?;
    }
    if holder.is_none_or(|(server, _)| server.to_string() != id) {
        return Err(Fault::conflict(format!("Floating IP {text} is not associated with instance {id}.")));
    }
    networks(&ctx)?.associate_floating_ip(row.id, None, &ctx.service_caller()).await.map_err(refused)?;
    Ok(Reply::empty(202))
}
