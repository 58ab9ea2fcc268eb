//! The limits in the Keystone of `[keystone_authtoken]`, as its administrator sees them.

use std::collections::BTreeMap;

use chronova_web::secret::Secret;
use serde_json::{Value, json};
use ureq::Agent;

use super::CommandFailure;
use crate::commands::credentials::{agent, token, usage};
use crate::config::Config;
use crate::config::account::HasAccount as _;

/// The service whose limits they are: Nova's program looks for it by this name.
const SERVICE: &str = "nova";

/// The limits of one service, in one region or without a region.
pub(super) trait UnifiedLimits {
    /// The registered limits by resource. With `own`, only those of the service.
    fn registered(&self, own: bool) -> Result<BTreeMap<String, i64>, CommandFailure>;
    /// The limits of a project by resource.
    fn of_project(&self, project: &str) -> Result<BTreeMap<String, i64>, CommandFailure>;
    fn register(&self, resource: &str, limit: i64) -> Result<(), CommandFailure>;
    fn set(&self, project: &str, resource: &str, limit: i64) -> Result<(), CommandFailure>;
}

pub(super) struct KeystoneLimits {
    agent: Agent,
    root: String,
    token: Secret,
    service: String,
    region: Option<String>,
}

impl KeystoneLimits {
    pub(super) fn open(config: &Config, region: Option<&str>) -> Result<Self, CommandFailure> {
        let fields = config.keystone_authtoken.account();
        let account = fields.complete().map_err(|problem| usage(problem.message))?;
        let none = || {
            usage("[keystone_authtoken] auth_url names no Keystone, and the embedded identity service keeps no limits")
        };
        let account = account.ok_or_else(none)?;
        let (agent, root) = (agent(fields.cafile, fields.insecure)?, account.root());
        let token = token(&agent, &format!("{root}/auth/tokens"), &account.request())?;
        let (service, region) = (String::new(), region.map(str::to_owned));
        let mut client = Self { agent, root, token, service, region };
        let found = client.list("services", &[("name", SERVICE)])?;
        let id = found.first().and_then(|service| service["id"].as_str());
        id.ok_or_else(|| usage(format!("Keystone has no service {SERVICE}")))?.clone_into(&mut client.service);
        Ok(client)
    }

    /// All entries of a list with these filters. Keystone names the key of the list like its path.
    fn list(&self, name: &str, filters: &[(&str, &str)]) -> Result<Vec<Value>, CommandFailure> {
        let url = format!("{}/{name}", self.root);
        let mut request = self.agent.get(&url).header("X-Auth-Token", self.token.expose());
        for (key, value) in filters {
            request = request.query(key, value);
        }
        let answer = read(&url, request.call())?;
        answer[name].as_array().cloned().ok_or_else(|| usage(format!("{url}: the answer has no {name}")))
    }

    fn create(&self, name: &str, mut entry: Value) -> Result<(), CommandFailure> {
        entry["service_id"] = json!(self.service);
        if let Some(region) = &self.region {
            entry["region_id"] = json!(region);
        }
        let url = format!("{}/{name}", self.root);
        let request = self.agent.post(&url).header("X-Auth-Token", self.token.expose());
        read(&url, request.send_json(json!({name: [entry]}))).map(drop)
    }

    fn limits(
        &self,
        name: &str,
        value: &str,
        filter: Option<(&str, &str)>,
    ) -> Result<BTreeMap<String, i64>, CommandFailure> {
        let region = self.region.as_deref().map(|region| ("region_id", region));
        let filters: Vec<(&str, &str)> = filter.into_iter().chain(region).collect();
        let all = self.list(name, &filters)?;
        let pair = |entry: &Value| Some((entry["resource_name"].as_str()?.to_owned(), entry[value].as_i64()?));
        Ok(all.iter().filter_map(pair).collect())
    }
}

impl UnifiedLimits for KeystoneLimits {
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
