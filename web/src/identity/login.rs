//! Log-in: finds the user of the credentials, and the scope of the new token.
//!
//! An unknown user, a disabled user and a wrong password get the same 401 after the same work, so that the answer does
//! not reveal which users exist.

use std::collections::BTreeSet;

use chronova_actors::services::embedded::identity::passwords::Password;
use chronova_events::envelope::Timestamp;
use chronova_events::identity::{Domain, Identity, IdentityScope, PasswordHash, Project, User};
use chronova_events::ids::UserId;
use serde::Deserialize;
use serde_json::Value;

use super::service::{IdentityService, is_open, open_project};
use super::tokens::{Claims, audit_id};
use crate::address;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::schema::typed::SentField;
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

/// The body of a log-in: user, method and scope.
#[derive(Deserialize)]
struct LoginBody {
    identity: LoginIdentity,
    scope: Option<LoginScope>,
}

#[derive(Deserialize)]
struct LoginIdentity {
    methods: Vec<String>,
    password: Option<LoginPassword>,
    token: Option<LoginToken>,
}

#[derive(Deserialize)]
struct LoginPassword {
    user: Option<LoginUser>,
}

#[derive(Deserialize)]
struct LoginUser {
    id: Option<String>,
    name: Option<String>,
    domain: Option<LoginDomain>,
    password: Option<String>,
}

#[derive(Deserialize)]
struct LoginDomain {
    id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct LoginProject {
    id: Option<String>,
    name: Option<String>,
    domain: Option<LoginDomain>,
}

#[derive(Deserialize)]
struct LoginToken {
    id: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LoginScope {
    Word(String),
    Named(Box<LoginScopeParts>),
}

/// The requested scope: exactly one of these keys, or `unscoped`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LoginScopeParts {
    project: Option<LoginProject>,
    domain: Option<LoginDomain>,
    system: Option<LoginSystem>,
    #[serde(rename = "OS-TRUST:trust")]
    trust: SentField<Value>,
    unscoped: SentField<Value>,
}

#[derive(Deserialize)]
struct LoginSystem {
    all: Option<bool>,
}

/// Checks the credentials and returns the claims of a new token, or a refusal.
pub(super) async fn login(ctx: &Ctx, service: &IdentityService) -> Result<Claims, Fault> {
    let auth: LoginBody = ctx.parse_at("auth")?;
    // The time is read before the password is compared. If the password changes during the comparison, that change
    // revokes the new token.
    let now = service.now();
    let (user, methods, parent) = identify(ctx, service, &auth.identity).await?;
    let scope = super::realm::read(ctx, |identity| wanted_scope(identity, &user, auth.scope.as_ref()))??;
    let mut audit_ids = vec![audit_id().map_err(Fault::internal)?];
    // The last audit id is the id of the chain's first token.
    audit_ids.extend(parent.as_ref().and_then(|parent| parent.audit_ids.last().cloned()));
    let longest = Timestamp(now.0 + i64::from(service.expiration) * 1_000_000);
    // A token that was issued for another token expires no later than that token.
    let expires_at = parent.map_or(longest, |parent| parent.expires_at.min(longest));
    Ok(Claims { user, scope, methods, audit_ids, issued_at: now, expires_at })
}

/// The user that a failed log-in named, if there is one.
pub(super) fn named(ctx: &Ctx) -> Option<UserId> {
    let identity = ctx.parse_at::<LoginBody>("auth").ok()?.identity;
    let sent = identity.password.and_then(|password| password.user)?;
    super::realm::read(ctx, |identity| named_user(identity, &sent).map(|(user, _)| user.id.clone())).ok().flatten()
}

async fn identify(
    ctx: &Ctx,
    service: &IdentityService,
    identity: &LoginIdentity,
) -> Result<(UserId, Vec<String>, Option<Claims>), Fault> {
    let mut who: Option<UserId> = None;
    let mut parent = None;
    let mut methods: Vec<String> = Vec::new();
    // As in Keystone, a method that the request names several times counts once. Otherwise one request could have a
    // password hashed thousands of times.
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for method in identity.methods.iter().filter(|method| seen.insert(method.as_str())) {
        let found = match method.as_str() {
            "password" => {
                by_password(ctx, service, identity.password.as_ref().and_then(|password| password.user.as_ref()))
                    .await?
            }
            "token" => {
                let claims = by_token(service, identity.token.as_ref())?;
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
        methods.push(method.clone());
    }
    methods.sort();
    methods.dedup();
    Ok((who.ok_or_else(Fault::unauthorized)?, methods, parent))
}

fn by_token(service: &IdentityService, token: Option<&LoginToken>) -> Result<Claims, Fault> {
    let Some(LoginToken { id: text }) = token else {
        return Err(Fault::bad_request(
            "Expecting to find token in identity. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    };
    service.claims(&Secret::new(text.as_str())).ok_or_else(Fault::unauthorized)
}

async fn by_password(ctx: &Ctx, service: &IdentityService, sent: Option<&LoginUser>) -> Result<UserId, Fault> {
    let Some(sent) = sent else {
        return Err(Fault::bad_request(
            "Expecting to find user in identity.password. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    };
    if sent.id.is_none() && (sent.name.is_none() || sent.domain.is_none()) {
        return Err(Fault::bad_request(
            "Expecting to find id, or name and domain, in identity.password.user. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    }
    let found = super::realm::read(ctx, |identity| named_user(identity, sent).map(known))?;
    let password = Password::new(sent.password.as_deref().unwrap_or_default());
    let stored = found.as_ref().and_then(|(_, hash, _)| hash.as_ref());
    let user = found.as_ref().map(|(user, ..)| user);
    // For an unknown user, the sent name selects the bucket of attempts. So the limits do not reveal which users exist.
    let named = user.map_or_else(|| as_sent(sent), |user| user.as_str().to_owned());
    let from = address::client(ctx.remote, &ctx.headers, &ctx.app.config);
    let right = service.proves((from, &named), user, stored, &password).await?;
    match found {
        Some((user, _, true)) if right => Ok(user),
        _ => Err(Fault::unauthorized()),
    }
}

fn as_sent(user: &LoginUser) -> String {
    let domain = user.domain.as_ref();
    let parts = [
        user.id.as_deref(),
        user.name.as_deref(),
        Some(" "),
        domain.and_then(|domain| domain.id.as_deref()),
        domain.and_then(|domain| domain.name.as_deref()),
    ];
    parts.into_iter().flatten().collect()
}

/// The id, the password hash, and whether user and domain are enabled.
fn known((user, domain): (&User, &Domain)) -> (UserId, Option<PasswordHash>, bool) {
    (user.id.clone(), user.password.clone(), user.enabled && domain.enabled)
}

fn named_user<'a>(identity: &'a Identity, sent: &LoginUser) -> Option<(&'a User, &'a Domain)> {
    let user = match sent.id.as_deref() {
        Some(id) => identity.users.get(&id.into())?,
        None => identity.user_named(&named_domain(identity, sent.domain.as_ref()?)?.id, sent.name.as_deref()?)?,
    };
    Some((user, identity.domains.get(&user.domain)?))
}

fn named_domain<'a>(identity: &'a Identity, sent: &LoginDomain) -> Option<&'a Domain> {
    match sent.id.as_deref() {
        Some(id) => identity.domains.get(&id.into()),
        None => identity.domain_named(sent.name.as_deref()?),
    }
}

fn named_project<'a>(identity: &'a Identity, sent: &LoginProject) -> Option<&'a Project> {
    match sent.id.as_deref() {
        Some(id) => identity.projects.get(&id.into()),
        None => identity.project_named(&named_domain(identity, sent.domain.as_ref()?)?.id, sent.name.as_deref()?),
    }
}

/// The requested scope, if the user has a role on it. Without a requested scope, the scope is the user's default
/// project, if the user has a role there.
fn wanted_scope(
    identity: &Identity,
    user: &UserId,
    requested: Option<&LoginScope>,
) -> Result<Option<IdentityScope>, Fault> {
    let nothing = LoginScopeParts::default();
    let requested: &LoginScopeParts = match requested {
        None => return Ok(default_scope(identity, user)),
        Some(LoginScope::Word(word)) if word == "unscoped" => return Ok(None),
        Some(LoginScope::Named(requested)) if requested.unscoped != SentField::Nothing => return Ok(None),
        Some(LoginScope::Word(_)) => &nothing,
        Some(LoginScope::Named(requested)) => requested,
    };
    let trust = requested.trust != SentField::Nothing;
    let given = [requested.project.is_some(), requested.domain.is_some(), requested.system.is_some(), trust];
    if given.into_iter().filter(|is_given| *is_given).count() != 1 {
        return Err(Fault::bad_request(
            "Expecting to find exactly one of project, domain, system or OS-TRUST:trust in scope. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    }
    let scope = if let Some(project) = &requested.project {
        named_project(identity, project).map(|project| IdentityScope::Project(project.id.clone()))
    } else if let Some(domain) = &requested.domain {
        named_domain(identity, domain).map(|domain| IdentityScope::Domain(domain.id.clone()))
    } else if requested.system.as_ref().is_some_and(|system| system.all == Some(true)) {
        Some(IdentityScope::System)
    } else {
        None
    };
    let scope = scope.ok_or_else(Fault::unauthorized)?;
    if is_open(identity, &scope) && !identity.roles_on(user, &scope).is_empty() {
        return Ok(Some(scope));
    }
    Err(Fault::unauthorized())
}

fn default_scope(identity: &Identity, user: &UserId) -> Option<IdentityScope> {
    let id = identity.users.get(user)?.attributes.default_project.as_ref()?;
    let project = identity.projects.get(id).filter(|project| open_project(identity, project))?;
    let scope = IdentityScope::Project(project.id.clone());
    (!identity.roles_on(user, &scope).is_empty()).then_some(scope)
}
