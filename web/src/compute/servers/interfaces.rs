//! Attaches and detaches a server's interfaces, and adds and removes addresses of its ports (`addFixedIp`, until 2.43).
//!
//! As in Nova, the answer to an attachment waits for its end, and the answer to a detachment does not.
//!
//! Source of the words: nova `api/openstack/compute/attach_interfaces.py`, `multinic.py`.

use chronova_actors::instance::actions::{self, ServerAction};
use chronova_actors::instance::{InstanceReject, InstanceRequest};
use chronova_actors::operations::interfaces::{AddressChange, AttachInterfaceRequest};
use chronova_events::ids::{NetworkId, PortId, ProcessId};
use chronova_events::instance::{Alive, RequestedNic};
use serde_json::Value;

use super::change::{asker, send};
use super::lookup::{PermittedServer, find};
use super::parts;
use crate::answers::accepted;
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::server_parts as bodies;
use crate::compute::reject;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, post};

const PATH: &str = "/servers/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    post("attach_interfaces.create", "/servers/{server_id}/os-interface", handler!(attach))
        .policy_on_target("os_compute_api:os-attach-interfaces:create")
        .body(bodies::attach_interfaces_create_body)
        .answers(answers::interface_shown),
    delete("attach_interfaces.delete", "/servers/{server_id}/os-interface/{id}", handler!(detach))
        .policy_on_target("os_compute_api:os-attach-interfaces:delete")
        .answers(accepted),
    action("multinic.addFixedIp", PATH, "addFixedIp", handler!(add_fixed_ip))
        .until(2, 43)
        .policy_on_target("os_compute_api:os-multinic:add")
        .body(bodies::multinic_add_fixed_ip_body)
        .answers(accepted),
    action("multinic.removeFixedIp", PATH, "removeFixedIp", handler!(remove_fixed_ip))
        .until(2, 43)
        .policy_on_target("os_compute_api:os-multinic:remove")
        .body(bodies::multinic_remove_fixed_ip_body)
        .answers(accepted),
];

async fn attach(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let request = AttachInterfaceRequest { server: found.id, nic: wanted(&ctx)?, asker: asker(&ctx, &found) };
    let attached = dispatch::attach_interface(ctx.dispatch()?, &found.permit, request, &ctx.service_caller()).await;
    let nic = attached.map_err(|error| reject::attach_interface(found.id, error))?;
    parts::show_interface(&ctx, &find(&ctx, "server_id")?, &nic.port.to_string()).await
}

/// The requested interface. An empty request means the project's only network.
fn wanted(ctx: &Ctx) -> Result<RequestedNic, Fault> {
    let body: bodies::InterfaceBody = ctx.parse_at::<Option<_>>("interfaceAttachment")?.unwrap_or_default();
    let fixed_ip = body.fixed_ip();
    let bodies::InterfaceBody { net_id: network, port_id: port, tag, .. } = body;
    if network.is_some() && port.is_some() {
        return Err(Fault::bad_request("Must not input both network_id and port_id"));
    }
    if fixed_ip.is_some() && network.is_none() {
        return Err(Fault::bad_request("Must input network_id when request IP address"));
    }
    let network: Option<NetworkId> = match network {
        Some(id) => Some(id.parse().map_err(|_| no_network(&id))?),
        None => None,
    };
    let port: Option<PortId> = match port {
        Some(id) => Some(id.parse().map_err(|_| no_port(&id))?),
        None => None,
    };
    Ok(RequestedNic { network, port, fixed_ip, tag })
}

fn no_network(id: &str) -> Fault {
    Fault::not_found(format!("Network {id} could not be found."))
}

fn no_port(id: &str) -> Fault {
    Fault::not_found(format!("Port id {id} could not be found."))
}

async fn detach(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let asker = asker(&ctx, &found);
    // The lock and the state are checked before the port.
    actions::admit(found.server()?, ServerAction::DetachInterface, asker)
        .map_err(|reject| reject::instance_reject(found.id, reject))?;
    let port: PortId = ctx.param("id").parse().map_err(|_| no_port(ctx.param("id")))?;
    send(&ctx, &found, InstanceRequest::DetachNic { process: ProcessId::random(), port, asker }).await?;
    Ok(Reply::empty(202))
}

/// Refuses a locked server. As in Nova, its state and task do not matter.
fn unlocked<'a>(ctx: &Ctx, found: &'a PermittedServer) -> Result<&'a Alive, Fault> {
    let server = found.server()?;
    match server.lock.is_some() && !asker(ctx, found).overrides_lock {
        true => Err(reject::instance_reject(found.id, InstanceReject::Locked)),
        false => Ok(server),
    }
}

/// Nova answers 202 to `addFixedIp` and `removeFixedIp` before the compute host has checked the request. Chronova
/// checks first, so its answer can be the refusal.
async fn add_fixed_ip(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    unlocked(&ctx, &found)?;
    let id = match &ctx.action_body()["networkId"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let network = id.parse().map_err(|_| no_network_of(&found))?;
    change_address(&ctx, &found, AddressChange::Add(network)).await
}

fn no_network_of(found: &PermittedServer) -> Fault {
    Fault::not_found(format!("Network could not be found for instance {}.", found.id))
}

async fn remove_fixed_ip(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    unlocked(&ctx, &found)?;
    let text = ctx.action_body()["address"].as_str().unwrap_or_default();
    let none = || Fault::bad_request(format!("Instance {} does not have fixed IP '{text}'.", found.id));
    let address = text.parse().map_err(|_| none())?;
    let has =
        |nic: &chronova_events::instance::NicInfo| nic.fixed_ips.iter().any(|ip| ip.address.parse() == Ok(address));
    if !found.server()?.nics.iter().any(has) {
        return Err(none());
    }
    change_address(&ctx, &found, AddressChange::Remove(address)).await
}

async fn change_address(ctx: &Ctx, found: &PermittedServer, change: AddressChange) -> Result<Reply, Fault> {
    dispatch::change_address(ctx.dispatch()?, &found.permit, found.id, change)
        .await
        .map_err(|error| reject::interface(found.id, error))?;
    Ok(Reply::empty(202))
}
