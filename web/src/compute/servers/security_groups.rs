//! `addSecurityGroup` and `removeSecurityGroup`: the groups of all of a server's ports. Source: nova
//! `network/security_group_api.py` (`add_to_instance`, `remove_from_instance`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_actors::services::embedded::network::{NetworkAggregate, NetworkCommand, NetworkReject, PortPatch};
use chronova_events::ids::{InstanceId, SecurityGroupId};
use chronova_events::instance::Alive;
use chronova_events::network::Port;
use chronova_projections::views::Views;

use super::found::{Found, find};
use crate::compute::bodies::proxies as bodies;
use crate::compute::reject;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action};

const PATH: &str = "/servers/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    action("security_groups.addSecurityGroup", PATH, "addSecurityGroup", handler!(add))
        .policy_on_target("os_compute_api:os-security-groups:add")
        .body(bodies::add_security_group_body),
    action("security_groups.removeSecurityGroup", PATH, "removeSecurityGroup", handler!(remove))
        .policy_on_target("os_compute_api:os-security-groups:remove")
        .body(bodies::remove_security_group_body),
];

/// The groups of a server's ports by name, each once. As they are now: a port changes its groups without its server
/// hearing of it. An external network service has told them when the ports were bound.
pub(in crate::compute) fn names(views: &Views, id: InstanceId, server: &Alive) -> Vec<String> {
    let bound: Option<Vec<SecurityGroupId>> = views.networks.read(|networks| {
        let mut ports = networks.of_server(&server.request.project, id).peekable();
        ports.peek()?;
        Some(ports.flat_map(|port| port.settings().security_groups.iter().copied()).collect())
    });
    let mut names: Vec<String> = match bound {
        Some(ids) => views.security_groups.read(|groups| {
            let name = |id: SecurityGroupId| groups.get(id).map(|group| group.settings().name.clone());
            ids.into_iter().filter_map(name).collect()
        }),
        None => server.nics.iter().flat_map(|nic| nic.security_groups.iter().cloned()).collect(),
    };
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let group = named(&ctx, &found)?;
    for port in ports(&ctx, &found)? {
        let mut groups = port.settings().security_groups.clone();
        if !groups.contains(&group) {
            groups.push(group);
            set(&ctx, &found, &port, groups).await?;
        }
    }
    Ok(Reply::empty(202))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let group = named(&ctx, &found)?;
    let ports = ports(&ctx, &found)?;
    let having: Vec<_> = ports.iter().filter(|port| port.settings().security_groups.contains(&group)).collect();
    if having.is_empty() {
        return Err(Fault::not_found(format!("Security group {group} not associated with the instance {}", found.id)));
    }
    for port in having {
        let groups = port.settings().security_groups.iter().copied().filter(|known| *known != group).collect();
        set(&ctx, &found, port, groups).await?;
    }
    Ok(Reply::empty(202))
}

/// The group of the server's project that the body names, by id or by a name that only one has.
fn named(ctx: &Ctx, found: &Found) -> Result<SecurityGroupId, Fault> {
    let name = ctx.action_body()["name"].as_str().unwrap_or_default().trim();
    if name.is_empty() {
        return Err(Fault::bad_request("Security group name cannot be empty"));
    }
    let project = &found.server()?.request.project;
    let matching: Vec<SecurityGroupId> = ctx.queries()?.views.security_groups.read(|view| {
        let own = view.of_project(project).into_iter().flat_map(|groups| groups.by_id.values());
        own.filter(|group| group.settings().name == name || group.id().to_string() == name)
            .map(|group| group.id())
            .collect()
    });
    match matching[..] {
        [] => Err(Fault::not_found(format!("Security group {name} not found for project {project}."))),
        [one] => Ok(one),
        _ => Err(Fault::conflict(format!(
            "Multiple security groups found matching '{name}'. Use an ID to be more specific."
        ))),
    }
}

fn ports(ctx: &Ctx, found: &Found) -> Result<Vec<Arc<Port>>, Fault> {
    let (id, project) = (found.id, &found.server()?.request.project);
    let ports: Vec<_> = ctx.queries()?.views.networks.read(|view| view.of_server(project, id).cloned().collect());
    match ports.is_empty() {
        true => Err(Fault::bad_request(format!("instance_id {id} could not be found as device id on any ports"))),
        false => Ok(ports),
    }
}

async fn set(ctx: &Ctx, found: &Found, port: &Port, groups: Vec<SecurityGroupId>) -> Result<(), Fault> {
    let patch = PortPatch { security_groups: Some(groups), ..PortPatch::default() };
    let command = NetworkCommand::ChangePort { port: port.created.port, patch };
    dispatch::send::<NetworkAggregate>(ctx.dispatch()?, &found.permit, &port.created.network, command)
        .await
        .map(drop)
        .map_err(|error| reject::refused(error, |reject: NetworkReject| Fault::bad_request(reject.to_string())))
}
