//! A cloud in a temporary folder: the real binary, a simulated fleet that survives it, and a plain HTTP client.

#![allow(dead_code, unreachable_pub, reason = "each test uses another part of this module")]

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a test waits for a condition. Only a control plane that hangs makes a test reach this limit.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_chronova");

pub struct Cloud {
    pub folder: TempDir,
    /// The program of the control plane from its next start on.
    pub program: PathBuf,
    /// The data folder of another cloud, if this is a second member of that cloud.
    shared: Option<PathBuf>,
    port: u16,
    process: Option<Child>,
    /// Environment variables of commands, and of the control plane from its next start on.
    pub environment: Vec<(String, String)>,
}

/// An HTTP answer of any status.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// A JSON string with the whole text, if the answer is not JSON.
    pub body: Value,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
    /// The header `Age`.
    pub age: Option<String>,
}

impl Cloud {
    /// Writes the configuration, but starts nothing.
    pub fn new(fleet: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The port is free now. Another process could take it before the control plane does. This is rare, because the
        // kernel chooses among all free ports.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "[chronova]\nhypervisors = {fleet}\n[api]\nauth_strategy = noauth2\n\
             [quota]\ninstances = -1\ncores = -1\nram = -1\n"
        );
        std::fs::write(folder.path().join("chronova.conf"), config).unwrap();
        Self { folder, program: PROGRAM.into(), shared: None, port, process: None, environment: Vec::new() }
    }

    /// A second member with the same data and configuration, but another port.
    pub fn member(&self) -> Self {
        let mut member = Self::new("");
        member.shared = Some(self.data());
        std::fs::copy(self.folder.path().join("chronova.conf"), member.folder.path().join("chronova.conf")).unwrap();
        member
    }

    pub fn data(&self) -> PathBuf {
        self.shared.clone().unwrap_or_else(|| self.folder.path().join("data"))
    }

    /// Adds lines to the configuration of the next start.
    pub fn configure(&self, more: &str) {
        let path = self.folder.path().join("chronova.conf");
        let config = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, config + more).unwrap();
    }

    /// Changes the configuration of the next start.
    pub fn replace(&self, old: &str, new: &str) {
        let path = self.folder.path().join("chronova.conf");
        let config = std::fs::read_to_string(&path).unwrap();
        assert!(config.contains(old), "{config}");
        std::fs::write(path, config.replace(old, new)).unwrap();
    }

    /// Starts the control plane and waits until it answers.
    pub fn start(&mut self) {
        self.launch();
        self.wait("the control plane answers", |cloud| {
            let ended = cloud.process.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "it ended by itself: {ended:?}\n{}", cloud.log());
            cloud.client().get("/healthz").is_ok_and(|answer| answer.status == 200)
        });
    }

    /// Starts the control plane without waiting for it.
    pub fn launch(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let process = Command::new(&self.program)
            .args(["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--data-dir"])
            .arg(self.data())
            .arg("--config-file")
            .arg(self.folder.path().join("chronova.conf"))
            .stdout(Stdio::null())
            .stderr(log)
            .env("RUST_LOG", "warn")
            .envs(self.environment.iter().cloned())
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    /// Kills the control plane with SIGKILL.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Stops the control plane with SIGTERM, and asserts that it exits with success.
    pub fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        let status = Command::new("kill").args(["-TERM", &process.id().to_string()]).status().unwrap();
        assert!(status.success());
        let status = process.wait().unwrap();
        assert!(status.success(), "the end must be graceful: {status}\n{}", self.log());
    }

    pub fn wait(&mut self, what: &str, met: impl FnMut(&mut Self) -> bool) {
        assert!(self.comes(met), "timed out waiting until {what}\n{}", self.log());
    }

    /// Waits until `met` returns true; returns whether that happened in time.
    pub fn comes(&mut self, mut met: impl FnMut(&mut Self) -> bool) -> bool {
        let begun = Instant::now();
        while !met(self) {
            if begun.elapsed() > PATIENCE {
                return false;
            }
            pause(5);
        }
        true
    }

    /// Kills the control plane, keeps its folder for an analysis of the failure, and returns the folder's path.
    pub fn keep(&mut self) -> PathBuf {
        self.kill();
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// The control plane's exit status, if it has ended.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.process.as_mut().unwrap().try_wait().unwrap()
    }

    /// Sends a signal to the control plane.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// The id of the control plane's process, which must run.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// `HOST:PORT` of the control plane.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        Client::new(self.port)
    }

    /// From the next start or command on, makes system calls fail on files with `concerned` in their path. The test
    /// writes to the returned file which calls fail; `fault.c` describes its format. Returns the compiler's error if
    /// the library cannot be built.
    pub fn let_calls_fail(&mut self, concerned: &str) -> Result<PathBuf, String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events/tests/preload/fault.c");
        let library = self.folder.path().join("fault.so");
        let output = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
        let output = output.map_err(|error| format!("cc: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let how = self.folder.path().join("fault");
        for (name, value) in [("LD_PRELOAD", &library), ("CHRONOVA_FAULT", &how)] {
            self.environment.push((name.to_owned(), value.display().to_string()));
        }
        self.environment.push(("CHRONOVA_FAULT_PATH".to_owned(), concerned.to_owned()));
        Ok(how)
    }

    /// Runs an operator's command on the data; returns exit code and output.
    pub fn command(&self, args: &[&str]) -> (i32, String) {
        let mut command = Command::new(PROGRAM);
        command.args(args).arg("--data-dir").arg(self.data()).envs(self.environment.iter().cloned());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap_or(-1), text)
    }

    /// The last 40 lines that the control plane wrote to standard error.
    pub fn log(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = std::fs::File::open(self.folder.path().join("log")) {
            let _ = file.read_to_string(&mut text);
        }
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Creates an image, a flavor and a network for servers.
    pub fn furnish(&self) -> Furniture {
        let client = self.client();
        let image = json!({"name": "tiny", "disk_format": "raw", "container_format": "bare"});
        let image = client.post("/image/v2/images", &image).unwrap().expect(201).text("/id");
        client.put_bytes(&format!("/image/v2/images/{image}/file"), &[7; 4096]).unwrap().expect(204);
        let flavor = json!({"flavor": {"name": "tiny", "vcpus": 1, "ram": 64, "disk": 1}});
        let flavor = client.post("/compute/v2.1/flavors", &flavor).unwrap().expect(200).text("/flavor/id");
        let network = client.post("/network/v2.0/networks", &json!({"network": {"name": "n"}}));
        let network = network.unwrap().expect(201).text("/network/id");
        // A server stays if its client got no answer to the create, and the server's port stays, too. So the ports have
        // no limit.
        client.put("/network/v2.0/quotas/admin", &json!({"quota": {"port": -1}})).unwrap().expect(200);
        let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/16"}});
        client.post("/network/v2.0/subnets", &subnet).unwrap().expect(201);
        Furniture { image, flavor, network }
    }

    /// Creates a server on the network, with the properties `more`. Waits until it is active, and returns its id.
    pub fn server(&mut self, furniture: &Furniture, name: &str, more: &Value) -> String {
        let client = self.client();
        let mut server = json!({
            "name": name, "imageRef": furniture.image, "flavorRef": furniture.flavor,
            "networks": [{"uuid": furniture.network}],
        });
        let properties = more.as_object().unwrap().clone();
        server.as_object_mut().unwrap().extend(properties);
        let body = json!({"server": server});
        let id = client.post("/compute/v2.1/servers", &body).unwrap().expect(202).text("/server/id");
        let path = format!("/compute/v2.1/servers/{id}");
        self.wait("the server is active", |_| {
            client.get(&path).is_ok_and(|answer| answer.body["server"]["status"] == "ACTIVE")
        });
        id
    }

    /// Deletes a server, and waits until it is gone.
    pub fn delete_server(&mut self, id: &str) {
        let client = self.client();
        let path = format!("/compute/v2.1/servers/{id}");
        client.delete(&path).unwrap().expect(204);
        self.wait("the server is gone", |_| client.get(&path).is_ok_and(|answer| answer.status == 404));
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[derive(Debug, Clone)]
pub struct Furniture {
    pub image: String,
    pub flavor: String,
    pub network: String,
}

/// Talks to one cloud as its administrator.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
}

impl Client {
    fn new(port: u16) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .build();
        Self { agent: config.into(), base: format!("http://127.0.0.1:{port}") }
    }

    pub fn get(&self, path: &str) -> Result<Answer, ureq::Error> {
        let request = self.agent.get(format!("{}{path}", self.base));
        read(request.header("X-Auth-Token", "admin").header("OpenStack-API-Version", VERSIONS).call())
    }

    /// Like `get`, but with this token and without microversions.
    pub fn get_as(&self, token: &str, path: &str) -> Result<Answer, ureq::Error> {
        read(self.agent.get(format!("{}{path}", self.base)).header("X-Auth-Token", token).call())
    }

    /// Like `get`, with this token.
    pub fn get_as_at(&self, token: &str, path: &str) -> Result<Answer, ureq::Error> {
        let request = self.agent.get(format!("{}{path}", self.base)).header("X-Auth-Token", token);
        read(request.header("OpenStack-API-Version", VERSIONS).call())
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        let request = self.agent.post(format!("{}{path}", self.base));
        read(request.header("X-Auth-Token", "admin").header("OpenStack-API-Version", VERSIONS).send_json(body))
    }

    /// Like `post`, with this token.
    pub fn post_as(&self, token: &str, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        let request = self.agent.post(format!("{}{path}", self.base)).header("X-Auth-Token", token);
        read(request.header("OpenStack-API-Version", VERSIONS).send_json(body))
    }

    /// Like `post`, at these microversions.
    pub fn post_at(&self, path: &str, versions: &str, body: &Value) -> Result<Answer, ureq::Error> {
        let request = self.agent.post(format!("{}{path}", self.base)).header("X-Auth-Token", "admin");
        read(request.header("OpenStack-API-Version", versions).send_json(body))
    }

    pub fn put(&self, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        read(self.agent.put(format!("{}{path}", self.base)).header("X-Auth-Token", "admin").send_json(body))
    }

    /// Like `put`, at [`VERSIONS`]. `put` sends no microversion.
    pub fn put_at(&self, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        let request = self.agent.put(format!("{}{path}", self.base)).header("X-Auth-Token", "admin");
        read(request.header("OpenStack-API-Version", VERSIONS).send_json(body))
    }

    pub fn put_bytes(&self, path: &str, body: &[u8]) -> Result<Answer, ureq::Error> {
        let request = self.agent.put(format!("{}{path}", self.base)).header("X-Auth-Token", "admin");
        read(request.header("Content-Type", "application/octet-stream").send(body))
    }

    pub fn delete(&self, path: &str) -> Result<Answer, ureq::Error> {
        read(self.agent.delete(format!("{}{path}", self.base)).header("X-Auth-Token", "admin").call())
    }
}

const VERSIONS: &str = "compute 2.96, placement 1.39";

fn read(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, ureq::Error> {
    let mut response = response?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (retry_after, age) = (header("Retry-After"), header("Age"));
    let text = response.body_mut().read_to_string()?;
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(Answer { status: response.status().as_u16(), body, retry_after, age })
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.body);
        self
    }

    /// The text at a JSON pointer.
    #[track_caller]
    pub fn text(&self, pointer: &str) -> String {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no {pointer}: {}", self.body))
            .into()
    }
}

/// Waits between two polls or requests. A test must not rely on what happens meanwhile.
#[expect(clippy::disallowed_methods, reason = "these tests have threads of their own")]
pub fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
