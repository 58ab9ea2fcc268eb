//! `/v3/users`.

use chronova_actors::services::embedded::identity::passwords::Password;
use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityResourceKind, UserChange};
use chronova_events::identity::{IdentityScope, PasswordHash, User, UserAttributes, UserCreated};
use chronova_events::ids::{DomainId, ProjectId, UserId};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::extra::extra;
use super::realm::{command, edit, read};
use super::service::open_project;
use super::{answers, fault, listing};
use crate::address;
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::{Permit, PolicyTarget};
use crate::reply::Reply;
use crate::route::{Route, delete, get, patch, post};
use crate::schema::typed::SentField;
use crate::schema::{Property, Schema, boolean, null_or, object, opt, req, string};

pub(super) const ROUTES: &[Route] = &[
    get("users.index", "/users", handler!(index))
        .policy_on_target("identity:list_users")
        .answers(answers::users)
        .as_of(),
    post("users.create", "/users", handler!(create))
        .policy_on_target("identity:create_user")
        .body(create_body)
        .answers(answers::user_created),
    get("users.show", "/users/{id}", handler!(show))
        .policy_on_target("identity:get_user")
        .answers(answers::user_shown)
        .as_of(),
    patch("users.update", "/users/{id}", handler!(update))
        .policy_on_target("identity:update_user")
        .body(update_body)
        .answers(answers::user_shown),
    delete("users.delete", "/users/{id}", handler!(remove))
        .policy_on_target("identity:delete_user")
        .answers(no_content),
    // As in Keystone, this operation needs no token, because the old password authenticates the user.
    post("users.password", "/users/{id}/password", handler!(password))
        .optional_token()
        .body(password_body)
        .answers(no_content),
    get("users.projects", "/users/{id}/projects", handler!(projects))
        .policy_on_target("identity:list_user_projects")
        .answers(answers::projects)
        .as_of(),
];

/// Attributes with a meaning; all others are stored unchanged.
const KNOWN: [&str; 10] = [
    "id",
    "name",
    "domain_id",
    "enabled",
    "password",
    "original_password",
    "default_project_id",
    "options",
    "password_expires_at",
    "links",
];

fn attributes(name: Property) -> [Property; 5] {
    [
        name,
        opt("enabled", boolean()),
        opt("domain_id", null_or(string())),
        opt("password", null_or(string())),
        opt("default_project_id", null_or(string())),
    ]
}

fn user_name() -> Schema {
    string().min_length(1).max_length(255).pattern("[\\S]+")
}

fn create_body() -> Schema {
    object([req("user", object(attributes(req("name", user_name()))).open())]).open()
}

fn update_body() -> Schema {
    object([req("user", object(attributes(opt("name", user_name()))).open())]).open()
}

fn password_body() -> Schema {
    object([req("user", object([req("original_password", string()), req("password", string())]).open())]).open()
}

#[derive(Deserialize)]
struct UserBody {
    name: Option<String>,
    enabled: Option<bool>,
    domain_id: Option<DomainId>,
    password: Option<String>,
    /// `null` removes the default project.
    #[serde(default)]
    default_project_id: SentField<ProjectId>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl UserBody {
    fn attributes(self) -> UserAttributes {
        UserAttributes {
            name: self.name.unwrap_or_default(),
            default_project: self.default_project_id.mentioned().flatten(),
            extra: extra(&self.others, &KNOWN),
        }
    }

    /// The change, without the password.
    fn change(self) -> UserChange {
        let (default_project, extra) = (edit(self.default_project_id), extra(&self.others, &KNOWN));
        UserChange { name: self.name, enabled: self.enabled, password: None, default_project, extra }
    }
}

/// The old password proves the caller's right to set a new password.
#[derive(Deserialize)]
struct PasswordBody {
    original_password: String,
    password: String,
}

fn show_one(ctx: &Ctx, user: &User) -> Value {
    let mut shown = Map::new();
    for (key, text) in &user.attributes.extra {
        shown.insert(key.clone(), serde_json::from_str(text).unwrap_or_default());
    }
    let own = json!({
        "id": user.id,
        "name": user.attributes.name,
        "domain_id": user.domain,
        "enabled": user.enabled,
        "password_expires_at": null,
        "options": {},
        "links": {"self": ctx.links.to_self("users", user.id.as_str())},
    });
    if let Value::Object(own) = own {
        shown.extend(own);
    }
    if let Some(project) = &user.attributes.default_project {
        shown.insert("default_project_id".to_owned(), json!(project));
    }
    Value::Object(shown)
}

fn target(id: &UserId, domain: &str) -> PolicyTarget {
    PolicyTarget::default().with("target.user.id", id.as_str()).with("target.user.domain_id", domain).user(id)
}

pub(super) fn target_of(ctx: &Ctx, id: &UserId) -> Result<PolicyTarget, Fault> {
    let domain = read(ctx, |identity| identity.users.get(id).map(|user| user.domain.clone()))?;
    Ok(target(id, domain.as_ref().map_or("", DomainId::as_str)))
}

fn reply(ctx: &Ctx, status: u16, id: &UserId) -> Result<Reply, Fault> {
    let found = read(ctx, |identity| identity.users.get(id).map(|user| show_one(ctx, user)))?;
    let found = found.ok_or_else(|| fault::not_found(IdentityResourceKind::User, id.as_str()))?;
    Ok(Reply::json(status, json!({"user": found})))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let domain = ctx.query.last("domain_id").unwrap_or_default().to_owned();
    ctx.authorize(&PolicyTarget::default().with("target.user.domain_id", domain))?;
    let items = read(&ctx, |identity| identity.users.values().map(|user| show_one(&ctx, user)).collect())?;
    Ok(listing::reply(&ctx, "users", items, &["name", "domain_id", "enabled"]))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let id = UserId::new(ctx.param("id"));
    ctx.authorize(&target_of(&ctx, &id)?)?;
    reply(&ctx, 200, &id)
}

async fn hashed(ctx: &Ctx, password: Option<String>) -> Result<Option<PasswordHash>, Fault> {
    match password {
        Some(password) => {
            let passwords = &ctx.app.identity()?.passwords;
            passwords.hash(&Password::new(password)).await.map(Some).map_err(fault::of_password)
        }
        None => Ok(None),
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: UserBody = ctx.parse_at("user")?;
    let domain = body.domain_id.clone().unwrap_or_else(|| domain_of_caller(&ctx));
    let user = UserId::from(Uuid::new_v4().simple().to_string());
    let permit = ctx.authorize(&target(&user, domain.as_str()))?;
    // Hashing costs time, so the policy comes first.
    let password = hashed(&ctx, body.password.clone()).await?;
    let enabled = body.enabled.unwrap_or(true);
    let created = UserCreated { user: user.clone(), domain, enabled, password, attributes: body.attributes() };
    command(&ctx, &permit, IdentityCommand::CreateUser(created)).await?;
    reply(&ctx, 201, &user)
}

/// The domain of the caller's token.
fn domain_of_caller(ctx: &Ctx) -> DomainId {
    let caller = ctx.caller();
    let own = caller.domain.as_ref().or(caller.project_domain.as_ref()).or(caller.user_domain.as_ref());
    own.cloned().unwrap_or_else(|| DomainId::new("default"))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let user = UserId::new(ctx.param("id"));
    let permit = ctx.authorize(&target_of(&ctx, &user)?)?;
    let body: UserBody = ctx.parse_at("user")?;
    let password = hashed(&ctx, body.password.clone()).await?;
    let change = UserChange { password, ..body.change() };
    command(&ctx, &permit, IdentityCommand::ChangeUser { user: user.clone(), change }).await?;
    reply(&ctx, 200, &user)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let user = UserId::new(ctx.param("id"));
    let permit = ctx.authorize(&target_of(&ctx, &user)?)?;
    command(&ctx, &permit, IdentityCommand::DeleteUser(user)).await?;
    Ok(Reply::empty(204))
}

async fn password(ctx: Ctx) -> Result<Reply, Fault> {
    let user = UserId::new(ctx.param("id"));
    let permit = ctx.authorize_rule("identity:change_password", &target_of(&ctx, &user)?)?;
    let body: PasswordBody = ctx.parse_at("user")?;
    prove(&ctx, &user, &Password::new(body.original_password)).await?;
    let hash = ctx.app.identity()?.passwords.hash(&Password::new(body.password)).await.map_err(fault::of_password)?;
    set_password(&ctx, &permit, user, hash).await?;
    Ok(Reply::empty(204))
}

/// Answers 401 unless the password is right, and both the user and the domain are enabled.
async fn prove(ctx: &Ctx, user: &UserId, password: &Password) -> Result<(), Fault> {
    let stored = read(ctx, |identity| {
        let enabled = |user: &&User| user.enabled && identity.domains.get(&user.domain).is_some_and(|of| of.enabled);
        let known = identity.users.get(user).filter(enabled);
        known.and_then(|user| user.password.clone())
    })?;
    let from = address::client(ctx.remote, &ctx.headers, &ctx.app.config);
    let known = stored.as_ref().map(|_| user);
    match ctx.app.identity()?.proves((from, user.as_str()), known, stored.as_ref(), password).await? {
        true => Ok(()),
        false => Err(Fault::unauthorized()),
    }
}

async fn set_password(ctx: &Ctx, permit: &Permit, user: UserId, hash: PasswordHash) -> Result<(), Fault> {
    let change = UserChange { password: Some(hash), ..UserChange::default() };
    command(ctx, permit, IdentityCommand::ChangeUser { user, change }).await.map(drop)
}

async fn projects(ctx: Ctx) -> Result<Reply, Fault> {
    let user = UserId::new(ctx.param("id"));
    ctx.authorize(&target_of(&ctx, &user)?)?;
    let items = read(&ctx, |identity| {
        identity.users.get(&user)?;
        let open = identity.projects.values().filter(|project| open_project(identity, project));
        let with_role =
            open.filter(|project| !identity.roles_on(&user, &IdentityScope::Project(project.id.clone())).is_empty());
        Some(with_role.map(|project| super::projects::show_one(&ctx, project)).collect())
    })?;
    let items = items.ok_or_else(|| fault::not_found(IdentityResourceKind::User, user.as_str()))?;
    Ok(listing::reply(&ctx, "projects", items, &["name", "domain_id", "enabled", "parent_id"]))
}
