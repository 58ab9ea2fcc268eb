//! `/v3/auth`: issuing, validating and revoking tokens, and listing the scopes that the caller's tokens can have.

use chronova_actors::services::embedded::identity::IdentityCommand;
use chronova_events::identity::{Identity, IdentityScope};
use chronova_events::ids::DomainId;
use serde_json::{Map, Value, json};

use super::application_credentials::show_rule;
use super::catalogue::ServiceCatalogue;
use super::realm::{command, own, read};
use super::service::{credential, open_project, roles};
use super::tokens::Claims;
use super::{answers, listing, login};
use crate::access;
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, head, post};
use crate::secret::Secret;

pub(super) const ROUTES: &[Route] = &[
    post("auth.issue", "/auth/tokens", handler!(issue)).public().body(login::body).answers(answers::token_issued),
    get("auth.validate", "/auth/tokens", handler!(validate))
        .policy_on_target("identity:validate_token")
        .answers(answers::token_shown),
    head("auth.check", "/auth/tokens", handler!(validate))
        .policy_on_target("identity:check_token")
        .answers(answers::token_checked),
    delete("auth.revoke", "/auth/tokens", handler!(revoke))
        .policy_on_target("identity:revoke_token")
        .answers(no_content),
    get("auth.catalog", "/auth/catalog", handler!(catalog))
        .policy("identity:get_auth_catalog")
        .answers(answers::catalog_shown),
    get("auth.projects", "/auth/projects", handler!(projects))
        .policy("identity:get_auth_projects")
        .answers(answers::projects),
    get("auth.domains", "/auth/domains", handler!(domains))
        .policy("identity:get_auth_domains")
        .answers(answers::domains),
    get("auth.system", "/auth/system", handler!(system)).policy("identity:get_auth_system").answers(answers::systems),
];

async fn issue(ctx: Ctx) -> Result<Reply, Fault> {
    let service = ctx.app.identity()?;
    let log = ctx.app.access_log();
    let claims = login::login(&ctx, service).await.inspect_err(|fault| refused(&ctx, fault))?;
    let token = service.signer.sign(&claims).map_err(Fault::internal)?;
    let body = read(&ctx, |identity| document(identity, &claims, catalogue_wanted(&ctx, &service.catalogue)))?;
    let body = body.ok_or_else(Fault::unauthorized)?;
    if let Some(log) = log {
        access::logins::issued(log, &ctx.requester, &claims);
    }
    Ok(Reply::json(201, body).header("X-Subject-Token", token.expose()))
}

/// Records a refused log-in for each account that the request names.
fn refused(ctx: &Ctx, fault: &Fault) {
    let Some(log) = ctx.app.access_log() else { return };
    for named in login::named(ctx) {
        access::logins::failed(log, &ctx.requester, named, fault.status);
    }
}

/// `?nocatalog` leaves the catalogue out.
fn catalogue_wanted<'a>(ctx: &Ctx, catalogue: &'a ServiceCatalogue) -> Option<&'a ServiceCatalogue> {
    (!ctx.query.has("nocatalog")).then_some(catalogue)
}

/// The claims of the subject token.
fn subject(ctx: &Ctx) -> Result<Claims, Fault> {
    let text = ctx.header("X-Subject-Token").ok_or_else(|| Fault::bad_request("Expecting to find X-Subject-Token."))?;
    let token = Secret::new(text);
    ctx.app.identity()?.claims(&token).ok_or_else(|| Fault::not_found("Failed to validate token"))
}

fn target(claims: &Claims) -> PolicyTarget {
    PolicyTarget::default().with("target.token.user_id", claims.user.as_str())
}

/// With this header a service says that it checks access rules. As in Keystone, only such a service may see a token
/// with access rules. Another service would permit more than the rules do.
const CHECKS_ACCESS_RULES: &str = "OpenStack-Identity-Access-Rules";
/// The first version of access rules.
const ACCESS_RULES: f64 = 1.0;

fn may_see(ctx: &Ctx, identity: &Identity, claims: &Claims) -> bool {
    let ruled = credential(identity, claims).is_some_and(|credential| credential.access_rules.is_some());
    let version = ctx.header(CHECKS_ACCESS_RULES).and_then(|version| version.trim().parse::<f64>().ok());
    !ruled || version.is_some_and(|version| version >= ACCESS_RULES)
}

/// A caller without the right to read a token does not learn whether the token is valid.
fn permitted_subject(ctx: &Ctx) -> Result<(Claims, crate::policy::Permit), Fault> {
    match subject(ctx) {
        Ok(claims) => ctx.authorize(&target(&claims)).map(|permit| (claims, permit)),
        Err(fault) => ctx.authorize(&PolicyTarget::default()).and(Err(fault)),
    }
}

async fn validate(ctx: Ctx) -> Result<Reply, Fault> {
    let (claims, _) = permitted_subject(&ctx)?;
    let catalogue = catalogue_wanted(&ctx, &ctx.app.identity()?.catalogue);
    let body = read(&ctx, |identity| {
        may_see(&ctx, identity, &claims).then(|| document(identity, &claims, catalogue)).flatten()
    })?;
    let body = body.ok_or_else(|| Fault::not_found("Failed to validate token"))?;
    let token = ctx.header("X-Subject-Token").unwrap_or_default().to_owned();
    Ok(Reply::ok(body).header("X-Subject-Token", token))
}

async fn revoke(ctx: Ctx) -> Result<Reply, Fault> {
    let (claims, permit) = permitted_subject(&ctx)?;
    let audit_id = claims.audit_id().to_owned();
    let revoke = IdentityCommand::RevokeToken { user: claims.user, audit_id, expires_at: claims.expires_at };
    command(&ctx, &permit, revoke).await?;
    Ok(Reply::empty(204))
}

/// `{"token": {...}}`; `None` if the user or the scope was deleted meanwhile.
fn document(identity: &Identity, claims: &Claims, catalogue: Option<&ServiceCatalogue>) -> Option<Value> {
    let user = identity.users.get(&claims.user)?;
    let mut token = Map::new();
    let mut put = |key: &str, value: Value| token.insert(key.to_owned(), value);
    put("methods", json!(claims.methods));
    put(
        "user",
        json!({
            "domain": domain(identity, &user.domain)?,
            "id": user.id,
            "name": user.attributes.name,
            "password_expires_at": null,
        }),
    );
    put("audit_ids", json!(claims.audit_ids));
    put("expires_at", json!(format!("{}Z", claims.expires_at.iso_micros())));
    put("issued_at", json!(format!("{}Z", claims.issued_at.iso_micros())));
    if let Some(found) = credential(identity, claims) {
        let mut shown = json!({"id": found.id, "name": found.name, "restricted": !found.unrestricted});
        if let Some(rules) = identity.rules_of(found) {
            shown["access_rules"] = rules.into_iter().map(show_rule).collect();
        }
        put("application_credential", shown);
    }
    if let Some(scope) = &claims.scope {
        match scope {
            IdentityScope::Project(id) => {
                let project = identity.projects.get(id)?;
                let place = domain(identity, &project.domain)?;
                put("project", json!({"domain": place, "id": id, "name": project.attributes.name}));
                put("is_domain", json!(false));
            }
            IdentityScope::Domain(id) => {
                put("domain", domain(identity, id)?);
            }
            IdentityScope::System => {
                put("system", json!({"all": true}));
            }
        }
        let roles: Vec<Value> =
            roles(identity, claims, scope).iter().map(|role| json!({"id": role.id, "name": role.name})).collect();
        put("roles", Value::Array(roles));
        if let Some(catalogue) = catalogue {
            put("catalog", catalogue.in_token(Some(scope)));
        }
    }
    Some(json!({"token": token}))
}

fn domain(identity: &Identity, id: &DomainId) -> Option<Value> {
    identity.domains.get(id).map(|domain| json!({"id": domain.id, "name": domain.name}))
}

async fn catalog(ctx: Ctx) -> Result<Reply, Fault> {
    let claims = own(&ctx)?;
    let scope = claims
        .scope
        .as_ref()
        .ok_or_else(|| Fault::forbidden("A project-scoped token is required to produce a service catalog."))?;
    let catalog = ctx.app.identity()?.catalogue.in_token(Some(scope));
    let address = format!("{}{}", ctx.links.host, ctx.links.path);
    Ok(Reply::ok(json!({"catalog": catalog, "links": {"next": null, "self": address, "previous": null}})))
}

async fn projects(ctx: Ctx) -> Result<Reply, Fault> {
    let claims = own(&ctx)?;
    let items = read(&ctx, |identity| {
        identity
            .projects
            .values()
            .filter(|project| open_project(identity, project))
            .filter(|project| !identity.roles_on(&claims.user, &IdentityScope::Project(project.id.clone())).is_empty())
            .map(|project| super::projects::show_one(&ctx, project))
            .collect()
    })?;
    Ok(listing::reply(&ctx, "projects", items, &["name", "domain_id", "enabled"]))
}

async fn domains(ctx: Ctx) -> Result<Reply, Fault> {
    let claims = own(&ctx)?;
    let items = read(&ctx, |identity| {
        identity
            .domains
            .values()
            .filter(|domain| domain.enabled)
            .filter(|domain| !identity.roles_on(&claims.user, &IdentityScope::Domain(domain.id.clone())).is_empty())
            .map(|domain| super::domains::show_one(&ctx, domain))
            .collect()
    })?;
    Ok(listing::reply(&ctx, "domains", items, &["name", "enabled"]))
}

async fn system(ctx: Ctx) -> Result<Reply, Fault> {
    let claims = own(&ctx)?;
    let any = read(&ctx, |identity| !identity.roles_on(&claims.user, &IdentityScope::System).is_empty())?;
    let items = if any { vec![json!({"all": true})] } else { vec![] };
    Ok(listing::reply(&ctx, "system", items, &[]))
}
