//! Users, projects, domains, roles, role assignments and application credentials. [`bootstrap`] creates the first ones.
//!
//! A command brings new ids and password hashes. [`passwords`] computes the hashes outside the decision. Tokens are
//! signed and self-contained, so only their revocation is an event.

pub mod bootstrap;
mod credentials;
pub mod decide;
pub(crate) mod erasure;
mod limits;
pub mod passwords;

use chronova_events::envelope::{StreamId, Timestamp};
use chronova_events::identity::{
    ApplicationCredentialCreated, DomainCreated, ExtraAttributes, Grant, Identity, IdentityEvent, IdentityScope,
    LimitSet, PasswordHash, ProjectCreated, RegisteredLimitSet, RoleCreated, UserAccessRule, UserCreated,
};
use chronova_events::ids::{
    AccessRuleId, ApplicationCredentialId, DomainId, ErasureId, LimitId, ProjectId, RegisteredLimitId, RoleId, UserId,
};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

pub use credentials::{MOST_ACCESS_RULES, MOST_CREDENTIALS};

/// The id of the only realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdentityRealmId;

#[derive(Debug, Clone, Copy)]
pub enum IdentityRoot {}

/// A change of an optional value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Edit<T> {
    #[default]
    Keep,
    Clear,
    Set(T),
}

impl<T: Clone> Edit<T> {
    fn over(self, old: Option<&T>) -> Option<T> {
        match self {
            Self::Keep => old.cloned(),
            Self::Clear => None,
            Self::Set(new) => Some(new),
        }
    }
}

/// The changed attributes of a domain; `None` keeps an attribute.
#[derive(Debug, Clone, Default)]
pub struct DomainChange {
    pub name: Option<String>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
}

#[derive(Debug, Clone, Default)]
pub struct ProjectChange {
    pub name: Option<String>,
    pub description: Option<String>,
    pub enabled: Option<bool>,
    pub tags: Option<Vec<String>>,
    /// Attributes to add or replace. An attribute with the text `null` is removed.
    pub extra: ExtraAttributes,
}

#[derive(Debug, Clone, Default)]
pub struct UserChange {
    pub name: Option<String>,
    pub enabled: Option<bool>,
    pub password: Option<PasswordHash>,
    pub default_project: Edit<ProjectId>,
    /// Attributes to add or replace. An attribute with the text `null` is removed.
    pub extra: ExtraAttributes,
}

#[derive(Debug, Clone)]
pub enum IdentityCommand {
    /// Creates everything that a log-in needs, at the first start. Does nothing if any domain exists.
    Bootstrap(Box<IdentitySeed>),
    CreateDomain(DomainCreated),
    ChangeDomain {
        domain: DomainId,
        change: DomainChange,
    },
    DeleteDomain(DomainId),
    CreateProject(ProjectCreated),
    ChangeProject {
        project: ProjectId,
        change: ProjectChange,
    },
    DeleteProject(ProjectId),
    CreateUser(UserCreated),
    ChangeUser {
        user: UserId,
        change: UserChange,
    },
    DeleteUser(UserId),
    /// Records that the user's name and attributes up to now are erased. For a deleted user, there is nothing to
    /// record.
    EraseUser {
        user: UserId,
        erasure: ErasureId,
    },
    CreateRole(RoleCreated),
    ChangeRole {
        role: RoleId,
        name: Option<String>,
        description: Edit<String>,
    },
    DeleteRole(RoleId),
    /// From now on, a user with the role `prior` has the role `implied`, too.
    ImplyRole {
        prior: RoleId,
        implied: RoleId,
    },
    EndImplication {
        prior: RoleId,
        implied: RoleId,
    },
    Grant {
        user: UserId,
        grant: Grant,
    },
    Revoke {
        user: UserId,
        grant: Grant,
    },
    RevokeToken {
        user: UserId,
        audit_id: String,
        expires_at: Timestamp,
    },
    /// Makes an application credential, and the access rules that its user does not have yet.
    CreateApplicationCredential {
        /// Its `access_rules` are ignored; `rules` counts.
        created: Box<ApplicationCredentialCreated>,
        /// `None`: the credential permits all requests.
        rules: Option<Vec<AskedAccessRule>>,
    },
    DeleteApplicationCredential {
        user: UserId,
        credential: ApplicationCredentialId,
    },
    DeleteAccessRule {
        user: UserId,
        rule: AccessRuleId,
    },
    /// Sets the defaults of resources that have none yet; all of them, or none.
    RegisterLimits(Vec<RegisteredLimitSet>),
    /// Changes a default.
    ChangeRegisteredLimit {
        limit: RegisteredLimitId,
        change: LimitChange,
    },
    RemoveRegisteredLimit(RegisteredLimitId),
    /// Sets limits of projects and domains that have none yet; all of them, or none.
    SetLimits(Vec<LimitSet>),
    /// Changes the limit of a project or a domain.
    ChangeLimit {
        limit: LimitId,
        change: LimitChange,
    },
    RemoveLimit(LimitId),
}

/// The changed parts of a limit; `None` keeps a part.
#[derive(Debug, Clone, Default)]
pub struct LimitChange {
    pub amount: Option<i64>,
    pub description: Edit<String>,
}

/// An access rule of a new application credential.
#[derive(Debug, Clone)]
pub enum AskedAccessRule {
    /// A rule that the user has.
    Known(AccessRuleId),
    /// A rule in words. Its id is used if the user has no rule with these words yet.
    Worded(UserAccessRule),
}

/// The identities of a new cloud.
#[derive(Debug, Clone)]
pub struct IdentitySeed {
    pub admin: UserId,
    pub admin_password: PasswordHash,
    pub admin_project: ProjectId,
    pub service_project: ProjectId,
    /// The ids of the roles `admin`, `manager`, `member`, `reader` (each implies the next) and `service`.
    pub roles: [RoleId; 5],
}

/// The kind of resource that a refusal is about. The names are Keystone's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityResourceKind {
    Domain,
    Project,
    User,
    Role,
    ApplicationCredential,
    AccessRule,
    RegisteredLimit,
    Limit,
}

impl std::fmt::Display for IdentityResourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Domain => "domain",
            Self::Project => "project",
            Self::User => "user",
            Self::Role => "role",
            Self::ApplicationCredential => "Application Credential",
            Self::AccessRule => "Access Rule",
            Self::RegisteredLimit => "registered limit",
            Self::Limit => "limit",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdentityReject {
    #[error("there is no {kind} {id}")]
    NotFound { kind: IdentityResourceKind, id: String },
    #[error("there is a {kind} called {name} already")]
    NameTaken { kind: IdentityResourceKind, name: String },
    #[error("there is a {kind} with id {id} already")]
    IdTaken { kind: IdentityResourceKind, id: String },
    #[error("domain {0} is enabled")]
    DomainEnabled(DomainId),
    #[error("domain {0} is the default domain")]
    DefaultDomain(DomainId),
    #[error("project {0} has projects below it")]
    NotALeaf(ProjectId),
    #[error("project {0} has enabled projects below it")]
    EnabledBelow(ProjectId),
    #[error("project {0} is disabled")]
    ParentDisabled(ProjectId),
    #[error("the parent project is in another domain")]
    ParentElsewhere,
    #[error("role {role} of domain {domain} cannot be used elsewhere")]
    RoleOfOtherDomain { role: RoleId, domain: DomainId },
    #[error("no role implies role {0}, because it has all rights")]
    NeverImplied(RoleId),
    #[error("role {implied} belongs to a domain, and role {prior} does not")]
    ImpliesRoleOfDomain { prior: RoleId, implied: RoleId },
    #[error("role {prior} does not imply role {implied}")]
    NotImplied { prior: RoleId, implied: RoleId },
    #[error("user {user} does not have role {role} there")]
    NoGrant { user: UserId, role: RoleId, scope: IdentityScope },
    #[error("the user does not have role {0} on the project")]
    RoleNotHeld(RoleId),
    #[error("the user has {MOST_CREDENTIALS} application credentials already")]
    TooManyCredentials,
    #[error("the user would have more than {MOST_ACCESS_RULES} access rules")]
    TooManyAccessRules,
    #[error("an application credential has access rule {0}")]
    AccessRuleInUse(AccessRuleId),
    #[error("the resource {0} has no registered limit")]
    NotRegistered(String),
    #[error("projects or domains have limits of the resource of registered limit {0}")]
    RegisteredLimitInUse(RegisteredLimitId),
}

impl AggregateRoot for IdentityRoot {
    type Id = IdentityRealmId;
    type State = Identity;
    type Command = IdentityCommand;
    type Reject = IdentityReject;

    fn stream(_: &IdentityRealmId) -> StreamId {
        StreamId::new("identity", "main")
    }

    fn decide(state: &Identity, command: IdentityCommand) -> Result<Vec<IdentityEvent>, IdentityReject> {
        decide::decide(state, command)
    }
}
