//! An identity service that breaks one chosen promise. A case of the conformance suite must detect it.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::ports::PortError;
use chronova_actors::ports::identity::{IdentityProvider, TokenError, TokenOwner, TokenQuestion, TokenScope};
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{ProjectId, RequestId, UserId};
use tokio::sync::Mutex;

/// The promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityFault {
    /// No token has a scope.
    LosesScope,
    /// Every token has the role `admin`, too.
    AddsRoles,
    /// A text that the service refuses is a valid token without a scope.
    BelievesAll,
    /// A token that was valid at one question is valid at all later questions.
    RemembersFirst,
    /// Expired tokens are valid even if the caller does not allow them.
    IgnoresEnds,
    /// Expired tokens are never valid.
    RefusesExpired,
    /// A project exists for every id.
    KnowsAll,
}

pub struct BrokenIdentity {
    inner: Arc<dyn IdentityProvider>,
    fault: IdentityFault,
    first: Mutex<Vec<(String, Arc<TokenOwner>)>>,
}

impl BrokenIdentity {
    pub fn new(inner: Arc<dyn IdentityProvider>, fault: IdentityFault) -> Self {
        Self { inner, fault, first: Mutex::default() }
    }
}

#[async_trait]
impl IdentityProvider for BrokenIdentity {
    async fn owner(&self, question: TokenQuestion<'_>) -> Result<Arc<TokenOwner>, TokenError> {
        let text = question.token.expose().to_owned();
        let mut first = self.first.lock().await;
        if self.fault == IdentityFault::RemembersFirst
            && let Some((_, owner)) = first.iter().find(|(known, _)| *known == text)
        {
            return Ok(Arc::clone(owner));
        }
        let allow_expired = match self.fault {
            IdentityFault::IgnoresEnds => true,
            IdentityFault::RefusesExpired => false,
            _ => question.allow_expired,
        };
        let found = match self.inner.owner(TokenQuestion { allow_expired, ..question }).await {
            Err(TokenError::Invalid) if self.fault == IdentityFault::BelievesAll => {
                Arc::new(TokenOwner { expires_at: Timestamp(i64::MAX), ..TokenOwner::unscoped(UserId::new("u")) })
            }
            other => other?,
        };
        first.push((text, Arc::clone(&found)));
        let mut owner = TokenOwner::clone(&found);
        match self.fault {
            IdentityFault::LosesScope => owner.scope = TokenScope::Unscoped,
            IdentityFault::AddsRoles => owner.roles.push("admin".to_owned()),
            _ => {}
        }
        Ok(Arc::new(owner))
    }

    async fn knows_project(&self, project: &ProjectId, request: Option<&RequestId>) -> Result<bool, PortError> {
        Ok(self.fault == IdentityFault::KnowsAll || self.inner.knows_project(project, request).await?)
    }
}
