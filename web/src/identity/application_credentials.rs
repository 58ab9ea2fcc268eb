//! `/v3/users/{user_id}/application_credentials` and `/v3/users/{user_id}/access_rules`.
//!
//! A program logs in with an application credential instead of its user's password. The credential has one project, all
//! or some of the roles that its maker's token has there, and perhaps an end and access rules. The secret is in the
//! answer of the creation and nowhere else. Every look-up goes through the user in the path, for whom the policy was
//! asked.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use chronova_actors::services::embedded::identity::passwords::Password;
use chronova_actors::services::embedded::identity::{AskedAccessRule, IdentityCommand, IdentityResourceKind};
use chronova_events::envelope::Timestamp;
use chronova_events::identity::{ApplicationCredential, ApplicationCredentialCreated, Identity, UserAccessRule};
use chronova_events::ids::{AccessRuleId, ApplicationCredentialId, ProjectId, RoleId, UserId};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::realm::{command, own, read};
use super::tokens::Claims;
use super::users::target_of;
use super::{answers, fault, listing, service};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post};
use crate::schema::{Schema, array, boolean, choice, null_or, object, opt, req, string};

const ALL: &str = "/users/{user_id}/application_credentials";
const ONE: &str = "/users/{user_id}/application_credentials/{id}";
const RULES: &str = "/users/{user_id}/access_rules";
const RULE: &str = "/users/{user_id}/access_rules/{id}";

pub(super) const ROUTES: &[Route] = &[
    get("application_credentials.index", ALL, handler!(index))
        .policy_on_target("identity:list_application_credentials")
        .answers(answers::application_credentials)
        .as_of(),
    post("application_credentials.create", ALL, handler!(create))
        .policy_on_target("identity:create_application_credential")
        .body(create_body)
        .answers(answers::application_credential_created),
    get("application_credentials.show", ONE, handler!(show))
        .policy_on_target("identity:get_application_credential")
        .answers(answers::application_credential_shown)
        .as_of(),
    delete("application_credentials.delete", ONE, handler!(remove))
        .policy_on_target("identity:delete_application_credential")
        .answers(no_content),
    get("access_rules.index", RULES, handler!(rules))
        .policy_on_target("identity:list_access_rules")
        .answers(answers::access_rules)
        .as_of(),
    get("access_rules.show", RULE, handler!(rule))
        .policy_on_target("identity:get_access_rule")
        .answers(answers::access_rule_shown)
        .as_of(),
    delete("access_rules.delete", RULE, handler!(remove_rule))
        .policy_on_target("identity:delete_access_rule")
        .answers(no_content),
];

/// The random bytes of a secret that the client did not choose.
const SECRET: usize = 64;

/// The most access rules of one application credential. Each request of its tokens compares with all of them.
const MOST_RULES: u64 = 100;

fn create_body() -> Schema {
    let role = object([opt("id", string()), opt("name", string())]).min_properties(1).max_properties(1);
    let rule = object([
        opt("id", string().min_length(1).max_length(64)),
        opt("service", string().min_length(1).max_length(64)),
        opt("method", choice(["POST", "GET", "HEAD", "PATCH", "PUT", "DELETE"])),
        opt("path", string().max_length(225).pattern("^/")),
    ]);
    let credential = object([
        req("name", string().min_length(1).max_length(255).pattern("[\\S]+")),
        opt("description", null_or(string().max_length(4_096))),
        opt("secret", null_or(string())),
        opt("expires_at", null_or(string())),
        opt("roles", null_or(array(role))),
        opt("unrestricted", null_or(boolean())),
        opt("access_rules", null_or(array(rule).max_items(MOST_RULES))),
    ]);
    object([req("application_credential", credential.open())]).open()
}

#[derive(Deserialize)]
struct CredentialBody {
    name: String,
    description: Option<String>,
    secret: Option<String>,
    expires_at: Option<String>,
    roles: Option<Vec<CredentialRole>>,
    unrestricted: Option<bool>,
    access_rules: Option<Vec<SentAccessRule>>,
}

/// A role, by its id or by its name.
#[derive(Deserialize)]
struct CredentialRole {
    id: Option<String>,
    name: Option<String>,
}

/// Either the id of a rule that the user has, or the parts of a rule: service, method and path.
#[derive(Deserialize)]
struct SentAccessRule {
    id: Option<String>,
    service: Option<String>,
    method: Option<String>,
    path: Option<String>,
}

impl SentAccessRule {
    fn asked(self) -> Result<AskedAccessRule, Fault> {
        match (self.id, self.service, self.method, self.path) {
            (_, Some(service), Some(method), Some(path)) => {
                let id = AccessRuleId::from(Uuid::new_v4().simple().to_string());
                Ok(AskedAccessRule::Worded(UserAccessRule { id, service, method, path }))
            }
            (Some(id), None, None, None) => Ok(AskedAccessRule::Known(id.into())),
            _ => Err(Fault::bad_request("An access rule has either an id, or a service, a method and a path.")),
        }
    }
}

pub(super) fn show_rule(rule: &UserAccessRule) -> Value {
    json!({"id": rule.id, "service": rule.service, "method": rule.method, "path": rule.path})
}

fn show_rule_with_links(ctx: &Ctx, user: &UserId, rule: &UserAccessRule) -> Value {
    let mut shown = show_rule(rule);
    let address = ctx.links.to_self("users", &format!("{user}/access_rules/{}", rule.id));
    shown["links"] = json!({"self": address});
    shown
}

fn show_one(ctx: &Ctx, identity: &Identity, credential: &ApplicationCredential) -> Value {
    let roles = credential.roles.iter().filter_map(|role| identity.roles.get(role));
    let roles: Vec<Value> =
        roles.map(|role| json!({"id": role.id, "name": role.name, "domain_id": role.domain})).collect();
    let place = format!("{}/application_credentials/{}", credential.user, credential.id);
    let mut shown = json!({
        "id": credential.id,
        "name": credential.name,
        "description": credential.description,
        "user_id": credential.user,
        "project_id": credential.project,
        "roles": roles,
        "expires_at": credential.expires_at.map(Timestamp::iso_micros),
        "unrestricted": credential.unrestricted,
        "links": {"self": ctx.links.to_self("users", &place)},
    });
    if let Some(rules) = identity.rules_of(credential) {
        shown["access_rules"] = rules.into_iter().map(show_rule).collect();
    }
    shown
}

fn user_in_path(ctx: &Ctx) -> UserId {
    UserId::new(ctx.param("user_id"))
}

/// The user in the path, for whom the policy permits the operation. Answers 404 if there is no such user.
fn permitted_user(ctx: &Ctx) -> Result<UserId, Fault> {
    let user = user_in_path(ctx);
    ctx.authorize(&target_of(ctx, &user)?)?;
    match read(ctx, |identity| identity.users.contains_key(&user))? {
        true => Ok(user),
        false => Err(fault::not_found(IdentityResourceKind::User, user.as_str())),
    }
}

/// The caller's own claims. A token of a restricted application credential may not manage application credentials.
/// Otherwise a leaked credential could make others that outlive it.
fn unrestricted(ctx: &Ctx) -> Result<Claims, Fault> {
    let claims = own(ctx)?;
    let allowed = read(ctx, |identity| {
        claims.credential.is_none() || service::credential(identity, &claims).is_some_and(|one| one.unrestricted)
    })?;
    match allowed {
        true => Ok(claims),
        false => Err(Fault::forbidden(
            "You are not authorized to perform the requested action: Using method 'application_credential' is not \
             allowed for managing additional application credentials.",
        )),
    }
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let user = permitted_user(&ctx)?;
    let items = read(&ctx, |identity| {
        identity.credentials_of(&user).map(|credential| show_one(&ctx, identity, credential)).collect()
    })?;
    Ok(listing::reply(&ctx, "application_credentials", items, &["name"]))
}

fn shown(ctx: &Ctx, user: &UserId, id: &ApplicationCredentialId) -> Result<Value, Fault> {
    let found = read(ctx, |identity| identity.credential(user, id).map(|found| show_one(ctx, identity, found)))?;
    found.ok_or_else(|| fault::not_found(IdentityResourceKind::ApplicationCredential, id.as_str()))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let user = permitted_user(&ctx)?;
    let found = shown(&ctx, &user, &ApplicationCredentialId::new(ctx.param("id")))?;
    Ok(Reply::ok(json!({"application_credential": found})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let user = user_in_path(&ctx);
    let permit = ctx.authorize(&target_of(&ctx, &user)?)?;
    let claims = unrestricted(&ctx)?;
    if claims.user != user {
        return Err(Fault::forbidden("Cannot create an application credential for another user."));
    }
    let mut body: CredentialBody = ctx.parse_at("application_credential")?;
    let rules = asked_rules(body.access_rules.take())?;
    let secret = body.secret.take().filter(|secret| !secret.is_empty()).map_or_else(generated_secret, Ok)?;
    let created = Box::new(created(&ctx, &claims, body, &secret).await?);
    let id = created.credential.clone();
    command(&ctx, &permit, IdentityCommand::CreateApplicationCredential { created, rules }).await?;
    let mut found = shown(&ctx, &user, &id)?;
    found["secret"] = json!(secret);
    Ok(Reply::json(201, json!({"application_credential": found})))
}

/// As in Keystone, an empty list is like no list: the credential permits all requests.
fn asked_rules(sent: Option<Vec<SentAccessRule>>) -> Result<Option<Vec<AskedAccessRule>>, Fault> {
    let sent = sent.filter(|all| !all.is_empty());
    sent.map(|all| all.into_iter().map(SentAccessRule::asked).collect::<Result<Vec<_>, _>>()).transpose()
}

/// The new credential. Its user and its project are those of the caller's token.
async fn created(
    ctx: &Ctx,
    claims: &Claims,
    body: CredentialBody,
    secret: &str,
) -> Result<ApplicationCredentialCreated, Fault> {
    let project: ProjectId = ctx.caller().project.clone().ok_or_else(|| {
        Fault::forbidden("You are not authorized to perform the requested action: the token has no project.")
    })?;
    let service = ctx.app.identity()?;
    let expires_at = body.expires_at.as_deref().map(|text| expiration(text, service.now())).transpose()?;
    let roles = roles(ctx, claims, body.roles.unwrap_or_default())?;
    let secret = service.passwords.hash(&Password::new(secret)).await.map_err(fault::of_password)?;
    Ok(ApplicationCredentialCreated {
        credential: ApplicationCredentialId::from(Uuid::new_v4().simple().to_string()),
        user: claims.user.clone(),
        project,
        name: body.name,
        description: body.description,
        secret,
        roles,
        expires_at,
        unrestricted: body.unrestricted.unwrap_or(false),
        access_rules: None,
    })
}

/// The requested roles, which the caller's token must have. Without requested roles, all roles of the token.
fn roles(ctx: &Ctx, claims: &Claims, requested: Vec<CredentialRole>) -> Result<Vec<RoleId>, Fault> {
    let held: Vec<(RoleId, String)> = read(ctx, |identity| {
        let scope = claims.scope.as_ref();
        let held = scope.map(|scope| service::roles(identity, claims, scope)).unwrap_or_default();
        held.into_iter().map(|role| (role.id.clone(), role.name.clone())).collect()
    })?;
    if requested.is_empty() {
        return Ok(held.into_iter().map(|(id, _)| id).collect());
    }
    let of = |wanted: CredentialRole| {
        let is = |(id, name): &&(RoleId, String)| {
            wanted.id.as_deref() == Some(id.as_str()) || wanted.name.as_deref() == Some(name.as_str())
        };
        held.iter().find(is).map(|(id, _)| id.clone()).ok_or_else(fault::unassigned_role)
    };
    requested.into_iter().map(of).collect()
}

fn generated_secret() -> Result<String, Fault> {
    let mut random = [0_u8; SECRET];
    getrandom::fill(&mut random).map_err(Fault::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// A time in the future, in UTC unless the text has an offset.
fn expiration(text: &str, now: Timestamp) -> Result<Timestamp, Fault> {
    let parsed = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_rfc3339(&format!("{text}Z")));
    let Ok(at) = parsed.map(|at| Timestamp(at.with_timezone(&Utc).timestamp_micros())) else {
        return Err(Fault::bad_request(
            "Timestamp not in expected format. The server could not comply with the request since it is either \
             malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    };
    match at > now {
        true => Ok(at),
        false => Err(Fault::bad_request("The 'expires_at' must not be before now.")),
    }
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let user = user_in_path(&ctx);
    let permit = ctx.authorize(&target_of(&ctx, &user)?)?;
    unrestricted(&ctx)?;
    let credential = ApplicationCredentialId::new(ctx.param("id"));
    command(&ctx, &permit, IdentityCommand::DeleteApplicationCredential { user, credential }).await?;
    Ok(Reply::empty(204))
}

async fn rules(ctx: Ctx) -> Result<Reply, Fault> {
    let user = permitted_user(&ctx)?;
    let items = read(&ctx, |identity| {
        identity.access_rules_of(&user).map(|rule| show_rule_with_links(&ctx, &user, rule)).collect()
    })?;
    Ok(listing::reply(&ctx, "access_rules", items, &["service", "method", "path"]))
}

async fn rule(ctx: Ctx) -> Result<Reply, Fault> {
    let user = permitted_user(&ctx)?;
    let id = AccessRuleId::new(ctx.param("id"));
    let found =
        read(&ctx, |identity| identity.access_rule(&user, &id).map(|rule| show_rule_with_links(&ctx, &user, rule)))?;
    let found = found.ok_or_else(|| fault::not_found(IdentityResourceKind::AccessRule, id.as_str()))?;
    Ok(Reply::ok(json!({"access_rule": found})))
}

async fn remove_rule(ctx: Ctx) -> Result<Reply, Fault> {
    let user = user_in_path(&ctx);
    let permit = ctx.authorize(&target_of(&ctx, &user)?)?;
    let rule = AccessRuleId::new(ctx.param("id"));
    command(&ctx, &permit, IdentityCommand::DeleteAccessRule { user, rule }).await?;
    Ok(Reply::empty(204))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn expirations_are_in_the_future() {
        let now = Timestamp(1_700_000_000_000_000);
        let later = Timestamp(1_700_000_000_500_000);
        assert_eq!(expiration("2023-11-14T22:13:20.500000", now).unwrap(), later);
        assert_eq!(expiration("2023-11-14T22:13:20.5Z", now).unwrap(), later);
        assert_eq!(expiration("2023-11-15T00:13:20.5+02:00", now).unwrap(), later);
        for wrong in ["2023-11-14T22:13:20", "2023-11-14T22:13:19Z", "tomorrow", ""] {
            assert!(expiration(wrong, now).is_err(), "{wrong}");
        }
    }
}
