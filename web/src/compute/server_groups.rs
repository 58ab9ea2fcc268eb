//! Server groups: affinity and anti-affinity of servers. A server joins a group when it is created with the scheduler
//! hint `group`. It leaves the group when it is deleted.

use std::sync::Arc;

use chronova_actors::server_group::{ServerGroupCommand, ServerGroupRoot};
use chronova_events::ids::{ProjectId, ServerGroupId};
use chronova_events::server_group::{ServerGroup, ServerGroupCreated, ServerGroupPolicy};
use chronova_projections::server_groups::ServerGroupsView;
use serde_json::{Value, json};

use super::bodies::{no_query, server_groups as bodies};
use super::views::server_group::{SERVER_GROUP, ServerGroupView};
use super::{quotas, reject};
use crate::answers::no_content;
use crate::compute::answers::server_groups as answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::{Permit, PolicyTarget};
use crate::reply::Reply;
use crate::route::{Route, delete, get, post};
use crate::schema::to_integer;

pub(super) const ROUTES: &[Route] = &[
    get("server_groups.index", "/os-server-groups", handler!(index))
        .policy("os_compute_api:os-server-groups:index")
        .query(bodies::index_query)
        .answers(answers::index)
        .as_of(),
    post("server_groups.create", "/os-server-groups", handler!(create))
        .policy("os_compute_api:os-server-groups:create")
        .body(bodies::create_body)
        .answers(answers::show),
    get("server_groups.show", "/os-server-groups/{id}", handler!(show))
        .policy_on_target("os_compute_api:os-server-groups:show")
        .query(no_query)
        .answers(answers::show)
        .as_of(),
    delete("server_groups.delete", "/os-server-groups/{id}", handler!(remove))
        .policy_on_target("os_compute_api:os-server-groups:delete")
        .answers(no_content),
];

fn view(groups: &ServerGroupsView, group: &Arc<ServerGroup>) -> ServerGroupView {
    ServerGroupView { group: Arc::clone(group), members: groups.servers(group.definition.group).collect() }
}

/// The group of the path, and the permit for it.
fn find(ctx: &Ctx) -> Result<(ServerGroupView, Permit), Fault> {
    let id: ServerGroupId = ctx.id("id", |text| reject::no_server_group(text).message)?;
    let found = ctx.views()?.server_groups.read(|groups| groups.get(id).map(|group| view(groups, group)));
    let found = found.ok_or_else(|| reject::no_server_group(id))?;
    let permit = ctx.authorize(&PolicyTarget::default().project(&found.group.definition.project))?;
    Ok((found, permit))
}

/// The page of `all` that `limit` and `offset` of the query select. Without a limit, or with 0, the page has the
/// largest allowed size.
fn page_of<T>(ctx: &Ctx, all: impl IntoIterator<Item = T>) -> Vec<T> {
    let max_limit = usize::try_from(ctx.app.config.max_limit).unwrap_or(usize::MAX);
    let number = |key: &str| ctx.query.last(key).map_or(0, |text| text.parse().unwrap_or(usize::MAX));
    let limit = Some(number("limit")).filter(|limit| *limit > 0).map_or(max_limit, |limit| limit.min(max_limit));
    all.into_iter().skip(number("offset")).take(limit).collect()
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    // As in Nova, `all_projects` has no effect for a caller who is no administrator. The answer then has the groups of
    // the caller's project.
    let everything = ctx.query.has("all_projects") && ctx.caller().is_admin;
    if everything {
        ctx.authorize_rule("os_compute_api:os-server-groups:index:all_projects", &ctx.own_target())?;
    }
    let own = ctx.caller().project.clone().unwrap_or_else(|| ProjectId::new(""));
    let page = ctx.views()?.server_groups.read(|groups| {
        let all = if everything { groups.all() } else { groups.of_project(&own) };
        page_of(&ctx, all).into_iter().map(|group| view(groups, group)).collect::<Vec<_>>()
    });
    Ok(Reply::ok(json!({"server_groups": SERVER_GROUP.render_all(&page, ctx.version)})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (found, _) = find(&ctx)?;
    Ok(Reply::ok(json!({"server_group": SERVER_GROUP.render(&found, ctx.version)})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    let group = definition(&ctx)?;
    let (project, id) = (group.project.clone(), group.group);
    let command = ServerGroupCommand::Create { group, limit: quotas::limit(&ctx, &project, "server_groups")? };
    dispatch::send::<ServerGroupRoot>(ctx.dispatch()?, &permit, &project, command)
        .await
        .map_err(reject::server_group)?;
    let made = ctx.views()?.server_groups.read(|groups| groups.get(id).map(|group| view(groups, group)));
    let made = made.ok_or_else(|| reject::no_server_group(id))?;
    Ok(Reply::ok(json!({"server_group": SERVER_GROUP.render(&made, ctx.version)})))
}

fn definition(ctx: &Ctx) -> Result<ServerGroupCreated, Fault> {
    let body: bodies::ServerGroupBody = ctx.parse_at("server_group")?;
    let policy = body.policy().and_then(ServerGroupPolicy::parse).ok_or_else(Fault::malformed)?;
    let most = body.rules.max_server_per_host;
    if most.is_some() && policy != ServerGroupPolicy::AntiAffinity {
        return Err(Fault::bad_request("Only anti-affinity policy supports rules."));
    }
    let number =
        |value: Value| to_integer(&value).and_then(|most| u32::try_from(most).ok()).ok_or_else(Fault::malformed);
    let project = ctx.caller().project.clone().ok_or_else(|| {
        Fault::denied(ctx.service, "os_compute_api:os-server-groups:create").caused_by("the token has no project")
    })?;
    Ok(ServerGroupCreated {
        group: ServerGroupId::random(),
        project,
        user: ctx.caller().user.clone(),
        name: body.name,
        policy,
        max_server_per_host: most.map(number).transpose()?,
    })
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (found, permit) = find(&ctx)?;
    let definition = &found.group.definition;
    let command = ServerGroupCommand::Delete { group: definition.group };
    dispatch::send::<ServerGroupRoot>(ctx.dispatch()?, &permit, &definition.project, command)
        .await
        .map_err(reject::server_group)?;
    Ok(Reply::empty(204))
}
