//! The client of the running server. Its credentials come from the variables of the `openstack` client, or from a
//! `clouds.yaml`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chronova_web::secret::Secret;
use serde::Deserialize;
use serde_json::Value;
use ureq::Agent;

use super::CommandFailure;
use super::credentials::{Auth, agent, token, usage, variable, with};
use super::host::{CloudAccess, pause};
use crate::config::Config;
use crate::serve::listen;

/// How long a server may be unreachable after it has answered once.
const AWAY: Duration = Duration::from_mins(5);
const AGAIN: Duration = Duration::from_secs(1);
/// The microversions of a request that names no others.
pub(super) const LATEST: &str = "compute latest, placement latest";

/// The used parts of a `clouds.yaml`.
#[derive(Debug, Deserialize)]
struct Clouds {
    clouds: BTreeMap<String, CloudsYamlEntry>,
}

#[derive(Debug, Deserialize)]
struct CloudsYamlEntry {
    auth: Auth,
    cacert: Option<PathBuf>,
    verify: Option<bool>,
}

/// How to get a token.
enum Login {
    /// A server with noauth2.
    None,
    /// The address of the token API, and the request body.
    Password { url: String, body: Value },
}

pub(super) struct OperatorClient {
    agent: Agent,
    /// The address below which every API is served.
    base: String,
    login: Login,
    token: RefCell<Secret>,
}

impl CloudsYamlEntry {
    /// The credentials from the environment. If it has none: the credentials in the file that `OS_CLIENT_CONFIG_FILE`
    /// names, or in `clouds.yaml` of the data directory.
    fn find(data: &Path) -> Result<Self, CommandFailure> {
        if let Some(url) = variable("OS_AUTH_URL") {
            return Ok(Self { auth: Auth::of_environment(url), cacert: None, verify: None });
        }
        let path = variable("OS_CLIENT_CONFIG_FILE").map_or_else(|| data.join("clouds.yaml"), PathBuf::from);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            usage(format!("no credentials: OS_AUTH_URL is not set, and {} cannot be read: {error}", path.display()))
        })?;
        let mut all: Clouds = serde_saphyr::from_str(&text)
            .map_err(|error| usage(format!("{} cannot be parsed: {error}", path.display())))?;
        let name = variable("OS_CLOUD").unwrap_or_else(|| "chronova".to_owned());
        all.clouds.remove(&name).ok_or_else(|| usage(format!("{} has no cloud {name}", path.display())))
    }
}

impl OperatorClient {
    pub(super) fn open(config: &Config, access: &CloudAccess) -> Result<Self, CommandFailure> {
        let (login, base, cacert, verify) = if config.api.auth_strategy == "noauth2" {
            let listeners = listen::listeners(config).map_err(|error| usage(error.to_string()))?;
            (Login::None, Some(listen::public_url(config, &listeners)), None, true)
        } else {
            let CloudsYamlEntry { auth, cacert, verify } = CloudsYamlEntry::find(&config.chronova.data_dir)?;
            let login = Login::Password { url: format!("{}/auth/tokens", auth.v3()), body: auth.request()? };
            (login, auth.base(), cacert, verify.unwrap_or(true))
        };
        let base = access.url.clone().or(base).filter(|base| !base.is_empty());
        let base =
            base.ok_or_else(|| usage("the identity service runs on another host: give the server's URL with --url"))?;
        let base = base.trim_end_matches('/').to_owned();
        let cacert = access.os_cacert.clone().or(cacert);
        let agent = agent(cacert.as_deref(), access.insecure || !verify)?;
        let client = Self { agent, base, login, token: RefCell::new(Secret::new("admin")) };
        client.log_in()?;
        Ok(client)
    }

    fn log_in(&self) -> Result<(), CommandFailure> {
        let Login::Password { url, body } = &self.login else { return Ok(()) };
        self.token.replace(token(&self.agent, url, body)?);
        Ok(())
    }

    /// Asks any API. Returns the status with the body, `Null` if that is not JSON.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value), CommandFailure> {
        self.call_at(method, path, body, LATEST)
    }

    /// Like [`OperatorClient::call`], at other microversions.
    pub(super) fn call_at(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        versions: &str,
    ) -> Result<(u16, Value), CommandFailure> {
        self.send_at(method, path, body, versions).map_err(|error| self.away(&error))
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, CommandFailure> {
        self.ask("GET", path, None)
    }

    /// The text at a path that needs no token. Waits for a server that is restarting.
    pub(super) fn text_patiently(&self, path: &str) -> Result<String, CommandFailure> {
        let (url, since) = (format!("{}{path}", self.base), Instant::now());
        let ask = || {
            let mut answer = self.agent.get(&url).call()?;
            Ok::<_, ureq::Error>((answer.status().as_u16(), answer.body_mut().read_to_string()?))
        };
        loop {
            match ask() {
                Ok((200, text)) => return Ok(text),
                Ok((status, _)) => {
                    let failure = usage(format!("{url} answers {status}"));
                    if !is_passing(status) {
                        return Err(failure);
                    }
                    waited(since, failure)?;
                }
                Err(error) => waited(since, self.away(&error))?,
            }
            pause(AGAIN);
        }
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, CommandFailure> {
        self.ask("POST", path, Some(body))
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> Result<Value, CommandFailure> {
        self.ask("PUT", path, Some(body))
    }

    pub(super) fn delete(&self, path: &str) -> Result<Value, CommandFailure> {
        self.ask("DELETE", path, None)
    }

    /// Like `get`, but waits for a server that is restarting.
    pub(super) fn get_patiently(&self, path: &str) -> Result<Value, CommandFailure> {
        let since = Instant::now();
        loop {
            match self.send("GET", path, None) {
                Ok((200, body)) => return Ok(body),
                Ok((401, _)) => self.log_in().or_else(|error| waited(since, error))?,
                Ok((status, body)) if is_passing(status) => waited(since, refused("GET", path, status, &body))?,
                Ok((status, body)) => return Err(refused("GET", path, status, &body)),
                Err(error) => waited(since, self.away(&error))?,
            }
            pause(AGAIN);
        }
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, CommandFailure> {
        match self.send(method, path, body).map_err(|error| self.away(&error))? {
            (200..=299, answer) => Ok(answer),
            (status, answer) => Err(refused(method, path, status, &answer)),
        }
    }

    fn away(&self, error: &ureq::Error) -> CommandFailure {
        usage(format!("{} does not answer: {error}", self.base))
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value), ureq::Error> {
        self.send_at(method, path, body, LATEST)
    }

    fn send_at(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        versions: &str,
    ) -> Result<(u16, Value), ureq::Error> {
        let (url, token) = (format!("{}{path}", self.base), self.token.borrow());
        let head = [("X-Auth-Token", token.expose()), ("OpenStack-API-Version", versions)];
        let mut answer = match (method, body) {
            ("POST", Some(body)) => with(self.agent.post(&url), head).send_json(body)?,
            ("PUT", Some(body)) => with(self.agent.put(&url), head).send_json(body)?,
            ("DELETE", _) => with(self.agent.delete(&url), head).call()?,
            _ => with(self.agent.get(&url), head).call()?,
        };
        let text = answer.body_mut().read_to_string()?;
        Ok((answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null)))
    }
}

/// Whether the server refuses only for a while: there are too many requests, or it is starting.
fn is_passing(status: u16) -> bool {
    matches!(status, 429 | 503)
}

/// Fails with `error` if the server has been unreachable for too long, counted from `since`.
fn waited(since: Instant, error: CommandFailure) -> Result<(), CommandFailure> {
    if since.elapsed() > AWAY { Err(error) } else { Ok(()) }
}

pub(super) fn refused(method: &str, path: &str, status: u16, answer: &Value) -> CommandFailure {
    let fault = answer.as_object().and_then(|body| body.values().next());
    match fault.and_then(|fault| fault["message"].as_str()) {
        Some(message) => usage(message),
        None => usage(format!("{method} {path}: {status}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;
    use chronova_web::identity::clouds::clouds_yaml;

    /// A restarting server closes a connection, then is not ready, then answers.
    #[test]
    fn a_text_is_asked_again_while_the_server_restarts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            drop(listener.accept().unwrap());
            for answer in ["503 Service Unavailable", "200 OK"] {
                let (stream, _) = listener.accept().unwrap();
                let request = BufReader::new(&stream).lines().map_while(Result::ok);
                let lines: Vec<String> = request.take_while(|line| !line.is_empty()).collect();
                assert_eq!(lines[0], "GET /metrics HTTP/1.1");
                write!(&stream, "HTTP/1.1 {answer}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nup 1").unwrap();
            }
        });
        let (agent, token) = (agent(None, false).unwrap(), RefCell::new(Secret::new("admin")));
        let client = OperatorClient { agent, base, login: Login::None, token };
        assert_eq!(client.text_patiently("/metrics").unwrap(), "up 1");
        server.join().unwrap();
    }

    #[test]
    fn the_clouds_yaml_of_the_first_start_is_read() {
        let text = clouds_yaml("http://127.0.0.1:8774", "RegionOne", &Secret::new("s\"x"));
        let mut all: Clouds = serde_saphyr::from_str(&text).unwrap();
        let cloud = all.clouds.remove("chronova").unwrap();
        assert_eq!(cloud.auth.base().as_deref(), Some("http://127.0.0.1:8774"));
        assert_eq!(cloud.auth.v3(), "http://127.0.0.1:8774/identity/v3");
        let user = &cloud.auth.request().unwrap()["auth"]["identity"]["password"]["user"];
        assert_eq!((&user["password"], &user["domain"]["id"]), (&json!("s\"x"), &json!("default")));
    }

    #[test]
    fn a_separate_identity_service_does_not_reveal_the_servers_address() {
        let mut auth = Auth::of_environment("https://keystone.example:5000/v3/".to_owned());
        assert_eq!(auth.v3(), "https://keystone.example:5000/v3");
        assert_eq!(auth.base(), None);
        auth.url = "https://cloud.example/identity".to_owned();
        assert_eq!(auth.base().as_deref(), Some("https://cloud.example"));
    }
}
