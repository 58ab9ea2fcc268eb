//! Role assignments on projects, on domains and on the whole system, direct or inherited. Also the list of all
//! assignments.

use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityResourceKind};
use chronova_events::identity::{Grant, Identity, IdentityScope, Role};
use chronova_events::ids::{DomainId, ProjectId, RoleId, UserId};
use serde_json::{Value, json};

use super::realm::{command, read};
use super::{answers, fault, listing};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::query::Query;
use crate::reply::Reply;
use crate::route::{Route, delete, get, head, put};

const LIST: &str = "identity:list_grants";
const CHECK: &str = "identity:check_grant";
const CREATE: &str = "identity:create_grant";
const REVOKE: &str = "identity:revoke_grant";

pub(super) const ROUTES: &[Route] = &[
    get("grants.project.index", "/projects/{project_id}/users/{user_id}/roles", handler!(index))
        .policy_on_target(LIST)
        .answers(answers::roles)
        .as_of(),
    head("grants.project.check", "/projects/{project_id}/users/{user_id}/roles/{role_id}", handler!(check))
        .policy_on_target(CHECK)
        .answers(no_content)
        .as_of(),
    put("grants.project.create", "/projects/{project_id}/users/{user_id}/roles/{role_id}", handler!(create))
        .policy_on_target(CREATE)
        .answers(no_content),
    delete("grants.project.revoke", "/projects/{project_id}/users/{user_id}/roles/{role_id}", handler!(revoke))
        .policy_on_target(REVOKE)
        .answers(no_content),
    get("grants.domain.index", "/domains/{domain_id}/users/{user_id}/roles", handler!(index))
        .policy_on_target(LIST)
        .answers(answers::roles)
        .as_of(),
    head("grants.domain.check", "/domains/{domain_id}/users/{user_id}/roles/{role_id}", handler!(check))
        .policy_on_target(CHECK)
        .answers(no_content)
        .as_of(),
    put("grants.domain.create", "/domains/{domain_id}/users/{user_id}/roles/{role_id}", handler!(create))
        .policy_on_target(CREATE)
        .answers(no_content),
    delete("grants.domain.revoke", "/domains/{domain_id}/users/{user_id}/roles/{role_id}", handler!(revoke))
        .policy_on_target(REVOKE)
        .answers(no_content),
    get("grants.system.index", "/system/users/{user_id}/roles", handler!(index))
        .policy_on_target("identity:list_system_grants_for_user")
        .answers(answers::roles)
        .as_of(),
    head("grants.system.check", "/system/users/{user_id}/roles/{role_id}", handler!(check))
        .policy_on_target("identity:check_system_grant_for_user")
        .answers(no_content)
        .as_of(),
    put("grants.system.create", "/system/users/{user_id}/roles/{role_id}", handler!(create))
        .policy_on_target("identity:create_system_grant_for_user")
        .answers(no_content),
    delete("grants.system.revoke", "/system/users/{user_id}/roles/{role_id}", handler!(revoke))
        .policy_on_target("identity:revoke_system_grant_for_user")
        .answers(no_content),
    get(
        "grants.inherited.project.index",
        "/OS-INHERIT/projects/{project_id}/users/{user_id}/roles/inherited_to_projects",
        handler!(index),
    )
    .policy_on_target(LIST)
    .answers(answers::roles)
    .as_of(),
    put(
        "grants.inherited.project.create",
        "/OS-INHERIT/projects/{project_id}/users/{user_id}/roles/{role_id}/inherited_to_projects",
        handler!(create),
    )
    .policy_on_target(CREATE)
    .answers(no_content),
    delete(
        "grants.inherited.project.revoke",
        "/OS-INHERIT/projects/{project_id}/users/{user_id}/roles/{role_id}/inherited_to_projects",
        handler!(revoke),
    )
    .policy_on_target(REVOKE)
    .answers(no_content),
    get(
        "grants.inherited.domain.index",
        "/OS-INHERIT/domains/{domain_id}/users/{user_id}/roles/inherited_to_projects",
        handler!(index),
    )
    .policy_on_target(LIST)
    .answers(answers::roles)
    .as_of(),
    put(
        "grants.inherited.domain.create",
        "/OS-INHERIT/domains/{domain_id}/users/{user_id}/roles/{role_id}/inherited_to_projects",
        handler!(create),
    )
    .policy_on_target(CREATE)
    .answers(no_content),
    delete(
        "grants.inherited.domain.revoke",
        "/OS-INHERIT/domains/{domain_id}/users/{user_id}/roles/{role_id}/inherited_to_projects",
        handler!(revoke),
    )
    .policy_on_target(REVOKE)
    .answers(no_content),
    get("role_assignments.index", "/role_assignments", handler!(assignments))
        .policy_on_target("identity:list_role_assignments")
        .answers(answers::assignments)
        .as_of(),
];

/// The grant in a path.
struct AssignmentPath {
    user: UserId,
    grant: Grant,
    target: PolicyTarget,
}

fn place(ctx: &Ctx) -> Result<AssignmentPath, Fault> {
    let (project, domain) = (ctx.param("project_id"), ctx.param("domain_id"));
    let scope = match (project, domain) {
        ("", "") => IdentityScope::System,
        ("", domain) => IdentityScope::Domain(domain.into()),
        (project, _) => IdentityScope::Project(project.into()),
    };
    let target = match &scope {
        IdentityScope::System => PolicyTarget::default(),
        IdentityScope::Domain(domain) => PolicyTarget::default().with("target.domain.id", domain.as_str()),
        IdentityScope::Project(project) => {
            let domain = read(ctx, |identity| identity.projects.get(project).map(|project| project.domain.clone()))?;
            let target = PolicyTarget::default().with("target.project.id", project.as_str());
            target.with("target.project.domain_id", domain.as_ref().map_or("", DomainId::as_str))
        }
    };
    let inherited = ctx.route.path.ends_with("/inherited_to_projects");
    let grant = Grant { scope, role: RoleId::new(ctx.param("role_id")), inherited };
    Ok(AssignmentPath { user: UserId::new(ctx.param("user_id")), grant, target })
}

/// Answers 404 if the user or the scope does not exist.
fn exists(identity: &Identity, user: &UserId, scope: &IdentityScope) -> Result<(), Fault> {
    let place = match scope {
        IdentityScope::Project(id) if !identity.projects.contains_key(id) => {
            Some((IdentityResourceKind::Project, id.as_str()))
        }
        IdentityScope::Domain(id) if !identity.domains.contains_key(id) => {
            Some((IdentityResourceKind::Domain, id.as_str()))
        }
        _ if !identity.users.contains_key(user) => Some((IdentityResourceKind::User, user.as_str())),
        _ => None,
    };
    place.map_or(Ok(()), |(kind, id)| Err(fault::not_found(kind, id)))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let AssignmentPath { user, grant, target } = place(&ctx)?;
    ctx.authorize(&target)?;
    let items = read(&ctx, |identity| {
        exists(identity, &user, &grant.scope)?;
        let grants = identity.grants.get(&user).into_iter().flatten();
        let here = grants.filter(|held| held.scope == grant.scope && held.inherited == grant.inherited);
        let roles = here.filter_map(|held| identity.roles.get(&held.role));
        Ok(roles.map(|role| super::roles::show_one(&ctx, role)).collect())
    })??;
    Ok(listing::reply(&ctx, "roles", items, &["name"]))
}

async fn check(ctx: Ctx) -> Result<Reply, Fault> {
    let AssignmentPath { user, grant, target } = place(&ctx)?;
    ctx.authorize(&target)?;
    let held = read(&ctx, |identity| {
        exists(identity, &user, &grant.scope)?;
        Ok(identity.grants.get(&user).is_some_and(|grants| grants.contains(&grant)))
    })??;
    if held { Ok(Reply::empty(204)) } else { Err(fault::no_grant(&grant.role, &user, &grant.scope)) }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let AssignmentPath { user, grant, target } = place(&ctx)?;
    let permit = ctx.authorize(&target)?;
    command(&ctx, &permit, IdentityCommand::Grant { user, grant }).await?;
    Ok(Reply::empty(204))
}

async fn revoke(ctx: Ctx) -> Result<Reply, Fault> {
    let AssignmentPath { user, grant, target } = place(&ctx)?;
    let permit = ctx.authorize(&target)?;
    command(&ctx, &permit, IdentityCommand::Revoke { user, grant }).await?;
    Ok(Reply::empty(204))
}

/// The query of `GET /v3/role_assignments`.
struct RoleAssignmentQuery<'a> {
    query: &'a Query,
    effective: bool,
    names: bool,
}

async fn assignments(ctx: Ctx) -> Result<Reply, Fault> {
    let domain = ctx.query.last("scope.domain.id").unwrap_or_default().to_owned();
    ctx.authorize(&PolicyTarget::default().with("target.domain_id", domain))?;
    let wanted = RoleAssignmentQuery {
        query: &ctx.query,
        effective: listing::flag(&ctx.query, "effective"),
        names: listing::flag(&ctx.query, "include_names"),
    };
    let items = read(&ctx, |identity| rows(&ctx, identity, &wanted))?;
    Ok(listing::reply(&ctx, "role_assignments", items, &[]))
}

/// The assignments that match the query.
fn rows(ctx: &Ctx, identity: &Identity, wanted: &RoleAssignmentQuery<'_>) -> Vec<Value> {
    let all = identity.grants.iter().flat_map(|(user, grants)| grants.iter().map(move |grant| (user, grant)));
    let expanded = all.flat_map(|(user, grant)| expand(identity, user, grant, wanted.effective));
    let matching = expanded.filter(|(user, grant)| matches(wanted, user, grant));
    matching.map(|(user, grant)| assignment(ctx, identity, wanted, &user, &grant)).collect()
}

/// Expands an assignment. With `effective`, the result also has the roles that the assigned role implies. An inherited
/// assignment then appears at each project that inherits it.
fn expand(identity: &Identity, user: &UserId, grant: &Grant, effective: bool) -> Vec<(UserId, Grant)> {
    if !effective {
        return vec![(user.clone(), grant.clone())];
    }
    let places: Vec<IdentityScope> = match (&grant.scope, grant.inherited) {
        (scope, false) => vec![scope.clone()],
        (IdentityScope::Domain(domain), true) => {
            let projects = identity.projects.values().filter(|project| project.domain == *domain);
            projects.map(|project| IdentityScope::Project(project.id.clone())).collect()
        }
        (IdentityScope::Project(above), true) => {
            let below = |id: &ProjectId| identity.lineage(id).skip(1).any(|project| project.id == *above);
            identity.projects.keys().filter(|id| below(id)).map(|id| IdentityScope::Project(id.clone())).collect()
        }
        (IdentityScope::System, true) => vec![],
    };
    let mut roles = std::collections::BTreeSet::from([grant.role.clone()]);
    identity.add_implied(&mut roles);
    let of =
        |scope: &IdentityScope, role: &RoleId| Grant { scope: scope.clone(), role: role.clone(), inherited: false };
    places.iter().flat_map(|scope| roles.iter().map(|role| (user.clone(), of(scope, role)))).collect()
}

fn matches(wanted: &RoleAssignmentQuery<'_>, user: &UserId, grant: &Grant) -> bool {
    let is = |key: &str, value: Option<&str>| wanted.query.last(key).is_none_or(|wanted| value == Some(wanted));
    let (project, domain) = match &grant.scope {
        IdentityScope::Project(project) => (Some(project.as_str()), None),
        IdentityScope::Domain(domain) => (None, Some(domain.as_str())),
        IdentityScope::System => (None, None),
    };
    is("user.id", Some(user.as_str()))
        && is("role.id", Some(grant.role.as_str()))
        && is("scope.project.id", project)
        && is("scope.domain.id", domain)
        && !wanted.query.has("group.id")
        && wanted.query.last("scope.system").is_none_or(|_| grant.scope == IdentityScope::System)
        && wanted.query.last("scope.OS-INHERIT:inherited_to").is_none_or(|_| grant.inherited)
}

fn assignment(ctx: &Ctx, identity: &Identity, wanted: &RoleAssignmentQuery<'_>, user: &UserId, grant: &Grant) -> Value {
    let domain = |id: &DomainId| {
        let name = identity.domains.get(id).map(|domain| domain.name.as_str());
        if wanted.names { json!({"id": id, "name": name}) } else { json!({"id": id}) }
    };
    let mut scope = match &grant.scope {
        IdentityScope::System => json!({"system": {"all": true}}),
        IdentityScope::Domain(id) => json!({"domain": domain(id)}),
        IdentityScope::Project(id) => match identity.projects.get(id).filter(|_| wanted.names) {
            Some(project) => {
                json!({"project": {"id": id, "name": project.attributes.name, "domain": domain(&project.domain)}})
            }
            None => json!({"project": {"id": id}}),
        },
    };
    if grant.inherited {
        scope["OS-INHERIT:inherited_to"] = json!("projects");
    }
    let who = match identity.users.get(user).filter(|_| wanted.names) {
        Some(known) => json!({"id": user, "name": known.attributes.name, "domain": domain(&known.domain)}),
        None => json!({"id": user}),
    };
    let role = match identity.roles.get(&grant.role).filter(|_| wanted.names) {
        Some(Role { name, .. }) => json!({"id": grant.role, "name": name}),
        None => json!({"id": grant.role}),
    };
    let path = match &grant.scope {
        IdentityScope::Project(id) => format!("projects/{id}"),
        IdentityScope::Domain(id) => format!("domains/{id}"),
        IdentityScope::System => "system".to_owned(),
    };
    let address = format!("{}/{path}/users/{user}/roles/{}", ctx.links.api, grant.role);
    json!({"links": {"assignment": address}, "scope": scope, "user": who, "role": role})
}
