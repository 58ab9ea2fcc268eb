//! `/v3/roles`.

use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityResourceKind};
use chronova_events::identity::{Role, RoleCreated};
use chronova_events::ids::{DomainId, RoleId};
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
use crate::schema::{Schema, null_or, object, opt, req, string};

pub(super) const ROUTES: &[Route] = &[
    get("roles.index", "/roles", handler!(index)).policy("identity:list_roles").answers(answers::roles).as_of(),
    post("roles.create", "/roles", handler!(create))
        .policy("identity:create_role")
        .body(create_body)
        .answers(answers::role_created),
    get("roles.show", "/roles/{id}", handler!(show)).policy("identity:get_role").answers(answers::role_shown).as_of(),
    patch("roles.update", "/roles/{id}", handler!(update))
        .policy("identity:update_role")
        .body(update_body)
        .answers(answers::role_shown),
    delete("roles.delete", "/roles/{id}", handler!(remove)).policy("identity:delete_role").answers(no_content),
];

fn role_name() -> Schema {
    string().min_length(1).max_length(255).pattern("[\\S]+")
}

fn create_body() -> Schema {
    let role =
        object([req("name", role_name()), opt("description", null_or(string())), opt("domain_id", null_or(string()))]);
    object([req("role", role.open())]).open()
}

fn update_body() -> Schema {
    object([req("role", object([opt("name", role_name()), opt("description", null_or(string()))]).open())]).open()
}

#[derive(Debug, Deserialize)]
struct RoleBody {
    name: Option<String>,
    /// `null` removes the description.
    #[serde(default)]
    description: SentField<String>,
    domain_id: Option<DomainId>,
}

pub(super) fn show_one(ctx: &Ctx, role: &Role) -> Value {
    json!({
        "id": role.id,
        "name": role.name,
        "domain_id": role.domain,
        "description": role.description,
        "options": {},
        "links": {"self": ctx.links.to_self("roles", role.id.as_str())},
    })
}

fn reply(ctx: &Ctx, status: u16, id: &RoleId) -> Result<Reply, Fault> {
    let found = read(ctx, |identity| identity.roles.get(id).map(|role| show_one(ctx, role)))?;
    let found = found.ok_or_else(|| fault::not_found(IdentityResourceKind::Role, id.as_str()))?;
    Ok(Reply::json(status, json!({"role": found})))
}

/// Roles of a domain are listed only if the query names that domain.
async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let domain = ctx.query.last("domain_id").map(DomainId::new);
    let items = read(&ctx, |identity| {
        let roles = identity.roles.values().filter(|role| role.domain == domain);
        roles.map(|role| show_one(&ctx, role)).collect()
    })?;
    Ok(listing::reply(&ctx, "roles", items, &["name"]))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    reply(&ctx, 200, &RoleId::new(ctx.param("id")))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: RoleBody = ctx.parse_at("role")?;
    let role = RoleId::from(Uuid::new_v4().simple().to_string());
    let created = RoleCreated {
        role: role.clone(),
        domain: body.domain_id,
        name: body.name.unwrap_or_default(),
        description: body.description.mentioned().flatten(),
    };
    command(&ctx, &ctx.permit()?, IdentityCommand::CreateRole(created)).await?;
    reply(&ctx, 201, &role)
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let role = RoleId::new(ctx.param("id"));
    let body: RoleBody = ctx.parse_at("role")?;
    let (name, description) = (body.name, edit(body.description));
    let change = IdentityCommand::ChangeRole { role: role.clone(), name, description };
    command(&ctx, &ctx.permit()?, change).await?;
    reply(&ctx, 200, &role)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let role = RoleId::new(ctx.param("id"));
    command(&ctx, &ctx.permit()?, IdentityCommand::DeleteRole(role)).await?;
    Ok(Reply::empty(204))
}
