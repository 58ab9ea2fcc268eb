//! Tokens and projects. The APIs ask the embedded identity service about them, or real Keystone.
//!
//! Keystone's API, version 3, has a call for each method: `GET auth/tokens` shows a token's owner, and `GET
//! projects/{id}` shows whether a project exists.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{DomainId, ProjectId, RequestId, UserId};
use thiserror::Error;

use super::{PortError, UserToken};

/// A token to check.
#[derive(Debug, Clone, Copy)]
pub struct TokenQuestion<'a> {
    pub token: &'a UserToken,
    /// Whether an expired token is still accepted for a while, because a service vouches for it. A long operation may
    /// still need its token.
    pub allow_expired: bool,
    /// The request that the token came with.
    pub request: Option<&'a RequestId>,
}

/// The owner of a token, and what the token permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenOwner {
    pub user: UserId,
    pub user_name: String,
    pub user_domain: Option<DomainId>,
    pub scope: TokenScope,
    /// The names of the roles that the user has in the scope.
    pub roles: Vec<String>,
    pub expires_at: Timestamp,
    /// The requests that the token's application credential permits; `None`: all requests.
    pub access_rules: Option<Vec<AccessRule>>,
    /// The types of the services in the token's catalogue; `None`: the token has no catalogue.
    pub service_types: Option<Vec<String>>,
    /// Whether the administrators of the token's project are administrators of the whole cloud. True if the identity
    /// service does not say.
    pub is_admin_project: bool,
}

impl TokenOwner {
    /// The owner of a token that has no scope and does not expire.
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

/// The scope in which the roles of a token apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenScope {
    /// No scope. Such a token serves only to get another token.
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
    /// `/v2.1/servers/*`: `*` and `{name}` match one part of a path, `**` matches any number of parts.
    pub path: String,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The token is unknown, expired, revoked or malformed. The client does not learn which.
    #[error("the token is not valid")]
    Invalid,
    /// The identity service does not answer.
    #[error("the identity service does not answer: {0}")]
    Unavailable(String),
}

/// The identity service: tokens and projects.
#[async_trait]
pub trait IdentityProvider: Send + Sync + 'static {
    /// Finds the owner of a token. A revoked token may be accepted until the cached answer expires
    /// (`token_cache_time`).
    async fn owner(&self, question: TokenQuestion<'_>) -> Result<Arc<TokenOwner>, TokenError>;

    /// Whether there is a project with this id.
    async fn knows_project(&self, project: &ProjectId, request: Option<&RequestId>) -> Result<bool, PortError>;
}
