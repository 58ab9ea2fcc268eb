//! The implementation of the port: finds the owner of a token, and looks up projects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chronova_events::clock::Clock;
use chronova_events::ids::{ProjectId, RequestId};
use sha2::{Digest as _, Sha256};

use super::account::{ServiceAccount, root};
use super::cache::{Fingerprint, TokenCache};
use super::document::{TokenBody, endpoint};
use super::questions::TokenQuestions;
use super::session::{KeystoneSession, SessionToken};
use crate::ports::PortError;
use crate::ports::identity::{IdentityProvider, TokenError, TokenOwner, TokenQuestion};
use crate::services::external::http::{CallOptions, ServiceAnswer, ServiceClient, ServiceRequest, TrustError};

/// The limit on a token's length in bytes. Keystone's tokens are shorter.
const LONGEST_TOKEN: usize = 16 * 1024;
/// The options of `[keystone_authtoken]`.
#[derive(Debug, Clone)]
pub struct KeystoneOptions {
    pub account: ServiceAccount,
    pub calls: CallOptions,
    /// `interface`: the interface of Keystone's endpoint.
    pub interface: String,
    pub region: Option<String>,
    /// `token_cache_time`; `None`: every request asks Keystone.
    pub cache_time: Option<Duration>,
    pub include_catalogue: bool,
}

/// Real Keystone.
pub struct KeystoneProvider {
    session: Arc<KeystoneSession>,
    client: Arc<ServiceClient>,
    interface: String,
    region: Option<String>,
    include_catalogue: bool,
    cache: TokenCache,
    questions: TokenQuestions,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for KeystoneProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeystoneProvider").field("session", &self.session).finish_non_exhaustive()
    }
}

impl KeystoneProvider {
    pub fn new(options: KeystoneOptions, clock: Arc<dyn Clock>) -> Result<Arc<Self>, TrustError> {
        let client = ServiceClient::new(options.calls)?;
        let session = KeystoneSession::new(options.account, Arc::clone(&client), Arc::clone(&clock));
        Ok(Arc::new(Self {
            session,
            client,
            interface: options.interface,
            region: options.region,
            include_catalogue: options.include_catalogue,
            cache: TokenCache::new(options.cache_time),
            questions: TokenQuestions::new(),
            clock,
        }))
    }

    pub fn session(&self) -> &Arc<KeystoneSession> {
        &self.session
    }

    pub fn client(&self) -> &Arc<ServiceClient> {
        &self.client
    }

    /// Keystone's address, from the catalogue.
    fn endpoint(&self, own: &SessionToken) -> Result<String, String> {
        let found = endpoint(&own.catalogue, &["identity"], &[&self.interface], self.region.as_deref());
        let place = || self.region.as_ref().map(|region| format!(" in region {region}")).unwrap_or_default();
        found.map(root).ok_or_else(|| {
            format!("the catalogue has no {} endpoint of the service type identity{}", self.interface, place())
        })
    }

    /// Asks Keystone with the token of Chronova's own account. If Keystone does not accept that token any more, the
    /// question is repeated once with a new token.
    async fn ask(
        &self,
        request: Option<&RequestId>,
        call: impl Fn(&str) -> ServiceRequest + Send,
    ) -> Result<ServiceAnswer, String> {
        for last in [false, true] {
            let own = self.session.token(request).await?;
            let call = call(&self.endpoint(&own)?).secret("x-auth-token", &own.token).on_behalf_of(request);
            let answer = self.client.call(call).await.map_err(|failure| failure.to_string())?;
            if answer.status != 401 || last {
                return Ok(answer);
            }
            self.session.forget(&own).await;
        }
        Err("no question was sent to Keystone".to_owned())
    }

    async fn validate(&self, question: TokenQuestion<'_>) -> Result<TokenOwner, TokenError> {
        let mut query = Vec::new();
        query.extend((!self.include_catalogue).then_some("nocatalog"));
        query.extend(question.allow_expired.then_some("allow_expired=1"));
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let call = |root: &str| {
            let call = ServiceRequest::get(format!("{root}/auth/tokens{query}"));
            // Without this header Keystone refuses tokens with access rules.
            call.secret("x-subject-token", question.token).header("openstack-identity-access-rules", "1")
        };
        let answer = self.ask(question.request, call).await.map_err(unavailable)?;
        let refused = |what: &str| unavailable(format!("Keystone {what} ({})", answer.complaint()));
        match answer.status {
            200 => {
                let body: Option<TokenBody> = serde_json::from_slice(&answer.body).ok();
                let owner = body.and_then(|body| body.token.owner());
                owner.ok_or_else(|| unavailable("Keystone's answer about a token cannot be read".to_owned()))
            }
            404 => Err(TokenError::Invalid),
            401 => Err(refused("does not accept the token of the service's own account")),
            403 => Err(refused(
                "does not let the service's own account validate tokens: give it the role service or admin",
            )),
            _ => Err(refused("did not validate the token")),
        }
    }
}

/// The error that Keystone cannot judge a token now. Its reason is for operators.
fn unavailable(reason: String) -> TokenError {
    TokenError::Unavailable(reason)
}

fn fingerprint(question: &TokenQuestion<'_>) -> Fingerprint {
    Sha256::digest(question.token.expose().as_bytes()).into()
}

#[async_trait]
impl IdentityProvider for KeystoneProvider {
    async fn owner(&self, question: TokenQuestion<'_>) -> Result<Arc<TokenOwner>, TokenError> {
        let text = question.token.expose();
        if text.is_empty() || text.len() > LONGEST_TOKEN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Invalid);
        }
        let fingerprint = fingerprint(&question);
        let counts = |owner: Arc<TokenOwner>| {
            let stands = question.allow_expired || self.clock.now() < owner.expires_at;
            stands.then_some(owner).ok_or(TokenError::Invalid)
        };
        if let Some(owner) = self.cache.get(&fingerprint, Instant::now()) {
            return counts(owner);
        }
        let began = Instant::now();
        let mut turn = self.questions.turn(fingerprint).await;
        if let Some(owner) = self.cache.get(&fingerprint, Instant::now()) {
            return counts(owner);
        }
        // Requests that waited share the failure. Otherwise each would wait for its own timeout.
        if let Some((_, error)) = turn.last.as_ref().filter(|(at, _)| *at >= began) {
            return Err(error.clone());
        }
        let _place = self.questions.place().await;
        // The cache time begins when the question is sent, because the answer may lack a later change.
        let asked = Instant::now();
        match self.validate(question).await {
            Ok(owner) => {
                let owner = Arc::new(owner);
                self.cache.put(fingerprint, &owner, asked);
                counts(owner)
            }
            Err(TokenError::Invalid) => Err(TokenError::Invalid),
            Err(error) => {
                *turn.last = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn knows_project(&self, project: &ProjectId, request: Option<&RequestId>) -> Result<bool, PortError> {
        // Other characters could change the path of the request, and no project's id has them.
        let id = project.as_str();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Ok(false);
        }
        let call = |root: &str| ServiceRequest::get(format!("{root}/projects/{id}"));
        let answer = self.ask(request, call).await.map_err(PortError::Unavailable)?;
        match answer.status {
            200 => Ok(true),
            404 => Ok(false),
            401 | 403 => {
                Err(PortError::Forbidden(format!("Keystone did not show the project ({})", answer.complaint())))
            }
            _ => Err(PortError::Unavailable(format!("Keystone did not show the project ({})", answer.complaint()))),
        }
    }
}
