//! Log-in: finds the user of the credentials, and the scope of the new token.
//!
//! An unknown user, a disabled user and a wrong password get the same 401 after the same work, so that the answer does
//! not reveal which users exist.

use std::collections::BTreeSet;

use chronova_actors::services::embedded::identity::passwords::Password;
use chronova_events::envelope::Timestamp;
use chronova_events::identity::{ApplicationCredential, Domain, Identity, IdentityScope, PasswordHash, Project, User};
use chronova_events::ids::{ApplicationCredentialId, UserId};
use serde::Deserialize;
use serde_json::Value;

use super::service::{IdentityService, is_open, open_project};
use super::tokens::{Claims, audit_id};
use crate::access::logins::NamedLogin;
use crate::address;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::schema::typed::SentField;
use crate::schema::{Schema, any, any_of, array, boolean, null_or, object, opt, req, string};
use crate::secret::Secret;

/// The method of a log-in with an application credential.
pub(super) const CREDENTIAL: &str = "application_credential";

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
        opt(
            CREDENTIAL,
            object([
                opt("id", string()),
                opt("name", string()),
                opt("user", object([opt("id", string()), opt("name", string()), opt("domain", domain())]).open()),
                req("secret", string()),
            ])
            .open(),
        ),
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

/// The body of a log-in.
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
    application_credential: Option<LoginCredential>,
}

/// An application credential, by its id, or by its name and its user.
#[derive(Deserialize)]
struct LoginCredential {
    id: Option<String>,
    name: Option<String>,
    user: Option<LoginUser>,
    secret: String,
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

/// The requested scope. Unless `unscoped` is present, exactly one of the other keys must be present.
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

/// The user of a log-in, and the methods that prove it.
#[derive(Default)]
struct LoginProof {
    user: Option<UserId>,
    methods: Vec<String>,
    /// The token with which the user logs in (method `token`).
    parent: Option<Claims>,
    /// The application credential of the log-in, or of its parent.
    credential: Option<ApplicationCredentialId>,
}

/// Checks the credentials and returns the claims of a new token, or a refusal.
pub(super) async fn login(ctx: &Ctx, service: &IdentityService) -> Result<Claims, Fault> {
    let auth: LoginBody = ctx.parse_at("auth")?;
    // The time is read before the password is compared. If the password changes during the comparison, that change
    // revokes the new token.
    let now = service.now();
    let LoginProof { user, methods, parent, credential } = identify(ctx, service, &auth.identity).await?;
    let user = user.ok_or_else(Fault::unauthorized)?;
    let (scope, ends) = super::realm::read(ctx, |identity| match &credential {
        Some(id) => {
            let found = identity.credential(&user, id).filter(|found| !found.is_expired(now));
            let found = found.ok_or_else(Fault::unauthorized)?;
            let scope = scope_of(identity, found, auth.scope.as_ref(), parent.is_none());
            scope.map(|scope| (Some(scope), found.expires_at))
        }
        None => wanted_scope(identity, &user, auth.scope.as_ref()).map(|scope| (scope, None)),
    })??;
    let mut audit_ids = vec![audit_id().map_err(Fault::internal)?];
    // The last audit id is the id of the chain's first token.
    audit_ids.extend(parent.as_ref().and_then(|parent| parent.audit_ids.last().cloned()));
    let longest = Timestamp(now.0 + i64::from(service.expiration) * 1_000_000);
    // A token expires no later than its application credential. A token that was issued in exchange for another token
    // expires no later than that one.
    let limits = [Some(longest), ends, parent.map(|parent| parent.expires_at)];
    let expires_at = limits.into_iter().flatten().min().unwrap_or(longest);
    Ok(Claims { user, scope, methods, audit_ids, issued_at: now, expires_at, credential })
}

/// The users and the application credentials that a failed log-in named, for each of its methods. Parts of the request
/// without their method do not count. Otherwise they could hide whose password was tried.
pub(super) fn named(ctx: &Ctx) -> Vec<NamedLogin> {
    let unnamed = || vec![NamedLogin::default()];
    let Ok(LoginBody { identity: sent, .. }) = ctx.parse_at::<LoginBody>("auth") else { return unnamed() };
    let asks = |method: &str| sent.methods.iter().any(|asked| asked == method);
    let credential = sent.application_credential.as_ref().filter(|_| asks(CREDENTIAL));
    let user = sent.password.as_ref().and_then(|password| password.user.as_ref()).filter(|_| asks("password"));
    let found = super::realm::read(ctx, |identity| {
        let by_credential = credential.map(|credential| {
            let found = named_credential(identity, credential);
            NamedLogin {
                user: found.map(|found| found.user.clone()),
                by_credential: true,
                credential: found.map(|found| found.id.clone()),
            }
        });
        let by_password = (by_credential.is_none() || user.is_some()).then(|| {
            let user = user.and_then(|user| named_user(identity, user)).map(|(user, _)| user.id.clone());
            NamedLogin { user, ..NamedLogin::default() }
        });
        by_credential.into_iter().chain(by_password).collect::<Vec<_>>()
    });
    found.unwrap_or_else(|_| unnamed())
}

async fn identify(ctx: &Ctx, service: &IdentityService, identity: &LoginIdentity) -> Result<LoginProof, Fault> {
    let mut proof = LoginProof::default();
    // As in Keystone, a method that the request names several times counts once. Otherwise one request could have a
    // password hashed thousands of times.
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for method in identity.methods.iter().filter(|method| seen.insert(method.as_str())) {
        let (found, credential) = match method.as_str() {
            "password" => {
                let sent = identity.password.as_ref().and_then(|password| password.user.as_ref());
                (by_password(ctx, service, sent).await?, None)
            }
            "token" => {
                let claims = by_token(service, identity.token.as_ref())?;
                proof.methods.extend(claims.methods.iter().cloned());
                let found = (claims.user.clone(), claims.credential.clone());
                proof.parent = Some(claims);
                found
            }
            CREDENTIAL => {
                let (user, id) = by_credential(ctx, service, identity.application_credential.as_ref()).await?;
                (user, Some(id))
            }
            _ => return Err(Fault::new(401, "Attempted to authenticate with an unsupported method.")),
        };
        let other_user = proof.user.as_ref().is_some_and(|known| *known != found);
        if other_user || (credential.is_some() && proof.credential.is_some() && credential != proof.credential) {
            return Err(Fault::unauthorized());
        }
        proof.user = Some(found);
        proof.credential = proof.credential.or(credential);
        proof.methods.push(method.clone());
    }
    proof.methods.sort();
    proof.methods.dedup();
    Ok(proof)
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

/// The user and the id of an application credential whose secret was sent. An unknown credential, an expired one and a
/// wrong secret get the same 401 after the same work.
async fn by_credential(
    ctx: &Ctx,
    service: &IdentityService,
    sent: Option<&LoginCredential>,
) -> Result<(UserId, ApplicationCredentialId), Fault> {
    let Some(sent) = sent else {
        return Err(Fault::bad_request(
            "Expecting to find application_credential in identity. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    };
    let by_user = |user: &LoginUser| user.id.is_some() || (user.name.is_some() && user.domain.is_some());
    if sent.id.is_none() && !(sent.name.is_some() && sent.user.as_ref().is_some_and(by_user)) {
        return Err(Fault::bad_request(
            "Expecting to find id, or name and user, in identity.application_credential. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
        ));
    }
    let now = service.now();
    let found = super::realm::read(ctx, |identity| {
        let found = named_credential(identity, sent)?;
        let (_, _, enabled) = known(user_in_domain(identity, &found.user)?);
        Some((found.clone(), enabled && !found.is_expired(now)))
    })?;
    let stored = found.as_ref().map(|(credential, _)| &credential.secret);
    // Attempts with a credential's secret have a bucket of their own. So wrong secrets do not hinder a log-in with the
    // user's password.
    let named = match (&found, &sent.user) {
        (Some((credential, _)), _) => format!("credential {}", credential.id),
        (None, Some(user)) => format!("credential {} {}", as_sent(user), sent.name.as_deref().unwrap_or_default()),
        (None, None) => format!("credential {}", sent.id.as_deref().unwrap_or_default()),
    };
    let from = address::client(ctx.remote, &ctx.headers, &ctx.app.config);
    let right = service.proves_secret((from, &named), stored, &Password::new(sent.secret.as_str())).await?;
    match found {
        Some((credential, true)) if right => Ok((credential.user, credential.id)),
        _ => Err(Fault::unauthorized()),
    }
}

fn named_credential<'a>(identity: &'a Identity, sent: &LoginCredential) -> Option<&'a ApplicationCredential> {
    if let Some(id) = &sent.id {
        return identity.credential_of_anyone(&id.as_str().into());
    }
    let (user, _) = named_user(identity, sent.user.as_ref()?)?;
    let name = sent.name.as_deref()?;
    identity.credentials_of(&user.id).find(|credential| credential.name == name)
}

/// The scope of a log-in with an application credential: its project. A log-in with the credential's secret may not name
/// a scope, and a log-in with a token of the credential may name only this one.
fn scope_of(
    identity: &Identity,
    credential: &ApplicationCredential,
    requested: Option<&LoginScope>,
    fresh: bool,
) -> Result<IdentityScope, Fault> {
    let scope = credential.scope();
    let same = match requested {
        None => true,
        Some(LoginScope::Named(parts)) if !fresh => {
            let project = parts.project.as_ref().and_then(|project| named_project(identity, project));
            project.is_some_and(|project| project.id == credential.project)
        }
        Some(_) => false,
    };
    if !same {
        return Err(Fault::new(
            401,
            "Error authenticating with application credential: Application credentials cannot request a scope.",
        ));
    }
    match is_open(identity, &scope) && !identity.roles_of_credential(credential).is_empty() {
        true => Ok(scope),
        false => Err(Fault::unauthorized()),
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
    user_in_domain(identity, &user.id)
}

fn user_in_domain<'a>(identity: &'a Identity, id: &UserId) -> Option<(&'a User, &'a Domain)> {
    let user = identity.users.get(id)?;
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
