//! Makes requests to Neutron: chooses the token and the address, and maps refusals to errors of the port.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::clock::Clock;
use chronova_events::envelope::Meta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::NeutronOptions;
use crate::ports::{PortError, ServiceCaller, UserToken};
use crate::services::external::http::{ServiceAnswer, ServiceClient, ServiceRequest, TrustError};
use crate::services::external::keystone::document::endpoint;
use crate::services::external::keystone::session::{KeystoneSession, SessionToken};

/// The most ids in one query. More would make the URL too long for Neutron's HTTP server.
const IDS: usize = 100;
/// The most pages of one list. A Neutron with `pagination_max_limit` sends long lists in pages.
const PAGES: usize = 100;

/// The user or the account for which a request is made. Its token goes with the request.
#[derive(Debug, Clone, Copy)]
pub(super) enum NeutronCaller<'a> {
    /// A user, with their own token.
    User(&'a UserToken, &'a Meta),
    /// Chronova, with the account of `[neutron]`.
    Account(&'a Meta),
}

impl<'a> NeutronCaller<'a> {
    /// The user, if the caller has a token; otherwise the account of `[neutron]`.
    pub(super) fn of(caller: &'a ServiceCaller) -> Self {
        match &caller.token {
            Some(token) => Self::User(token, &caller.meta),
            None => Self::Account(&caller.meta),
        }
    }

    const fn meta(&self) -> &'a Meta {
        match self {
            Self::User(_, meta) | Self::Account(meta) => meta,
        }
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
pub(super) struct NeutronCalls {
    options: NeutronOptions,
    client: Arc<ServiceClient>,
    session: Arc<KeystoneSession>,
    extensions: Mutex<KnownExtensions>,
}

impl std::fmt::Debug for NeutronCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NeutronCalls").field("session", &self.session).finish_non_exhaustive()
    }
}

impl NeutronCalls {
    pub(super) fn new(options: NeutronOptions, clock: Arc<dyn Clock>) -> Result<Self, TrustError> {
        let client = ServiceClient::new(options.calls.clone())?;
        // Keystone has its own client, because a Keystone that does not answer must not stop the calls to Neutron.
        let keystone = ServiceClient::new(options.calls.clone())?;
        let session = KeystoneSession::new(options.account.clone(), keystone, clock);
        Ok(Self { options, client, session, extensions: Mutex::default() })
    }

    pub(super) fn client(&self) -> &Arc<ServiceClient> {
        &self.client
    }

    /// The root of the API's URLs.
    fn root(&self, own: &SessionToken) -> NeutronResult<String> {
        let found = self.options.endpoint.as_deref().or_else(|| {
            let interfaces: Vec<&str> = self.options.interfaces.iter().map(String::as_str).collect();
            endpoint(&own.catalogue, &[&self.options.service_type], &interfaces, self.options.region.as_deref())
        });
        let found = found.ok_or_else(|| {
            let (kind, interfaces) = (&self.options.service_type, self.options.interfaces.join(" or "));
            NeutronError::Unavailable(format!("Keystone's catalogue has no {interfaces} endpoint of the type {kind}"))
        })?;
        let bare = found.trim_end_matches('/');
        Ok(if bare.ends_with("/v2.0") { bare.to_owned() } else { format!("{bare}/v2.0") })
    }

    /// Makes one request. If Neutron refuses the token of Chronova's own account, the request is repeated once with a
    /// new token.
    async fn ask(
        &self,
        asker: NeutronCaller<'_>,
        call: impl Fn(&str) -> ServiceRequest + Send + Sync,
    ) -> NeutronResult<ServiceAnswer> {
        let request = asker.meta().request_id.as_ref();
        for last in [false, true] {
            let own = self.session.token(request).await.map_err(NeutronError::Unavailable)?;
            let token = match asker {
                NeutronCaller::User(token, _) => token,
                NeutronCaller::Account(_) => &own.token,
            };
            let call = call(&self.root(&own)?).secret("x-auth-token", token).on_behalf_of(request);
            let answer = self.client.call(call).await.map_err(|error| NeutronError::Unavailable(error.to_string()))?;
            match (answer.status, asker) {
                (200..=299, _) => return Ok(answer),
                (401, NeutronCaller::Account(_)) if !last => self.session.forget(&own).await,
                (401, NeutronCaller::Account(_)) => {
                    let words = format!("Neutron does not accept Chronova's own account ({})", answer.complaint());
                    return Err(NeutronError::Unavailable(words));
                }
                _ => return Err(NeutronError::Refused(NeutronRefusal::read(&answer))),
            }
        }
        Err(NeutronError::Unavailable("the request to Neutron was not made".to_owned()))
    }

    /// All pages of a list: `list(asker, "ports", "device_id=...")`.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        asker: NeutronCaller<'_>,
        resource: &str,
        query: &str,
    ) -> NeutronResult<Vec<T>> {
        let key = resource.replace('-', "_");
        let (mut found, mut marker) = (Vec::new(), None::<String>);
        for _ in 0..PAGES {
            let next = marker.take().map(|marker| format!("&marker={marker}")).unwrap_or_default();
            let call = |root: &str| ServiceRequest::get(format!("{root}/{resource}?{query}{next}"));
            let answer = self.ask(asker, call).await?;
            let mut body = answer.json().unwrap_or_default();
            let page: Vec<Value> = serde_json::from_value(body[&key].take()).map_err(|_| no_sense(resource))?;
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

    /// The resources whose field `by` has one of these values, in requests of bounded length.
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
        let call = |root: &str| ServiceRequest::get(format!("{root}/{resource}/{}", encoded(id)));
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

    pub(super) async fn delete(&self, asker: NeutronCaller<'_>, resource: &str, id: &str) -> NeutronResult<()> {
        let call = |root: &str| ServiceRequest::delete(format!("{root}/{resource}/{}", encoded(id)));
        self.ask(asker, call).await.map(drop)
    }

    /// Whether Neutron has an extension. Its list is read again after `extension_sync_interval`.
    pub(super) async fn has_extension(&self, asker: NeutronCaller<'_>, alias: &str) -> NeutronResult<bool> {
        #[derive(Deserialize)]
        struct Extension {
            alias: String,
        }
        let mut known = self.extensions.lock().await;
        let fresh = |at: &Instant, every: Duration| at.elapsed() < every;
        if let Some((at, names)) = known.as_ref()
            && fresh(at, self.options.extension_sync_interval)
        {
            return Ok(names.iter().any(|name| name == alias));
        }
        let all: Vec<Extension> = self.list(NeutronCaller::Account(asker.meta()), "extensions", "fields=alias").await?;
        let names: Arc<Vec<String>> = Arc::new(all.into_iter().map(|one| one.alias).collect());
        let has = names.iter().any(|name| name == alias);
        *known = Some((Instant::now(), names));
        Ok(has)
    }
}

fn wrapped(key: &str, body: Map<String, Value>) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), Value::Object(body))]))
}

fn read<T: DeserializeOwned>(answer: &ServiceAnswer, key: &str) -> NeutronResult<T> {
    let mut body = answer.json().unwrap_or_default();
    serde_json::from_value(body[key].take()).map_err(|_| no_sense(key))
}

fn no_sense(what: &str) -> NeutronError {
    NeutronError::Unavailable(format!("Neutron's answer about {what} cannot be read"))
}

/// A value in a query or a path.
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
