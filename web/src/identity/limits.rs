//! `/v3/limits`: the unified limits of projects and domains.

use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityResourceKind, LimitChange};
use chronova_events::identity::{Identity, LimitHolder, LimitSet, UnifiedLimit};
use chronova_events::ids::{DomainId, LimitId, ProjectId};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::realm::{command, edit, read};
use super::registered_limits::{FILTERS, ResourceBody, amount, resource_body};
use super::{answers, fault, listing};
use crate::answers::no_content;
use crate::auth::Caller;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, patch, post};
use crate::schema::typed::SentField;
use crate::schema::{Schema, array, null_or, object, opt, req, string};

pub(super) const ROUTES: &[Route] = &[
    get("limits.index", "/limits", handler!(index)).policy("identity:list_limits").answers(answers::limits).as_of(),
    post("limits.create", "/limits", handler!(create))
        .policy("identity:create_limits")
        .body(create_body)
        .answers(answers::limits_created),
    get("limits.model", "/limits/model", handler!(model))
        .policy("identity:get_limit_model")
        .answers(answers::limit_model),
    get("limits.show", "/limits/{id}", handler!(show))
        .policy_on_target("identity:get_limit")
        .answers(answers::limit_shown)
        .as_of(),
    patch("limits.update", "/limits/{id}", handler!(update))
        .policy("identity:update_limit")
        .body(update_body)
        .answers(answers::limit_shown),
    delete("limits.delete", "/limits/{id}", handler!(remove)).policy("identity:delete_limit").answers(no_content),
];

fn create_body() -> Schema {
    let own =
        [req("resource_limit", amount()), opt("project_id", null_or(string())), opt("domain_id", null_or(string()))];
    let limit = object(own).plus(resource_body());
    object([req("limits", array(limit).min_items(1))]).open()
}

fn update_body() -> Schema {
    let limit = object([opt("resource_limit", amount()), opt("description", null_or(string().max_length(4_096)))]);
    object([req("limit", limit)]).open()
}

#[derive(Deserialize)]
struct UnifiedLimitBody {
    #[serde(flatten)]
    resource: ResourceBody,
    project_id: Option<ProjectId>,
    domain_id: Option<DomainId>,
    resource_limit: i64,
    description: Option<String>,
}

impl UnifiedLimitBody {
    fn set(self, ctx: &Ctx) -> Result<LimitSet, Fault> {
        let holder = match (self.project_id, self.domain_id) {
            (Some(project), None) => LimitHolder::Project(project),
            (None, Some(domain)) => LimitHolder::Domain(domain),
            _ => return Err(Fault::bad_request("A limit has either a project_id or a domain_id.")),
        };
        Ok(LimitSet {
            limit: LimitId::from(Uuid::new_v4().simple().to_string()),
            resource: self.resource.resource(ctx)?,
            holder,
            amount: self.resource_limit,
            description: self.description,
        })
    }
}

#[derive(Deserialize)]
struct UnifiedLimitChange {
    resource_limit: Option<i64>,
    /// `null` removes the description.
    #[serde(default)]
    description: SentField<String>,
}

fn show_one(ctx: &Ctx, limit: &UnifiedLimit) -> Value {
    let (project, domain) = match &limit.holder {
        LimitHolder::Project(project) => (Some(project), None),
        LimitHolder::Domain(domain) => (None, Some(domain)),
    };
    json!({
        "id": limit.id,
        "service_id": limit.resource.service,
        "region_id": limit.resource.region,
        "resource_name": limit.resource.name,
        "resource_limit": limit.amount,
        "project_id": project,
        "domain_id": domain,
        "description": limit.description,
        "links": {"self": ctx.links.to_self("limits", limit.id.as_str())},
    })
}

fn shown(ctx: &Ctx, id: &LimitId) -> Result<Value, Fault> {
    let found = read(ctx, |identity| identity.limits.get(id).map(|limit| show_one(ctx, limit)))?;
    found.ok_or_else(|| fault::not_found(IdentityResourceKind::Limit, id.as_str()))
}

/// The owner of a limit. An unknown limit has none. So, by the default policy, only administrators and readers of the
/// whole system learn that there is no such limit.
fn target(identity: &Identity, id: &LimitId) -> PolicyTarget {
    let target = PolicyTarget::default();
    match identity.limits.get(id).map(|limit| &limit.holder) {
        None => target,
        Some(LimitHolder::Domain(domain)) => target.with("target.limit.domain.id", domain.as_str()),
        Some(LimitHolder::Project(project)) => {
            let target = target.with("target.limit.project_id", project.as_str());
            match identity.projects.get(project) {
                Some(project) => target.with("target.limit.project.domain_id", project.domain.as_str()),
                None => target,
            }
        }
    }
}

/// Whether the caller's scope has the limit. As in Keystone, other limits are left out of a list.
fn is_own(identity: &Identity, caller: &Caller, holder: &LimitHolder) -> bool {
    match holder {
        LimitHolder::Domain(domain) => caller.domain.as_ref() == Some(domain),
        LimitHolder::Project(project) => {
            let of_domain = |domain: &DomainId| identity.projects.get(project).is_some_and(|one| one.domain == *domain);
            caller.project.as_ref() == Some(project) || caller.domain.as_ref().is_some_and(of_domain)
        }
    }
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    // Unlike in Keystone, an administrator of a project sees the limits of all projects, as with quotas.
    let all = ctx.caller().system_scope.is_some() || ctx.allows("admin_required", &PolicyTarget::default());
    let items = read(&ctx, |identity| {
        let seen = |limit: &&UnifiedLimit| all || is_own(identity, ctx.caller(), &limit.holder);
        identity.limits.values().filter(seen).map(|limit| show_one(&ctx, limit)).collect()
    })?;
    let filters = [&FILTERS[..], &["project_id", "domain_id"]].concat();
    Ok(listing::reply(&ctx, "limits", items, &filters))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let id = LimitId::new(ctx.param("id"));
    ctx.authorize(&read(&ctx, |identity| target(identity, &id))?)?;
    Ok(Reply::ok(json!({"limit": shown(&ctx, &id)?})))
}

async fn model(_: Ctx) -> Result<Reply, Fault> {
    let description = "Limit enforcement and validation does not take project hierarchy into consideration.";
    Ok(Reply::ok(json!({"model": {"name": "flat", "description": description}})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let sent: Vec<UnifiedLimitBody> = ctx.parse_at("limits")?;
    let all = sent.into_iter().map(|limit| limit.set(&ctx)).collect::<Result<Vec<_>, _>>()?;
    let ids: Vec<LimitId> = all.iter().map(|set| set.limit.clone()).collect();
    command(&ctx, &ctx.permit()?, IdentityCommand::SetLimits(all)).await?;
    let made = ids.iter().map(|id| shown(&ctx, id)).collect::<Result<Vec<_>, _>>()?;
    Ok(listing::created(&ctx, "limits", &made))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let limit = LimitId::new(ctx.param("id"));
    let sent: UnifiedLimitChange = ctx.parse_at("limit")?;
    let change = LimitChange { amount: sent.resource_limit, description: edit(sent.description) };
    command(&ctx, &ctx.permit()?, IdentityCommand::ChangeLimit { limit: limit.clone(), change }).await?;
    Ok(Reply::ok(json!({"limit": shown(&ctx, &limit)?})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let limit = LimitId::new(ctx.param("id"));
    command(&ctx, &ctx.permit()?, IdentityCommand::RemoveLimit(limit)).await?;
    Ok(Reply::empty(204))
}
