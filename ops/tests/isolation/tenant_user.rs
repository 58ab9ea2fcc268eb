//! A user with a token, and the user's requests.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cloud::Cloud;

static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// The number of requests that users have sent through [`TenantUser::send`]. Log-ins and uploads are not counted.
pub fn requests() -> u64 {
    REQUESTS.load(Ordering::Relaxed)
}

/// A request, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (name, value) in &self.headers {
            write!(f, " [{name}: {value}]")?;
        }
        self.body.as_ref().map_or(Ok(()), |body| write!(f, " {body}"))
    }
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub text: String,
}

impl Response {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The answer, shortened for a message.
    pub fn shown(&self) -> String {
        let text: String = self.text.chars().take(300).collect();
        format!("{} {text}", self.status)
    }

    #[track_caller]
    pub fn expect(self, statuses: &[u16]) -> Self {
        assert!(statuses.contains(&self.status), "{}", self.shown());
        self
    }

    /// The text at a JSON pointer.
    #[track_caller]
    pub fn at(&self, pointer: &str) -> String {
        let value = self.json();
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("no {pointer}: {}", self.shown())).to_owned()
    }
}

#[derive(Clone)]
pub struct TenantUser {
    agent: ureq::Agent,
    base: String,
    token: String,
    pub project: String,
}

impl TenantUser {
    pub fn new(cloud: &Cloud, user: &str, project: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(1)))
            .build();
        let (base, token) = (format!("http://{}", cloud.address()), format!("{user}:{project}"));
        Self { agent: config.into(), base, token, project: project.to_owned() }
    }

    /// A user with a token of the cloud's identity service, with a project as its scope or without a scope.
    pub fn login(cloud: &Cloud, user: &str, password: &str, project: Option<&str>) -> Self {
        let mut person = Self::new(cloud, user, project.unwrap_or("none"));
        let domain = json!({"id": "default"});
        let who = json!({"name": user, "domain": domain, "password": password});
        let mut auth = json!({"identity": {"methods": ["password"], "password": {"user": who}}});
        if let Some(project) = project {
            auth["scope"] = json!({"project": {"name": project, "domain": domain}});
        }
        let request = ureq::http::Request::builder().method("POST");
        let request = request.uri(format!("{}/identity/v3/auth/tokens", person.base));
        let request = request.header("Content-Type", "application/json");
        let response = person.agent.run(request.body(json!({"auth": auth}).to_string()).unwrap()).unwrap();
        assert_eq!(response.status().as_u16(), 201, "{user} cannot log in");
        response.headers()["X-Subject-Token"].to_str().unwrap().clone_into(&mut person.token);
        person
    }

    pub fn send(&self, request: &Request) -> Response {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        let mut builder =
            ureq::http::Request::builder().method(request.method).uri(format!("{}{}", self.base, request.path));
        // Guests request metadata without a token.
        if !request.path.starts_with("/metadata") {
            builder = builder.header("X-Auth-Token", &self.token);
        }
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let response = match &request.body {
            Some(body) => {
                self.agent.run(builder.header("Content-Type", "application/json").body(body.clone()).unwrap())
            }
            None => self.agent.run(builder.body(()).unwrap()),
        };
        let mut response = response.unwrap_or_else(|error| panic!("{request}: {error}"));
        let text = response.body_mut().read_to_string().unwrap_or_default();
        Response { status: response.status().as_u16(), text }
    }

    fn plain(&self, method: &'static str, path: &str, body: Option<&Value>) -> Response {
        let headers = vec![("OpenStack-API-Version", VERSIONS.to_owned())];
        self.send(&Request { method, path: path.to_owned(), headers, body: body.map(Value::to_string) })
    }

    pub fn get(&self, path: &str) -> Response {
        self.plain("GET", path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Response {
        self.plain("POST", path, Some(body))
    }

    pub fn put(&self, path: &str, body: &Value) -> Response {
        self.plain("PUT", path, Some(body))
    }

    pub fn upload(&self, path: &str, bytes: &[u8]) {
        let request = ureq::http::Request::builder().method("PUT").uri(format!("{}{path}", self.base));
        let request = request.header("X-Auth-Token", &self.token).header("Content-Type", "application/octet-stream");
        let response = self.agent.run(request.body(bytes.to_vec()).unwrap()).unwrap();
        assert_eq!(response.status().as_u16(), 204);
    }

    /// The metadata for a guest at this address.
    pub fn metadata(&self, address: &str, path: &str) -> Response {
        let headers = vec![("X-Forwarded-For", address.to_owned())];
        self.send(&Request { method: "GET", path: format!("/metadata{path}"), headers, body: None })
    }
}

pub const VERSIONS: &str = "compute 2.96, volume 3.67, placement 1.39";
