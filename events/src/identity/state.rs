//! The state of the identity stream, folded from its events.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::{
    Grant, IdentityEvent, IdentityScope, LimitHolder, LimitedResource, PasswordHash, ProjectAttributes, UserAttributes,
};
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{
    AccessRuleId, ApplicationCredentialId, DomainId, LimitId, ProjectId, RegisteredLimitId, RoleId, UserId,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    pub id: DomainId,
    pub name: String,
    pub description: String,
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Project {
    pub id: ProjectId,
    pub domain: DomainId,
    pub parent: Option<ProjectId>,
    pub enabled: bool,
    pub attributes: ProjectAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct User {
    pub id: UserId,
    pub domain: DomainId,
    pub enabled: bool,
    pub password: Option<PasswordHash>,
    pub attributes: UserAttributes,
    /// Tokens issued before this moment are invalid.
    pub tokens_from: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Role {
    pub id: RoleId,
    pub domain: Option<DomainId>,
    pub name: String,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplicationCredential {
    pub id: ApplicationCredentialId,
    pub user: UserId,
    pub project: ProjectId,
    pub name: String,
    pub description: Option<String>,
    pub secret: PasswordHash,
    pub roles: BTreeSet<RoleId>,
    pub expires_at: Option<Timestamp>,
    pub unrestricted: bool,
    pub access_rules: Option<Vec<AccessRuleId>>,
}

impl ApplicationCredential {
    /// The scope of every token of the credential.
    pub fn scope(&self) -> IdentityScope {
        IdentityScope::Project(self.project.clone())
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// An access rule of a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserAccessRule {
    pub id: AccessRuleId,
    pub service: String,
    pub method: String,
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredLimit {
    pub id: RegisteredLimitId,
    pub resource: LimitedResource,
    pub default: i64,
    pub description: Option<String>,
}

/// The limit of a project or a domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnifiedLimit {
    pub id: LimitId,
    pub resource: LimitedResource,
    pub holder: LimitHolder,
    pub amount: i64,
    pub description: Option<String>,
}

/// The role assignments of one user.
pub type Grants = BTreeSet<Grant>;

/// The whole state, with the look-ups for log-ins and token checks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Identity {
    pub domains: BTreeMap<DomainId, Domain>,
    pub projects: BTreeMap<ProjectId, Project>,
    pub users: BTreeMap<UserId, User>,
    pub roles: BTreeMap<RoleId, Role>,
    /// The roles that each role implies directly.
    pub implied: BTreeMap<RoleId, BTreeSet<RoleId>>,
    pub grants: BTreeMap<UserId, Grants>,
    /// Audit ids of revoked tokens. Each is kept at least until its token would have expired.
    pub revoked: BTreeMap<String, Timestamp>,
    user_names: BTreeMap<DomainId, BTreeMap<String, UserId>>,
    project_names: BTreeMap<DomainId, BTreeMap<String, ProjectId>>,
    pub(super) credentials: BTreeMap<UserId, BTreeMap<ApplicationCredentialId, ApplicationCredential>>,
    pub(super) access_rules: BTreeMap<UserId, BTreeMap<AccessRuleId, UserAccessRule>>,
    pub registered_limits: BTreeMap<RegisteredLimitId, RegisteredLimit>,
    pub limits: BTreeMap<LimitId, UnifiedLimit>,
}

impl Identity {
    pub fn domain_named(&self, name: &str) -> Option<&Domain> {
        self.domains.values().find(|domain| domain.name == name)
    }

    pub fn project_named(&self, domain: &DomainId, name: &str) -> Option<&Project> {
        self.projects.get(self.project_names.get(domain)?.get(name)?)
    }

    pub fn user_named(&self, domain: &DomainId, name: &str) -> Option<&User> {
        self.users.get(self.user_names.get(domain)?.get(name)?)
    }

    pub fn role_named(&self, domain: Option<&DomainId>, name: &str) -> Option<&Role> {
        self.roles.values().find(|role| role.domain.as_ref() == domain && role.name == name)
    }

    /// The project and its ancestors, nearest first.
    pub fn lineage<'a>(&'a self, project: &ProjectId) -> impl Iterator<Item = &'a Project> + use<'a> {
        std::iter::successors(self.projects.get(project), |p| self.projects.get(p.parent.as_ref()?))
    }

    /// Projects directly below `project`.
    pub fn children<'a>(&'a self, project: &'a ProjectId) -> impl Iterator<Item = &'a Project> {
        self.projects.values().filter(move |p| p.parent.as_ref() == Some(project))
    }

    /// The roles that `user` has on `scope`. They are granted there, inherited from above, or implied by such a role.
    pub fn roles_on(&self, user: &UserId, scope: &IdentityScope) -> BTreeSet<RoleId> {
        let Some(grants) = self.grants.get(user) else { return BTreeSet::new() };
        let mut held: BTreeSet<RoleId> = grants
            .iter()
            .filter(|grant| if grant.inherited { self.inherits(&grant.scope, scope) } else { grant.scope == *scope })
            .map(|grant| grant.role.clone())
            .collect();
        self.add_implied(&mut held);
        held
    }

    fn inherits(&self, from: &IdentityScope, on: &IdentityScope) -> bool {
        let IdentityScope::Project(project) = on else { return false };
        match from {
            IdentityScope::Domain(domain) => self.projects.get(project).is_some_and(|p| p.domain == *domain),
            IdentityScope::Project(above) => self.lineage(project).skip(1).any(|p| p.id == *above),
            IdentityScope::System => false,
        }
    }

    /// Adds all implied roles to a set of roles.
    pub fn add_implied(&self, held: &mut BTreeSet<RoleId>) {
        let mut open: Vec<RoleId> = held.iter().cloned().collect();
        while let Some(role) = open.pop() {
            for implied in self.implied.get(&role).into_iter().flatten() {
                if held.insert(implied.clone()) {
                    open.push(implied.clone());
                }
            }
        }
    }

    fn forget_grants(&mut self, forget: impl Fn(&Grant) -> bool) {
        self.grants.retain(|_, grants| {
            grants.retain(|grant| !forget(grant));
            !grants.is_empty()
        });
    }

    fn name_project(&mut self, domain: &DomainId, old: Option<&str>, new: Option<&str>, project: &ProjectId) {
        let names = self.project_names.entry(domain.clone()).or_default();
        old.map(|name| names.remove(name));
        new.map(|name| names.insert(name.to_owned(), project.clone()));
    }

    fn name_user(&mut self, domain: &DomainId, old: Option<&str>, new: Option<&str>, user: &UserId) {
        let names = self.user_names.entry(domain.clone()).or_default();
        old.map(|name| names.remove(name));
        new.map(|name| names.insert(name.to_owned(), user.clone()));
    }
}

impl Fold for Identity {
    type Event = IdentityEvent;
    const STATE_VERSION: u32 = 2;

    fn evolve(&mut self, event: &IdentityEvent, at: Timestamp) {
        match event {
            IdentityEvent::DomainCreated(e) => {
                let domain = Domain {
                    id: e.domain.clone(),
                    name: e.name.clone(),
                    description: e.description.clone(),
                    enabled: e.enabled,
                };
                self.domains.insert(e.domain.clone(), domain);
            }
            IdentityEvent::DomainDescribed(e) => {
                if let Some(domain) = self.domains.get_mut(&e.domain) {
                    domain.name.clone_from(&e.name);
                    domain.description.clone_from(&e.description);
                }
            }
            IdentityEvent::DomainSwitched(e) => {
                if let Some(domain) = self.domains.get_mut(&e.domain) {
                    domain.enabled = e.enabled;
                }
            }
            IdentityEvent::DomainDeleted(e) => {
                self.domains.remove(&e.domain);
                self.user_names.remove(&e.domain);
                self.project_names.remove(&e.domain);
                self.forget_grants(|grant| grant.scope == IdentityScope::Domain(e.domain.clone()));
                self.end_limits_of(&LimitHolder::Domain(e.domain.clone()));
            }
            IdentityEvent::ProjectCreated(_)
            | IdentityEvent::ProjectDescribed(_)
            | IdentityEvent::ProjectSwitched(_)
            | IdentityEvent::ProjectDeleted(_) => self.evolve_project(event),
            IdentityEvent::UserCreated(_)
            | IdentityEvent::UserDescribed(_)
            | IdentityEvent::UserSwitched(_)
            | IdentityEvent::PasswordSet(_)
            | IdentityEvent::UserDeleted(_)
            | IdentityEvent::UserErased(_) => self.evolve_user(event, at),
            IdentityEvent::RoleCreated(e) => {
                let role = Role {
                    id: e.role.clone(),
                    domain: e.domain.clone(),
                    name: e.name.clone(),
                    description: e.description.clone(),
                };
                self.roles.insert(e.role.clone(), role);
            }
            IdentityEvent::RoleDescribed(e) => {
                if let Some(role) = self.roles.get_mut(&e.role) {
                    role.name.clone_from(&e.name);
                    role.description.clone_from(&e.description);
                }
            }
            IdentityEvent::RoleDeleted(e) => {
                self.roles.remove(&e.role);
                self.implied.remove(&e.role);
                self.implied.retain(|_, implied| {
                    implied.remove(&e.role);
                    !implied.is_empty()
                });
                self.forget_grants(|grant| grant.role == e.role);
                self.end_credentials_of_role(&e.role);
            }
            IdentityEvent::RoleImplied(e) => {
                self.implied.entry(e.prior.clone()).or_default().insert(e.implied.clone());
            }
            IdentityEvent::ImplicationRemoved(e) => {
                if let Some(implied) = self.implied.get_mut(&e.prior) {
                    implied.remove(&e.implied);
                }
            }
            IdentityEvent::RoleGranted(e) => {
                self.grants.entry(e.user.clone()).or_default().insert(e.grant.clone());
            }
            IdentityEvent::RoleRevoked(e) => {
                if let Some(grants) = self.grants.get_mut(&e.user) {
                    grants.remove(&e.grant);
                }
                self.end_credentials_without(&e.user, &e.grant);
            }
            IdentityEvent::TokenRevoked(e) => {
                forget_some(&mut self.revoked, &e.audit_id, at);
                self.revoked.insert(e.audit_id.clone(), e.expires_at);
            }
            IdentityEvent::ApplicationCredentialCreated(_)
            | IdentityEvent::ApplicationCredentialDeleted(_)
            | IdentityEvent::AccessRuleCreated(_)
            | IdentityEvent::AccessRuleDeleted(_) => self.evolve_credential(event),
            IdentityEvent::RegisteredLimitSet(_)
            | IdentityEvent::RegisteredLimitRemoved(_)
            | IdentityEvent::LimitSet(_)
            | IdentityEvent::LimitRemoved(_) => self.evolve_limit(event),
        }
    }
}

/// The number of neighbours on each side that a revocation checks.
const NEIGHBOURS: usize = 4;

/// Forgets revoked tokens next to `audit_id` that have expired. Checking all revoked tokens at each revocation would
/// cost the square of their number. Audit ids are random, so the neighbours are a fair sample. As soon as an eighth of
/// the tokens has expired, each revocation finds one expired token on average.
fn forget_some(revoked: &mut BTreeMap<String, Timestamp>, audit_id: &str, at: Timestamp) {
    let below = (Bound::Unbounded, Bound::Excluded(audit_id));
    let above = (Bound::Excluded(audit_id), Bound::Unbounded);
    let below = revoked.range::<str, _>(below).rev().take(NEIGHBOURS);
    let beside = below.chain(revoked.range::<str, _>(above).take(NEIGHBOURS));
    let expired = beside.filter(|(_, expires_at)| **expires_at <= at).map(|(id, _)| id.clone());
    for id in expired.collect::<Vec<_>>() {
        revoked.remove(&id);
    }
}

impl Identity {
    fn evolve_project(&mut self, event: &IdentityEvent) {
        match event {
            IdentityEvent::ProjectCreated(e) => {
                let project = Project {
                    id: e.project.clone(),
                    domain: e.domain.clone(),
                    parent: e.parent.clone(),
                    enabled: e.enabled,
                    attributes: e.attributes.clone(),
                };
                self.projects.insert(e.project.clone(), project);
                self.name_project(&e.domain, None, Some(&e.attributes.name), &e.project);
            }
            IdentityEvent::ProjectDescribed(e) => {
                if let Some(project) = self.projects.get_mut(&e.project) {
                    let old = std::mem::replace(&mut project.attributes, e.attributes.clone());
                    let domain = project.domain.clone();
                    self.name_project(&domain, Some(&old.name), Some(&e.attributes.name), &e.project);
                }
            }
            IdentityEvent::ProjectSwitched(e) => {
                if let Some(project) = self.projects.get_mut(&e.project) {
                    project.enabled = e.enabled;
                }
            }
            IdentityEvent::ProjectDeleted(e) => {
                if let Some(project) = self.projects.remove(&e.project) {
                    self.name_project(&project.domain, Some(&project.attributes.name), None, &e.project);
                }
                self.forget_grants(|grant| grant.scope == IdentityScope::Project(e.project.clone()));
                self.end_credentials_of_project(&e.project);
                self.end_limits_of(&LimitHolder::Project(e.project.clone()));
            }
            _ => {}
        }
    }

    fn evolve_user(&mut self, event: &IdentityEvent, at: Timestamp) {
        match event {
            IdentityEvent::UserCreated(e) => {
                let user = User {
                    id: e.user.clone(),
                    domain: e.domain.clone(),
                    enabled: e.enabled,
                    password: e.password.clone(),
                    attributes: e.attributes.clone(),
                    tokens_from: at,
                };
                self.users.insert(e.user.clone(), user);
                self.name_user(&e.domain, None, Some(&e.attributes.name), &e.user);
            }
            IdentityEvent::UserDescribed(e) => {
                if let Some(user) = self.users.get_mut(&e.user) {
                    let old = std::mem::replace(&mut user.attributes, e.attributes.clone());
                    let domain = user.domain.clone();
                    self.name_user(&domain, Some(&old.name), Some(&e.attributes.name), &e.user);
                }
            }
            IdentityEvent::UserSwitched(e) => {
                if let Some(user) = self.users.get_mut(&e.user) {
                    user.enabled = e.enabled;
                    user.tokens_from = at;
                }
                if !e.enabled {
                    self.end_credentials_of_user(&e.user, false);
                }
            }
            IdentityEvent::PasswordSet(e) => {
                if let Some(user) = self.users.get_mut(&e.user) {
                    user.password = Some(e.password.clone());
                    user.tokens_from = at;
                }
            }
            IdentityEvent::UserDeleted(e) => {
                if let Some(user) = self.users.remove(&e.user) {
                    self.name_user(&user.domain, Some(&user.attributes.name), None, &e.user);
                }
                self.grants.remove(&e.user);
                self.end_credentials_of_user(&e.user, true);
            }
            IdentityEvent::UserErased(e) => {
                if let Some(user) = self.users.get_mut(&e.user) {
                    let name = crate::sealed::fields::erased_user(e.user.as_str());
                    user.attributes.extra.clear();
                    let old = std::mem::replace(&mut user.attributes.name, name.clone());
                    let domain = user.domain.clone();
                    self.name_user(&domain, Some(&old), Some(&name), &e.user);
                }
                self.erase_credentials(&e.user);
            }
            _ => {}
        }
    }
}
