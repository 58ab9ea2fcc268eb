//! `/servers/{server_id}/os-instance-actions`: the actions on a server, folded from the log.

use std::sync::Arc;

use chronova_events::ids::HostId;
use chronova_projections::servers::InstanceAction;
use serde_json::{Map, Value, json};

use super::filters::time;
use super::lookup::{PermittedServer, find_where};
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::{no_query, server_parts as bodies};
use crate::compute::views::action::{ACTION, ActionView, EVENT, EventView, request_id};
use crate::compute::{paging, services, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("instance_actions.index", "/servers/{server_id}/os-instance-actions", handler!(index))
        .policy_on_target("os_compute_api:os-instance-actions:list")
        .query(bodies::instance_actions_index_query)
        .answers(answers::actions)
        .as_of(),
    get("instance_actions.show", "/servers/{server_id}/os-instance-actions/{id}", handler!(show))
        .policy_on_target("os_compute_api:os-instance-actions:show")
        .query(no_query)
        .answers(answers::action)
        .as_of(),
];

fn find(ctx: &Ctx) -> Result<PermittedServer, Fault> {
    find_where(ctx, "server_id", versions::actions_of_deleted(ctx.version))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx)?;
    let actions = wanted(&ctx, &found)?;
    let is = |action: &Arc<InstanceAction>, marker: &str| request_id(action).is_some_and(|id| id == marker);
    let page = paging::cut(&ctx, actions, is)?;
    let marker = page.items.last().and_then(|action| request_id(action));
    let show = |action| ACTION.render(&ActionView { instance: found.id, action, events: None }, ctx.version);
    let mut reply = Map::new();
    reply.insert("instanceActions".to_owned(), page.items.into_iter().map(show).collect());
    if let (true, true, Some(marker)) = (page.more, ctx.query.has("limit"), marker) {
        let collection = format!("servers/{}/os-instance-actions", found.id);
        paging::link(&ctx, &mut reply, "links", &collection, &marker);
    }
    Ok(Reply::ok(Value::Object(reply)))
}

/// The actions within the requested times, newest first.
fn wanted(ctx: &Ctx, found: &PermittedServer) -> Result<Vec<Arc<InstanceAction>>, Fault> {
    let since = ctx.query.first("changes-since").map(time).transpose()?;
    let before = ctx.query.first("changes-before").map(time).transpose()?;
    if let (Some(since), Some(before)) = (since, before)
        && before < since
    {
        return Err(Fault::bad_request("The value of changes-since must be less than or equal to changes-before."));
    }
    let inside = |action: &&Arc<InstanceAction>| {
        since.is_none_or(|at| action.updated_at >= at) && before.is_none_or(|at| action.updated_at <= at)
    };
    Ok(found.row.actions.iter().rev().filter(inside).cloned().collect())
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx)?;
    let request = ctx.param("id");
    let named = |action: &&Arc<InstanceAction>| request_id(action).is_some_and(|id| id == request);
    let action = found.row.actions.iter().rev().find(named).cloned();
    let action = action.ok_or_else(|| {
        Fault::not_found(format!("Action for request_id {request} on instance {} not found", found.id))
    })?;
    let full = ctx.allows("os_compute_api:os-instance-actions:events", &found.target);
    let events = if full || versions::action_events_for_all(ctx.version) {
        Some(events(&ctx, &found, &action, full)?)
    } else {
        None
    };
    let view = ActionView { instance: found.id, action, events };
    Ok(Reply::ok(json!({"instanceAction": ACTION.render(&view, ctx.version)})))
}

/// The events of an action, newest first. Each step of the action is one event. The last entry is the whole action
/// under Nova's name. An event without a compute host shows the name of the control plane's own host. Nova shows the
/// conductor's host there, for example if the conductor finds no host for a server.
fn events(ctx: &Ctx, found: &PermittedServer, action: &InstanceAction, full: bool) -> Result<Value, Fault> {
    let details = ctx.allows("os_compute_api:os-instance-actions:events:details", &found.target);
    let project = &found.server()?.request.project;
    let (hosts, own) = (&ctx.views()?.hosts, services::own_host(ctx));
    let named = |id: HostId| hosts.read(|hosts| hosts.name_of(id).map(str::to_owned));
    let views: Vec<EventView> = action
        .steps
        .iter()
        .rev()
        .cloned()
        .chain(action.as_nova_event())
        .map(|step| EventView {
            hostname: step.host.and_then(named).unwrap_or_else(|| own.clone()),
            step,
            project: project.clone(),
            full,
            details,
        })
        .collect();
    Ok(EVENT.render_all(&views, ctx.version))
}
