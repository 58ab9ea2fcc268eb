//! `/v3/registered_limits`: the defaults of unified limits, for each resource of a service.

use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityResourceKind, LimitChange};
use chronova_events::identity::{LimitedResource, RegisteredLimit, RegisteredLimitSet};
use chronova_events::ids::RegisteredLimitId;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::realm::{command, edit, read};
use super::{answers, fault, listing};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, patch, post};
use crate::schema::typed::SentField;
use crate::schema::{Property, Schema, array, integer, null_or, object, opt, req, string};

pub(super) const ROUTES: &[Route] = &[
    get("registered_limits.index", "/registered_limits", handler!(index))
        .policy("identity:list_registered_limits")
        .answers(answers::registered_limits)
        .as_of(),
    post("registered_limits.create", "/registered_limits", handler!(create))
        .policy("identity:create_registered_limits")
        .body(create_body)
        .answers(answers::registered_limits_created),
    get("registered_limits.show", "/registered_limits/{id}", handler!(show))
        .policy("identity:get_registered_limit")
        .answers(answers::registered_limit_shown)
        .as_of(),
    patch("registered_limits.update", "/registered_limits/{id}", handler!(update))
        .policy("identity:update_registered_limit")
        .body(update_body)
        .answers(answers::registered_limit_shown),
    delete("registered_limits.delete", "/registered_limits/{id}", handler!(remove))
        .policy("identity:delete_registered_limit")
        .answers(no_content),
];

pub(super) const FILTERS: [&str; 3] = ["service_id", "region_id", "resource_name"];

/// A limit: -1 is no bound.
pub(super) fn amount() -> Schema {
    integer().min(-1).max(i64::from(i32::MAX))
}

/// The resource of a limit, and its description.
pub(super) fn resource_body() -> [Property; 4] {
    [
        req("service_id", string()),
        opt("region_id", null_or(string())),
        req("resource_name", string().min_length(1).max_length(255).pattern("[\\S]+")),
        opt("description", null_or(string().max_length(4_096))),
    ]
}

fn create_body() -> Schema {
    let limit = object([req("default_limit", amount())]).plus(resource_body());
    object([req("registered_limits", array(limit).min_items(1))]).open()
}

fn update_body() -> Schema {
    let limit = object([opt("default_limit", amount()), opt("description", null_or(string().max_length(4_096)))]);
    object([req("registered_limit", limit)]).open()
}

/// The resource in the body of a new limit.
#[derive(Deserialize)]
pub(super) struct ResourceBody {
    service_id: String,
    region_id: Option<String>,
    resource_name: String,
}

impl ResourceBody {
    /// The resource, of a service and a region of the catalogue.
    pub(super) fn resource(self, ctx: &Ctx) -> Result<LimitedResource, Fault> {
        let catalogue = &ctx.app.identity()?.catalogue;
        let known = catalogue.services(&ctx.links).iter().any(|service| service["id"] == self.service_id.as_str());
        if !known {
            return Err(Fault::bad_request(format!("Could not find service: {}.", self.service_id)));
        }
        match self.region_id.as_ref().filter(|region| **region != catalogue.region) {
            Some(region) => Err(Fault::bad_request(format!("Could not find region: {region}."))),
            None => Ok(LimitedResource { service: self.service_id, region: self.region_id, name: self.resource_name }),
        }
    }
}

#[derive(Deserialize)]
struct RegisteredLimitBody {
    #[serde(flatten)]
    resource: ResourceBody,
    default_limit: i64,
    description: Option<String>,
}

#[derive(Deserialize)]
struct RegisteredLimitChange {
    default_limit: Option<i64>,
    /// `null` removes the description.
    #[serde(default)]
    description: SentField<String>,
}

fn show_one(ctx: &Ctx, limit: &RegisteredLimit) -> Value {
    json!({
        "id": limit.id,
        "service_id": limit.resource.service,
        "region_id": limit.resource.region,
        "resource_name": limit.resource.name,
        "default_limit": limit.default,
        "description": limit.description,
        "links": {"self": ctx.links.to_self("registered_limits", limit.id.as_str())},
    })
}

fn shown(ctx: &Ctx, id: &RegisteredLimitId) -> Result<Value, Fault> {
    let found = read(ctx, |identity| identity.registered_limits.get(id).map(|limit| show_one(ctx, limit)))?;
    found.ok_or_else(|| fault::not_found(IdentityResourceKind::RegisteredLimit, id.as_str()))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let items = read(&ctx, |identity| identity.registered_limits.values().map(|one| show_one(&ctx, one)).collect())?;
    Ok(listing::reply(&ctx, "registered_limits", items, &FILTERS))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = shown(&ctx, &RegisteredLimitId::new(ctx.param("id")))?;
    Ok(Reply::ok(json!({"registered_limit": found})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut all = Vec::new();
    for sent in ctx.parse_at::<Vec<RegisteredLimitBody>>("registered_limits")? {
        let limit = RegisteredLimitId::from(Uuid::new_v4().simple().to_string());
        let (default, description, resource) = (sent.default_limit, sent.description, sent.resource.resource(&ctx)?);
        all.push(RegisteredLimitSet { limit, resource, default, description });
    }
    let ids: Vec<RegisteredLimitId> = all.iter().map(|set| set.limit.clone()).collect();
    command(&ctx, &ctx.permit()?, IdentityCommand::RegisterLimits(all)).await?;
    let made = ids.iter().map(|id| shown(&ctx, id)).collect::<Result<Vec<_>, _>>()?;
    Ok(listing::created(&ctx, "registered_limits", &made))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let limit = RegisteredLimitId::new(ctx.param("id"));
    let sent: RegisteredLimitChange = ctx.parse_at("registered_limit")?;
    let change = LimitChange { amount: sent.default_limit, description: edit(sent.description) };
    let wanted = IdentityCommand::ChangeRegisteredLimit { limit: limit.clone(), change };
    command(&ctx, &ctx.permit()?, wanted).await?;
    Ok(Reply::ok(json!({"registered_limit": shown(&ctx, &limit)?})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let limit = RegisteredLimitId::new(ctx.param("id"));
    command(&ctx, &ctx.permit()?, IdentityCommand::RemoveRegisteredLimit(limit)).await?;
    Ok(Reply::empty(204))
}
