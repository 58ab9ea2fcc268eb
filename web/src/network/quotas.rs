//! `/quotas`: the limits of a project. The usage is counted from the resources; a limit of -1 means unlimited.

use chronova_actors::services::embedded::network::creation::{self, NewNetworkResource};
use chronova_actors::services::embedded::network::quota::{NetworkQuotaCommand, NetworkQuotaRoot, RESOURCES, limit_of};
use chronova_events::ids::ProjectId;
use serde_json::{Map, Value, json};

use super::attributes::{Attributes, as_integer};
use super::{answers, faults, preconditions, targets};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, delete, get, put};

pub(super) const ROUTES: &[Route] = &[
    get("quotas.index", "/quotas", handler!(index)).policy_on_target("get_quota").answers(answers::quotas),
    get("quotas.own", "/quotas/tenant", handler!(own)).answers(answers::own_project),
    get("quotas.own_project", "/quotas/project", handler!(own)).answers(answers::own_project),
    get("quotas.show", "/quotas/{id}", handler!(show)).policy_on_target("get_quota").answers(answers::quota),
    get("quotas.default", "/quotas/{id}/default", handler!(defaults))
        .policy_on_target("get_quota")
        .answers(answers::quota),
    get("quotas.details", "/quotas/{id}/details", handler!(details))
        .policy_on_target("get_quota")
        .answers(answers::quota_details),
    get("quotas.details_json", "/quotas/{id}/details.json", handler!(details))
        .policy_on_target("get_quota")
        .answers(answers::quota_details),
    put("quotas.update", "/quotas/{id}", handler!(update))
        .policy_on_target("update_quota")
        .any_body()
        .answers(answers::quota),
    delete("quotas.delete", "/quotas/{id}", handler!(reset)).policy_on_target("delete_quota").answers(no_content),
];

/// The project's limit for a resource.
pub(super) fn limit(ctx: &Ctx, project: &ProjectId, resource: &str) -> Result<i64, Fault> {
    Ok(ctx.views()?.networks.read(|view| limit_of(view.limits(project), resource)))
}

/// The project's use of a resource.
fn used(ctx: &Ctx, project: &ProjectId, resource: &str) -> Result<usize, Fault> {
    let views = ctx.views()?;
    let groups = || views.security_groups.read(|view| view.of_project(project).map(|g| (g.by_id.len(), g.rules)));
    let held = || views.networks.read(|view| view.held(project).cloned()).unwrap_or_default();
    Ok(match resource {
        "network" => held().networks.len(),
        "subnet" => held().subnets.len(),
        "port" => held().ports.len(),
        "router" => held().routers.len(),
        "floatingip" => held().floating_ips.len(),
        "security_group" => groups().map_or(0, |(groups, _)| groups),
        "security_group_rule" => groups().map_or(0, |(_, rules)| rules),
        _ => 0,
    })
}

/// Creates a resource that uses quota of its project.
pub(super) async fn create(ctx: &Ctx, permit: &Permit, resource: NewNetworkResource) -> Result<(), Fault> {
    dispatch::perform(ctx.app.dispatch()?, permit, async |operations, meta| {
        creation::create(operations, meta, resource).await
    })
    .await
    .map_err(faults::creation)
}

fn limits(ctx: &Ctx, project: &ProjectId) -> Result<Map<String, Value>, Fault> {
    let mut map = Map::new();
    for (resource, _) in RESOURCES {
        map.insert(resource.to_owned(), json!(limit(ctx, project, resource)?));
    }
    Ok(map)
}

fn project_of(ctx: &Ctx) -> ProjectId {
    ProjectId::new(ctx.param("id"))
}

/// Lists the projects that have limits of their own.
async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize_rule("update_quota", &ctx.own_target())?;
    let projects: Vec<ProjectId> =
        ctx.views()?.networks.read(|view| view.limited().map(|(project, _)| project.clone()).collect());
    let mut quotas = Vec::new();
    for project in projects {
        let mut map = limits(&ctx, &project)?;
        map.insert("project_id".to_owned(), json!(project));
        map.insert("tenant_id".to_owned(), json!(project));
        quotas.push(Value::Object(map));
    }
    Ok(Reply::ok(json!({"quotas": quotas})))
}

async fn own(ctx: Ctx) -> Result<Reply, Fault> {
    let project = targets::owner(&ctx, None)?;
    Ok(Reply::ok(json!({"tenant": {"tenant_id": project, "project_id": project}})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let project = project_of(&ctx);
    ctx.authorize(&targets::new(&project))?;
    Ok(Reply::ok(json!({"quota": limits(&ctx, &project)?})))
}

async fn defaults(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&targets::new(&project_of(&ctx)))?;
    let map: Map<String, Value> =
        RESOURCES.into_iter().map(|(resource, limit)| (resource.to_owned(), json!(limit))).collect();
    Ok(Reply::ok(json!({"quota": map})))
}

async fn details(ctx: Ctx) -> Result<Reply, Fault> {
    let project = project_of(&ctx);
    ctx.authorize(&targets::new(&project))?;
    let mut map = Map::new();
    for (resource, limit) in limits(&ctx, &project)? {
        let used = used(&ctx, &project, &resource)?;
        map.insert(resource, json!({"limit": limit, "used": used, "reserved": 0}));
    }
    Ok(Reply::ok(json!({"quota": map})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let project = project_of(&ctx);
    let permit = ctx.authorize(&targets::new(&project))?;
    let wanted = wanted(&ctx, &project)?;
    send(&ctx, &permit, &project, NetworkQuotaCommand::Set { project: project.clone(), limits: wanted }).await?;
    Ok(Reply::ok(json!({"quota": limits(&ctx, &project)?})))
}

fn wanted(ctx: &Ctx, project: &ProjectId) -> Result<Vec<(String, i64)>, Fault> {
    let mut body = Attributes::of(ctx, "quota")?;
    let _ = body.project()?;
    // Limits below the usage are refused only on request (extension `quota-check-limit`).
    let checked = body.boolean("force")? == Some(false) || body.boolean("check_limit")? == Some(true);
    let mut limits = Vec::new();
    for (resource, _) in RESOURCES {
        let Some(value) = body.take(resource) else { continue };
        let limit = as_integer(&value).filter(|limit| *limit >= -1).ok_or_else(|| {
            Fault::bad_request(format!("Invalid input for {resource}. Reason: '{value}' is not in valid range."))
        })?;
        let used = used(ctx, project, resource)?;
        if checked && usize::try_from(limit).is_ok_and(|limit| used > limit) {
            let message = format!("Quota limit for {resource} is below its use of {used}");
            return Err(Fault::bad_request(message).key("InvalidQuotaValue"));
        }
        limits.push((resource.to_owned(), limit));
    }
    body.finish()?;
    Ok(limits)
}

async fn reset(ctx: Ctx) -> Result<Reply, Fault> {
    let project = project_of(&ctx);
    let permit = ctx.authorize(&targets::new(&project))?;
    send(&ctx, &permit, &project, NetworkQuotaCommand::Reset { project: project.clone() }).await?;
    Ok(Reply::empty(204))
}

async fn send(ctx: &Ctx, permit: &Permit, project: &ProjectId, command: NetworkQuotaCommand) -> Result<(), Fault> {
    preconditions::refuse(ctx)?;
    dispatch::send::<NetworkQuotaRoot>(ctx.app.dispatch()?, permit, project, command)
        .await
        .map(drop)
        .map_err(faults::quota)
}
