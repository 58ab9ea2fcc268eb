//! The decisions on users, projects, domains and roles.

use chronova_events::identity::{
    Domain, DomainCreated, DomainDeleted, DomainDescribed, DomainSwitched, ExtraAttributes, Grant, Identity,
    IdentityEvent, IdentityScope, ImplicationRemoved, PasswordSet, Project, ProjectAttributes, ProjectCreated,
    ProjectDeleted, ProjectDescribed, ProjectSwitched, Role, RoleCreated, RoleDeleted, RoleDescribed, RoleGranted,
    RoleImplied, RoleRevoked, TokenRevoked, User, UserAttributes, UserCreated, UserDeleted, UserDescribed, UserErased,
    UserSwitched,
};
use chronova_events::ids::{DomainId, ProjectId, RoleId, UserId};

use super::{
    DomainChange, Edit, IdentityCommand, IdentityReject, IdentityResourceKind, IdentitySeed, ProjectChange, UserChange,
};
use super::{credentials, limits};

/// The default domain, which always exists.
pub const DEFAULT_DOMAIN: &str = "default";

/// The role that Keystone's `prohibited_implied_role` names by default.
const NEVER_IMPLIED: &str = "admin";

pub(super) type IdentityDecision = Result<Vec<IdentityEvent>, IdentityReject>;

pub fn decide(state: &Identity, command: IdentityCommand) -> IdentityDecision {
    match command {
        IdentityCommand::Bootstrap(seed) => Ok(bootstrap(state, *seed)),
        IdentityCommand::CreateDomain(created) => create_domain(state, created),
        IdentityCommand::ChangeDomain { domain, change } => change_domain(state, &domain, change),
        IdentityCommand::DeleteDomain(domain) => delete_domain(state, domain),
        IdentityCommand::CreateProject(created) => create_project(state, created),
        IdentityCommand::ChangeProject { project, change } => change_project(state, &project, change),
        IdentityCommand::DeleteProject(project) => {
            known_project(state, &project)?;
            if state.children(&project).next().is_some() {
                return Err(IdentityReject::NotALeaf(project));
            }
            Ok(vec![ProjectDeleted { project }.into()])
        }
        IdentityCommand::CreateUser(created) => create_user(state, created),
        IdentityCommand::ChangeUser { user, change } => change_user(state, &user, change),
        IdentityCommand::DeleteUser(user) => {
            known_user(state, &user)?;
            Ok(vec![UserDeleted { user }.into()])
        }
        // A deleted user has no data in the state.
        IdentityCommand::EraseUser { user, .. } if !state.users.contains_key(&user) => Ok(vec![]),
        IdentityCommand::EraseUser { user, erasure } => Ok(vec![UserErased { user, erasure }.into()]),
        IdentityCommand::CreateRole(created) => create_role(state, created),
        IdentityCommand::ChangeRole { role, name, description } => change_role(state, &role, name, description),
        IdentityCommand::DeleteRole(role) => {
            known_role(state, &role)?;
            Ok(vec![RoleDeleted { role }.into()])
        }
        IdentityCommand::ImplyRole { prior, implied } => imply_role(state, prior, implied),
        IdentityCommand::EndImplication { prior, implied } => {
            let implies = state.implied.get(&prior).is_some_and(|all| all.contains(&implied));
            match implies {
                true => Ok(vec![ImplicationRemoved { prior, implied }.into()]),
                false => Err(IdentityReject::NotImplied { prior, implied }),
            }
        }
        IdentityCommand::Grant { user, grant } => grant_role(state, user, grant),
        IdentityCommand::Revoke { user, grant } => revoke_role(state, user, grant),
        IdentityCommand::RevokeToken { user, audit_id, expires_at } => {
            if state.revoked.contains_key(&audit_id) {
                return Ok(vec![]);
            }
            Ok(vec![TokenRevoked { user, audit_id, expires_at }.into()])
        }
        IdentityCommand::CreateApplicationCredential { created, rules } => credentials::create(state, *created, rules),
        IdentityCommand::DeleteApplicationCredential { user, credential } => {
            credentials::delete(state, user, credential)
        }
        IdentityCommand::DeleteAccessRule { user, rule } => credentials::delete_rule(state, user, rule),
        IdentityCommand::RegisterLimits(all) => limits::register(state, all),
        IdentityCommand::ChangeRegisteredLimit { limit, change } => limits::change_registered(state, &limit, change),
        IdentityCommand::RemoveRegisteredLimit(limit) => limits::remove_registered(state, limit),
        IdentityCommand::SetLimits(all) => limits::set(state, all),
        IdentityCommand::ChangeLimit { limit, change } => limits::change(state, &limit, change),
        IdentityCommand::RemoveLimit(limit) => limits::remove(state, limit),
    }
}

fn bootstrap(state: &Identity, seed: IdentitySeed) -> Vec<IdentityEvent> {
    if !state.domains.is_empty() {
        return vec![];
    }
    let domain = DomainId::new(DEFAULT_DOMAIN);
    let project = |project: &ProjectId, name: &str, description: &str| ProjectCreated {
        project: project.clone(),
        domain: domain.clone(),
        parent: None,
        enabled: true,
        attributes: ProjectAttributes {
            name: name.to_owned(),
            description: description.to_owned(),
            ..ProjectAttributes::default()
        },
    };
    let mut events: Vec<IdentityEvent> = vec![
        DomainCreated {
            domain: domain.clone(),
            name: "Default".to_owned(),
            description: "The default domain".to_owned(),
            enabled: true,
        }
        .into(),
        project(&seed.admin_project, "admin", "Bootstrap project for initializing the cloud.").into(),
        project(&seed.service_project, "service", "Users of the services themselves").into(),
    ];
    let names = ["admin", "manager", "member", "reader", "service"];
    for (role, name) in seed.roles.iter().zip(names) {
        let (role, name) = (role.clone(), name.to_owned());
        events.push(RoleCreated { role, domain: None, name, description: None }.into());
    }
    let [admin, manager, member, reader, _] = &seed.roles;
    for (prior, implied) in [(admin, manager), (manager, member), (member, reader)] {
        events.push(RoleImplied { prior: prior.clone(), implied: implied.clone() }.into());
    }
    events.push(
        UserCreated {
            user: seed.admin.clone(),
            domain,
            enabled: true,
            password: Some(seed.admin_password),
            attributes: UserAttributes { name: "admin".to_owned(), ..UserAttributes::default() },
        }
        .into(),
    );
    for scope in [IdentityScope::Project(seed.admin_project), IdentityScope::System] {
        let grant = Grant { scope, role: admin.clone(), inherited: false };
        events.push(RoleGranted { user: seed.admin.clone(), grant }.into());
    }
    events
}

pub(super) fn missing(kind: IdentityResourceKind, id: &impl ToString) -> IdentityReject {
    IdentityReject::NotFound { kind, id: id.to_string() }
}

pub(super) fn known_domain<'a>(state: &'a Identity, id: &DomainId) -> Result<&'a Domain, IdentityReject> {
    state.domains.get(id).ok_or_else(|| missing(IdentityResourceKind::Domain, id))
}

pub(super) fn known_project<'a>(state: &'a Identity, id: &ProjectId) -> Result<&'a Project, IdentityReject> {
    state.projects.get(id).ok_or_else(|| missing(IdentityResourceKind::Project, id))
}

pub(super) fn known_user<'a>(state: &'a Identity, id: &UserId) -> Result<&'a User, IdentityReject> {
    state.users.get(id).ok_or_else(|| missing(IdentityResourceKind::User, id))
}

pub(super) fn known_role<'a>(state: &'a Identity, id: &RoleId) -> Result<&'a Role, IdentityReject> {
    state.roles.get(id).ok_or_else(|| missing(IdentityResourceKind::Role, id))
}

fn free_domain_name(state: &Identity, name: &str) -> Result<(), IdentityReject> {
    match state.domain_named(name) {
        Some(_) => Err(IdentityReject::NameTaken { kind: IdentityResourceKind::Domain, name: name.to_owned() }),
        None => Ok(()),
    }
}

fn create_domain(state: &Identity, created: DomainCreated) -> IdentityDecision {
    if state.domains.contains_key(&created.domain) {
        return Err(IdentityReject::IdTaken { kind: IdentityResourceKind::Domain, id: created.domain.to_string() });
    }
    free_domain_name(state, &created.name)?;
    Ok(vec![created.into()])
}

fn change_domain(state: &Identity, id: &DomainId, change: DomainChange) -> IdentityDecision {
    let domain = known_domain(state, id)?;
    let name = change.name.unwrap_or_else(|| domain.name.clone());
    let description = change.description.unwrap_or_else(|| domain.description.clone());
    if name != domain.name {
        free_domain_name(state, &name)?;
    }
    let mut events = Vec::new();
    if (&name, &description) != (&domain.name, &domain.description) {
        events.push(DomainDescribed { domain: id.clone(), name, description }.into());
    }
    if let Some(enabled) = change.enabled.filter(|enabled| *enabled != domain.enabled) {
        events.push(DomainSwitched { domain: id.clone(), enabled }.into());
    }
    Ok(events)
}

/// Follows Keystone's rules. Only a disabled domain can be deleted, and never the default domain. Everything in the
/// domain is deleted, too.
fn delete_domain(state: &Identity, id: DomainId) -> IdentityDecision {
    let domain = known_domain(state, &id)?;
    if id.as_str() == DEFAULT_DOMAIN {
        return Err(IdentityReject::DefaultDomain(id));
    }
    if domain.enabled {
        return Err(IdentityReject::DomainEnabled(id));
    }
    let users = state.users.values().filter(|user| user.domain == id);
    let mut events: Vec<IdentityEvent> = users.map(|user| UserDeleted { user: user.id.clone() }.into()).collect();
    let mut projects: Vec<&Project> = state.projects.values().filter(|project| project.domain == id).collect();
    // Children come before their parents, so that no project in the log has a deleted parent.
    projects.sort_by_key(|project| std::cmp::Reverse(state.lineage(&project.id).count()));
    events.extend(projects.into_iter().map(|project| ProjectDeleted { project: project.id.clone() }.into()));
    let roles = state.roles.values().filter(|role| role.domain.as_ref() == Some(&id));
    events.extend(roles.map(|role| RoleDeleted { role: role.id.clone() }.into()));
    events.push(DomainDeleted { domain: id }.into());
    Ok(events)
}

fn free_project_name(state: &Identity, domain: &DomainId, name: &str) -> Result<(), IdentityReject> {
    match state.project_named(domain, name) {
        Some(_) => Err(IdentityReject::NameTaken { kind: IdentityResourceKind::Project, name: name.to_owned() }),
        None => Ok(()),
    }
}

fn create_project(state: &Identity, mut created: ProjectCreated) -> IdentityDecision {
    known_domain(state, &created.domain)?;
    if state.projects.contains_key(&created.project) {
        return Err(IdentityReject::IdTaken { kind: IdentityResourceKind::Project, id: created.project.to_string() });
    }
    if let Some(parent) = &created.parent {
        let above = known_project(state, parent)?;
        if above.domain != created.domain {
            return Err(IdentityReject::ParentElsewhere);
        }
        if !above.enabled {
            return Err(IdentityReject::ParentDisabled(parent.clone()));
        }
    }
    free_project_name(state, &created.domain, &created.attributes.name)?;
    tidy(&mut created.attributes.tags);
    created.attributes.extra.sort();
    Ok(vec![created.into()])
}

fn tidy(tags: &mut Vec<String>) {
    tags.sort();
    tags.dedup();
}

fn merged(old: &ExtraAttributes, change: ExtraAttributes) -> ExtraAttributes {
    let mut merged = old.clone();
    for (key, value) in change {
        merged.retain(|(known, _)| *known != key);
        if value != "null" {
            merged.push((key, value));
        }
    }
    merged.sort();
    merged
}

fn change_project(state: &Identity, id: &ProjectId, change: ProjectChange) -> IdentityDecision {
    let project = known_project(state, id)?;
    let old = &project.attributes;
    let mut tags = change.tags.unwrap_or_else(|| old.tags.clone());
    tidy(&mut tags);
    let attributes = ProjectAttributes {
        name: change.name.unwrap_or_else(|| old.name.clone()),
        description: change.description.unwrap_or_else(|| old.description.clone()),
        tags,
        extra: merged(&old.extra, change.extra),
    };
    if attributes.name != old.name {
        free_project_name(state, &project.domain, &attributes.name)?;
    }
    let mut events = Vec::new();
    if attributes != *old {
        events.push(ProjectDescribed { project: id.clone(), attributes }.into());
    }
    if let Some(enabled) = change.enabled.filter(|enabled| *enabled != project.enabled) {
        if enabled && let Some(above) = state.lineage(id).skip(1).find(|above| !above.enabled) {
            return Err(IdentityReject::ParentDisabled(above.id.clone()));
        }
        if !enabled && state.children(id).any(|child| child.enabled) {
            return Err(IdentityReject::EnabledBelow(id.clone()));
        }
        events.push(ProjectSwitched { project: id.clone(), enabled }.into());
    }
    Ok(events)
}

fn free_user_name(state: &Identity, domain: &DomainId, name: &str) -> Result<(), IdentityReject> {
    match state.user_named(domain, name) {
        Some(_) => Err(IdentityReject::NameTaken { kind: IdentityResourceKind::User, name: name.to_owned() }),
        None => Ok(()),
    }
}

fn create_user(state: &Identity, mut created: UserCreated) -> IdentityDecision {
    known_domain(state, &created.domain)?;
    if state.users.contains_key(&created.user) {
        return Err(IdentityReject::IdTaken { kind: IdentityResourceKind::User, id: created.user.to_string() });
    }
    free_user_name(state, &created.domain, &created.attributes.name)?;
    created.attributes.extra.sort();
    Ok(vec![created.into()])
}

fn change_user(state: &Identity, id: &UserId, change: UserChange) -> IdentityDecision {
    let user = known_user(state, id)?;
    let old = &user.attributes;
    let attributes = UserAttributes {
        name: change.name.unwrap_or_else(|| old.name.clone()),
        default_project: change.default_project.over(old.default_project.as_ref()),
        extra: merged(&old.extra, change.extra),
    };
    if attributes.name != old.name {
        free_user_name(state, &user.domain, &attributes.name)?;
    }
    let mut events = Vec::new();
    if attributes != *old {
        events.push(UserDescribed { user: id.clone(), attributes }.into());
    }
    if let Some(password) = change.password {
        events.push(PasswordSet { user: id.clone(), password }.into());
    }
    if let Some(enabled) = change.enabled.filter(|enabled| *enabled != user.enabled) {
        events.push(UserSwitched { user: id.clone(), enabled }.into());
    }
    Ok(events)
}

fn create_role(state: &Identity, created: RoleCreated) -> IdentityDecision {
    if let Some(domain) = &created.domain {
        known_domain(state, domain)?;
    }
    if state.roles.contains_key(&created.role) {
        return Err(IdentityReject::IdTaken { kind: IdentityResourceKind::Role, id: created.role.to_string() });
    }
    if state.role_named(created.domain.as_ref(), &created.name).is_some() {
        return Err(IdentityReject::NameTaken { kind: IdentityResourceKind::Role, name: created.name });
    }
    Ok(vec![created.into()])
}

fn change_role(state: &Identity, id: &RoleId, name: Option<String>, description: Edit<String>) -> IdentityDecision {
    let role = known_role(state, id)?;
    let name = name.unwrap_or_else(|| role.name.clone());
    let description = description.over(role.description.as_ref());
    if name != role.name && state.role_named(role.domain.as_ref(), &name).is_some() {
        return Err(IdentityReject::NameTaken { kind: IdentityResourceKind::Role, name });
    }
    if (&name, &description) == (&role.name, &role.description) {
        return Ok(vec![]);
    }
    Ok(vec![RoleDescribed { role: id.clone(), name, description }.into()])
}

/// Keystone's rules: no role implies `admin`, and a global role implies no role of a domain.
fn imply_role(state: &Identity, prior: RoleId, implied: RoleId) -> IdentityDecision {
    let (above, below) = (known_role(state, &prior)?, known_role(state, &implied)?);
    if below.name == NEVER_IMPLIED {
        return Err(IdentityReject::NeverImplied(implied));
    }
    if above.domain.is_none() && below.domain.is_some() {
        return Err(IdentityReject::ImpliesRoleOfDomain { prior, implied });
    }
    match state.implied.get(&prior).is_some_and(|all| all.contains(&implied)) {
        true => Ok(vec![]),
        false => Ok(vec![RoleImplied { prior, implied }.into()]),
    }
}

/// The domain of a scope, which must exist; `None` for the system.
fn known_scope(state: &Identity, scope: &IdentityScope) -> Result<Option<DomainId>, IdentityReject> {
    match scope {
        IdentityScope::Project(project) => known_project(state, project).map(|project| Some(project.domain.clone())),
        IdentityScope::Domain(domain) => known_domain(state, domain).map(|domain| Some(domain.id.clone())),
        IdentityScope::System => Ok(None),
    }
}

fn grant_role(state: &Identity, user: UserId, grant: Grant) -> IdentityDecision {
    known_user(state, &user)?;
    let role = known_role(state, &grant.role)?;
    let place = known_scope(state, &grant.scope)?;
    if let Some(domain) = &role.domain
        && place.as_ref() != Some(domain)
    {
        return Err(IdentityReject::RoleOfOtherDomain { role: grant.role, domain: domain.clone() });
    }
    if state.grants.get(&user).is_some_and(|grants| grants.contains(&grant)) {
        return Ok(vec![]);
    }
    Ok(vec![RoleGranted { user, grant }.into()])
}

fn revoke_role(state: &Identity, user: UserId, grant: Grant) -> IdentityDecision {
    known_role(state, &grant.role)?;
    if !state.grants.get(&user).is_some_and(|grants| grants.contains(&grant)) {
        return Err(IdentityReject::NoGrant { user, role: grant.role, scope: grant.scope });
    }
    Ok(vec![RoleRevoked { user, grant }.into()])
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
