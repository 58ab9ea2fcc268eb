//! `/v3/domains`.

use chronova_actors::services::embedded::identity::{DomainChange, IdentityCommand, IdentityResourceKind};
use chronova_events::identity::{Domain, DomainCreated};
use chronova_events::ids::DomainId;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::realm::{command, read};
use super::{answers, fault, listing};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, patch, post};
use crate::schema::{Schema, boolean, null_or, object, opt, req, string};

pub(super) const ROUTES: &[Route] = &[
    get("domains.index", "/domains", handler!(index))
        .policy_on_target("identity:list_domains")
        .answers(answers::domains)
        .as_of(),
    post("domains.create", "/domains", handler!(create))
        .policy("identity:create_domain")
        .body(create_body)
        .answers(answers::domain_created),
    get("domains.show", "/domains/{id}", handler!(show))
        .policy_on_target("identity:get_domain")
        .answers(answers::domain_shown)
        .as_of(),
    patch("domains.update", "/domains/{id}", handler!(update))
        .policy("identity:update_domain")
        .body(update_body)
        .answers(answers::domain_shown),
    delete("domains.delete", "/domains/{id}", handler!(remove)).policy("identity:delete_domain").answers(no_content),
];

fn create_body() -> Schema {
    let domain = object([
        req("name", string().min_length(1).max_length(64)),
        opt("description", null_or(string())),
        opt("enabled", boolean()),
        opt("explicit_domain_id", string()),
    ]);
    object([req("domain", domain.open())]).open()
}

fn update_body() -> Schema {
    let domain = object([
        opt("name", string().min_length(1).max_length(64)),
        opt("description", null_or(string())),
        opt("enabled", boolean()),
    ]);
    object([req("domain", domain.open())]).open()
}

#[derive(Debug, Deserialize)]
struct DomainBody {
    name: Option<String>,
    description: Option<String>,
    enabled: Option<bool>,
}

fn target(domain: &DomainId) -> PolicyTarget {
    PolicyTarget::default().with("target.domain.id", domain.as_str())
}

pub(super) fn show_one(ctx: &Ctx, domain: &Domain) -> Value {
    json!({
        "id": domain.id,
        "name": domain.name,
        "description": domain.description,
        "enabled": domain.enabled,
        "tags": [],
        "options": {},
        "links": {"self": ctx.links.to_self("domains", domain.id.as_str())},
    })
}

fn reply(ctx: &Ctx, status: u16, id: &DomainId) -> Result<Reply, Fault> {
    let found = read(ctx, |identity| identity.domains.get(id).map(|domain| show_one(ctx, domain)))?;
    let found = found.ok_or_else(|| fault::not_found(IdentityResourceKind::Domain, id.as_str()))?;
    Ok(Reply::json(status, json!({"domain": found})))
}

/// By the default policy, administrators and readers of the whole system see all domains. Other callers see only the
/// domain of their token.
async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let all = read(&ctx, |identity| identity.domains.values().cloned().collect::<Vec<_>>())?;
    let visible: Vec<Value> = all
        .iter()
        .filter(|domain| ctx.allows("identity:list_domains", &target(&domain.id)))
        .map(|domain| show_one(&ctx, domain))
        .collect();
    // Refuses a caller who may see none of the domains.
    let first = all.iter().find(|domain| ctx.allows("identity:list_domains", &target(&domain.id)));
    ctx.authorize(&first.map_or_else(PolicyTarget::default, |domain| target(&domain.id)))?;
    Ok(listing::reply(&ctx, "domains", visible, &["name", "enabled"]))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let id = DomainId::new(ctx.param("id"));
    ctx.authorize(&target(&id))?;
    reply(&ctx, 200, &id)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: DomainBody = ctx.parse_at("domain")?;
    let domain = DomainId::from(Uuid::new_v4().simple().to_string());
    let created = DomainCreated {
        domain: domain.clone(),
        name: body.name.unwrap_or_default(),
        description: body.description.unwrap_or_default(),
        enabled: body.enabled.unwrap_or(true),
    };
    command(&ctx, &ctx.permit()?, IdentityCommand::CreateDomain(created)).await?;
    reply(&ctx, 201, &domain)
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let domain = DomainId::new(ctx.param("id"));
    let body: DomainBody = ctx.parse_at("domain")?;
    let change = DomainChange { name: body.name, description: body.description, enabled: body.enabled };
    command(&ctx, &ctx.permit()?, IdentityCommand::ChangeDomain { domain: domain.clone(), change }).await?;
    reply(&ctx, 200, &domain)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let domain = DomainId::new(ctx.param("id"));
    command(&ctx, &ctx.permit()?, IdentityCommand::DeleteDomain(domain)).await?;
    Ok(Reply::empty(204))
}
