//! `/os-security-groups` until 2.35. Source: nova `api/openstack/compute/security_groups.py`.

use std::sync::Arc;

use chronova_actors::services::embedded::network::security_group::{
    GroupPatch, SecurityGroupCommand, SecurityGroupReject, SecurityGroupRoot,
};
use chronova_actors::services::embedded::network::service::group_info;
use chronova_events::ids::{ProjectId, SecurityGroupId};
use chronova_events::security_group::{GroupCreated, GroupSettings, SecurityGroup, default_group};
use serde_json::{Value, json};

use crate::compute::bodies::proxies as bodies;
use crate::compute::reject;
use crate::compute::views::security_group::group as render;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::network;
use crate::policy::{Permit, PolicyTarget};
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};
use crate::schema::is_true;

const ALL: &str = "/os-security-groups";
const ONE: &str = "/os-security-groups/{id}";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("security_groups.SecurityGroup.index", ALL, handler!(index))
        .until(2, 35)
        .policy("os_compute_api:os-security-groups:get")
        .query(bodies::security_groups_query),
    post("security_groups.SecurityGroup.create", ALL, handler!(create))
        .until(2, 35)
        .policy("os_compute_api:os-security-groups:create")
        .body(bodies::security_group_body),
    get("security_groups.show", ONE, handler!(show))
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:show"),
    put("security_groups.update", ONE, handler!(update))
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:update")
        .body(bodies::security_group_body),
    delete("security_groups.SecurityGroup.delete", ONE, handler!(remove))
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:delete"),
];

/// An id in a path or body, which Nova wants to be a UUID.
pub(super) fn uuid<T: std::str::FromStr>(text: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| Fault::bad_request("Security group id should be uuid"))
}

/// The group, if it is the caller's project's or the caller may see all.
pub(super) fn group(ctx: &Ctx, id: SecurityGroupId) -> Result<Arc<SecurityGroup>, Fault> {
    let found = ctx.queries()?.views.security_groups.read(|view| view.get(id).cloned());
    found
        .filter(|group| ctx.caller().is_admin || ctx.caller().project.as_ref() == Some(group.project()))
        .ok_or_else(|| Fault::not_found(format!("Security group {id} does not exist")))
}

/// The group of the path, and the permit of the route's rule on it.
fn find(ctx: &Ctx) -> Result<(Arc<SecurityGroup>, Permit), Fault> {
    let found = group(ctx, uuid(ctx.param("id"))?)?;
    let permit = ctx.authorize(&PolicyTarget::default().project(found.project()))?;
    Ok((found, permit))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let all = ctx.caller().is_admin && ctx.query.last("all_tenants").is_some_and(|text| is_true(&Value::from(text)));
    let own = ctx.caller().project.clone();
    if let Some(project) = &own {
        network::security_groups::ensure_default(&ctx, &ctx.permit()?, project).await?;
    }
    let mut groups: Vec<Arc<SecurityGroup>> = ctx
        .queries()?
        .views
        .security_groups
        .read(|view| view.all().filter(|group| all || own.as_ref() == Some(group.project())).cloned().collect());
    groups.sort_by(|a, b| (a.project(), &a.settings().name).cmp(&(b.project(), &b.settings().name)));
    let shown: Vec<Value> = page(&ctx, &groups).map(|group| show_one(&ctx, group)).collect::<Result<_, _>>()?;
    Ok(Reply::ok(json!({"security_groups": shown})))
}

/// `offset` and `limit`, from before the API had markers.
fn page<'a>(ctx: &Ctx, groups: &'a [Arc<SecurityGroup>]) -> impl Iterator<Item = &'a Arc<SecurityGroup>> + use<'a> {
    let number = |key: &str| ctx.query.last(key).and_then(|text| text.parse::<usize>().ok());
    let most = usize::try_from(ctx.app.config.max_limit).unwrap_or(usize::MAX);
    let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(most).min(most);
    groups.iter().skip(number("offset").unwrap_or(0)).take(limit)
}

fn show_one(ctx: &Ctx, group: &SecurityGroup) -> Result<Value, Fault> {
    Ok(ctx.queries()?.views.security_groups.read(|view| render(&group_info(view, group))))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (found, _) = find(&ctx)?;
    Ok(Reply::ok(json!({"security_group": show_one(&ctx, &found)?})))
}

/// Name and description. A name of spaces alone counts as empty; others keep their spaces.
fn described(ctx: &Ctx) -> Result<(String, String), Fault> {
    let bodies::SecurityGroupBody { name, description } = ctx.parse_at("security_group")?;
    match name.trim().is_empty() {
        true => Err(Fault::bad_request("Security group name cannot be empty")),
        false => Ok((name, description)),
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let (name, description) = described(&ctx)?;
    let project = ctx.caller().project.clone();
    let project = project.ok_or_else(|| Fault::bad_request("A security group needs a project"))?;
    let (permit, group) = (ctx.permit()?, SecurityGroupId::random());
    let settings = GroupSettings { name, description, stateful: true, tags: Vec::new() };
    let created = GroupCreated { group, project: project.clone(), settings };
    let limit = network::quotas::limit(&ctx, &project, "security_group")?;
    send(&ctx, &permit, &project, SecurityGroupCommand::Create { created, limit }).await?;
    let made = self::group(&ctx, group)?;
    Ok(Reply::ok(json!({"security_group": show_one(&ctx, &made)?})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (found, permit) = find(&ctx)?;
    let (name, description) = described(&ctx)?;
    let patch = GroupPatch { name: Some(name), description: Some(description), ..GroupPatch::default() };
    let command = SecurityGroupCommand::Change { group: found.id(), patch };
    send(&ctx, &permit, found.project(), command).await?;
    let changed = group(&ctx, found.id())?;
    Ok(Reply::ok(json!({"security_group": show_one(&ctx, &changed)?})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (found, permit) = find(&ctx)?;
    let used = ctx.queries()?.views.networks.read(|view| view.members(found.id()).next().is_some());
    let default_too = ctx.caller().is_admin;
    if used && (default_too || found.id() != default_group(found.project())) {
        return Err(Fault::bad_request(format!("Security Group {} in use.", found.id())));
    }
    send(&ctx, &permit, found.project(), SecurityGroupCommand::Delete { group: found.id(), default_too }).await?;
    Ok(Reply::empty(202))
}

pub(super) async fn send(
    ctx: &Ctx,
    permit: &Permit,
    project: &ProjectId,
    command: SecurityGroupCommand,
) -> Result<(), Fault> {
    dispatch::send::<SecurityGroupRoot>(ctx.dispatch()?, permit, project, command)
        .await
        .map(drop)
        .map_err(|error| reject::refused(error, |reject| fault(&reject)))
}

/// The network service's refusals with the codes that Nova makes of them.
fn fault(reject: &SecurityGroupReject) -> Fault {
    let message = reject.to_string();
    match reject {
        SecurityGroupReject::NotFound(_) | SecurityGroupReject::RuleNotFound(_) => Fault::not_found(message),
        SecurityGroupReject::OverQuota(_) => Fault::forbidden(message),
        SecurityGroupReject::IdTaken(_) => Fault::conflict(message),
        SecurityGroupReject::DefaultExists
        | SecurityGroupReject::CannotChangeDefault
        | SecurityGroupReject::CannotRemoveDefault
        | SecurityGroupReject::RuleExists(_)
        | SecurityGroupReject::InvalidInput(_) => Fault::bad_request(message),
    }
}
