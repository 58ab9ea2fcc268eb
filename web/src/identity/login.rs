//! From credentials to the person, and from what the person wants to the scope of the token.
//!
//! Whatever is wrong with credentials, the answer is the same 401 after the same work: who exists is nobody's business.

use chronova_actors::identity::passwords::Password;
use chronova_events::envelope::Timestamp;
use chronova_events::identity::{Domain, Identity, PasswordHash, Project, Scope, User};
use chronova_events::ids::UserId;
use serde_json::Value;

use super::service::{IdentityService, is_open, open_project};
use super::tokens::{Claims, audit_id};
use crate::address;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::schema::{Schema, any, any_of, array, boolean, null_or, object, opt, req, string};
use crate::secret::Secret;

/// The body of `POST /v3/auth/tokens`.
pub(super) fn body() -> Schema {
    let domain = || object([opt("id", string()), opt("name", string())]).open();
    let user = object([
        opt("id", string()),
        opt("name", string()),
        opt("domain", domain()),
        opt("password", null_or(string())),
    ])
    .open();
    let identity = object([
        req("methods", array(string())),
        opt("password", object([req("user", user)]).open()),
        opt("token", object([req("id", string())]).open()),
    ])
    .open();
    let project = object([opt("id", string()), opt("name", string()), opt("domain", domain())]).open();
    let scope = object([
        opt("project", project),
        opt("domain", domain()),
        opt("system", object([opt("all", boolean())]).open()),
        opt("unscoped", any()),
        opt("OS-TRUST:trust", any()),
    ])
    .open();
    object([req("auth", object([req("identity", identity), opt("scope", any_of([scope, string()]))]).open())]).open()
}

/// Makes the claims of a new token out of what was sent, or says why not.
pub(super) async fn login(ctx: &Ctx, service: &IdentityService) -> Result<Claims, Fault> {
    let auth = &ctx.body["auth"];
    // Taken first: a password that is changed while this one is compared ends the token that comes of it.
    let now = service.now();
    let (user, methods, parent) = identify(ctx, service, &auth["identity"]).await?;
    let scope = super::realm::read(ctx, |identity| wanted_scope(identity, &user, auth))??;
    let mut audit_ids = vec![audit_id().map_err(Fault::internal)?];
    // The chain is named after its first token.
    audit_ids.extend(parent.as_ref().and_then(|parent| parent.audit_ids.last().cloned()));
    let longest = Timestamp(now.0 + i64::from(service.expiration) * 1_000_000);
    // A token got with a token lives no longer than that one.
    let expires_at = parent.map_or(longest, |parent| parent.expires_at.min(longest));
    Ok(Claims { user, scope, methods, audit_ids, issued_at: now, expires_at })
}

async fn identify(
    ctx: &Ctx,
    service: &IdentityService,
    identity: &Value,
) -> Result<(UserId, Vec<String>, Option<Claims>), Fault> {
    let mut who: Option<UserId> = None;
    let mut parent = None;
    let mut methods: Vec<String> = Vec::new();
    for method in identity["methods"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let found = match method {
            "password" => by_password(ctx, service, &identity["password"]["user"]).await?,
            "token" => {
                let claims = by_token(service, &identity["token"])?;
                methods.extend(claims.methods.iter().cloned());
                let user = claims.user.clone();
                parent = Some(claims);
                user
            }
            _ => return Err(Fault::new(401, "Attempted to authenticate with an unsupported method.")),
        };
        if who.as_ref().is_some_and(|known| *known != found) {
            return Err(Fault::unauthorized());
        }
        who = Some(found);
        methods.push(method.to_owned());
    }
    methods.sort();
    methods.dedup();
    Ok((who.ok_or_else(Fault::unauthorized)?, methods, parent))
}

fn by_token(service: &IdentityService, token: &Value) -> Result<Claims, Fault> {
    let Some(text) = token["id"].as_str() else {
        return Err(Fault::bad_request(
            "Expecting to find token in identity. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    };
    service.claims(&Secret::new(text)).ok_or_else(Fault::unauthorized)
}

async fn by_password(ctx: &Ctx, service: &IdentityService, sent: &Value) -> Result<UserId, Fault> {
    if sent.is_null() {
        return Err(Fault::bad_request(
            "Expecting to find user in identity.password. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    }
    if sent["id"].is_null() && (sent["name"].is_null() || sent["domain"].is_null()) {
        return Err(Fault::bad_request(
            "Expecting to find id, or name and domain, in identity.password.user. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    }
    let found = super::realm::read(ctx, |identity| named_user(identity, sent).map(known))?;
    let password = Password::new(sent["password"].as_str().unwrap_or_default());
    let stored = found.as_ref().and_then(|(_, hash, _)| hash.as_ref());
    let user = found.as_ref().map(|(user, ..)| user);
    // By the name that was sent where there is no such user: each has as many tries.
    let named = user.map_or_else(|| as_sent(sent), |user| user.as_str().to_owned());
    let from = address::client(ctx.remote, &ctx.headers, &ctx.app.config);
    let right = service.proves((from, &named), user, stored, &password).await?;
    match found {
        Some((user, _, true)) if right => Ok(user),
        _ => Err(Fault::unauthorized()),
    }
}

fn as_sent(user: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{}{} {}{}",
        text(&user["id"]),
        text(&user["name"]),
        text(&user["domain"]["id"]),
        text(&user["domain"]["name"])
    )
}

/// Id, hash, and whether the user is switched on.
fn known((user, domain): (&User, &Domain)) -> (UserId, Option<PasswordHash>, bool) {
    (user.id.clone(), user.password.clone(), user.enabled && domain.enabled)
}

fn named_user<'a>(identity: &'a Identity, sent: &Value) -> Option<(&'a User, &'a Domain)> {
    let user = match sent["id"].as_str() {
        Some(id) => identity.users.get(&id.into())?,
        None => identity.user_named(&named_domain(identity, &sent["domain"])?.id, sent["name"].as_str()?)?,
    };
    Some((user, identity.domains.get(&user.domain)?))
}

fn named_domain<'a>(identity: &'a Identity, sent: &Value) -> Option<&'a Domain> {
    match sent["id"].as_str() {
        Some(id) => identity.domains.get(&id.into()),
        None => identity.domain_named(sent["name"].as_str()?),
    }
}

fn named_project<'a>(identity: &'a Identity, sent: &Value) -> Option<&'a Project> {
    match sent["id"].as_str() {
        Some(id) => identity.projects.get(&id.into()),
        None => identity.project_named(&named_domain(identity, &sent["domain"])?.id, sent["name"].as_str()?),
    }
}

/// The scope that was asked for, if the user has any role on it. Without a wish it is the default project, as long as the
/// user has a role there.
fn wanted_scope(identity: &Identity, user: &UserId, auth: &Value) -> Result<Option<Scope>, Fault> {
    let wish = &auth["scope"];
    if wish.as_str() == Some("unscoped") || wish.get("unscoped").is_some() {
        return Ok(None);
    }
    if wish.is_null() {
        return Ok(default_scope(identity, user));
    }
    let wishes = ["project", "domain", "system", "OS-TRUST:trust"].iter().filter(|key| wish.get(**key).is_some());
    if wishes.count() != 1 {
        return Err(Fault::bad_request(
            "Expecting to find exactly one of project, domain, system or OS-TRUST:trust in scope. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    }
    let scope = if let Some(project) = wish.get("project") {
        named_project(identity, project).map(|project| Scope::Project(project.id.clone()))
    } else if let Some(domain) = wish.get("domain") {
        named_domain(identity, domain).map(|domain| Scope::Domain(domain.id.clone()))
    } else if wish["system"]["all"].as_bool() == Some(true) {
        Some(Scope::System)
    } else {
        None
    };
    let scope = scope.ok_or_else(Fault::unauthorized)?;
    if is_open(identity, &scope) && !identity.roles_on(user, &scope).is_empty() {
        return Ok(Some(scope));
    }
    Err(Fault::unauthorized())
}

fn default_scope(identity: &Identity, user: &UserId) -> Option<Scope> {
    let id = identity.users.get(user)?.attributes.default_project.as_ref()?;
    let project = identity.projects.get(id).filter(|project| open_project(identity, project))?;
    let scope = Scope::Project(project.id.clone());
    (!identity.roles_on(user, &scope).is_empty()).then_some(scope)
}
