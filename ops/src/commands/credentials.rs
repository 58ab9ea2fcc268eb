//! The credentials of the `openstack` client, and a client that sends GET requests to a running Nova or Placement.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chronova_web::secret::Secret;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use super::CommandFailure;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_mins(1);
/// The path of the identity service on a port that serves every API.
const IDENTITY: &str = "/identity";

pub(super) fn usage(text: impl Into<String>) -> CommandFailure {
    CommandFailure::Usage(text.into())
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[derive(Deserialize)]
pub(super) struct Auth {
    #[serde(rename = "auth_url")]
    pub(super) url: String,
    username: Option<String>,
    user_id: Option<String>,
    password: Option<String>,
    user_domain_id: Option<String>,
    user_domain_name: Option<String>,
    project_name: Option<String>,
    project_id: Option<String>,
    project_domain_id: Option<String>,
    project_domain_name: Option<String>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Auth {
    pub(super) fn of_environment(url: String) -> Self {
        Self {
            url,
            username: variable("OS_USERNAME"),
            user_id: variable("OS_USER_ID"),
            password: variable("OS_PASSWORD"),
            user_domain_id: variable("OS_USER_DOMAIN_ID"),
            user_domain_name: variable("OS_USER_DOMAIN_NAME"),
            project_name: variable("OS_PROJECT_NAME"),
            project_id: variable("OS_PROJECT_ID"),
            project_domain_id: variable("OS_PROJECT_DOMAIN_ID"),
            project_domain_name: variable("OS_PROJECT_DOMAIN_NAME"),
        }
    }

    /// The address with `/v3`, because users give Keystone's address with or without it.
    pub(super) fn v3(&self) -> String {
        let url = self.url.trim_end_matches('/');
        if url.ends_with("/v3") { url.to_owned() } else { format!("{url}/v3") }
    }

    /// The base address of the other APIs, if the identity service is on the same port.
    pub(super) fn base(&self) -> Option<String> {
        let v3 = self.v3();
        v3.strip_suffix("/v3")?.strip_suffix(IDENTITY).map(str::to_owned)
    }

    pub(super) fn request(&self) -> Result<Value, CommandFailure> {
        let domain = |id: &Option<String>, name: &Option<String>| match (id, name) {
            (Some(id), _) => json!({"id": id}),
            (None, Some(name)) => json!({"name": name}),
            (None, None) => json!({"id": "default"}),
        };
        let password = self.password.as_ref().ok_or_else(|| usage("the credentials have no password"))?;
        let user = match (&self.user_id, &self.username) {
            (Some(id), _) => json!({"id": id, "password": password}),
            (None, Some(name)) => {
                let domain = domain(&self.user_domain_id, &self.user_domain_name);
                json!({"name": name, "domain": domain, "password": password})
            }
            (None, None) => return Err(usage("the credentials name no user")),
        };
        let project = match (&self.project_id, &self.project_name) {
            (Some(id), _) => json!({"id": id}),
            (None, Some(name)) => {
                json!({"name": name, "domain": domain(&self.project_domain_id, &self.project_domain_name)})
            }
            (None, None) => return Err(usage("the credentials name no project")),
        };
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        Ok(json!({"auth": {"identity": identity, "scope": {"project": project}}}))
    }
}

/// A client of the API of a running Nova or Placement. It uses a given token, or gets one with the password in the
/// environment.
pub(super) struct CloudClient {
    agent: Agent,
    /// The address of the API.
    base: String,
    /// `None`: the token was given, and cannot be renewed.
    auth: Option<Auth>,
    token: RefCell<Secret>,
}

impl CloudClient {
    pub(super) fn open(
        base: &str,
        token: Option<Secret>,
        cacert: Option<&Path>,
        insecure: bool,
    ) -> Result<Self, CommandFailure> {
        let auth = match (&token, variable("OS_AUTH_URL")) {
            (Some(_), _) => None,
            (None, Some(url)) => Some(Auth::of_environment(url)),
            (None, None) => return Err(usage("no credentials: set OS_AUTH_URL and the like, or OS_TOKEN")),
        };
        let (agent, base) = (agent(cacert, insecure)?, base.trim_end_matches('/').to_owned());
        let client = Self { agent, base, auth, token: RefCell::new(token.unwrap_or_else(|| Secret::new(""))) };
        client.log_in()?;
        Ok(client)
    }

    fn log_in(&self) -> Result<(), CommandFailure> {
        if let Some(auth) = &self.auth {
            self.token.replace(token(&self.agent, &format!("{}/auth/tokens", auth.v3()), &auth.request()?)?);
        }
        Ok(())
    }

    /// Sends a GET request. `version` is the value of the header `OpenStack-API-Version`.
    ///
    /// # Errors
    /// The server does not answer, or the token has expired and the client gets no new one.
    pub(super) fn get_at(&self, path: &str, version: &str) -> Result<(u16, Value), CommandFailure> {
        match self.get(path, version)? {
            // The token has expired.
            (401, _) if self.auth.is_some() => {
                self.log_in()?;
                self.get(path, version)
            }
            answer => Ok(answer),
        }
    }

    fn get(&self, path: &str, version: &str) -> Result<(u16, Value), CommandFailure> {
        let away = |error: ureq::Error| usage(format!("{} does not answer: {error}", self.base));
        let (url, token) = (format!("{}{path}", self.base), self.token.borrow());
        let head = [("X-Auth-Token", token.expose()), ("OpenStack-API-Version", version)];
        let mut answer = with(self.agent.get(&url), head).call().map_err(away)?;
        let text = answer.body_mut().read_to_string().map_err(away)?;
        Ok((answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null)))
    }
}

/// Gets a token for these credentials.
pub(super) fn token(agent: &Agent, url: &str, body: &Value) -> Result<Secret, CommandFailure> {
    let answer = agent.post(url).send_json(body).map_err(|error| usage(format!("{url}: {error}")))?;
    if answer.status().as_u16() != 201 {
        return Err(usage(format!("{url}: the credentials are refused ({})", answer.status())));
    }
    let token = answer.headers().get("X-Subject-Token").and_then(|value| value.to_str().ok());
    token.map(Secret::new).ok_or_else(|| usage(format!("{url}: the answer has no token")))
}

pub(super) fn with<B>(request: ureq::RequestBuilder<B>, head: [(&str, &str); 2]) -> ureq::RequestBuilder<B> {
    head.into_iter().fold(request, |request, (name, value)| request.header(name, value))
}

pub(super) fn agent(cacert: Option<&Path>, insecure: bool) -> Result<Agent, CommandFailure> {
    let mut tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .disable_verification(insecure)
        .root_certs(RootCerts::Specific(Arc::new(Vec::new())));
    if let Some(path) = cacert {
        tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates(path)?)));
    }
    let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER));
    Ok(config.tls_config(tls.build()).build().into())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, CommandFailure> {
    let wrong = |reason: String| usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut all = Vec::new();
    for item in ureq::tls::parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(error.to_string()))? {
            all.push(certificate);
        }
    }
    if all.is_empty() { Err(wrong("there is no certificate in it".to_owned())) } else { Ok(all) }
}
