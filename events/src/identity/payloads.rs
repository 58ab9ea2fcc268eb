//! The payloads, frozen at their version.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::ids::{
    AccessRuleId, ApplicationCredentialId, DomainId, ErasureId, LimitId, ProjectId, RegisteredLimitId, RoleId, UserId,
};

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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplicationCredentialCreated {
    pub credential: ApplicationCredentialId,
    pub user: UserId,
    pub project: ProjectId,
    pub name: String,
    pub description: Option<String>,
    pub secret: PasswordHash,
    /// Sorted.
    pub roles: Vec<RoleId>,
    /// `None`: it does not expire.
    pub expires_at: Option<Timestamp>,
    /// Whether the credential may make and delete application credentials.
    pub unrestricted: bool,
    /// The rules that say which requests the credential permits. `None`: all requests; an empty list: no request.
    pub access_rules: Option<Vec<AccessRuleId>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplicationCredentialDeleted {
    pub user: UserId,
    pub credential: ApplicationCredentialId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessRuleCreated {
    pub rule: AccessRuleId,
    pub user: UserId,
    /// The type of the service: `compute`.
    pub service: String,
    pub method: String,
    /// A pattern of paths: `/v2.1/servers/*`.
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessRuleDeleted {
    pub user: UserId,
    pub rule: AccessRuleId,
}

/// A resource of a service of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedResource {
    /// The id of the service in the catalogue.
    pub service: String,
    /// `None`: all regions.
    pub region: Option<String>,
    /// `class:VCPU`
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredLimitSet {
    pub limit: RegisteredLimitId,
    pub resource: LimitedResource,
    /// -1: no bound.
    pub default: i64,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisteredLimitRemoved {
    pub limit: RegisteredLimitId,
}

/// The project or the domain that has a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitHolder {
    Project(ProjectId),
    Domain(DomainId),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitSet {
    pub limit: LimitId,
    pub resource: LimitedResource,
    pub holder: LimitHolder,
    /// -1: no bound.
    pub amount: i64,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitRemoved {
    pub limit: LimitId,
}
