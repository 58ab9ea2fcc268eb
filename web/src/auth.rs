//! Authentication: a token becomes a [`Caller`].
//!
//! In the normal mode a [`TokenVerifier`] (the embedded identity service, or the client of an external one) reads
//! `X-Auth-Token`. In the test mode `noauth2` the token *is* the identity: `USER` or `USER:PROJECT`.
//!
//! Invariants: tokens are [`Secret`]s and are never logged; `is_admin` is decided by policy (`context_is_admin`), never
//! by the token.

use std::fmt;
use std::sync::Arc;

use actix_web::http::header::HeaderMap;
use async_trait::async_trait;
use chronova_events::ids::{DomainId, ProjectId, RequestId, UserId};

pub use crate::secret::{Secret, SecretHash};

/// The identity behind a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    pub user_name: String,
    pub user_domain: Option<DomainId>,
    /// `None` for tokens scoped to a domain, to the system, or not at all.
    pub project: Option<ProjectId>,
    pub project_name: Option<String>,
    pub project_domain: Option<DomainId>,
    /// The domain of a domain-scoped token.
    pub domain: Option<DomainId>,
    /// `all` for a system-scoped token.
    pub system_scope: Option<String>,
    pub roles: Vec<String>,
    /// The result of the rule `context_is_admin`; the dispatcher fills it in.
    pub is_admin: bool,
    /// Finds the token again (to revoke it, say) without keeping it.
    pub token: Option<SecretHash>,
}

impl Caller {
    /// Nobody: what public operations see.
    pub fn anonymous() -> Self {
        Self::of_user(UserId::new(""))
    }

    /// A user without scope or roles.
    pub fn of_user(user: UserId) -> Self {
        Self {
            user_name: user.as_str().to_owned(),
            user,
            user_domain: None,
            project: None,
            project_name: None,
            project_domain: None,
            domain: None,
            system_scope: None,
            roles: Vec::new(),
            is_admin: false,
            token: None,
        }
    }

    pub fn is_anonymous(&self) -> bool {
        self.user.as_str().is_empty()
    }

    /// Somebody whose token is of no project, no domain and not of the system.
    pub fn is_unscoped(&self) -> bool {
        !self.is_anonymous() && self.project.is_none() && self.domain.is_none() && self.system_scope.is_none()
    }

    /// Roles compare without case, as oslo.policy does.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held.eq_ignore_ascii_case(role))
    }
}

/// A caller asking for one thing: what permits and events remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    pub caller: Caller,
    pub request_id: RequestId,
    /// The id under which another service's request led to this one.
    pub global_request_id: Option<RequestId>,
}

/// Why a token does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Unknown, expired, revoked or malformed: the client may know no more.
    #[error("the token is not valid")]
    Invalid,
    /// The identity service cannot say; the request is refused with 503.
    #[error("the identity service does not answer: {0}")]
    Unavailable(String),
}

/// Turns a token into its owner.
#[async_trait]
pub trait TokenVerifier: Send + Sync {
    async fn verify(&self, token: &Secret) -> Result<Caller, AuthError>;
}

/// How callers prove who they are.
#[derive(Clone)]
pub enum Authentication {
    Tokens(Arc<dyn TokenVerifier>),
    /// Test mode: every caller is believed. The configuration refuses it on any address but loopback.
    NoAuth,
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens(_) => "Tokens",
            Self::NoAuth => "NoAuth",
        })
    }
}

impl Authentication {
    /// The caller that the headers prove; `None` when they claim nothing.
    pub async fn caller(&self, headers: &HeaderMap) -> Result<Option<Caller>, AuthError> {
        let Some(token) = text(headers, "X-Auth-Token").filter(|token| !token.is_empty()) else { return Ok(None) };
        match self {
            Self::Tokens(verifier) => {
                let token = Secret::new(token);
                let mut caller = verifier.verify(&token).await?;
                caller.token = Some(token.hash());
                caller.is_admin = false;
                Ok(Some(caller))
            }
            Self::NoAuth => Ok(Some(believed(token, headers))),
        }
    }
}

/// `noauth2`: `USER` or `USER:PROJECT`; the user `admin` has every role; `X-Roles` replaces the roles, `X-Project-Id` the
/// project, and `OpenStack-System-Scope` means a token without project.
fn believed(token: &str, headers: &HeaderMap) -> Caller {
    let (user, project) = token.split_once(':').unwrap_or((token, token));
    let mut caller = Caller::of_user(UserId::new(user));
    let default_domain = Some(DomainId::new("default"));
    caller.user_domain.clone_from(&default_domain);
    caller.roles = match text(headers, "X-Roles") {
        Some(roles) => roles.split(',').map(str::trim).filter(|role| !role.is_empty()).map(str::to_owned).collect(),
        None if user == "admin" => ["admin", "manager", "member", "reader"].map(str::to_owned).to_vec(),
        None => ["member", "reader"].map(str::to_owned).to_vec(),
    };
    caller.system_scope = text(headers, "OpenStack-System-Scope").map(str::to_owned);
    if caller.system_scope.is_none() {
        let project = text(headers, "X-Project-Id").unwrap_or(project);
        caller.project = Some(ProjectId::new(project));
        caller.project_name = Some(project.to_owned());
        caller.project_domain = default_domain;
    }
    caller.token = Some(Secret::new(token).hash());
    caller
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn noauth_reads_user_project_and_roles() {
        let admin = believed("admin", &headers(&[]));
        assert!(admin.has_role("ADMIN") && admin.has_role("reader"));
        assert_eq!(admin.project, Some(ProjectId::new("admin")));

        let user = believed("alice:web", &headers(&[]));
        assert_eq!((user.user.as_str(), user.project.clone()), ("alice", Some(ProjectId::new("web"))));
        assert!(!user.has_role("admin") && user.has_role("member"));

        let roles = believed("admin", &headers(&[("X-Roles", "service, reader")]));
        assert_eq!(roles.roles, ["service", "reader"]);

        let system = believed("admin", &headers(&[("OpenStack-System-Scope", "all")]));
        assert_eq!((system.project, system.system_scope.as_deref()), (None, Some("all")));
    }
}
