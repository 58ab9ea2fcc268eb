//! The payloads, frozen at their version.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::ids::{DomainId, ErasureId, ProjectId, RoleId, UserId};

/// Attributes that this service stores without interpreting them: name and JSON text, sorted by name.
pub type ExtraAttributes = Vec<(String, String)>;

/// An argon2id hash in PHC form. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(...)")
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DomainCreated {
    pub domain: DomainId,
    pub name: String,
    pub description: String,
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DomainDescribed {
    pub domain: DomainId,
    pub name: String,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DomainSwitched {
    pub domain: DomainId,
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DomainDeleted {
    pub domain: DomainId,
}

/// The properties of a project that can be changed, except `enabled`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProjectAttributes {
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub extra: ExtraAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProjectCreated {
    pub project: ProjectId,
    pub domain: DomainId,
    /// `None`: directly below the domain.
    pub parent: Option<ProjectId>,
    pub enabled: bool,
    pub attributes: ProjectAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProjectDescribed {
    pub project: ProjectId,
    pub attributes: ProjectAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProjectSwitched {
    pub project: ProjectId,
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProjectDeleted {
    pub project: ProjectId,
}

/// The properties of a user that can be changed, except `enabled` and the password.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UserAttributes {
    pub name: String,
    pub default_project: Option<ProjectId>,
    /// Further attributes. They include `email` and `description`, as in Keystone.
    pub extra: ExtraAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserCreated {
    pub user: UserId,
    pub domain: DomainId,
    pub enabled: bool,
    /// `None`: the user cannot log in with a password.
    pub password: Option<PasswordHash>,
    pub attributes: UserAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserDescribed {
    pub user: UserId,
    pub attributes: UserAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserSwitched {
    pub user: UserId,
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordSet {
    pub user: UserId,
    pub password: PasswordHash,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserDeleted {
    pub user: UserId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserErased {
    pub user: UserId,
    pub erasure: ErasureId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleCreated {
    pub role: RoleId,
    /// The only domain that may use the role; `None`: every domain.
    pub domain: Option<DomainId>,
    pub name: String,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleDescribed {
    pub role: RoleId,
    pub name: String,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleDeleted {
    pub role: RoleId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleImplied {
    pub prior: RoleId,
    pub implied: RoleId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImplicationRemoved {
    pub prior: RoleId,
    pub implied: RoleId,
}

/// The scope of a role assignment or of a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IdentityScope {
    Project(ProjectId),
    Domain(DomainId),
    System,
}

/// One role on one scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grant {
    pub scope: IdentityScope,
    pub role: RoleId,
    /// Whether the grant holds on the projects below the scope instead of on the scope itself (OS-INHERIT).
    pub inherited: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleGranted {
    pub user: UserId,
    pub grant: Grant,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleRevoked {
    pub user: UserId,
    pub grant: Grant,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenRevoked {
    pub user: UserId,
    pub audit_id: String,
    /// After this time the revocation is no longer needed.
    pub expires_at: Timestamp,
}
