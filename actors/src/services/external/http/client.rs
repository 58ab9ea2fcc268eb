//! The client of one service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chronova_events::ids::RequestId;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use thiserror::Error;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::breaker::CircuitBreaker;
use super::tally::{CallOutcome, CallTally};
use super::trust::{TlsTrust, TrustError};
use crate::ports::UserToken;

/// The limit on the length of an answer with a whole body, in bytes.
pub(super) const LONGEST_ANSWER: usize = 8 * 1024 * 1024;
/// The pause before the first repetition; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(150);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(20);
/// The status of a proxy whose service did not answer in time.
const GATEWAY_TIMEOUT: u16 = 504;

pub(super) type CallBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// How a service is called.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// The service's name in messages and metrics: `keystone`.
    pub name: &'static str,
    /// The longest time of one attempt, from its beginning to the end of the answer. For a stream: to its next piece.
    pub timeout: Duration,
    /// The most repetitions of a call. A call without an answer within `timeout` is never repeated.
    pub retries: u32,
    pub tls: TlsTrust,
}

/// A call.
pub struct ServiceRequest {
    method: Method,
    url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Option<Bytes>,
    malformed: bool,
}

/// Prints the method alone, because URL, headers and body may hold secrets.
impl std::fmt::Debug for ServiceRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

impl ServiceRequest {
    fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: Vec::new(), body: None, malformed: false }
    }

    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    pub fn post(url: impl Into<String>) -> Self {
        Self::new(Method::POST, url)
    }

    pub fn put(url: impl Into<String>) -> Self {
        Self::new(Method::PUT, url)
    }

    pub fn patch(url: impl Into<String>) -> Self {
        Self::new(Method::PATCH, url)
    }

    pub fn delete(url: impl Into<String>) -> Self {
        Self::new(Method::DELETE, url)
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => self.headers.push((HeaderName::from_static(name), value)),
            Err(_) => self.malformed = true,
        }
        self
    }

    /// A header whose value is never printed.
    #[must_use]
    pub fn secret(mut self, name: &'static str, value: &UserToken) -> Self {
        self = self.header(name, value.expose());
        if let Some((_, value)) = self.headers.last_mut() {
            value.set_sensitive(true);
        }
        self
    }

    /// The id of the request that this call is made for.
    #[must_use]
    pub fn on_behalf_of(self, request: Option<&RequestId>) -> Self {
        match request {
            Some(request) => self.header("x-openstack-request-id", request.as_str()),
            None => self,
        }
    }

    #[must_use]
    pub fn json(mut self, body: &Value) -> Self {
        self.body = Some(Bytes::from(body.to_string()));
        self.headers.retain(|(name, _)| name != CONTENT_TYPE);
        self.header("content-type", "application/json")
    }

    /// Replaces the header `content-type`.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.headers.retain(|(name, _)| name != CONTENT_TYPE);
        self.header("content-type", kind)
    }

    /// Whether the call creates or changes something. A deletion that takes effect late is harmless, because nothing
    /// of Chronova's uses the resource any more.
    pub(crate) fn is_change(&self) -> bool {
        matches!(self.method, Method::POST | Method::PUT | Method::PATCH)
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE)
    }

    /// The HTTP message with this body.
    pub(super) fn message(&self, body: CallBody) -> Result<Request<CallBody>, CallFailure> {
        let bad = || CallFailure::Malformed;
        if self.malformed {
            return Err(bad());
        }
        let uri: Uri = self.url.parse().map_err(|_| bad())?;
        let mut message = Request::new(body);
        *message.method_mut() = self.method.clone();
        *message.uri_mut() = uri;
        let headers = message.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static("chronova"));
        headers.extend(self.headers.iter().cloned());
        Ok(message)
    }

    /// The body of the message. Each repetition of the call needs its own copy.
    pub(super) fn whole_body(&self) -> CallBody {
        Full::new(self.body.clone().unwrap_or_default()).map_err(|never| match never {}).boxed_unsync()
    }
}

/// An answer with its whole body.
pub struct ServiceAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether an earlier attempt of the call was [`CallFailure::Late`].
    pub was_late: bool,
}

/// Prints the status alone, because the headers may hold a token.
impl std::fmt::Debug for ServiceAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl ServiceAnswer {
    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The status and the service's message about an error, in one short line.
    pub fn complaint(&self) -> String {
        const LONGEST: usize = 200;
        let said = self.json().and_then(|body| {
            let message =
                body.pointer("/error/message").or_else(|| body.get("message")).or_else(|| body.pointer("/errors/0"))?;
            message.as_str().map(str::to_owned)
        });
        let said = said.or_else(|| text_of_page(std::str::from_utf8(&self.body).ok()?));
        let text = said.unwrap_or_default().replace(['\r', '\n'], " ");
        let short: String = text.chars().take(LONGEST).collect();
        if short.is_empty() { self.status.to_string() } else { format!("{}: {short}", self.status) }
    }
}

/// The error text of a WebOb page, which Glance sends: the text after the heading, without tags.
fn text_of_page(page: &str) -> Option<String> {
    let (_, after) = page.split_once("</h1>")?;
    let texts = after.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let words: Vec<&str> = texts.flat_map(str::split_whitespace).collect();
    Some(words.join(" "))
}

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallFailure {
    /// The same call may succeed later.
    #[error("{0}")]
    Unanswered(String),
    /// The same call may succeed later. No answer came in time, so the service may still do what this call asks.
    #[error("{0}")]
    Late(String),
    /// The address or a header is not valid.
    #[error("the address or a header of the call is malformed")]
    Malformed,
}

/// Calls one service.
pub struct ServiceClient {
    pub(super) options: CallOptions,
    pub(super) client: Client<HttpsConnector<HttpConnector>, CallBody>,
    pub(super) breaker: CircuitBreaker,
    tally: Arc<CallTally>,
}

impl std::fmt::Debug for ServiceClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceClient").field("name", &self.options.name).finish_non_exhaustive()
    }
}

impl ServiceClient {
    pub fn new(options: CallOptions) -> Result<Arc<Self>, TrustError> {
        let mut plain = HttpConnector::new();
        plain.enforce_http(false);
        plain.set_connect_timeout(Some(options.timeout));
        plain.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(options.tls.client_config()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(plain);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(16)
            .build(connector);
        Ok(Arc::new(Self { options, client, breaker: CircuitBreaker::default(), tally: Arc::default() }))
    }

    pub fn name(&self) -> &'static str {
        self.options.name
    }

    pub fn tally(&self) -> &Arc<CallTally> {
        &self.tally
    }

    /// The reason why the last call had no answer; `None` if it had one.
    pub fn trouble(&self) -> Option<String> {
        self.breaker.trouble()
    }

    /// Makes a call, and reads its answer.
    pub async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, CallFailure> {
        let mut was_late = false;
        for made in 0..=self.options.retries {
            let attempt = self.attempt(&request).await.map_err(|refused| match refused {
                CallFailure::Unanswered(reason) if was_late => CallFailure::Late(reason),
                other => other,
            });
            match attempt? {
                Ok(answer) => return Ok(ServiceAnswer { was_late, ..answer }),
                Err(failure) if made == self.options.retries || !failure.again => {
                    self.breaker.failed(Instant::now(), &failure.reason);
                    return Err(match was_late || failure.late {
                        true => CallFailure::Late(failure.reason),
                        false => CallFailure::Unanswered(failure.reason),
                    });
                }
                Err(failure) => {
                    was_late |= failure.late;
                    tracing::debug!(service = self.options.name, reason = failure.reason, "called again");
                    tokio::time::sleep(pause_of(made)).await;
                }
            }
        }
        Err(CallFailure::Unanswered(format!("no call of {} was made", self.options.name)))
    }

    async fn attempt(&self, request: &ServiceRequest) -> Result<Result<ServiceAnswer, Silence>, CallFailure> {
        let idempotent = request.is_idempotent();
        let message = request.message(request.whole_body())?;
        let began = self.begin()?;
        let whole = async {
            let response = self.client.request(message).await.map_err(|error| {
                // A call that did not reach the service is repeated even if it is not idempotent.
                Silence { reason: self.silence(&error), again: idempotent || error.is_connect(), late: false }
            })?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await.map_err(|error| {
                let long = error.downcast_ref::<LengthLimitError>().is_some();
                let what = if long { "sent too large an answer" } else { "ended its answer early" };
                Silence { reason: format!("{} {what}", self.options.name), again: idempotent && !long, late: false }
            })?;
            let (status, headers) = (parts.status.as_u16(), parts.headers);
            Ok(ServiceAnswer { status, headers, body: body.to_bytes(), was_late: false })
        };
        let (service, method) = (self.options.name, request.method.as_str());
        let span = tracing::info_span!(target: "spans", "service", service, method, status = Empty, error = Empty);
        let whole = whole.instrument(span.clone());
        let answer = tokio::time::timeout(self.options.timeout, whole).await.unwrap_or_else(|_| Err(self.late()));
        match &answer {
            Ok(answer) => span.record("status", answer.status),
            Err(silence) => span.record("error", silence.reason.as_str()),
        };
        let answer = match answer {
            Ok(answer) if is_of_a_proxy(answer.status) => Err(Silence {
                reason: format!("{} answers {}", self.options.name, answer.complaint()),
                again: idempotent,
                late: answer.status == GATEWAY_TIMEOUT,
            }),
            other => other,
        };
        self.end(began, answer.as_ref().ok().map(|answer| answer.status));
        Ok(answer)
    }

    pub(super) fn begin(&self) -> Result<Instant, CallFailure> {
        let now = Instant::now();
        self.breaker.admit(now).map_err(|reason| {
            self.tally.count(CallOutcome::NotMade, Duration::ZERO);
            CallFailure::Unanswered(reason)
        })?;
        Ok(now)
    }

    pub(super) fn end(&self, began: Instant, status: Option<u16>) {
        let outcome = status.map_or(CallOutcome::Unanswered, CallOutcome::of_status);
        self.tally.count(outcome, began.elapsed());
        if outcome != CallOutcome::Unanswered {
            self.breaker.answered();
        }
    }

    pub(super) fn late(&self) -> Silence {
        let reason = format!("{} does not answer within {} s", self.options.name, self.options.timeout.as_secs_f32());
        Silence { reason, again: false, late: true }
    }

    /// Describes the error by its innermost cause, such as "connection refused". The text has no address, because an
    /// address could hold a password.
    pub(super) fn silence(&self, error: &hyper_util::client::legacy::Error) -> String {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let name = self.options.name;
        if error.is_connect() {
            format!("{name} cannot be reached: {cause}")
        } else {
            format!("{name} broke the connection: {cause}")
        }
    }
}

/// Whether the status is that of a proxy whose service does not answer.
pub(super) fn is_of_a_proxy(status: u16) -> bool {
    matches!(status, 502..=504)
}

/// Why an attempt had no answer.
pub(super) struct Silence {
    pub reason: String,
    /// Whether the call may be repeated.
    pub again: bool,
    /// Whether the service may still do what the call asks.
    pub late: bool,
}

/// The pause before the next repetition, after `repetitions` earlier ones.
pub(in crate::services::external) fn pause_of(repetitions: u32) -> Duration {
    jittered((FIRST_PAUSE * 2_u32.pow(repetitions.min(8))).min(LONGEST_PAUSE))
}

/// A random pause between half of `pause` and all of it, so that many callers do not return at the same moment.
pub(in crate::services::external) fn jittered(pause: Duration) -> Duration {
    let mut random = [0_u8; 1];
    let _ = getrandom::fill(&mut random);
    pause.mul_f32(0.5 + f32::from(random[0]) / 512.0)
}
