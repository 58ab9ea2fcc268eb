//! Users, projects, domains, roles and who holds which.
//!
//! Passwords arrive as finished hashes and ids as finished ids: [`passwords`] makes the former, outside the decision.
//! Tokens are signed and carry themselves; only their revocation is an event.

pub mod bootstrap;
pub mod decide;
pub mod passwords;

use chronova_events::envelope::{StreamId, Timestamp};
use chronova_events::identity::{
    DomainCreated, Extra, Grant, Identity, IdentityEvent, PasswordHash, ProjectCreated, RoleCreated, Scope, UserCreated,
};
use chronova_events::ids::{DomainId, ErasureId, ProjectId, RoleId, UserId};
use thiserror::Error;

use crate::aggregate::Aggregate;

/// There is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Realm;

#[derive(Debug, Clone, Copy)]
pub enum IdentityAggregate {}

/// What is to become of something that may be absent.
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

/// What is to be different; `None` leaves it as it is.
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
    /// Attributes to add or replace; one whose text is `null` is removed.
    pub extra: Extra,
}

#[derive(Debug, Clone, Default)]
pub struct UserChange {
    pub name: Option<String>,
    pub enabled: Option<bool>,
    pub password: Option<PasswordHash>,
    pub default_project: Edit<ProjectId>,
    /// Attributes to add or replace; one whose text is `null` is removed.
    pub extra: Extra,
}

#[derive(Debug, Clone)]
pub enum IdentityCommand {
    /// The first start: everything that must be there before anybody can log in. Nothing if anything is there.
    Bootstrap(Box<Seed>),
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
    /// The user's name and attributes so far are being erased; the user may be gone.
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
    Imply {
        prior: RoleId,
        implied: RoleId,
    },
    Unimply {
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
}

/// What a cloud begins with.
#[derive(Debug, Clone)]
pub struct Seed {
    pub admin: UserId,
    pub admin_password: PasswordHash,
    pub admin_project: ProjectId,
    pub service_project: ProjectId,
    /// For `admin`, `manager`, `member`, `reader` (each implying the next) and `service`.
    pub roles: [RoleId; 5],
}

/// What kind of thing a refusal is about, in Keystone's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Domain,
    Project,
    User,
    Role,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Domain => "domain",
            Self::Project => "project",
            Self::User => "user",
            Self::Role => "role",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdentityReject {
    #[error("there is no {kind} {id}")]
    NotFound { kind: Kind, id: String },
    #[error("there is a {kind} called {name} already")]
    NameTaken { kind: Kind, name: String },
    #[error("there is a {kind} with id {id} already")]
    IdTaken { kind: Kind, id: String },
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
    #[error("role {implied} implies role {prior}")]
    CircularImplication { prior: RoleId, implied: RoleId },
    #[error("role {prior} does not imply role {implied}")]
    NoImplication { prior: RoleId, implied: RoleId },
    #[error("user {user} does not have role {role} there")]
    NoGrant { user: UserId, role: RoleId, scope: Scope },
}

impl Aggregate for IdentityAggregate {
    type Id = Realm;
    type State = Identity;
    type Command = IdentityCommand;
    type Reject = IdentityReject;

    fn stream(_: &Realm) -> StreamId {
        StreamId::new("identity", "main")
    }

    fn decide(state: &Identity, command: IdentityCommand) -> Result<Vec<IdentityEvent>, IdentityReject> {
        decide::decide(state, command)
    }
}
