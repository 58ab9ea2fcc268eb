//! Starts, prepares, stops and restarts a control plane in its own folder.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{LoadClient, LoadTarget, VERSIONS};
use super::{pause, process};

/// How long a start or any other wait may take. At a start, the program may have to fold a large log.
const PATIENCE: Duration = Duration::from_hours(1);

pub(crate) struct LoadedCloud {
    folder: TempDir,
    address: SocketAddr,
    token: String,
    child: Option<Child>,
    /// Lines of the section `[chronova]` that say where the log is; empty: SQLite.
    log: String,
}

/// The image and the flavor of servers.
#[derive(Debug, Clone)]
pub(crate) struct Furniture {
    pub(crate) image: String,
    pub(crate) flavor: String,
}

impl Furniture {
    /// A request for a server without a network, as in the comparison with Nova.
    pub(crate) fn server(&self, name: &str) -> Value {
        json!({"server": {"name": name, "imageRef": self.image, "flavorRef": self.flavor, "networks": "none"}})
    }
}

/// The `chronova` program to measure: `CHRONOVA_BIN`, or the file `chronova` in the folder of this program.
fn server_program() -> Result<PathBuf> {
    let program = match std::env::var_os("CHRONOVA_BIN") {
        Some(named) => PathBuf::from(named),
        None => std::env::current_exe().context("the path of this program is unknown")?.with_file_name("chronova"),
    };
    if !program.is_file() {
        bail!(
            "there is no program {}: build it (cargo build -p chronova), or name it in CHRONOVA_BIN",
            program.display()
        );
    }
    Ok(program)
}

impl LoadedCloud {
    /// Prepares a control plane without starting it. `fleet` is the value of `[chronova] hypervisors`.
    pub(crate) fn new(folder: TempDir, fleet: &str) -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let cloud = Self { folder, address, token: String::new(), child: None, log: String::new() };
        cloud.configure(fleet)?;
        Ok(cloud)
    }

    /// Sets the hosts for the next start.
    pub(crate) fn configure(&self, fleet: &str) -> Result<()> {
        let unlimited: String = ["instances", "cores", "ram"].map(|name| format!("{name} = -1\n")).concat();
        // The quotas are unlimited, and tokens are valid for longer than the longest run. All other options have their
        // defaults.
        let own = format!("[chronova]\nhypervisors = {fleet}\n{}", self.log);
        let config = format!("{own}[quota]\n{unlimited}[token]\nexpiration = 864000\n");
        std::fs::write(self.folder.path().join("chronova.conf"), config).context("the configuration cannot be written")
    }

    /// Stores the log in an empty PostgreSQL database, from the next start on.
    pub(crate) fn store_in(&mut self, database: &str, fleet: &str) -> Result<()> {
        self.log = format!("event_store = {database}\nevent_store_asynchronous = true\n");
        self.configure(fleet)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The process's id; 0 while the control plane does not run.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub(crate) fn memory(&self) -> process::ProcessMemory {
        process::memory(self.pid())
    }

    /// Starts the program. Returns the time until it answered a request with a token. The first start has no token yet,
    /// and ends when the program issues one.
    pub(crate) fn start(&mut self) -> Result<Duration> {
        let program = server_program()?;
        let said = File::create(self.folder.path().join("said"))?;
        let begun = Instant::now();
        let child = Command::new(&program)
            .args(["serve", "--listen", &self.address.to_string(), "--data-dir"])
            .arg(self.data())
            .arg("--config-file")
            .arg(self.folder.path().join("chronova.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        self.child = Some(child);
        while !self.answers() {
            self.still_runs()?;
            anyhow::ensure!(begun.elapsed() < PATIENCE, "the control plane never answered");
            pause(Duration::from_millis(1));
        }
        if self.token.is_empty() {
            self.token = self.login()?;
            return Ok(begun.elapsed());
        }
        let path = "/compute/v2.1/flavors?limit=1";
        self.client().get(path)?.expect(200)?;
        Ok(begun.elapsed())
    }

    /// Whether the server listens. A request that comes before the read models are complete waits for them.
    fn answers(&self) -> bool {
        std::net::TcpStream::connect(self.address).is_ok()
    }

    fn still_runs(&mut self) -> Result<()> {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        let Some(status) = ended else { return Ok(()) };
        let said = std::fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        bail!("the control plane ended: {status}\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
    }

    fn login(&self) -> Result<String> {
        let mut client = self.client();
        // The server answers this request only when the server is ready. By then it has written the file with the
        // credentials.
        client.get("/identity/v3")?;
        let path = self.data().join("clouds.yaml");
        let yaml = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let password = yaml.lines().find_map(|line| line.trim().strip_prefix("password: "));
        let password: String = serde_json::from_str(password.context("no password in clouds.yaml")?)?;
        let user = json!({"name": "admin", "domain": {"id": "default"}, "password": password});
        let scope = json!({"project": {"name": "admin", "domain": {"id": "default"}}});
        let body = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}});
        client.login(&body)
    }

    /// Stops the control plane gracefully, with SIGTERM.
    pub(crate) fn stop(&mut self) -> Result<Duration> {
        let Some(mut child) = self.child.take() else { return Ok(Duration::ZERO) };
        let begun = Instant::now();
        let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
        anyhow::ensure!(status.success(), "the control plane cannot be told to end");
        let status = child.wait()?;
        anyhow::ensure!(status.success(), "the control plane ended badly: {status}");
        Ok(begun.elapsed())
    }

    /// Kills the control plane with SIGKILL, so that it can write nothing more.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    pub(crate) fn client(&self) -> LoadClient {
        LoadClient::new(&LoadTarget { address: self.address, token: self.token.clone(), versions: VERSIONS })
    }

    /// Creates an image and a flavor for servers.
    pub(crate) fn furnish(&self) -> Result<Furniture> {
        let mut client = self.client();
        let image = json!({"name": "tiny", "disk_format": "raw", "container_format": "bare", "visibility": "public"});
        let image = client.post("/image/v2/images", &image)?.expect(201)?.text("/id")?;
        let path = format!("/image/v2/images/{image}/file");
        client.send("PUT", &path, "application/octet-stream", Some(&[7; 4096]))?.expect(204)?;
        let flavor = json!({"flavor": {"name": "tiny", "vcpus": 1, "ram": 64, "disk": 1}});
        let flavor = client.post("/compute/v2.1/flavors", &flavor)?.expect(200)?.text("/flavor/id")?;
        Ok(Furniture { image, flavor })
    }

    /// The number of compute services that are up.
    pub(crate) fn hosts_up(&self) -> Result<usize> {
        count_up(&mut self.client())
    }

    /// Waits until `wanted` compute services are up.
    pub(crate) fn wait_for_hosts(&self, wanted: usize) -> Result<Duration> {
        let begun = Instant::now();
        let mut client = self.client();
        loop {
            let up = count_up(&mut client)?;
            if up >= wanted {
                return Ok(begun.elapsed());
            }
            anyhow::ensure!(begun.elapsed() < PATIENCE, "only {up} of {wanted} hosts came up");
            // A list of many hosts uses the server's CPU, so polls are rare then.
            pause(Duration::from_millis(if wanted > 100 { 500 } else { 10 }));
        }
    }

    /// Creates servers in batches until the project has `target` servers, all ACTIVE.
    pub(crate) fn fill(&self, furniture: &Furniture, from: usize, target: usize) -> Result<Duration> {
        const BATCH: usize = 100;
        let begun = Instant::now();
        let mut client = self.client();
        let mut made = from;
        while made < target {
            let batch = BATCH.min(target - made);
            let mut body = furniture.server(&format!("filled-{made}"));
            body["server"]["min_count"] = json!(batch);
            body["server"]["max_count"] = json!(batch);
            client.post("/compute/v2.1/servers", &body)?.expect(202)?;
            made += batch;
        }
        self.settle()?;
        Ok(begun.elapsed())
    }

    /// Waits until no server of the project is being built.
    pub(crate) fn settle(&self) -> Result<Duration> {
        let begun = Instant::now();
        let mut client = self.client();
        loop {
            let building = client.get("/compute/v2.1/servers?status=BUILD&limit=1")?.expect(200)?.json()?;
            if building["servers"].as_array().is_some_and(Vec::is_empty) {
                return Ok(begun.elapsed());
            }
            anyhow::ensure!(begun.elapsed() < PATIENCE, "servers never became ACTIVE");
            pause(Duration::from_millis(10));
        }
    }
}

/// The number of compute services with the state `up`.
fn count_up(client: &mut LoadClient) -> Result<usize> {
    let all = client.get("/compute/v2.1/os-services?binary=nova-compute")?.expect(200)?.json()?;
    let all = all["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(all.iter().filter(|service| service["state"] == "up").count())
}

impl Drop for LoadedCloud {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
