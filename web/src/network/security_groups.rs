//! `/security-groups`.

use std::sync::Arc;

use chronova_actors::services::embedded::network::security_group::{
    GroupPatch, SecurityGroupCommand, SecurityGroupRoot,
};
use chronova_events::ids::{ProjectId, SecurityGroupId};
use chronova_events::security_group::{GroupCreated, GroupSettings, SecurityGroup, default_group};
use serde_json::json;

use super::attributes::Attributes;
use super::attributes::LONG_TEXT;
use super::{answers, faults, listing, preconditions, quotas, targets, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, delete as delete_route, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    // The first request to list groups creates the project's default group.
    get("security_groups.index", "/security-groups", handler!(index))
        .leader()
        .policy_on_target("get_security_group")
        .answers(answers::groups)
        .as_of(),
    post("security_groups.create", "/security-groups", handler!(create))
        .policy_on_target("create_security_group")
        .any_body()
        .answers(answers::group_created),
    get("security_groups.show", "/security-groups/{id}", handler!(show))
        .policy_on_target("get_security_group")
        .answers(answers::group_shown)
        .as_of(),
    put("security_groups.update", "/security-groups/{id}", handler!(update))
        .policy_on_target("update_security_group")
        .any_body()
        .answers(answers::group_shown),
    delete_route("security_groups.delete", "/security-groups/{id}", handler!(delete))
        .policy_on_target("delete_security_group")
        .answers(no_content),
];

const READ_ONLY: [&str; 5] = ["id", "tenant_id", "project_id", "security_group_rules", "shared"];

/// Creates the project's `default` group if it is missing. As in Neutron, the first request to list the project's
/// groups creates it.
pub(super) async fn ensure_default(ctx: &Ctx, permit: &Permit, project: &ProjectId) -> Result<(), Fault> {
    let dispatch = ctx.app.dispatch()?;
    if dispatch.queries().views.security_groups.read(|view| view.get(default_group(project)).is_some()) {
        return Ok(());
    }
    let command = SecurityGroupCommand::EnsureDefault { project: project.clone() };
    dispatch::send::<SecurityGroupRoot>(dispatch, permit, project, command)
        .await
        .map(drop)
        .map_err(faults::security_group)
}

/// Checks that the caller may see these groups. Creates the default group of `project` if it is missing.
pub(super) async fn check(
    ctx: &Ctx,
    permit: &Permit,
    project: &ProjectId,
    groups: &[SecurityGroupId],
) -> Result<(), Fault> {
    ensure_default(ctx, permit, project).await?;
    for id in groups {
        targets::find_group(ctx, &id.to_string())?;
    }
    Ok(())
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.authorize(&ctx.own_target())?;
    if let Some(project) = ctx.caller().project.clone().filter(|_| !ctx.is_past()) {
        ensure_default(&ctx, &permit, &project).await?;
    }
    let own = if ctx.caller().is_admin { None } else { ctx.caller().project.clone() };
    let rows: Vec<Arc<SecurityGroup>> = ctx.views()?.security_groups.read(|view| match own {
        Some(project) => view.of_project(&project).into_iter().flat_map(|g| g.by_id.values()).cloned().collect(),
        None => view.all().cloned().collect(),
    });
    let visible = rows.iter().filter(|row| ctx.allows("get_security_group", &targets::group(row)));
    let rows = visible.map(|row| views::security_group(row)).collect();
    listing::list(&ctx, "security_groups", "security-groups", rows)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_group(&ctx, ctx.param("id"))?;
    ctx.authorize(&targets::group(&row))?;
    Ok(listing::one(&ctx, "security_group", views::security_group(&row)))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut body = Attributes::of(&ctx, "security_group")?;
    let project = targets::owner(&ctx, body.project()?)?;
    let permit = ctx.authorize(&targets::new(&project))?;
    body.required("name")?;
    let settings = settings(patch(&mut body)?);
    body.finish()?;
    let group = SecurityGroupId::random();
    let created = GroupCreated { group, project: project.clone(), settings };
    let limit = quotas::limit(&ctx, &project, "security_group")?;
    let command = SecurityGroupCommand::Create { created, limit };
    send(&ctx, &permit, &project, command).await?;
    let row = targets::find_group(&ctx, &group.to_string())?;
    Ok(Reply::json(201, json!({"security_group": views::security_group(&row)})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_group(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::group(&row))?;
    let mut body = Attributes::of(&ctx, "security_group")?;
    body.refuse(&READ_ONLY)?;
    let patch = patch(&mut body)?;
    body.finish()?;
    if patch.stateful.is_some_and(|stateful| stateful != row.settings().stateful) && in_use(&ctx, &row)? {
        return Err(used(&row));
    }
    let command = SecurityGroupCommand::Change { group: row.id(), patch };
    let command = preconditions::group(&ctx, row.id(), command)?;
    send(&ctx, &permit, row.project(), command).await?;
    let row = targets::find_group(&ctx, ctx.param("id"))?;
    Ok(listing::one(&ctx, "security_group", views::security_group(&row)))
}

async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_group(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::group(&row))?;
    // As in Neutron, administrators may delete a project's default group.
    let default_too = ctx.caller().is_admin;
    if (default_too || row.id() != default_group(row.project())) && in_use(&ctx, &row)? {
        return Err(used(&row));
    }
    let command = SecurityGroupCommand::Delete { group: row.id(), default_too };
    send(&ctx, &permit, row.project(), preconditions::group(&ctx, row.id(), command)?).await?;
    Ok(Reply::empty(204))
}

fn in_use(ctx: &Ctx, row: &SecurityGroup) -> Result<bool, Fault> {
    Ok(ctx.views()?.networks.read(|view| view.members(row.id()).next().is_some()))
}

fn used(row: &SecurityGroup) -> Fault {
    Fault::conflict(format!("Security Group {} in use.", row.id())).key("SecurityGroupInUse")
}

pub(super) async fn send(
    ctx: &Ctx,
    permit: &Permit,
    project: &ProjectId,
    command: SecurityGroupCommand,
) -> Result<(), Fault> {
    dispatch::send::<SecurityGroupRoot>(ctx.app.dispatch()?, permit, project, command)
        .await
        .map(drop)
        .map_err(faults::security_group)
}

fn settings(patch: GroupPatch) -> GroupSettings {
    GroupSettings {
        name: patch.name.unwrap_or_default(),
        description: patch.description.unwrap_or_default(),
        stateful: patch.stateful.unwrap_or(true),
        tags: Vec::new(),
    }
}

fn patch(body: &mut Attributes) -> Result<GroupPatch, Fault> {
    Ok(GroupPatch {
        name: body.text("name", 255)?,
        description: body.text_or_null("description", LONG_TEXT)?,
        stateful: body.boolean("stateful")?,
        tags: None,
    })
}
