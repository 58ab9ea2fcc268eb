//! Calls a service in Keystone's catalogue: chooses the service's address, and the tokens that the call carries.
//!
//! A call for a user carries the user's token, so the service applies the user's rights. With `[service_user]
//! send_service_user_token`, the call also carries a token of Chronova's service user. The service then accepts the
//! user's token for a while after its expiry, so that long work can end. A call without a user carries the token of
//! Chronova's own account. If the service has [`ServicePlace::vouches_for_itself`], a call without a user also carries
//! the service user's token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chronova_events::ids::RequestId;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use super::document::endpoint;
use super::late_changes::LateChanges;
use super::session::{KeystoneSession, SessionToken};
use crate::ports::UserToken;
use crate::services::external::http::{
    CallFailure, CallOptions, OpenedAnswer, ServiceAnswer, ServiceClient, ServiceRequest, TrustError,
};

/// The longest wait of [`CalledService::again_if_late`], because a timeout may be set to an hour, and an undo waits.
const LONGEST_SETTLE: Duration = Duration::from_mins(1);

/// Where a service is: its addresses, or its type in the catalogue.
#[derive(Debug, Clone, Default)]
pub struct ServicePlace {
    /// `endpoint_override`, or several addresses of the same service. If empty, the catalogue has the address.
    pub endpoints: Vec<String>,
    /// The service's type in the catalogue: `image`.
    pub service_type: String,
    /// `valid_interfaces`, the best first.
    pub interfaces: Vec<String>,
    pub region: Option<String>,
    /// The API's version, for example `v2`; an endpoint may lack it. Cinder's endpoints have a project after the
    /// version. The client leaves this project out, because each call names a project itself.
    pub version: &'static str,
    /// Whether a call without a user carries the token of the service user, too. Cinder lets only a service end an
    /// attachment that a server has.
    pub vouches_for_itself: bool,
}

/// The user or the account for which a service is called.
#[derive(Debug, Clone, Copy)]
pub enum Asker<'a> {
    User(&'a UserToken),
    /// Chronova's own account.
    Own,
}

/// The two accounts with which a service is called.
#[derive(Debug, Clone)]
pub struct CallingAccounts {
    /// The account of calls without a user. The catalogue also comes from this account's token.
    pub own: Arc<KeystoneSession>,
    /// The service user, whose token accompanies a user's token; `None`: a call carries only the user's token.
    pub vouching: Option<Arc<KeystoneSession>>,
}

/// A service, with the clients and the accounts that call it.
#[derive(Debug)]
pub struct CalledService {
    calls: CallOptions,
    place: ServicePlace,
    /// One client for each of the place's endpoints, or a single client if the catalogue has the address.
    clients: Vec<Arc<ServiceClient>>,
    accounts: CallingAccounts,
    late: LateChanges,
}

/// The addresses that a call may go to, and the tokens of Chronova's accounts for the call.
struct CallTokens {
    roots: Vec<String>,
    own: Option<Arc<SessionToken>>,
    vouching: Option<Arc<SessionToken>>,
}

impl CalledService {
    pub fn new(calls: CallOptions, place: ServicePlace, accounts: CallingAccounts) -> Result<Arc<Self>, TrustError> {
        let clients: Result<_, _> =
            (0..place.endpoints.len().max(1)).map(|_| ServiceClient::new(calls.clone())).collect();
        Ok(Arc::new(Self { calls, place, clients: clients?, accounts, late: LateChanges::default() }))
    }

    pub fn options(&self) -> &CallOptions {
        &self.calls
    }

    pub fn clients(&self) -> &[Arc<ServiceClient>] {
        &self.clients
    }

    /// Where the service is, in words.
    pub fn address(&self) -> String {
        match self.place.endpoints.as_slice() {
            [] => format!("the {} endpoint of Keystone's catalogue", self.place.service_type),
            all => all.join(", "),
        }
    }

    /// Makes a call, and reads its answer. `build` makes the call for a root, which is an address with the API's
    /// version. After a 401, the call is made once more if one of Chronova's tokens may be the reason.
    pub async fn call(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        build: impl Fn(&str) -> ServiceRequest + Send + Sync,
    ) -> Result<ServiceAnswer, CallFailure> {
        let first = self.call_once(asker, request, &build).await?;
        if first.0.status != 401 || !self.doubt(asker, &first.1).await {
            return Ok(first.0);
        }
        Ok(self.call_once(asker, request, &build).await?.0)
    }

    /// Does work that looks for earlier changes of this request, such as an undo. If some of these changes had no answer
    /// in time, waits until the service has made them or will not make them. Then it does the work once more, with the
    /// first result. If `is_last` holds for the first result, there is no wait and no repetition.
    pub async fn again_if_late<T, F>(
        &self,
        request: Option<&RequestId>,
        work: impl Fn(Option<T>) -> F + Send + Sync,
        is_last: impl Fn(&T) -> bool + Send + Sync,
    ) -> T
    where
        T: Send + Sync,
        F: Future<Output = T> + Send,
    {
        let first = work(None).await;
        if is_last(&first) || !self.settle(request).await {
            return first;
        }
        work(Some(first)).await
    }

    /// Waits until the service has made all changes of this request that had no answer in time, or will not make them.
    /// Returns whether it waited. The service has just answered, so it works again. It gets the time of one more
    /// timeout, at most a minute, for its older calls.
    pub async fn settle(&self, request: Option<&RequestId>) -> bool {
        let Some((request, given_up)) = request.and_then(|request| Some((request, self.late.of(request)?))) else {
            return false;
        };
        tracing::info!(service = self.calls.name, %request, "waiting for changes that had no answer in time");
        self.settle_anyway().await;
        self.late.forget(request, given_up);
        true
    }

    /// Waits as long as [`settle`](Self::settle), for changes that an earlier life of the control plane may have
    /// requested.
    pub async fn settle_anyway(&self) {
        tokio::time::sleep(self.calls.timeout.min(LONGEST_SETTLE)).await;
    }

    /// The project of Chronova's own account, which makes the calls without a user.
    pub async fn own_project(&self, request: Option<&RequestId>) -> Result<Option<String>, CallFailure> {
        let own = self.accounts.own.token(request).await.map_err(CallFailure::Unanswered)?;
        Ok(own.project.clone())
    }

    async fn call_once(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        build: &(impl Fn(&str) -> ServiceRequest + Send + Sync),
    ) -> Result<(ServiceAnswer, CallTokens), CallFailure> {
        let tokens = self.tokens(asker, request).await?;
        let (again, changing) = {
            let call = build("http://unused");
            (call.is_idempotent(), request.filter(|_| call.is_change()))
        };
        let late = &self.late;
        // Another address may answer after one was late, so the note is made for each address.
        let made = self.try_each(&tokens.roots, again, |client, root| {
            let call = signed(build(root), asker, &tokens).on_behalf_of(request);
            Box::pin(async move {
                let made = client.call(call).await;
                if let Some(request) = changing.filter(|_| is_late(&made)) {
                    late.note(request, Instant::now());
                }
                made
            })
        });
        let answer = made.await?;
        Ok((answer, tokens))
    }

    /// Makes a call whose answer is a stream of bytes.
    pub async fn open(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        build: impl Fn(&str) -> ServiceRequest + Send + Sync,
    ) -> Result<OpenedAnswer, CallFailure> {
        for last in [false, true] {
            let tokens = self.tokens(asker, request).await?;
            let made = self.try_each(&tokens.roots, true, |client, root| {
                let call = signed(build(root), asker, &tokens).on_behalf_of(request);
                Box::pin(client.open(call))
            });
            let answer = made.await?;
            if last || answer.status() != 401 || !self.doubt(asker, &tokens).await {
                return Ok(answer);
            }
        }
        Err(CallFailure::Malformed)
    }

    /// Sends a stream of bytes to the first endpoint, and only once, because the bytes cannot be sent again.
    pub async fn upload(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        build: impl FnOnce(&str) -> ServiceRequest + Send,
        bytes: BoxStream<'static, std::io::Result<Bytes>>,
    ) -> Result<ServiceAnswer, CallFailure> {
        let tokens = self.tokens(asker, request).await?;
        let (Some(client), Some(root)) = (self.clients.first(), tokens.roots.first()) else {
            return Err(CallFailure::Malformed);
        };
        client.upload(signed(build(root), asker, &tokens).on_behalf_of(request), bytes).await
    }

    /// Tries one address after the other, until one answers. Only an idempotent call (`again`) is tried at a second
    /// address.
    async fn try_each<'a, T>(
        &'a self,
        roots: &'a [String],
        again: bool,
        make: impl Fn(&'a ServiceClient, &'a str) -> BoxFuture<'a, Result<T, CallFailure>> + Send,
    ) -> Result<T, CallFailure> {
        let mut made = Err(CallFailure::Malformed);
        for (client, root) in self.clients.iter().zip(roots) {
            made = make(client, root).await;
            if !again || !matches!(made, Err(CallFailure::Unanswered(_) | CallFailure::Late(_))) {
                break;
            }
        }
        made
    }

    async fn tokens(&self, asker: Asker<'_>, request: Option<&RequestId>) -> Result<CallTokens, CallFailure> {
        let is_user = matches!(asker, Asker::User(_));
        let own = match is_user && !self.place.endpoints.is_empty() {
            true => None,
            false => Some(self.accounts.own.token(request).await.map_err(CallFailure::Unanswered)?),
        };
        let vouches = is_user || self.place.vouches_for_itself;
        let vouching = match self.accounts.vouching.as_ref().filter(|_| vouches) {
            Some(account) => Some(account.token(request).await.map_err(CallFailure::Unanswered)?),
            None => None,
        };
        Ok(CallTokens { roots: self.roots(own.as_deref())?, own, vouching })
    }

    fn roots(&self, own: Option<&SessionToken>) -> Result<Vec<String>, CallFailure> {
        if !self.place.endpoints.is_empty() {
            return Ok(self.place.endpoints.iter().map(|url| self.root(url)).collect());
        }
        let interfaces: Vec<&str> = self.place.interfaces.iter().map(String::as_str).collect();
        let (kind, region) = (self.place.service_type.as_str(), self.place.region.as_deref());
        let found = own.and_then(|own| endpoint(&own.catalogue, &[kind], &interfaces, region));
        let place = || region.map(|region| format!(" in region {region}")).unwrap_or_default();
        let missing = || {
            let interfaces = interfaces.join(" or ");
            CallFailure::Unanswered(format!("the catalogue has no {interfaces} endpoint of the type {kind}{}", place()))
        };
        Ok(vec![self.root(found.ok_or_else(missing)?)])
    }

    fn root(&self, url: &str) -> String {
        let (url, version) = (url.trim_end_matches('/'), self.place.version);
        let parts: Vec<&str> = url.split('/').collect();
        match parts.iter().rposition(|part| *part == version) {
            Some(at) => parts[..=at].join("/"),
            None => format!("{url}/{version}"),
        }
    }

    /// Whether the service may have refused one of Chronova's own tokens. If so, forgets that token, so that the next
    /// call gets another.
    async fn doubt(&self, asker: Asker<'_>, tokens: &CallTokens) -> bool {
        let mut forgotten = false;
        for (account, token) in self.carried(asker, tokens) {
            forgotten |= account.doubt(token).await;
        }
        forgotten
    }

    /// The tokens of Chronova's accounts that a call carries, with their accounts. The account's token with the
    /// catalogue is left out of a user's call.
    fn carried<'a>(
        &'a self,
        asker: Asker<'_>,
        tokens: &'a CallTokens,
    ) -> Vec<(&'a KeystoneSession, &'a Arc<SessionToken>)> {
        let own = tokens.own.as_ref().filter(|_| matches!(asker, Asker::Own)).map(|token| (&*self.accounts.own, token));
        let vouching = self.accounts.vouching.as_deref().zip(tokens.vouching.as_ref());
        own.into_iter().chain(vouching).collect()
    }
}

/// Whether the service may still do what an attempt of the call asked.
fn is_late(made: &Result<ServiceAnswer, CallFailure>) -> bool {
    match made {
        Ok(answer) => answer.was_late,
        Err(failure) => matches!(failure, CallFailure::Late(_)),
    }
}

/// The call with its tokens.
fn signed(call: ServiceRequest, asker: Asker<'_>, tokens: &CallTokens) -> ServiceRequest {
    let call = match (asker, &tokens.own) {
        (Asker::User(user), _) => call.secret("x-auth-token", user),
        (Asker::Own, Some(own)) => call.secret("x-auth-token", &own.token),
        (Asker::Own, None) => call,
    };
    match &tokens.vouching {
        Some(vouching) => call.secret("x-service-token", &vouching.token),
        None => call,
    }
}

#[cfg(test)]
mod tests;
