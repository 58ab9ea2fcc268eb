//! A control plane with the links of Nova's names.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::cloud::{Client, Cloud, Furniture};

pub const CELL0: &str = "00000000-0000-0000-0000-000000000000";
pub const CELL1: &str = "c3110001-0000-4000-8000-000000000001";
/// An id that no resource has.
pub const NOBODY: &str = "7c0f2d52-3f3a-4a1e-9d57-3b3a6f1f9a11";

/// A control plane with two simulated hosts, and the links of Nova's names.
pub struct ManagedCloud {
    pub cloud: Cloud,
    furniture: Option<Furniture>,
}

impl ManagedCloud {
    /// Makes the links and the configuration; the control plane is not started.
    pub fn stopped() -> Self {
        let cloud = Cloud::new("sim://2");
        cloud.configure("[volume]\nshared = true\n");
        for name in ["nova-manage", "nova-status", "nova-policy"] {
            symlink(env!("CARGO_BIN_EXE_chronova"), cloud.folder.path().join(name)).unwrap();
        }
        Self { cloud, furniture: None }
    }

    pub fn running() -> Self {
        Self::running_with("")
    }

    /// Like `running`, with more lines in the configuration.
    pub fn running_with(more: &str) -> Self {
        let mut site = Self::stopped();
        site.cloud.configure(more);
        site.cloud.start();
        site.furniture = Some(site.cloud.furnish());
        let both = |cloud: &mut Cloud| {
            let hosts = cloud.client().get("/chronova/v1/hosts").unwrap().body;
            hosts["hosts"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(|host| host["up"] == true))
        };
        site.cloud.wait("both hosts are up", both);
        site
    }

    pub fn client(&self) -> Client {
        self.cloud.client()
    }

    /// Runs a tool by its link; returns exit code, standard output and standard error.
    pub fn run(&self, name: &str, words: &[&str]) -> (i32, String, String) {
        let folder = self.cloud.folder.path();
        let mut command = Command::new(folder.join(name));
        command
            .args(words)
            .arg("--config-file")
            .arg(folder.join("chronova.conf"))
            .arg("--data-dir")
            .arg(self.cloud.data());
        command.args(["--url", &format!("http://{}", self.cloud.address())]);
        for variable in ["OS_ROLES", "OS_USER_ID", "OS_TENANT_ID", "OS_CACERT"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    #[track_caller]
    pub fn manage(&self, line: &str, code: i32) -> String {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let (found, out, err) = self.run("nova-manage", &words);
        assert_eq!(found, code, "nova-manage {line}\n{out}{err}");
        out
    }

    pub fn server(&mut self, name: &str) -> String {
        let flavor = self.furniture.clone().unwrap().flavor;
        let id = self.request(name, &flavor);
        self.settle(&id, "ACTIVE");
        id
    }

    /// Requests a server, without waiting for its build.
    pub fn request(&self, name: &str, flavor: &str) -> String {
        let furniture = self.furniture.clone().unwrap();
        let wish = json!({"server": {
            "name": name, "imageRef": furniture.image, "flavorRef": flavor, "networks": [{"uuid": furniture.network}],
        }});
        self.client().post("/compute/v2.1/servers", &wish).unwrap().expect(202).text("/server/id")
    }

    pub fn settle(&mut self, id: &str, status: &str) {
        let path = format!("/compute/v2.1/servers/{id}");
        self.cloud.wait(&format!("the server is {status}"), |cloud| {
            let server = cloud.client().get(&path).unwrap().body["server"].clone();
            server["status"] == status && server["OS-EXT-STS:task_state"].is_null()
        });
    }

    pub fn act(&mut self, id: &str, body: &Value, status: &str) {
        self.client().post(&format!("/compute/v2.1/servers/{id}/action"), body).unwrap().expect(202);
        self.settle(id, status);
    }

    pub fn allocations(&self, consumer: &str) -> Value {
        self.client().get(&format!("/placement/allocations/{consumer}")).unwrap().expect(200).body
    }

    pub fn provider(&self) -> String {
        self.client().get("/placement/resource_providers").unwrap().expect(200).text("/resource_providers/0/uuid")
    }
}
