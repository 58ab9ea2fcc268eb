//! `/v3/roles/{id}/implies` and `/v3/role_inferences`: the roles that a role implies.

use std::collections::BTreeSet;

use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityReject, IdentityResourceKind};
use chronova_events::identity::{Identity, Role};
use chronova_events::ids::RoleId;
use serde_json::{Value, json};

use super::answers;
use super::fault;
use super::realm::{command, read};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, put};

const ONE: &str = "/roles/{id}/implies/{implied_id}";

pub(super) const ROUTES: &[Route] = &[
    get("roles.inferences", "/role_inferences", handler!(inferences))
        .policy("identity:list_role_inference_rules")
        .answers(answers::inferences)
        .as_of(),
    get("implied_roles.index", "/roles/{id}/implies", handler!(index))
        .policy("identity:list_implied_roles")
        .answers(answers::implied_roles)
        .as_of(),
    get("implied_roles.show", ONE, handler!(show))
        .policy("identity:get_implied_role")
        .answers(answers::implied_role_shown)
        .as_of(),
    put("implied_roles.create", ONE, handler!(create))
        .policy("identity:create_implied_role")
        .answers(answers::implied_role_created),
    delete("implied_roles.delete", ONE, handler!(remove)).policy("identity:delete_implied_role").answers(no_content),
];

fn brief(ctx: &Ctx, role: &Role) -> Value {
    json!({"id": role.id, "name": role.name, "links": {"self": ctx.links.to_self("roles", role.id.as_str())}})
}

/// The roles that a role implies directly.
fn implied<'a>(identity: &'a Identity, prior: &RoleId) -> impl Iterator<Item = &'a Role> {
    let ids = identity.implied.get(prior).into_iter().flatten();
    ids.filter_map(|role| identity.roles.get(role))
}

async fn inferences(ctx: Ctx) -> Result<Reply, Fault> {
    let items: Vec<Value> = read(&ctx, |identity| {
        let of = |prior: &RoleId, below: &BTreeSet<RoleId>| {
            let prior = identity.roles.get(prior)?;
            let implied: Vec<Value> = implied(identity, &prior.id).map(|role| brief(&ctx, role)).collect();
            (!below.is_empty()).then(|| json!({"prior_role": brief(&ctx, prior), "implies": implied}))
        };
        identity.implied.iter().filter_map(|(prior, below)| of(prior, below)).collect()
    })?;
    Ok(Reply::ok(json!({"role_inferences": items})))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let prior = RoleId::new(ctx.param("id"));
    let found = read(&ctx, |identity| {
        let prior = identity.roles.get(&prior)?;
        let below: Vec<Value> = implied(identity, &prior.id).map(|role| brief(&ctx, role)).collect();
        Some(json!({"prior_role": brief(&ctx, prior), "implies": below}))
    })?;
    let found = found.ok_or_else(|| fault::not_found(IdentityResourceKind::Role, prior.as_str()))?;
    Ok(Reply::ok(json!({"role_inference": found, "links": {"self": ctx.links.to_self("roles", &below(&prior))}})))
}

fn below(prior: &RoleId) -> String {
    format!("{}/implies", prior.as_str())
}

/// The two roles of the path.
fn pair(ctx: &Ctx) -> (RoleId, RoleId) {
    (RoleId::new(ctx.param("id")), RoleId::new(ctx.param("implied_id")))
}

fn reply(ctx: &Ctx, status: u16) -> Result<Reply, Fault> {
    let (prior, wanted) = pair(ctx);
    let found = read(ctx, |identity| {
        let role = implied(identity, &prior).find(|role| role.id == wanted)?;
        Some(json!({"prior_role": brief(ctx, identity.roles.get(&prior)?), "implies": brief(ctx, role)}))
    })?;
    let link = ctx.links.to_self("roles", &format!("{}/{}", below(&prior), wanted.as_str()));
    let found = found.ok_or_else(|| fault::of(&IdentityReject::NotImplied { prior, implied: wanted }))?;
    Ok(Reply::json(status, json!({"role_inference": found, "links": {"self": link}})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    reply(&ctx, 200)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let (prior, implied) = pair(&ctx);
    command(&ctx, &ctx.permit()?, IdentityCommand::ImplyRole { prior, implied }).await?;
    reply(&ctx, 201)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (prior, implied) = pair(&ctx);
    command(&ctx, &ctx.permit()?, IdentityCommand::EndImplication { prior, implied }).await?;
    Ok(Reply::empty(204))
}
