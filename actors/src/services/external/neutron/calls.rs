//! Makes requests to Neutron, for users and for Chronova itself, and interprets Neutron's refusals.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::envelope::Meta;
use chronova_events::ids::RequestId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::ports::{PortError, ServiceCaller};
use crate::services::external::http::{ServiceAnswer, ServiceRequest};
use crate::services::external::keystone::{Asker, CalledService};

/// The most ids in one query. More would make the URL too long for Neutron's HTTP server.
const IDS: usize = 100;
/// The most pages of one list. A Neutron with `pagination_max_limit` sends long lists in pages.
const PAGES: usize = 100;

/// The user or the account that calls Neutron, and the id of the API request that caused the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeutronCaller<'a> {
    asker: Asker<'a>,
    request: Option<&'a RequestId>,
}

impl<'a> NeutronCaller<'a> {
    /// The user, if the caller has a token; otherwise the account of `[neutron]`.
    pub(super) fn of(caller: &'a ServiceCaller) -> Self {
        let asker = caller.token.as_ref().map_or(Asker::Own, Asker::User);
        Self { asker, request: caller.meta.request_id.as_ref() }
    }

    /// Chronova, with the account of `[neutron]`.
    pub(super) fn account(meta: &'a Meta) -> Self {
        Self { asker: Asker::Own, request: meta.request_id.as_ref() }
    }

    pub(super) const fn is_user(&self) -> bool {
        matches!(self.asker, Asker::User(_))
    }

    /// The account of `[neutron]`, for the same request.
    const fn as_account(self) -> Self {
        Self { asker: Asker::Own, ..self }
    }
}

/// Neutron's refusal.
#[derive(Debug)]
pub(super) struct NeutronRefusal {
    status: u16,
    /// The name of Neutron's exception, for example `MacAddressInUse`.
    pub kind: String,
    message: String,
}

impl NeutronRefusal {
    fn read(answer: &ServiceAnswer) -> Self {
        #[derive(Deserialize)]
        struct Body {
            #[serde(rename = "NeutronError")]
            error: Value,
        }
        let body: Option<Body> = serde_json::from_slice(&answer.body).ok();
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, message) = match body.map(|body| body.error) {
            Some(Value::String(message)) => (String::new(), message),
            Some(error) => (text(&error, "type"), text(&error, "message")),
            None => (String::new(), answer.complaint()),
        };
        Self { status: answer.status, kind, message }
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum NeutronError {
    Refused(NeutronRefusal),
    Unavailable(String),
}

impl NeutronError {
    pub(super) fn kind(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.kind,
            Self::Unavailable(_) => "",
        }
    }

    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Refused(refusal) => refusal.status,
            Self::Unavailable(_) => 503,
        }
    }
}

impl From<NeutronError> for PortError {
    fn from(error: NeutronError) -> Self {
        let NeutronRefusal { status, kind, message } = match error {
            NeutronError::Refused(refusal) => refusal,
            NeutronError::Unavailable(reason) => return Self::Unavailable(reason),
        };
        match (status, kind.as_str()) {
            (_, "OverQuota") => Self::Forbidden(message),
            (404, _) => Self::NotFound(message),
            (400, _) => Self::Invalid(message),
            (409, _) => Self::Conflict(message),
            (401 | 403, _) => Self::Forbidden(message),
            _ => Self::Unavailable(format!("Neutron answers {status}: {message}")),
        }
    }
}

pub(super) type NeutronResult<T> = Result<T, NeutronError>;

/// The names of Neutron's extensions, and when they were read.
type KnownExtensions = Option<(Instant, Arc<Vec<String>>)>;

/// Makes the requests.
#[derive(Debug)]
pub(super) struct NeutronCalls {
    service: Arc<CalledService>,
    /// `extension_sync_interval`.
    sync_interval: Duration,
    extensions: Mutex<KnownExtensions>,
    /// Held by the caller that reads the list of extensions again.
    refresh: Mutex<()>,
}

impl NeutronCalls {
    pub(super) fn new(service: Arc<CalledService>, sync_interval: Duration) -> Self {
        Self { service, sync_interval, extensions: Mutex::default(), refresh: Mutex::default() }
    }

    pub(super) fn service(&self) -> &Arc<CalledService> {
        &self.service
    }

    /// Looks at ports and changes them, and does this once more if earlier changes of the same request had no answer in
    /// time; see [`CalledService::again_if_late`]. An error ends the work.
    pub(super) async fn again_if_late<F>(
        &self,
        meta: &Meta,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<(), PortError>
    where
        F: Future<Output = Result<(), PortError>> + Send,
    {
        self.service.again_if_late(meta.request_id.as_ref(), |_| work(), Result::is_err).await
    }

    /// Makes one request.
    async fn ask(
        &self,
        caller: NeutronCaller<'_>,
        call: impl Fn(&str) -> ServiceRequest + Send + Sync,
    ) -> NeutronResult<ServiceAnswer> {
        let answer = self.service.call(caller.asker, caller.request, call).await;
        let answer = answer.map_err(|failure| NeutronError::Unavailable(failure.to_string()))?;
        match (answer.status, caller.asker) {
            (200..=299, _) => Ok(answer),
            (401, Asker::Own) => {
                let words = format!("Neutron does not accept Chronova's own account ({})", answer.complaint());
                Err(NeutronError::Unavailable(words))
            }
            _ => Err(NeutronError::Refused(NeutronRefusal::read(&answer))),
        }
    }

    /// All pages of a list: `list(asker, "ports", "device_id=...")`.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        query: &str,
    ) -> NeutronResult<Vec<T>> {
        let key = resource.replace('-', "_");
        self.list_pages(asker, resource, &key, query).await
    }

    /// A list below a resource, such as `ports/ID/bindings`.
    pub(super) async fn list_in<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        path: &str,
        key: &str,
    ) -> NeutronResult<Vec<T>> {
        self.list_pages(asker, path, key, "").await
    }

    async fn list_pages<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        key: &str,
        query: &str,
    ) -> NeutronResult<Vec<T>> {
        let (mut found, mut marker) = (Vec::new(), None::<String>);
        for _ in 0..PAGES {
            let next = marker.take().map(|marker| format!("&marker={marker}")).unwrap_or_default();
            let call = |root: &str| ServiceRequest::get(format!("{root}/{resource}?{query}{next}"));
            let answer = self.ask(asker, call).await?;
            let mut body = answer.json().unwrap_or_default();
            let page: Vec<Value> = serde_json::from_value(taken(&mut body, key)).map_err(|_| no_sense(resource))?;
            let more = page.last().and_then(|last| last["id"].as_str()).map(str::to_owned);
            for one in page {
                found.push(serde_json::from_value(one).map_err(|_| no_sense(resource))?);
            }
            let links = body.get(format!("{key}_links")).and_then(Value::as_array);
            let is_next = |link: &Value| link["rel"].as_str() == Some("next");
            match links.is_some_and(|links| links.iter().any(is_next)) {
                true => marker = more,
                false => return Ok(found),
            }
            if marker.is_none() {
                return Ok(found);
            }
        }
        Err(NeutronError::Unavailable(format!("Neutron has too many {resource}")))
    }

    /// The resources whose field `by` has one of these values, in requests of bounded length. Each query ends with
    /// `more`, for example `&fields=id`.
    pub(super) async fn list_by<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        by: &str,
        values: &[String],
        more: &str,
    ) -> NeutronResult<Vec<T>> {
        let mut found = Vec::new();
        for some in values.chunks(IDS) {
            let named: Vec<String> = some.iter().map(|value| format!("{by}={}", encoded(value))).collect();
            found.extend(self.list(asker, resource, &format!("{}{more}", named.join("&"))).await?);
        }
        Ok(found)
    }

    /// One resource: `show(asker, "ports", "port", id)`.
    pub(super) async fn show<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        key: &str,
        id: &str,
    ) -> NeutronResult<T> {
        self.show_by(asker, resource, key, id, "").await
    }

    /// One resource, with a query such as `?fields=id`.
    pub(super) async fn show_by<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        key: &str,
        id: &str,
        query: &str,
    ) -> NeutronResult<T> {
        let call = |root: &str| ServiceRequest::get(format!("{root}/{resource}/{}{query}", encoded(id)));
        read(&self.ask(asker, call).await?, key)
    }

    pub(super) async fn create<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        key: &str,
        body: Map<String, Value>,
    ) -> NeutronResult<T> {
        let body = wrapped(key, body);
        let call = |root: &str| ServiceRequest::post(format!("{root}/{resource}")).json(&body);
        read(&self.ask(asker, call).await?, key)
    }

    pub(super) async fn change<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        key: &str,
        id: &str,
        body: Map<String, Value>,
    ) -> NeutronResult<T> {
        let body = wrapped(key, body);
        let call = |root: &str| ServiceRequest::put(format!("{root}/{resource}/{}", encoded(id))).json(&body);
        read(&self.ask(asker, call).await?, key)
    }

    /// An action on a resource, such as `ports/ID/bindings/HOST/activate`. The call has no body, because Neutron would
    /// take a body as another argument, and answer 500.
    pub(super) async fn put(&self, asker: NeutronCaller<'_>, path: &str) -> NeutronResult<()> {
        let call = |root: &str| ServiceRequest::put(format!("{root}/{path}"));
        self.ask(asker, call).await.map(drop)
    }

    pub(super) async fn delete(&self, asker: NeutronCaller<'_>, resource: &str, id: &str) -> NeutronResult<()> {
        let call = |root: &str| ServiceRequest::delete(format!("{root}/{resource}/{}", encoded(id)));
        self.ask(asker, call).await.map(drop)
    }

    /// Whether Neutron has an extension. The list of extensions is read again after `extension_sync_interval`. One
    /// caller reads it, and the others use the old list meanwhile. While there is no list, each caller reads it, so
    /// that nobody waits for the call of another.
    pub(super) async fn has_extension(&self, asker: NeutronCaller<'_>, alias: &str) -> NeutronResult<bool> {
        #[derive(Deserialize)]
        struct Extension {
            alias: String,
        }
        let has = |names: &[String]| names.iter().any(|name| name == alias);
        let known = self.extensions.lock().await.clone();
        if let Some((at, names)) = &known
            && at.elapsed() < self.sync_interval
        {
            return Ok(has(names));
        }
        let turn = self.refresh.try_lock().ok();
        if let (None, Some((_, old))) = (&turn, &known) {
            return Ok(has(old));
        }
        let all: Vec<Extension> = self.list(asker.as_account(), "extensions", "fields=alias").await?;
        let names: Arc<Vec<String>> = Arc::new(all.into_iter().map(|one| one.alias).collect());
        let found = has(&names);
        *self.extensions.lock().await = Some((Instant::now(), names));
        drop(turn);
        Ok(found)
    }
}

fn wrapped(key: &str, body: Map<String, Value>) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), Value::Object(body))]))
}

fn read<T: DeserializeOwned>(answer: &ServiceAnswer, key: &str) -> NeutronResult<T> {
    let mut body = answer.json().unwrap_or_default();
    serde_json::from_value(taken(&mut body, key)).map_err(|_| no_sense(key))
}

/// A field of an answer; null if the answer is no object.
fn taken(body: &mut Value, key: &str) -> Value {
    body.get_mut(key).map(Value::take).unwrap_or_default()
}

fn no_sense(what: &str) -> NeutronError {
    NeutronError::Unavailable(format!("Neutron's answer about {what} cannot be read"))
}

/// Percent-encodes a value for a query or a path.
pub(super) fn encoded(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => safe.push(char::from(byte)),
            other => {
                // Writing to a `String` cannot fail.
                let _ = write!(safe, "%{other:02X}");
            }
        }
    }
    safe
}

/// The fields of a JSON object.
pub(super) fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
