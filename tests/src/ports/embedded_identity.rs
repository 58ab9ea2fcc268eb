//! The embedded identity service on a log in memory.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;
use chronova_actors::ports::UserToken;
use chronova_actors::runtime::{Leadership, Member};
use chronova_actors::services::embedded::identity::bootstrap::bootstrap;
use chronova_actors::services::embedded::identity::passwords::{Password, Passwords};
use chronova_actors::services::embedded::identity::{IdentityCommand, IdentityRealmId, IdentityRoot};
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::identity::{
    Grant, Identity, IdentityScope, ProjectAttributes, ProjectCreated, UserAttributes, UserCreated,
};
use chronova_events::ids::{DomainId, ProjectId, RoleId, UserId};
use chronova_events::store::memory::MemoryStore;
use chronova_projections::views::Views;
use chronova_web::identity::catalogue::ServiceCatalogue;
use chronova_web::identity::tokens::{Claims, Signer, audit_id};
use chronova_web::identity::{IdentityOptions, IdentityService};
use chronova_web::secret::Secret;
use uuid::Uuid;

use super::identity::{IdentityStage, StagedScope, StagedUser};

const HOUR: i64 = 3_600_000_000;

pub struct EmbeddedIdentityStage {
    pub identity: Arc<IdentityService>,
    leadership: Leadership,
    signer: Signer,
    member: Member,
}

impl EmbeddedIdentityStage {
    /// A service with its first administrator in it. Needs a running actix system.
    pub async fn new() -> Self {
        let member = Member::start(MemoryStore::new(), Arc::new(SystemClock), Views::new()).await.unwrap();
        let leadership = Leadership::take(&member, 1).unwrap();
        let signer = Signer::new([7; 32]);
        let passwords = Passwords::new(1);
        bootstrap(&leadership.gateway, &passwords, Some(Password::new("secret"))).await.unwrap();
        let options = IdentityOptions::new(ServiceCatalogue { region: String::new(), services: Vec::new() });
        let (views, clock) = (Arc::clone(&leadership.views), Arc::clone(&leadership.clock));
        let identity = IdentityService::with_signer(signer.clone(), passwords, options, views, clock);
        Self { identity, leadership, signer, member }
    }

    pub async fn stop(self) {
        self.member.stop().await;
    }

    async fn send(&self, command: IdentityCommand) -> anyhow::Result<()> {
        let gateway = &self.leadership.gateway;
        let committed = gateway.send::<IdentityRoot>(&IdentityRealmId, command, Meta::system("conformance")).await?;
        ensure!(self.leadership.views.wait_for(committed.position, Duration::from_secs(10)).await, "the views lag");
        Ok(())
    }

    async fn role(&self, name: &str) -> anyhow::Result<RoleId> {
        let identity: Identity = self.leadership.gateway.look::<IdentityRoot>(&IdentityRealmId).await?;
        let found = identity.roles.values().find(|role| role.name == name).map(|role| role.id.clone());
        found.ok_or_else(|| anyhow::anyhow!("there is no role {name}"))
    }

    /// A token that was issued now.
    fn sign(&self, user: &StagedUser, scope: StagedScope, expires_at: Timestamp) -> anyhow::Result<UserToken> {
        let scope = match scope {
            StagedScope::Project => Some(IdentityScope::Project(user.project.clone())),
            StagedScope::Domain => Some(IdentityScope::Domain(user.domain.clone())),
            StagedScope::System => Some(IdentityScope::System),
            StagedScope::Nothing => None,
        };
        let claims = Claims {
            user: user.user.clone(),
            scope,
            methods: vec!["password".to_owned()],
            audit_ids: vec![audit_id()?],
            issued_at: SystemClock.now(),
            expires_at,
            credential: None,
        };
        Ok(UserToken::new(self.signer.sign(&claims)?.expose()))
    }
}

#[async_trait]
impl IdentityStage for EmbeddedIdentityStage {
    async fn user(&self) -> anyhow::Result<StagedUser> {
        let id = || Uuid::new_v4().simple().to_string();
        let staged = StagedUser {
            user: UserId::from(id()),
            name: id(),
            domain: DomainId::new("default"),
            project: ProjectId::from(id()),
            project_name: id(),
        };
        let domain = staged.domain.clone();
        self.send(IdentityCommand::CreateProject(ProjectCreated {
            project: staged.project.clone(),
            domain: domain.clone(),
            parent: None,
            enabled: true,
            attributes: ProjectAttributes { name: staged.project_name.clone(), ..ProjectAttributes::default() },
        }))
        .await?;
        self.send(IdentityCommand::CreateUser(UserCreated {
            user: staged.user.clone(),
            domain: domain.clone(),
            enabled: true,
            password: None,
            attributes: UserAttributes { name: staged.name.clone(), ..UserAttributes::default() },
        }))
        .await?;
        for (scope, role) in [
            (IdentityScope::Project(staged.project.clone()), "member"),
            (IdentityScope::Domain(domain), "reader"),
            (IdentityScope::System, "reader"),
        ] {
            let grant = Grant { role: self.role(role).await?, scope, inherited: false };
            self.send(IdentityCommand::Grant { user: staged.user.clone(), grant }).await?;
        }
        Ok(staged)
    }

    async fn token(&self, user: &StagedUser, scope: StagedScope) -> anyhow::Result<UserToken> {
        self.sign(user, scope, Timestamp(SystemClock.now().0 + HOUR))
    }

    async fn expired(&self, user: &StagedUser) -> anyhow::Result<UserToken> {
        self.sign(user, StagedScope::Project, Timestamp(SystemClock.now().0 - HOUR))
    }

    async fn revoke(&self, user: &StagedUser, token: &UserToken) -> anyhow::Result<()> {
        let claims = self.signer.read(&Secret::new(token.expose())).ok_or_else(|| anyhow::anyhow!("no token"))?;
        let (audit_id, expires_at) = (claims.audit_id().to_owned(), claims.expires_at);
        self.send(IdentityCommand::RevokeToken { user: user.user.clone(), audit_id, expires_at }).await
    }

    async fn dismiss(&self, user: &StagedUser) -> anyhow::Result<()> {
        let scope = IdentityScope::Project(user.project.clone());
        let grant = Grant { role: self.role("member").await?, scope, inherited: false };
        self.send(IdentityCommand::Revoke { user: user.user.clone(), grant }).await
    }
}
