//! Tokens and projects, as the APIs ask for them: from the embedded identity service, or from real Keystone.
//!
//! Keystone's API, version 3, has a call for each of these: `GET auth/tokens` says whose token it is, `GET projects/{id}`
//! whether a project is there.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{DomainId, ProjectId, RequestId, UserId};
use thiserror::Error;

use super::{PortError, UserToken};

/// A token to be judged.
#[derive(Debug, Clone, Copy)]
pub struct TokenQuestion<'a> {
    pub token: &'a UserToken,
    /// A service vouches for it, so that it counts for a while after its end: a long operation may need it still.
    pub allow_expired: bool,
    /// The request that it came with.
    pub request: Option<&'a RequestId>,
}

/// The owner of a token, and what the token permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOwner {
    pub user: UserId,
    pub user_name: String,
    pub user_domain: Option<DomainId>,
    pub scope: TokenScope,
    /// The names of the roles that the user has there.
    pub roles: Vec<String>,
    pub expires_at: Timestamp,
    /// Requests for which the token is good, if not for all: those of its application credential.
    pub access_rules: Option<Vec<AccessRule>>,
    /// Types of the services in the token's catalogue; `None`: it has no catalogue.
    pub service_types: Option<Vec<String>>,
    /// Whether its project is the one whose administrators are those of the whole cloud. True where there is no such project.
    pub is_admin_project: bool,
}

impl TokenOwner {
    /// The owner of a token that is good for getting another one, and does not end.
    pub fn unscoped(user: UserId) -> Self {
        Self {
            user_name: user.as_str().to_owned(),
            user,
            user_domain: None,
            scope: TokenScope::Unscoped,
            roles: Vec::new(),
            expires_at: Timestamp(i64::MAX),
            access_rules: None,
            service_types: None,
            is_admin_project: true,
        }
    }
}

/// Where the roles of a token hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenScope {
    /// Nowhere: the token is good for getting another one.
    Unscoped,
    Project {
        id: ProjectId,
        name: String,
        domain: Option<DomainId>,
    },
    Domain(DomainId),
    /// The whole cloud.
    System,
}

/// Requests that an application credential permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRule {
    /// A service's type: `compute`.
    pub service: String,
    pub method: String,
    /// `/v2.1/servers/*`: `*` and `{name}` stand for one part of a path, `**` for any number of them.
    pub path: String,
}

/// Why a token does not count.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Unknown, expired, revoked or malformed: the client may know no more.
    #[error("the token is not valid")]
    Invalid,
    /// The identity service cannot say.
    #[error("the identity service does not answer: {0}")]
    Unavailable(String),
}

/// People, projects, and their tokens.
#[async_trait]
pub trait IdentityProvider: Send + Sync + 'static {
    /// Finds the owner of a token. A revoked token may count as long as answers are kept (`token_cache_time`).
    async fn owner(&self, question: TokenQuestion<'_>) -> Result<Arc<TokenOwner>, TokenError>;

    /// Whether there is a project with this id.
    async fn knows_project(&self, project: &ProjectId, request: Option<&RequestId>) -> Result<bool, PortError>;
}
