//! The promises of an [`IdentityProvider`] that caches nothing. With `token_cache_time`, a revoked token may be
//! accepted until the cached answer expires.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::ports::UserToken;
use chronova_actors::ports::identity::{IdentityProvider, TokenError, TokenOwner, TokenQuestion, TokenScope};
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::ids::{DomainId, ProjectId, UserId};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::promise;

/// A user with the role `member` in a project of their own, and the role `reader` in the default domain and the system.
#[derive(Debug, Clone)]
pub struct StagedUser {
    pub user: UserId,
    pub name: String,
    pub domain: DomainId,
    pub project: ProjectId,
    pub project_name: String,
}

/// The scope that a token is requested for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StagedScope {
    Project,
    Domain,
    System,
    Nothing,
}

/// Prepares a case through the service itself, not through the port under test.
#[async_trait]
pub trait IdentityStage: Send + Sync {
    async fn user(&self) -> anyhow::Result<StagedUser>;
    async fn token(&self, user: &StagedUser, scope: StagedScope) -> anyhow::Result<UserToken>;
    /// An expired token for the user's project.
    async fn expired(&self, user: &StagedUser) -> anyhow::Result<UserToken>;
    async fn revoke(&self, user: &StagedUser, token: &UserToken) -> anyhow::Result<()>;
    /// Removes the user's role in the project.
    async fn dismiss(&self, user: &StagedUser) -> anyhow::Result<()>;
}

pub type IdentityCase =
    for<'a> fn(&'a dyn IdentityProvider, &'a dyn IdentityStage) -> BoxFuture<'a, anyhow::Result<()>>;

/// The cases of the suite.
pub const CASES: &[(&str, IdentityCase)] = &[
    ("tells_whose_token_it_is", |port, stage| tells_owners(port, stage).boxed()),
    ("tells_where_roles_hold", |port, stage| tells_scopes(port, stage).boxed()),
    ("believes_no_forged_token", |port, stage| believes_none(port, stage).boxed()),
    ("forgets_revoked_tokens", |port, stage| forgets_revoked(port, stage).boxed()),
    ("forgets_roles_that_are_taken_away", |port, stage| forgets_roles(port, stage).boxed()),
    ("accepts_an_expired_token_only_if_allowed", |port, stage| checks_expiry(port, stage).boxed()),
    ("knows_only_its_own_projects", |port, stage| knows_projects(port, stage).boxed()),
];

async fn owner(
    port: &dyn IdentityProvider,
    token: &UserToken,
    allow_expired: bool,
) -> Result<Arc<TokenOwner>, TokenError> {
    port.owner(TokenQuestion { token, allow_expired, request: None }).await
}

async fn tells_owners(port: &dyn IdentityProvider, stage: &dyn IdentityStage) -> anyhow::Result<()> {
    let user = stage.user().await?;
    let token = stage.token(&user, StagedScope::Project).await?;
    let found = owner(port, &token, false).await?;
    promise!(found.user == user.user && found.user_name == user.name, "the token is somebody else's: {found:?}");
    promise!(found.user_domain.as_ref() == Some(&user.domain), "the user is of another domain: {found:?}");
    let scope = TokenScope::Project {
        id: user.project.clone(),
        name: user.project_name.clone(),
        domain: Some(user.domain.clone()),
    };
    promise!(found.scope == scope, "the token is of another project: {found:?}");
    promise!(found.roles.iter().any(|role| role == "member"), "the user lacks the role member: {found:?}");
    promise!(!found.roles.iter().any(|role| role == "admin"), "the user has the role admin: {found:?}");
    promise!(found.access_rules.is_none(), "the token is limited by access rules: {found:?}");
    promise!(found.expires_at > SystemClock.now(), "the token has expired: {found:?}");
    Ok(())
}

async fn tells_scopes(port: &dyn IdentityProvider, stage: &dyn IdentityStage) -> anyhow::Result<()> {
    let user = stage.user().await?;
    let scopes = [
        (StagedScope::Domain, TokenScope::Domain(user.domain.clone()), true),
        (StagedScope::System, TokenScope::System, true),
        (StagedScope::Nothing, TokenScope::Unscoped, false),
    ];
    for (asked, expected, has_role) in scopes {
        let token = stage.token(&user, asked).await?;
        let found = owner(port, &token, false).await?;
        promise!(found.scope == expected, "{asked:?} gives another scope: {found:?}");
        let holds = found.roles.iter().any(|role| role == "reader");
        promise!(holds == has_role, "{asked:?} gives other roles: {found:?}");
    }
    Ok(())
}

async fn believes_none(port: &dyn IdentityProvider, stage: &dyn IdentityStage) -> anyhow::Result<()> {
    let user = stage.user().await?;
    let token = stage.token(&user, StagedScope::Project).await?;
    let text = token.expose();
    let (begin, end) = text.split_at(text.len() / 2);
    let other = if end.starts_with('A') { "B" } else { "A" };
    let changed = format!("{begin}{other}{}", &end[1..]);
    let lengthened = format!("{text}{text}");
    let long = "A".repeat(100_000);
    for forged in ["", " ", "admin", "gAAAAA", "../projects", "\u{fc}", "a\r\nb", begin, &changed, &lengthened, &long] {
        for allow_expired in [false, true] {
            let found = owner(port, &UserToken::new(forged), allow_expired).await;
            promise!(
                found == Err(TokenError::Invalid),
                "a forged token of {} bytes is not refused as invalid: {found:?}",
                forged.len()
            );
        }
    }
    promise!(owner(port, &token, false).await.is_ok(), "a valid token is refused after the forged ones");
    Ok(())
}

async fn forgets_revoked(port: &dyn IdentityProvider, stage: &dyn IdentityStage) -> anyhow::Result<()> {
    let user = stage.user().await?;
    let token = stage.token(&user, StagedScope::Project).await?;
    promise!(owner(port, &token, false).await.is_ok(), "the token is refused");
    stage.revoke(&user, &token).await?;
    for allow_expired in [false, true] {
        let found = owner(port, &token, allow_expired).await;
        promise!(found == Err(TokenError::Invalid), "a revoked token is accepted: {found:?}");
    }
    Ok(())
}

async fn forgets_roles(port: &dyn IdentityProvider, stage: &dyn IdentityStage) -> anyhow::Result<()> {
    let user = stage.user().await?;
    let token = stage.token(&user, StagedScope::Project).await?;
    stage.dismiss(&user).await?;
    let found = owner(port, &token, false).await;
    promise!(found == Err(TokenError::Invalid), "a token is accepted after its user lost the role: {found:?}");
    Ok(())
}

async fn checks_expiry(port: &dyn IdentityProvider, stage: &dyn IdentityStage) -> anyhow::Result<()> {
    let user = stage.user().await?;
    let token = stage.expired(&user).await?;
    let found = owner(port, &token, false).await;
    promise!(found == Err(TokenError::Invalid), "an expired token is accepted: {found:?}");
    let found = owner(port, &token, true).await?;
    promise!(found.user == user.user, "the expired token is somebody else's: {found:?}");
    let found = owner(port, &token, false).await;
    promise!(
        found == Err(TokenError::Invalid),
        "an expired token is accepted without allow_expired, after a question that allowed it: {found:?}"
    );
    Ok(())
}

async fn knows_projects(port: &dyn IdentityProvider, stage: &dyn IdentityStage) -> anyhow::Result<()> {
    let user = stage.user().await?;
    promise!(port.knows_project(&user.project, None).await?, "the project is not known");
    for other in ["", "0123456789abcdef0123456789abcdef", "../users", "a b", "%2e%2e", user.user.as_str()] {
        let known = port.knows_project(&ProjectId::new(other), None).await?;
        promise!(!known, "a project that does not exist is known: {other:?}");
    }
    Ok(())
}
