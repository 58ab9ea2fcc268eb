//! The user or the process for which compute calls a service, and the user's rights.

use std::fmt;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::ProjectId;

/// The user or the process for which compute calls a service.
#[derive(Debug, Clone)]
pub struct ServiceCaller {
    /// The project of the user's token, or the project for which the process works; `None` if there is none.
    pub project: Option<ProjectId>,
    pub is_admin: bool,
    /// The user's token. A client of a real service sends it, so that the service checks the user's rights. `None` for
    /// a process: the client then uses its own account.
    pub token: Option<UserToken>,
    /// The user's rights by the policies of the embedded services; `None`: no user asks.
    pub rights: Option<Arc<dyn UserRights>>,
    pub meta: Arc<Meta>,
}

/// Judges one user by the policies of the embedded services. A client of a real service does not use this trait,
/// because the real service judges the token.
pub trait UserRights: fmt::Debug + Send + Sync {
    /// Whether the rule holds for a resource with these attributes.
    fn may(&self, policy: EmbeddedPolicy, rule: &'static str, attributes: &[(&'static str, String)]) -> bool;
}

/// An embedded service with a policy of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddedPolicy {
    Image,
    Network,
    Volume,
}

impl ServiceCaller {
    /// A part of Chronova that calls a service on its own, not for a user.
    pub fn system(part: &str) -> Self {
        Self { project: None, is_admin: true, token: None, rights: None, meta: Meta::system(part) }
    }

    /// Whether the rule of an embedded service lets the caller act on a resource of `owner`. Without a user, the caller
    /// may act on the resources of its project, and on all resources if it is an administrator.
    pub fn may(
        &self,
        (policy, rule): (EmbeddedPolicy, &'static str),
        owner: Option<&ProjectId>,
        attributes: &[(&'static str, String)],
    ) -> bool {
        match &self.rights {
            Some(rights) => rights.may(policy, rule, attributes),
            None => self.is_admin || (owner.is_some() && owner == self.project.as_ref()),
        }
    }
}

/// A user's token. It is never printed.
#[derive(Clone)]
pub struct UserToken(String);

impl UserToken {
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token itself, for the header of a request.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UserToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserToken(...)")
    }
}
