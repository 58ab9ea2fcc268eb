//! A real Neutron of this test's own, started by `tests/testbed/neutron.sh`. OVN has entries for the compute hosts of
//! the suite, so that ports can be bound to them, although these hosts do not exist.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use chronova_actors::ports::UserToken;
use chronova_actors::services::external::http::{ServiceClient, ServiceRequest};
use chronova_actors::services::external::keystone::{CalledService, CallingAccounts, KeystoneSession, ServicePlace};
use chronova_actors::services::external::neutron::{NeutronNetworks, NeutronOptions};
use chronova_events::clock::SystemClock;
use chronova_events::ids::{NetworkId, PortId, ProjectId};
use chronova_events::instance::NicInfo;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::networks::{GROUP, NetworkStage, NetworkTenant};
use super::real_keystone::{RealKeystone, account, calls};

/// A running Neutron. It ends when this value is dropped.
pub struct RealNeutron {
    folder: TempDir,
    script: PathBuf,
    url: String,
    http: Arc<ServiceClient>,
    token: UserToken,
    session: Arc<KeystoneSession>,
    /// The Keystone with which this Neutron validates tokens.
    _keystone: RealKeystone,
}

impl Drop for RealNeutron {
    fn drop(&mut self) {
        let _ = Command::new("bash").arg(&self.script).arg("down").arg(self.folder.path()).status();
    }
}

/// Whether the packages are installed.
fn is_installed() -> bool {
    let programs = ["/usr/bin/neutron-server", "/usr/bin/ovn-northd", "/usr/sbin/mariadbd", "/usr/sbin/ovsdb-server"];
    let there = |path: &str| Path::new(path).is_file() || Path::new(&path.replace("/sbin/", "/bin/")).is_file();
    programs.iter().all(|path| there(path))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let done = command.status()?;
    ensure!(done.success(), "{command:?} failed");
    Ok(())
}

impl RealNeutron {
    /// `None` where Neutron or Keystone is not installed.
    pub async fn start() -> anyhow::Result<Option<Self>> {
        if !is_installed() {
            return Ok(None);
        }
        let Some(keystone) = RealKeystone::start()? else { return Ok(None) };
        let testbed = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbed");
        let (folder, script) = (tempfile::tempdir()?, testbed.join("neutron.sh"));
        run(Command::new("bash").arg(&script).arg("up").arg(folder.path()).arg(&keystone.url).arg("127.0.0.1"))?;
        for host in ["compute1", "compute2"] {
            run(Command::new("bash").arg(&script).arg("pretend").arg(folder.path()).arg(host))?;
        }
        let url = std::fs::read_to_string(folder.path().join("url"))?.trim().to_owned();
        let mut people = Command::new("python3");
        people.arg(testbed.join("people.py")).arg(&keystone.url);
        people.args(["nova:service:admin", "neutron:service:admin"]).arg(format!("network={url}"));
        run(&mut people)?;
        let account = account(&keystone.url, "nova", "service");
        let session = KeystoneSession::new(account, ServiceClient::new(calls("keystone"))?, Arc::new(SystemClock));
        let token = session.token(None).await.map_err(anyhow::Error::msg)?.token.clone();
        let http = ServiceClient::new(calls("stage"))?;
        Ok(Some(Self { folder, script, url, http, token, session, _keystone: keystone }))
    }

    /// The client of this Neutron.
    pub fn networks(&self) -> anyhow::Result<Arc<NeutronNetworks>> {
        let place = ServicePlace {
            endpoints: Vec::new(),
            service_type: "network".to_owned(),
            interfaces: vec!["internal".to_owned()],
            region: Some("RegionOne".to_owned()),
            version: "v2.0",
            vouches_for_itself: false,
        };
        let accounts = CallingAccounts { own: Arc::clone(&self.session), vouching: None };
        let service = CalledService::new(calls("neutron"), place, accounts)?;
        let extension_sync_interval = Duration::from_mins(10);
        let options = NeutronOptions { ovs_bridge: "br-int".to_owned(), extension_sync_interval };
        Ok(NeutronNetworks::new(service, options))
    }

    async fn call(&self, call: ServiceRequest) -> anyhow::Result<Value> {
        let answer = self.http.call(call.secret("x-auth-token", &self.token)).await?;
        ensure!(answer.status < 400, "Neutron refuses: {}", String::from_utf8_lossy(&answer.body));
        Ok(answer.json().unwrap_or_default())
    }

    /// Creates a resource, and returns it.
    async fn make(&self, kind: &str, body: Value) -> Value {
        let key = kind.replace('-', "_");
        let one = key.trim_end_matches('s').to_owned();
        let call = ServiceRequest::post(format!("{}/v2.0/{kind}", self.url)).json(&json!({&one: body}));
        self.call(call).await.unwrap()[&one].take()
    }

    /// A network with one subnet, whose pool has this many addresses.
    async fn network(&self, project: &ProjectId, prefix: &str, addresses: u8, external: bool) -> NetworkId {
        let network = json!({"name": "private", "project_id": project, "router:external": external});
        let network = self.make("networks", network).await;
        let pool = json!({"start": format!("{prefix}.10"), "end": format!("{prefix}.{}", 9 + addresses)});
        let subnet = json!({"network_id": network["id"], "project_id": project, "ip_version": 4,
            "cidr": format!("{prefix}.0/24"), "allocation_pools": [pool]});
        self.make("subnets", subnet).await;
        id(&network).parse().unwrap()
    }
}

fn id(row: &Value) -> &str {
    row["id"].as_str().context("no id").unwrap()
}

#[async_trait]
impl NetworkStage for RealNeutron {
    async fn tenant(&self, addresses: u8) -> NetworkTenant {
        let project = ProjectId::new(NetworkId::random().hex());
        let network = self.network(&project, "10.7.0", addresses, false).await;
        let group = self.make("security-groups", json!({"name": GROUP, "project_id": project})).await;
        NetworkTenant { project, network, group: id(&group).parse().unwrap() }
    }

    async fn own_port(&self, tenant: &NetworkTenant) -> PortId {
        let port = json!({"network_id": tenant.network, "project_id": tenant.project});
        id(&self.make("ports", port).await).parse().unwrap()
    }

    async fn delete_port(&self, _: &NetworkTenant, port: PortId) {
        self.call(ServiceRequest::delete(format!("{}/v2.0/ports/{port}", self.url))).await.unwrap();
    }

    async fn bindings(&self, port: PortId) -> Vec<String> {
        let url = format!("{}/v2.0/ports/{port}/bindings", self.url);
        let answer = self.call(ServiceRequest::get(url)).await.unwrap();
        let rows = answer["bindings"].as_array().unwrap();
        rows.iter().map(|row| row["host"].as_str().unwrap().to_owned()).collect()
    }

    async fn pool(&self, tenant: &NetworkTenant, addresses: u8) -> NetworkId {
        let pool = self.network(&ProjectId::new("operators"), "172.24.4", addresses, true).await;
        let gateway = json!({"network_id": pool});
        let router = json!({"project_id": tenant.project, "external_gateway_info": gateway});
        let router = self.make("routers", router).await;
        let subnets = format!("{}/v2.0/subnets?network_id={}", self.url, tenant.network);
        let subnet = self.call(ServiceRequest::get(subnets)).await.unwrap()["subnets"][0]["id"].take();
        let url = format!("{}/v2.0/routers/{}/add_router_interface", self.url, id(&router));
        self.call(ServiceRequest::put(url).json(&json!({"subnet_id": subnet}))).await.unwrap();
        pool
    }

    async fn float(&self, tenant: &NetworkTenant, nic: &NicInfo) -> IpAddr {
        let pool = self.pool(tenant, 5).await;
        let floating = json!({"floating_network_id": pool, "project_id": tenant.project, "port_id": nic.port});
        let floating = self.make("floatingips", floating).await;
        floating["floating_ip_address"].as_str().unwrap().parse().unwrap()
    }
}
