//! Read-only subresources of a server: addresses, interfaces, topology, security groups.

use chronova_actors::ports::{PortInfo, SecurityGroupInfo};
use chronova_events::ids::PortId;
use chronova_events::instance::NicInfo;
use serde_json::{Map, Value, json};

use super::lookup::{PermittedServer, find};
use super::security_groups;
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::no_query;
use crate::compute::views::security_group;
use crate::compute::views::server::addresses;
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("ips.index", "/servers/{server_id}/ips", handler!(ips))
        .policy_on_target("os_compute_api:ips:index")
        .query(no_query)
        .answers(answers::ips)
        .as_of(),
    get("ips.show", "/servers/{server_id}/ips/{id}", handler!(ips_of_network))
        .policy_on_target("os_compute_api:ips:show")
        .query(no_query)
        .answers(answers::ips_of_network)
        .as_of(),
    get("attach_interfaces.index", "/servers/{server_id}/os-interface", handler!(interfaces))
        .policy_on_target("os_compute_api:os-attach-interfaces:list")
        .query(no_query)
        .answers(answers::interfaces),
    get("attach_interfaces.show", "/servers/{server_id}/os-interface/{id}", handler!(interface))
        .policy_on_target("os_compute_api:os-attach-interfaces:show")
        .query(no_query)
        .answers(answers::interface_shown),
    get("server_topology.index", "/servers/{server_id}/topology", handler!(super::topology::index))
        .since(2, 78)
        .policy_on_target("compute:server:topology:index")
        .query(no_query)
        .answers(answers::topology),
    get("security_groups.ServerSecurityGroup.index", "/servers/{server_id}/os-security-groups", handler!(groups))
        .policy_on_target("os_compute_api:os-security-groups:list")
        .query(no_query)
        .answers(answers::security_groups),
];

async fn all_addresses(ctx: &Ctx, found: &PermittedServer) -> Result<Value, Fault> {
    let nics = &found.server()?.nics;
    let ports: Vec<PortId> = nics.iter().map(|nic| nic.port).collect();
    let floating = match ctx.networks()? {
        Some(networks) => networks.floating_addresses(&ports, &ctx.service_caller()).await.map_err(reject::network)?,
        None => Vec::new(),
    };
    Ok(addresses(nics, &floating, false))
}

async fn ips(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    Ok(Reply::ok(json!({"addresses": all_addresses(&ctx, &found).await?})))
}

async fn ips_of_network(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let label = ctx.param("id");
    let mut all = all_addresses(&ctx, &found).await?;
    match all.get_mut(label).map(Value::take) {
        Some(list) => Ok(Reply::ok(json!({label: list}))),
        None => Err(Fault::not_found("Instance is not a member of specified network")),
    }
}

/// An interface as `os-interface` shows it. The port's subnets come from the network service.
fn attachment(ctx: &Ctx, nic: &NicInfo, port: Option<&PortInfo>) -> Value {
    let ips: Vec<Value> = match port {
        Some(port) => port
            .addresses
            .iter()
            .map(|at| json!({"subnet_id": at.subnet, "ip_address": at.address.to_string()}))
            .collect(),
        None => nic.fixed_ips.iter().map(|ip| json!({"subnet_id": "", "ip_address": ip.address})).collect(),
    };
    let mut shown = Map::new();
    shown.insert("net_id".to_owned(), json!(nic.network));
    shown.insert("port_id".to_owned(), json!(nic.port));
    shown.insert("mac_addr".to_owned(), json!(nic.mac));
    shown.insert("port_state".to_owned(), json!("ACTIVE"));
    shown.insert("fixed_ips".to_owned(), Value::Array(ips));
    if versions::interfaces_have_tags(ctx.version) {
        shown.insert("tag".to_owned(), json!(nic.tag));
    }
    Value::Object(shown)
}

async fn attachments(ctx: &Ctx, nics: &[&NicInfo]) -> Result<Vec<Value>, Fault> {
    let ids: Vec<PortId> = nics.iter().map(|nic| nic.port).collect();
    let ports = ctx.queries()?.networks.find_ports(&ids, &ctx.service_caller()).await.map_err(reject::network)?;
    let of = |nic: &NicInfo| ports.iter().find(|port| port.port == nic.port);
    Ok(nics.iter().map(|nic| attachment(ctx, nic, of(nic))).collect())
}

async fn interfaces(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let nics: Vec<&NicInfo> = found.server()?.nics.iter().collect();
    Ok(Reply::ok(json!({"interfaceAttachments": attachments(&ctx, &nics).await?})))
}

async fn interface(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    show_interface(&ctx, &found, ctx.param("id")).await
}

pub(super) async fn show_interface(ctx: &Ctx, found: &PermittedServer, port: &str) -> Result<Reply, Fault> {
    let nic = found.server()?.nics.iter().find(|nic| nic.port.to_string() == port);
    let nic =
        nic.ok_or_else(|| Fault::not_found(format!("Instance {} does not have a port with id {port}", found.id)))?;
    let shown = attachments(ctx, &[nic]).await?.pop();
    Ok(Reply::ok(json!({"interfaceAttachment": shown})))
}

/// The security groups of the server's ports, in nova-network's form.
async fn groups(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let (server, caller, networks) = (found.server()?, ctx.service_caller(), &ctx.queries()?.networks);
    let project = &server.request.project;
    let names = security_groups::names(&ctx, Some(networks.as_ref()), &[(found.id, server)]).await?.concat();
    let groups = networks.find_security_groups(project, &names, &caller).await.map_err(reject::network)?;
    let shown = |(name, group): (&String, &Option<SecurityGroupInfo>)| match group {
        Some(group) => security_group::group(group),
        // The network service gave only the name of this group.
        None => json!({"id": name, "name": name, "tenant_id": project, "description": "", "rules": []}),
    };
    let list: Vec<Value> = names.iter().zip(&groups).map(shown).collect();
    Ok(Reply::ok(json!({"security_groups": list})))
}
