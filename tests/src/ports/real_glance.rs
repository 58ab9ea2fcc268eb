//! A real Glance of this test's own, started by `tests/testbed/glance.sh` beside a real Keystone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use anyhow::ensure;
use async_trait::async_trait;
use chronova_actors::ports::{ServiceCaller, UserToken};
use chronova_actors::services::external::glance::GlanceImages;
use chronova_actors::services::external::http::ServiceClient;
use chronova_actors::services::external::keystone::account::DomainChoice;
use chronova_actors::services::external::keystone::{
    AccountScope, CalledService, CallingAccounts, Credentials, KeptUserTokens, KeystoneSession, NamedInDomain,
    ServiceAccount, ServicePlace, SharedUserTokens,
};
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::ProjectId;
use tempfile::TempDir;

use super::identity::{IdentityStage as _, StagedScope, StagedUser};
use super::images::ImageStage;
use super::real_keystone::{RealKeystone, calls};

/// A running Glance. It ends when this value is dropped, before its Keystone.
pub struct RealGlance {
    pub images: Arc<GlanceImages>,
    /// The tokens of users for whom the client works.
    pub tokens: SharedUserTokens,
    folder: TempDir,
    script: PathBuf,
    keystone: RealKeystone,
    users: Mutex<BTreeMap<ProjectId, StagedUser>>,
}

impl Drop for RealGlance {
    fn drop(&mut self) {
        let _ = Command::new("bash").arg(&self.script).arg("down").arg(self.folder.path()).status();
    }
}

impl RealGlance {
    /// `None` where Glance or Keystone is not installed.
    pub fn start() -> anyhow::Result<Option<Self>> {
        if !Path::new("/usr/bin/glance-wsgi-api").is_file() {
            return Ok(None);
        }
        let Some(keystone) = RealKeystone::start()? else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbed/glance.sh");
        let up = Command::new("bash").arg(&script).arg("up").args([folder.path(), keystone.folder()]).status()?;
        ensure!(up.success(), "glance.sh failed to start Glance");
        let tokens = Arc::<KeptUserTokens>::default();
        let images = client(&keystone, true, &tokens)?;
        Ok(Some(Self { images, tokens, folder, script, keystone, users: Mutex::default() }))
    }

    /// A client that sends a user's token without a service's token.
    pub fn client_that_vouches_for_nobody(&self) -> anyhow::Result<Arc<GlanceImages>> {
        client(&self.keystone, false, &self.tokens)
    }

    fn staged(&self, project: &ProjectId) -> StagedUser {
        self.users.lock().unwrap().get(project).cloned().unwrap()
    }

    /// A token of the project's user that expired an hour ago.
    pub async fn expired(&self, project: &ProjectId) -> anyhow::Result<UserToken> {
        self.keystone.expired(&self.staged(project)).await
    }
}

fn client(keystone: &RealKeystone, vouches: bool, tokens: &SharedUserTokens) -> anyhow::Result<Arc<GlanceImages>> {
    let place = ServicePlace {
        endpoints: Vec::new(),
        service_type: "image".to_owned(),
        interfaces: vec!["internal".to_owned(), "public".to_owned()],
        region: Some("RegionOne".to_owned()),
        version: "v2",
        vouches_for_itself: false,
    };
    let own = Arc::clone(keystone.provider()?.session());
    let vouching = if vouches { Some(vouching(keystone)?) } else { None };
    let accounts = CallingAccounts { own, vouching };
    Ok(GlanceImages::new(CalledService::new(calls("glance"), place, accounts)?, Arc::clone(tokens), None))
}

/// The account that `glance.sh` creates. It has the role `service`, which Glance requires of a service's token.
fn vouching(keystone: &RealKeystone) -> anyhow::Result<Arc<KeystoneSession>> {
    let named =
        |name: &str| NamedInDomain::Name { name: name.to_owned(), domain: DomainChoice::Id("default".to_owned()) };
    let account = ServiceAccount {
        auth_url: keystone.url.clone(),
        credentials: Credentials::Password { user: named("glance"), password: UserToken::new("secret") },
        scope: AccountScope::Project(named("service")),
    };
    let client = ServiceClient::new(calls("keystone"))?;
    Ok(KeystoneSession::new(account, client, Arc::new(SystemClock)))
}

#[async_trait]
impl ImageStage for RealGlance {
    async fn project(&self) -> ProjectId {
        let user = self.keystone.user().await.unwrap();
        let project = user.project.clone();
        self.users.lock().unwrap().insert(project.clone(), user);
        project
    }

    async fn user(&self, project: &ProjectId) -> ServiceCaller {
        let token = self.keystone.token(&self.staged(project), StagedScope::Project).await.unwrap();
        let meta = Meta::system("conformance");
        ServiceCaller { project: Some(project.clone()), is_admin: false, token: Some(token), rights: None, meta }
    }
}
