//! Reads and sets the unified limits in the Keystone that `[keystone_authtoken]` names, with the account of that
//! section. Without such a Keystone, the limits are those in the embedded identity service.

use std::collections::BTreeMap;

use chronova_web::secret::Secret;
use serde_json::{Value, json};
use ureq::Agent;

use super::CommandFailure;
use super::cloud::{RunningCloud, plain};
use crate::commands::credentials::{agent, token, usage};
use crate::config::account::HasAccount as _;

/// The name of the service that the limits belong to. `nova-manage` looks for the service by this name, too.
const SERVICE: &str = "nova";

/// The limits of one service, in one region or in all.
pub(super) trait UnifiedLimits {
    /// The registered limits by resource. With `own`, only those of the service.
    fn registered(&self, own: bool) -> Result<BTreeMap<String, i64>, CommandFailure>;
    /// The limits of a project by resource, for all services.
    fn of_project(&self, project: &str) -> Result<BTreeMap<String, i64>, CommandFailure>;
    fn register(&self, resource: &str, limit: i64) -> Result<(), CommandFailure>;
    fn set(&self, project: &str, resource: &str, limit: i64) -> Result<(), CommandFailure>;
}

/// The limits of the identity service that the configuration names.
pub(super) fn open<'a>(
    cloud: &'a RunningCloud<'a>,
    region: Option<&str>,
) -> Result<Box<dyn UnifiedLimits + 'a>, CommandFailure> {
    let fields = cloud.config.keystone_authtoken.account();
    match fields.complete().map_err(|problem| usage(problem.message))? {
        Some(account) => {
            let (agent, root) = (agent(fields.cafile, fields.insecure)?, account.root());
            let token = token(&agent, &format!("{root}/auth/tokens"), &account.request())?;
            Ok(Box::new(ServiceLimits::open(KeystoneLimits { agent, root, token }, region)?))
        }
        None => Ok(Box::new(ServiceLimits::open(cloud, region)?)),
    }
}

/// The way to the limits of an identity service.
trait LimitStore {
    /// All entries of a list with these filters. In Keystone's answer, the key of the list equals the last part of the
    /// path.
    fn entries(&self, name: &str, filters: &[(&str, &str)]) -> Result<Vec<Value>, CommandFailure>;
    fn add(&self, name: &str, body: &Value) -> Result<(), CommandFailure>;
}

/// The limits in a Keystone.
struct KeystoneLimits {
    agent: Agent,
    root: String,
    token: Secret,
}

impl LimitStore for KeystoneLimits {
    fn entries(&self, name: &str, filters: &[(&str, &str)]) -> Result<Vec<Value>, CommandFailure> {
        let url = format!("{}/{name}", self.root);
        let mut request = self.agent.get(&url).header("X-Auth-Token", self.token.expose());
        for (key, value) in filters {
            request = request.query(key, value);
        }
        let answer = read(&url, request.call())?;
        answer[name].as_array().cloned().ok_or_else(|| usage(format!("{url}: the answer has no {name}")))
    }

    fn add(&self, name: &str, body: &Value) -> Result<(), CommandFailure> {
        let url = format!("{}/{name}", self.root);
        let request = self.agent.post(&url).header("X-Auth-Token", self.token.expose());
        read(&url, request.send_json(body)).map(drop)
    }
}

/// The limits in the embedded identity service of the running server.
impl LimitStore for &RunningCloud<'_> {
    fn entries(&self, name: &str, filters: &[(&str, &str)]) -> Result<Vec<Value>, CommandFailure> {
        let filters: Vec<String> = filters.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect();
        let path = format!("/identity/v3/{name}?{}", filters.join("&"));
        let mut answer = self.get(&path)?;
        match answer[name].take() {
            Value::Array(all) => Ok(all),
            _ => Err(usage(format!("{path}: the answer has no {name}"))),
        }
    }

    fn add(&self, name: &str, body: &Value) -> Result<(), CommandFailure> {
        match self.call("POST", &format!("/identity/v3/{name}"), Some(body))? {
            Ok(_) => Ok(()),
            Err(refused) => Err(usage(refused.message)),
        }
    }
}

/// The limits of one service. Without `region`, entries of every region are read, and new entries have no region.
struct ServiceLimits<S> {
    store: S,
    service: String,
    region: Option<String>,
}

impl<S: LimitStore> ServiceLimits<S> {
    fn open(store: S, region: Option<&str>) -> Result<Self, CommandFailure> {
        let found = store.entries("services", &[("name", SERVICE)])?;
        let id = found.first().and_then(|service| service["id"].as_str());
        let service = id.ok_or_else(|| usage(format!("Keystone has no service {SERVICE}")))?.to_owned();
        Ok(Self { store, service, region: region.map(str::to_owned) })
    }

    fn create(&self, name: &str, mut entry: Value) -> Result<(), CommandFailure> {
        entry["service_id"] = json!(self.service);
        if let Some(region) = &self.region {
            entry["region_id"] = json!(region);
        }
        self.store.add(name, &json!({name: [entry]}))
    }

    fn limits(
        &self,
        name: &str,
        value: &str,
        filter: Option<(&str, &str)>,
    ) -> Result<BTreeMap<String, i64>, CommandFailure> {
        let region = self.region.as_deref().map(|region| ("region_id", region));
        let filters: Vec<(&str, &str)> = filter.into_iter().chain(region).collect();
        let all = self.store.entries(name, &filters)?;
        let pair = |entry: &Value| Some((entry["resource_name"].as_str()?.to_owned(), entry[value].as_i64()?));
        Ok(all.iter().filter_map(pair).collect())
    }
}

impl<S: LimitStore> UnifiedLimits for ServiceLimits<S> {
    fn registered(&self, own: bool) -> Result<BTreeMap<String, i64>, CommandFailure> {
        let service = own.then_some(("service_id", self.service.as_str()));
        self.limits("registered_limits", "default_limit", service)
    }

    fn of_project(&self, project: &str) -> Result<BTreeMap<String, i64>, CommandFailure> {
        self.limits("limits", "resource_limit", Some(("project_id", project)))
    }

    fn register(&self, resource: &str, limit: i64) -> Result<(), CommandFailure> {
        self.create("registered_limits", json!({"resource_name": resource, "default_limit": limit}))
    }

    fn set(&self, project: &str, resource: &str, limit: i64) -> Result<(), CommandFailure> {
        self.create("limits", json!({"project_id": project, "resource_name": resource, "resource_limit": limit}))
    }
}

/// The body of a successful answer.
fn read(url: &str, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, CommandFailure> {
    let wrong = |error: ureq::Error| usage(format!("{url}: {error}"));
    let mut answer = answer.map_err(wrong)?;
    let text = answer.body_mut().read_to_string().map_err(wrong)?;
    let (status, body) = (answer.status(), serde_json::from_str::<Value>(&text).unwrap_or(Value::Null));
    match (status.is_success(), body["error"]["message"].as_str()) {
        (true, _) => Ok(body),
        (false, Some(message)) => Err(usage(message)),
        (false, None) => Err(usage(format!("{url}: {status}"))),
    }
}
