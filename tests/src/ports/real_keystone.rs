//! A real Keystone that one test starts for itself with `tests/testbed/keystone.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use async_trait::async_trait;
use chronova_actors::ports::UserToken;
use chronova_actors::services::external::http::{CallOptions, ServiceAnswer, ServiceClient, ServiceRequest, TlsTrust};
use chronova_actors::services::external::keystone::account::DomainChoice;
use chronova_actors::services::external::keystone::{
    AccountScope, Credentials, KeystoneOptions, KeystoneProvider, NamedInDomain, ServiceAccount,
};
use chronova_events::clock::SystemClock;
use chronova_events::ids::{DomainId, ProjectId, UserId};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::identity::{IdentityStage, StagedScope, StagedUser};

/// The script, if the packages that it needs are installed.
fn script() -> Option<PathBuf> {
    let there =
        ["/usr/bin/keystone-wsgi-public", "/usr/bin/uwsgi_python3"].iter().all(|path| Path::new(path).is_file());
    there.then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("testbed/keystone.sh"))
}

/// A running Keystone. It ends when this value is dropped.
pub struct RealKeystone {
    folder: TempDir,
    script: PathBuf,
    pub url: String,
    http: Arc<ServiceClient>,
}

impl Drop for RealKeystone {
    fn drop(&mut self) {
        let _ = Command::new("bash").arg(&self.script).arg("down").arg(self.folder.path()).status();
    }
}

pub(super) fn calls(name: &'static str) -> CallOptions {
    CallOptions { name, timeout: Duration::from_secs(30), retries: 3, tls: TlsTrust::default() }
}

fn admin(auth_url: &str) -> ServiceAccount {
    account(auth_url, "admin", "admin")
}

/// The account of a user in a project. All users of these tests have the same password.
pub(super) fn account(auth_url: &str, user: &str, project: &str) -> ServiceAccount {
    let named =
        |name: &str| NamedInDomain::Name { name: name.to_owned(), domain: DomainChoice::Id("default".to_owned()) };
    ServiceAccount {
        auth_url: auth_url.to_owned(),
        credentials: Credentials::Password { user: named(user), password: UserToken::new("secret") },
        scope: AccountScope::Project(named(project)),
    }
}

impl RealKeystone {
    /// `None` where Keystone is not installed.
    pub fn start() -> anyhow::Result<Option<Self>> {
        let Some(script) = script() else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let up = Command::new("bash").arg(&script).arg("up").arg(folder.path()).status()?;
        ensure!(up.success(), "keystone.sh failed to start Keystone");
        let url = std::fs::read_to_string(folder.path().join("url"))?.trim().to_owned();
        let http = ServiceClient::new(calls("stage"))?;
        Ok(Some(Self { folder, script, url, http }))
    }

    /// The folder in which the script stores this Keystone.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The provider that asks this Keystone, and caches nothing.
    pub fn provider(&self) -> anyhow::Result<Arc<KeystoneProvider>> {
        let options = KeystoneOptions {
            account: admin(&self.url),
            calls: calls("keystone"),
            interface: "internal".to_owned(),
            region: Some("RegionOne".to_owned()),
            cache_time: None,
            include_catalogue: true,
        };
        Ok(KeystoneProvider::new(options, Arc::new(SystemClock))?)
    }

    async fn issue(&self, auth: Value) -> anyhow::Result<UserToken> {
        let call = ServiceRequest::post(format!("{}/v3/auth/tokens", self.url)).json(&json!({"auth": auth}));
        let answer = self.http.call(call).await?;
        ensure!(answer.status == 201, "no token: {}", answer.complaint());
        Ok(UserToken::new(answer.header("X-Subject-Token").context("no token")?))
    }

    async fn as_admin(&self, call: ServiceRequest) -> anyhow::Result<ServiceAnswer> {
        let token = self.issue(admin(&self.url).request()["auth"].clone()).await?;
        let answer = self.http.call(call.secret("x-auth-token", &token)).await?;
        if answer.status >= 400 {
            bail!("Keystone refuses: {}", answer.complaint())
        }
        Ok(answer)
    }

    async fn create(&self, kind: &str, one: &str, body: Value) -> anyhow::Result<String> {
        let call = ServiceRequest::post(format!("{}/v3/{kind}", self.url)).json(&json!({one: body}));
        let answer = self.as_admin(call).await?.json().context("no JSON")?;
        Ok(answer[one]["id"].as_str().context("no id")?.to_owned())
    }

    async fn role(&self, name: &str) -> anyhow::Result<String> {
        let url = format!("{}/v3/roles?name={name}", self.url);
        let found = self.as_admin(ServiceRequest::get(url)).await?.json().context("no JSON")?;
        Ok(found["roles"][0]["id"].as_str().context("no such role")?.to_owned())
    }

    /// The URL that grants (`PUT`) or removes (`DELETE`) a role of the user in `place`: `projects/ID`, `domains/ID` or
    /// `system`.
    async fn grant(&self, place: &str, user: &UserId, role: &str) -> anyhow::Result<String> {
        Ok(format!("{}/v3/{place}/users/{user}/roles/{}", self.url, self.role(role).await?))
    }
}

#[async_trait]
impl IdentityStage for RealKeystone {
    async fn user(&self) -> anyhow::Result<StagedUser> {
        let name = || Uuid::new_v4().simple().to_string();
        let (name, project_name) = (name(), name());
        let project = json!({"name": project_name, "domain_id": "default"});
        let project = self.create("projects", "project", project).await?;
        let user = json!({"name": name, "domain_id": "default", "password": "secret"});
        let user = UserId::from(self.create("users", "user", user).await?);
        let in_project = format!("projects/{project}");
        for (place, role) in [(in_project.as_str(), "member"), ("domains/default", "reader"), ("system", "reader")] {
            self.as_admin(ServiceRequest::put(self.grant(place, &user, role).await?)).await?;
        }
        let (domain, project) = (DomainId::new("default"), ProjectId::from(project));
        Ok(StagedUser { user, name, domain, project, project_name })
    }

    async fn token(&self, user: &StagedUser, scope: StagedScope) -> anyhow::Result<UserToken> {
        let proof = json!({"user": {"id": user.user, "password": "secret"}});
        let mut auth = json!({"identity": {"methods": ["password"], "password": proof}});
        auth["scope"] = match scope {
            StagedScope::Project => json!({"project": {"id": user.project}}),
            StagedScope::Domain => json!({"domain": {"id": user.domain}}),
            StagedScope::System => json!({"system": {"all": true}}),
            StagedScope::Nothing => json!("unscoped"),
        };
        self.issue(auth).await
    }

    async fn expired(&self, user: &StagedUser) -> anyhow::Result<UserToken> {
        let token = self.token(user, StagedScope::Project).await?;
        let mut expired = Command::new("bash");
        expired.arg(&self.script).arg("expired").arg(self.folder.path()).arg(token.expose());
        let made = expired.output()?;
        ensure!(made.status.success(), "keystone.sh failed to make a token: {}", String::from_utf8_lossy(&made.stderr));
        Ok(UserToken::new(String::from_utf8(made.stdout)?.trim()))
    }

    async fn revoke(&self, _: &StagedUser, token: &UserToken) -> anyhow::Result<()> {
        let call = ServiceRequest::delete(format!("{}/v3/auth/tokens", self.url)).secret("x-subject-token", token);
        self.as_admin(call).await.map(drop)
    }

    async fn dismiss(&self, user: &StagedUser) -> anyhow::Result<()> {
        let place = format!("projects/{}", user.project);
        self.as_admin(ServiceRequest::delete(self.grant(&place, &user.user, "member").await?)).await.map(drop)
    }
}
