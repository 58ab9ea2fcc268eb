//! `addSecurityGroup` and `removeSecurityGroup`: the groups of all ports of a server. Source: nova
//! `network/security_group_api.py` (`add_to_instance`, `remove_from_instance`).

use std::collections::BTreeSet;

use chronova_actors::operations::security_groups::SecurityGroupChange;
use chronova_actors::ports::NetworkService;
use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;

use super::lookup::find;
use crate::answers::accepted;
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
        .body(bodies::add_security_group_body)
        .answers(accepted),
    action("security_groups.removeSecurityGroup", PATH, "removeSecurityGroup", handler!(remove))
        .policy_on_target("os_compute_api:os-security-groups:remove")
        .body(bodies::remove_security_group_body)
        .answers(accepted),
];

/// The names of the groups of each server's ports, without duplicates, in the order of `servers`. The names come from
/// the network service, because a port can change its groups without an event of the server. For a past moment,
/// `networks` is `None` if the service keeps no past states. In that case the names come from the server's recorded
/// interfaces.
pub(in crate::compute) async fn names(
    ctx: &Ctx,
    networks: Option<&dyn NetworkService>,
    servers: &[(InstanceId, &Alive)],
) -> Result<Vec<Vec<String>>, Fault> {
    let asked: Vec<_> = servers.iter().map(|(id, server)| (*id, server.request.project.clone())).collect();
    let told = match networks {
        Some(networks) => networks.group_names(&asked, &ctx.service_caller()).await.map_err(reject::network)?,
        None => Vec::new(),
    };
    let mut told = told.into_iter();
    Ok(servers.iter().map(|(_, server)| once(told.next().flatten().unwrap_or_else(|| bound(server)))).collect())
}

fn bound(server: &Alive) -> Vec<String> {
    server.nics.iter().flat_map(|nic| nic.security_groups.iter().cloned()).collect()
}

fn once(mut names: Vec<String>) -> Vec<String> {
    if names.len() < 2 {
        return names;
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    change(&ctx, true).await
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    change(&ctx, false).await
}

async fn change(ctx: &Ctx, applies: bool) -> Result<Reply, Fault> {
    let found = find(ctx, "id")?;
    let group = ctx.action_body()["name"].as_str().unwrap_or_default().trim();
    if group.is_empty() {
        return Err(Fault::bad_request("Security group name cannot be empty"));
    }
    let project = &found.server()?.request.project;
    let change = SecurityGroupChange { server: found.id, project, group, applies };
    dispatch::change_security_group(ctx.dispatch()?, &found.permit, change, &ctx.service_caller())
        .await
        .map_err(reject::attachment)?;
    Ok(Reply::empty(202))
}
