//! The token of Chronova's own account. It is requested at its first use, and renewed before it expires.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::clock::Clock;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::RequestId;
use tokio::sync::Mutex;

use super::account::ServiceAccount;
use super::document::{CatalogueService, TokenBody};
use crate::ports::UserToken;
use crate::services::external::http::{CallFailure, ServiceClient, ServiceRequest};

/// A token is renewed this many microseconds before it expires.
const BEFORE_ITS_END: i64 = 30_000_000;
/// The pause before a refused account asks again, because Keystone may lock out an account that tries too often.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// A token of the account, and the catalogue that came with it.
#[derive(Debug)]
pub struct SessionToken {
    pub token: UserToken,
    pub catalogue: Vec<CatalogueService>,
    /// The project of the token's scope.
    pub project: Option<String>,
    expires_at: Timestamp,
    got: Instant,
}

/// Gets and keeps the token.
pub struct KeystoneSession {
    account: ServiceAccount,
    client: Arc<ServiceClient>,
    clock: Arc<dyn Clock>,
    state: Mutex<SessionState>,
}

#[derive(Default)]
struct SessionState {
    token: Option<Arc<SessionToken>>,
    /// When Keystone refused the account, and its message.
    refused: Option<(Instant, String)>,
    /// When Keystone last gave no answer, and why.
    silent: Option<(Instant, String)>,
}

impl std::fmt::Debug for KeystoneSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeystoneSession").field("auth_url", &self.account.auth_url).finish_non_exhaustive()
    }
}

impl KeystoneSession {
    pub fn new(account: ServiceAccount, client: Arc<ServiceClient>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { account, client, clock, state: Mutex::default() })
    }

    pub fn account(&self) -> &ServiceAccount {
        &self.account
    }

    pub fn client(&self) -> &Arc<ServiceClient> {
        &self.client
    }

    /// A token that does not expire soon. Concurrent callers wait for one request, and share its result.
    pub async fn token(&self, request: Option<&RequestId>) -> Result<Arc<SessionToken>, String> {
        let began = Instant::now();
        let mut state = self.state.lock().await;
        let soon = Timestamp(self.clock.now().0.saturating_add(BEFORE_ITS_END));
        if let Some(token) = state.token.as_ref().filter(|token| soon < token.expires_at) {
            return Ok(Arc::clone(token));
        }
        if let Some((_, words)) = state.refused.as_ref().filter(|(at, _)| at.elapsed() < REFUSED_FOR) {
            return Err(words.clone());
        }
        // Callers that waited share the failure. Otherwise each would wait for its own timeout, one after the other.
        if let Some((_, words)) = state.silent.as_ref().filter(|(at, _)| *at >= began) {
            return Err(words.clone());
        }
        match self.ask(request).await {
            Ok(token) => {
                let token = Arc::new(token);
                *state = SessionState { token: Some(Arc::clone(&token)), ..SessionState::default() };
                Ok(token)
            }
            Err(Refused { words, by_keystone }) => {
                let when = (Instant::now(), words.clone());
                let (refused, silent) = if by_keystone { (Some(when), None) } else { (None, Some(when)) };
                *state = SessionState { token: None, refused, silent };
                Err(words)
            }
        }
    }

    /// Forgets a token that Keystone does not accept any more.
    pub async fn forget(&self, token: &Arc<SessionToken>) {
        let mut state = self.state.lock().await;
        state.token.take_if(|kept| Arc::ptr_eq(kept, token));
    }

    /// Forgets a token that a service may have refused. A new token stays, so that a user with a bad token does not
    /// make Chronova log in again and again. Returns whether it forgot the token.
    pub async fn doubt(&self, token: &Arc<SessionToken>) -> bool {
        let is_old = token.got.elapsed() >= REFUSED_FOR;
        if is_old {
            self.forget(token).await;
        }
        is_old
    }

    async fn ask(&self, request: Option<&RequestId>) -> Result<SessionToken, Refused> {
        let url = format!("{}/auth/tokens", self.account.root());
        let call = ServiceRequest::post(url).json(&self.account.request()).on_behalf_of(request);
        let answer = self.client.call(call).await.map_err(|failure| Refused::silent(&failure))?;
        let refused = |words: String| Refused { words, by_keystone: true };
        match answer.status {
            201 => {}
            400..=499 => {
                let words = format!("Keystone refused a token to the service's own account ({})", answer.complaint());
                tracing::error!("{words}");
                return Err(refused(words));
            }
            // Keystone is in trouble, and has not judged the account.
            _ => {
                let words = format!("Keystone gives no token to the service's own account ({})", answer.complaint());
                tracing::warn!("{words}");
                return Err(Refused { words, by_keystone: false });
            }
        }
        let read = || {
            let token = UserToken::new(answer.header("X-Subject-Token")?);
            let body: TokenBody = serde_json::from_slice(&answer.body).ok()?;
            let expires_at = body.token.expires_at()?;
            Some(SessionToken {
                token,
                project: body.token.project_id(),
                catalogue: body.token.catalog.unwrap_or_default(),
                expires_at,
                got: Instant::now(),
            })
        };
        read().ok_or_else(|| refused("Keystone's answer about the service's own account cannot be read".to_owned()))
    }
}

struct Refused {
    words: String,
    by_keystone: bool,
}

impl Refused {
    fn silent(failure: &CallFailure) -> Self {
        Self { words: failure.to_string(), by_keystone: false }
    }
}
