//! A real Cinder of this test's own, started by `tests/testbed/cinder.sh` beside a real Keystone. Its volumes have no
//! data, because the suite compares only Cinder's answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::ensure;
use async_trait::async_trait;
use chronova_actors::services::external::cinder::{CinderVolumes, RbdAccess};
use chronova_actors::services::external::http::ServiceClient;
use chronova_actors::services::external::keystone::{
    CalledService, CallingAccounts, KeptUserToken, KeptUserTokens, KeystoneSession, ServicePlace, SharedUserTokens,
};
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProjectId, RequestId, VolumeId};
use chronova_hypervisor::backend::{self, DriverOptions};
use chronova_hypervisor::driver::Driver;
use tempfile::TempDir;

use super::identity::{IdentityStage as _, StagedScope, StagedUser};
use super::real_keystone::{RealKeystone, account, calls};
use super::volumes::VolumeStage;

/// A running Cinder. It ends when this value is dropped, before its Keystone.
pub struct RealCinder {
    pub volumes: Arc<CinderVolumes>,
    tokens: SharedUserTokens,
    host: (HostId, Arc<dyn Driver>),
    folder: TempDir,
    script: PathBuf,
    keystone: RealKeystone,
    users: Mutex<BTreeMap<ProjectId, StagedUser>>,
}

impl Drop for RealCinder {
    fn drop(&mut self) {
        let _ = Command::new("bash").arg(&self.script).arg("down").arg(self.folder.path()).status();
    }
}

impl RealCinder {
    /// `None` where Cinder or Keystone is not installed.
    pub fn start() -> anyhow::Result<Option<Self>> {
        if !Path::new("/usr/bin/cinder-volume").is_file() {
            return Ok(None);
        }
        let Some(keystone) = RealKeystone::start()? else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbed/cinder.sh");
        let up = Command::new("bash").arg(&script).arg("up").args([folder.path(), keystone.folder()]).status()?;
        ensure!(up.success(), "cinder.sh does not start a Cinder");
        let tokens = Arc::<KeptUserTokens>::default();
        let volumes = client(&keystone, &tokens)?;
        let drivers = backend::open("sim://1", &DriverOptions::default())?;
        let driver = drivers.into_iter().next().ok_or_else(|| anyhow::anyhow!("the fleet has no host"))?;
        let host = (HostId::random(), driver);
        Ok(Some(Self { volumes, tokens, host, folder, script, keystone, users: Mutex::default() }))
    }
}

/// The account that `cinder.sh` makes. It has the role `service`, which Cinder requires of a service's token.
fn session(keystone: &RealKeystone) -> anyhow::Result<Arc<KeystoneSession>> {
    let account = account(&keystone.url, "cinder", "service");
    Ok(KeystoneSession::new(account, ServiceClient::new(calls("keystone"))?, Arc::new(SystemClock)))
}

fn client(keystone: &RealKeystone, tokens: &SharedUserTokens) -> anyhow::Result<Arc<CinderVolumes>> {
    let place = ServicePlace {
        endpoints: Vec::new(),
        service_type: "volumev3".to_owned(),
        interfaces: vec!["public".to_owned()],
        region: Some("RegionOne".to_owned()),
        version: "v3",
        vouches_for_itself: true,
    };
    let accounts = CallingAccounts { own: session(keystone)?, vouching: Some(session(keystone)?) };
    let service = CalledService::new(calls("cinder"), place, accounts)?;
    Ok(CinderVolumes::new(service, Arc::clone(tokens), RbdAccess::default(), None))
}

#[async_trait]
impl VolumeStage for RealCinder {
    async fn project(&self) -> ProjectId {
        let user = self.keystone.user().await.unwrap();
        let project = user.project.clone();
        self.users.lock().unwrap().insert(project.clone(), user);
        project
    }

    fn host(&self) -> String {
        "node-1".to_owned()
    }

    fn driver(&self) -> (HostId, Arc<dyn Driver>) {
        (self.host.0, Arc::clone(&self.host.1))
    }

    async fn asked(&self, project: &ProjectId) -> Arc<Meta> {
        let user = self.users.lock().unwrap().get(project).cloned().unwrap();
        let token = self.keystone.token(&user, StagedScope::Project).await.unwrap();
        let request = RequestId::new(format!("req-{}", VolumeId::random()));
        self.tokens.keep(&request, KeptUserToken { token, project: Some(project.clone()) }, Instant::now());
        Arc::new(Meta { request_id: Some(request), ..(*Meta::system("conformance")).clone() })
    }
}
