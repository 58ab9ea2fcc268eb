//! `/os-floating-ips` and `/os-floating-ip-pools` until 2.35, `addFloatingIp` and `removeFloatingIp` until 2.43.
//!
//! Pools are the external networks. The network service's policy decides which floating addresses the caller sees, as
//! when Nova calls it with the user's token.
//!
//! Source: nova `api/openstack/compute/floating_ips.py`, `floating_ip_pools.py`, `network/neutron.py`.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::instance::NicInfo;
use chronova_events::network::{Association, FloatingIp, NetworkRow, Port};
use chronova_projections::networks::NetworksView;
use serde_json::{Value, json};

use crate::compute::bodies::{proxies as bodies, server_actions as actions};
use crate::compute::reject;
use crate::compute::servers::lookup::{PermittedServer, find};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::network::{floating_ips, targets};
use crate::policy::{Permit, PolicyTarget};
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
    delete("floating_ips.delete", "/os-floating-ips/{id}", handler!(remove_address))
        .until(2, 35)
        .policy("os_compute_api:os-floating-ips:delete"),
    get("floating_ips.show", "/os-floating-ips/{id}", handler!(show))
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

/// The external networks that the caller may see.
fn external(ctx: &Ctx) -> Result<Vec<Arc<NetworkRow>>, Fault> {
    let all: Vec<Arc<NetworkRow>> = ctx
        .queries()?
        .views
        .networks
        .read(|view| view.networks().filter(|row| row.settings().external).cloned().collect());
    Ok(all.into_iter().filter(|row| targets::allows(ctx, "get_network", &targets::network(row))).collect())
}

fn pool_name(row: &NetworkRow) -> String {
    match row.settings().name.as_str() {
        "" => row.created.network.to_string(),
        name => name.to_owned(),
    }
}

fn render(view: &NetworksView, row: &FloatingIp) -> Value {
    let to: Option<&Association> = view.association(row);
    json!({
        "id": row.id(),
        "ip": row.address(),
        "pool": view.network(row.network()).map(|network| pool_name(network)),
        "fixed_ip": to.map(|to| to.address),
        "instance_id": to.and_then(|to| view.port(to.port)).map(|port| port.binding().device.clone()),
    })
}

fn rendered(ctx: &Ctx, row: &FloatingIp) -> Result<Value, Fault> {
    Ok(json!({"floating_ip": ctx.queries()?.views.networks.read(|view| render(view, row))}))
}

async fn pools(ctx: Ctx) -> Result<Reply, Fault> {
    let pools: Vec<Value> = external(&ctx)?.iter().map(|row| json!({"name": pool_name(row)})).collect();
    Ok(Reply::ok(json!({"floating_ip_pools": pools})))
}

/// The project's own, for administrators as well.
async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let own = ctx.caller().project.clone();
    let mut rows = floating_ips::visible(&ctx)?;
    rows.retain(|row| own.as_ref() == Some(row.project()));
    let list: Vec<Value> =
        ctx.queries()?.views.networks.read(|view| rows.iter().map(|row| render(view, row)).collect());
    Ok(Reply::ok(json!({"floating_ips": list})))
}

fn by_id(ctx: &Ctx) -> Result<Arc<FloatingIp>, Fault> {
    let id = ctx.param("id");
    targets::find_floating_ip(ctx, id).map_err(|_| Fault::not_found(format!("Floating IP not found for ID {id}")))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(rendered(&ctx, &*by_id(&ctx)?)?))
}

/// The network that `pool` names, by its name or by its id.
fn pool(ctx: &Ctx, pool: &str) -> Result<Arc<NetworkRow>, Fault> {
    let mut all = external(ctx)?;
    all.retain(|row| row.settings().name == pool || row.created.network.to_string() == pool);
    match (all.pop(), all.is_empty()) {
        (None, _) => Err(Fault::not_found("Floating IP pool not found.")),
        (Some(only), true) => Ok(only),
        (Some(_), false) => {
            Err(Fault::bad_request(format!("Multiple floating IP pools matches found for name '{pool}'")))
        }
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    let body: Option<bodies::FloatingIpPoolBody> = ctx.parse()?;
    let named = body.and_then(|body| body.pool).filter(|pool| !pool.is_empty());
    let network = pool(&ctx, named.as_deref().unwrap_or(&ctx.app.config.default_floating_pool))?;
    let project = ctx.caller().project.clone().ok_or_else(Fault::malformed)?;
    let made = floating_ips::allocate(&ctx, &permit, &network, floating_ips::any(project)).await;
    let row = made.map_err(|fault| of_pool(fault, named.as_deref()))?;
    Ok(Reply::ok(rendered(&ctx, &row)?))
}

/// Nova's words for what the network service refuses.
fn of_pool(fault: Fault, pool: Option<&str>) -> Fault {
    match (fault.key.as_ref(), pool) {
        ("IpAddressGenerationFailure" | "ExternalIpAddressExhausted", Some(pool)) => {
            Fault::not_found(format!("No more floating IPs in pool {pool}."))
        }
        ("IpAddressGenerationFailure" | "ExternalIpAddressExhausted", None) => {
            Fault::not_found("No more floating IPs available.")
        }
        ("OverQuota", Some(pool)) => Fault::forbidden(format!("IP allocation over quota in pool {pool}.")),
        ("OverQuota", None) => Fault::forbidden("IP allocation over quota."),
        _ => Fault { key: "".into(), ..fault },
    }
}

async fn remove_address(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    let row = by_id(&ctx)?;
    // Nova looks up its server, and finds none that the caller does not see.
    holder(&ctx, &row)?;
    floating_ips::release(&ctx, &permit, &row).await.map_err(|fault| Fault { key: "".into(), ..fault })?;
    Ok(Reply::empty(202))
}

/// The server with the floating address, with the target of its rules; `None` if no device has it.
fn holder(ctx: &Ctx, row: &FloatingIp) -> Result<Option<(InstanceId, PolicyTarget)>, Fault> {
    let device = ctx.queries()?.views.networks.read(|view| {
        let port = view.port(view.association(row)?.port)?;
        Some(port.binding().device.clone()).filter(|device| !device.is_empty())
    });
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
fn by_address(ctx: &Ctx, text: &str) -> Result<Option<Arc<FloatingIp>>, Fault> {
    let address: Option<IpAddr> = text.parse().ok();
    let mut found = floating_ips::visible(ctx)?;
    found.retain(|row| Some(row.address()) == address);
    match (found.pop(), found.is_empty()) {
        (found, true) => Ok(found),
        _ => Err(Fault::conflict(format!("Multiple floating IPs are found for address {text}."))),
    }
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let wish = ctx.action_body();
    let text = wish["address"].as_str().unwrap_or_default();
    let fixed = fixed_of(&found.server()?.nics, wish, found.id)?;
    let port = port_of(&ctx, &found, fixed)?;
    let row = by_address(&ctx, text)?.ok_or_else(|| Fault::not_found("floating IP not found"))?;
    associate(&ctx, &found.permit, &row, &port, fixed).await.map_err(|fault| match fault.status {
        409 => Fault::bad_request(fault.message),
        400 | 404 => Fault::bad_request(format!(
            "Unable to associate floating IP {text} to fixed IP {fixed} for instance {}. Error: {}",
            found.id, fault.message
        )),
        _ => fault,
    })?;
    Ok(Reply::empty(202))
}

async fn associate(ctx: &Ctx, permit: &Permit, row: &FloatingIp, port: &Port, fixed: IpAddr) -> Result<(), Fault> {
    let to = floating_ips::association(ctx, row.network(), port, Some(fixed))?;
    floating_ips::associate(ctx, permit, row, Some(to)).await
}

/// The requested fixed address of the server, or else its first IPv4 address.
fn fixed_of(nics: &[NicInfo], wish: &Value, id: InstanceId) -> Result<IpAddr, Fault> {
    if nics.is_empty() {
        return Err(Fault::bad_request("Instance network is not ready yet"));
    }
    let own: Vec<IpAddr> =
        nics.iter().flat_map(|nic| &nic.fixed_ips).filter_map(|ip| ip.address.parse().ok()).collect();
    if own.is_empty() {
        return Err(Fault::bad_request("No fixed IPs associated to instance"));
    }
    match wish["fixed_address"].as_str() {
        Some(fixed) => own
            .into_iter()
            .find(|ip| fixed.parse() == Ok(*ip))
            .ok_or_else(|| Fault::bad_request("Specified fixed address not assigned to instance")),
        None => own.into_iter().find(IpAddr::is_ipv4).ok_or_else(|| {
            Fault::bad_request(format!(
                "Unable to associate floating IP {} to any fixed IPs for instance {id}. Instance has no fixed IPv4 addresses \
                 to associate.",
                wish["address"].as_str().unwrap_or_default(),
            ))
        }),
    }
}

fn port_of(ctx: &Ctx, server: &PermittedServer, fixed: IpAddr) -> Result<Arc<Port>, Fault> {
    let has = |port: &&Arc<Port>| port.addresses().iter().any(|at| at.address == fixed);
    let (id, project) = (server.id, &server.server()?.request.project);
    let port = ctx.queries()?.views.networks.read(|view| view.of_server(project, id).find(has).cloned());
    port.ok_or_else(|| Fault::bad_request(format!("Fixed IP not found for address {fixed}.")))
}

/// The address is looked up before the server; without it the server is not read at all.
async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let own = ctx.authorize(&ctx.own_target())?;
    let (id, text) = (ctx.param("id"), ctx.action_body()["address"].as_str().unwrap_or_default());
    let row = by_address(&ctx, text)?;
    let row = row.ok_or_else(|| Fault::not_found(format!("Floating IP not found for address {text}.")))?;
    let (server, permit) = match holder(&ctx, &row)? {
        Some((server, target)) => (Some(server), ctx.authorize(&target)?),
        None => (None, own),
    };
    if server.is_none_or(|server| server.to_string() != id) {
        return Err(Fault::conflict(format!("Floating IP {text} is not associated with instance {id}.")));
    }
    floating_ips::associate(&ctx, &permit, &row, None).await?;
    Ok(Reply::empty(202))
}
