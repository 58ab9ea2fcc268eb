//! The state of the identity handlers, and the verification of tokens for every API of the process.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::coordination::lockouts::{Lockout, LockoutRule};
use chronova_actors::ports::PortError;
use chronova_actors::ports::identity::{
    AccessRule, IdentityProvider, TokenError, TokenOwner, TokenQuestion, TokenScope,
};
use chronova_actors::services::embedded::identity::passwords::{Password, Passwords};
use chronova_events::clock::Clock;
use chronova_events::envelope::Timestamp;
use chronova_events::identity::{
    ApplicationCredential, Identity, IdentityScope, PasswordHash, Project, Role, User, UserAccessRule,
};
use chronova_events::ids::{ProjectId, RequestId, RoleId, UserId};
use chronova_projections::views::Views;

use super::attempts::{FailedLogins, LoginAttempt};
use super::catalogue::ServiceCatalogue;
use super::fault;
use super::tokens::{Claims, KeyError, Signer};
use crate::fault::Fault;
use crate::secret::Secret;
use crate::service::Service;

/// Settings, with Keystone's names and defaults where it has them.
#[derive(Debug, Clone)]
pub struct IdentityOptions {
    /// `[token] expiration`, seconds.
    pub expiration: u32,
    /// `[token] allow_expired_window`, seconds: how long an expired token is still accepted if a service vouches for
    /// it.
    pub allow_expired_window: u32,
    /// The most passwords that are hashed or compared at the same time.
    pub hashing_concurrency: usize,
    /// When wrong passwords lock a user out; `None` means never.
    pub lockout: Option<LockoutRule>,
    /// How many wrong passwords per minute are accepted from one address, and how many for one user. 0 means no limit.
    pub failed_logins: u32,
    pub catalogue: ServiceCatalogue,
}

impl IdentityOptions {
    pub fn new(catalogue: ServiceCatalogue) -> Self {
        Self {
            expiration: 3_600,
            allow_expired_window: 172_800,
            hashing_concurrency: 2,
            lockout: None,
            failed_logins: 20,
            catalogue,
        }
    }
}

/// The embedded identity service.
pub struct IdentityService {
    pub(super) passwords: Passwords,
    pub(super) signer: Signer,
    pub(super) catalogue: ServiceCatalogue,
    pub(super) expiration: u32,
    allow_expired_window: u32,
    lockout: Lockout,
    failed: FailedLogins,
    views: Arc<Views>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for IdentityService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdentityService").field("expiration", &self.expiration).finish_non_exhaustive()
    }
}

impl IdentityService {
    /// Reads the token key in `data_dir`, or creates it.
    pub fn open(
        data_dir: &Path,
        options: IdentityOptions,
        views: Arc<Views>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, KeyError> {
        let passwords = Passwords::new(options.hashing_concurrency);
        Ok(Self::with_signer(Signer::open(data_dir)?, passwords, options, views, clock))
    }

    /// For tests: opens the service with a given key and hashing cost.
    pub fn with_signer(
        signer: Signer,
        passwords: Passwords,
        options: IdentityOptions,
        views: Arc<Views>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let IdentityOptions { expiration, allow_expired_window, catalogue, lockout, failed_logins, .. } = options;
        let (lockout, failed) = (Lockout::new(lockout), FailedLogins::new(failed_logins));
        Arc::new(Self { passwords, signer, catalogue, expiration, allow_expired_window, lockout, failed, views, clock })
    }

    /// The hashing of passwords, for [`chronova_actors::services::embedded::identity::bootstrap::bootstrap`].
    pub fn passwords(&self) -> &Passwords {
        &self.passwords
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether the password is right and the user is not locked out. An unknown user, or a user without a password,
    /// costs the same time. `from` is the address of the attempt, and `named` is its user. After too many wrong
    /// passwords from this address or for this user, further attempts get 429 for a while.
    pub(super) async fn proves(
        &self,
        (from, named): (Option<IpAddr>, &str),
        user: Option<&UserId>,
        stored: Option<&PasswordHash>,
        password: &Password,
    ) -> Result<bool, Fault> {
        let (attempt, right) = self.compare((from, named), stored, password).await?;
        let admitted = user.is_some_and(|user| self.lockout.admits(user, stored, right, self.now()));
        if admitted {
            attempt.give_back();
        }
        Ok(admitted)
    }

    /// Whether the secret of an application credential is right. An unknown credential costs the same time. Wrong
    /// secrets are limited as wrong passwords are, but lock no user out.
    pub(super) async fn proves_secret(
        &self,
        place: (Option<IpAddr>, &str),
        stored: Option<&PasswordHash>,
        secret: &Password,
    ) -> Result<bool, Fault> {
        let (attempt, right) = self.compare(place, stored, secret).await?;
        if right {
            attempt.give_back();
        }
        Ok(right)
    }

    async fn compare(
        &self,
        (from, named): (Option<IpAddr>, &str),
        stored: Option<&PasswordHash>,
        password: &Password,
    ) -> Result<(LoginAttempt<'_>, bool), Fault> {
        let attempt = self.failed.begin(from, named).map_err(|seconds| {
            Fault::too_many_requests("Too many wrong passwords were tried. Try again later.", seconds)
        })?;
        match self.passwords.verify(stored, password).await {
            Ok(right) => Ok((attempt, right)),
            // The password was not checked, because too many other passwords wait for their check.
            Err(error) => {
                attempt.give_back();
                Err(fault::of_password(error))
            }
        }
    }

    /// The claims of a token that is valid now.
    pub(super) fn claims(&self, token: &Secret) -> Option<Claims> {
        let claims = self.signer.read(token)?;
        let now = self.now();
        self.views.identities.read(|view| stands(&view.identity, &claims, now)).then_some(claims)
    }
}

#[async_trait]
impl IdentityProvider for IdentityService {
    async fn owner(&self, question: TokenQuestion<'_>) -> Result<Arc<TokenOwner>, TokenError> {
        let claims = self.signer.read(&Secret::new(question.token.expose())).ok_or(TokenError::Invalid)?;
        let window = if question.allow_expired { i64::from(self.allow_expired_window) * 1_000_000 } else { 0 };
        let now = Timestamp(self.now().0.saturating_sub(window));
        self.views.identities.read(|view| {
            let identity = &view.identity;
            if !is_usable(identity, &claims, now) {
                return Err(TokenError::Invalid);
            }
            let owner = owner(identity, &claims, &self.catalogue)
                .filter(|owner| claims.scope.is_none() || !owner.roles.is_empty());
            owner.map(Arc::new).ok_or(TokenError::Invalid)
        })
    }

    async fn knows_project(&self, project: &ProjectId, _: Option<&RequestId>) -> Result<bool, PortError> {
        Ok(self.views.identities.read(|view| view.identity.projects.contains_key(project)))
    }
}

/// Whether a token is valid. It must be neither expired nor revoked, and its user must be enabled. If the token has a
/// scope, the scope must be enabled, and the token must have a role on it. An application credential of the token must
/// still exist and not be expired.
pub(super) fn stands(identity: &Identity, claims: &Claims, now: Timestamp) -> bool {
    let has_role = |scope| !held(identity, claims, scope).is_empty();
    is_usable(identity, claims, now) && claims.scope.as_ref().is_none_or(has_role)
}

/// Like [`stands`], but leaves out the check of roles, which is expensive.
fn is_usable(identity: &Identity, claims: &Claims, now: Timestamp) -> bool {
    now < claims.expires_at
        && !identity.revoked.contains_key(claims.audit_id())
        && active_user(identity, claims).is_some_and(|user| claims.issued_at >= user.tokens_from)
        && claims.scope.as_ref().is_none_or(|scope| is_open(identity, scope))
        && (claims.credential.is_none() || credential(identity, claims).is_some_and(|one| !one.is_expired(now)))
}

/// The application credential of a token, if it still exists.
pub(super) fn credential<'a>(identity: &'a Identity, claims: &Claims) -> Option<&'a ApplicationCredential> {
    let found = identity.credential(&claims.user, claims.credential.as_ref()?)?;
    (claims.scope.as_ref() == Some(&found.scope())).then_some(found)
}

fn active_user<'a>(identity: &'a Identity, claims: &Claims) -> Option<&'a User> {
    let user = identity.users.get(&claims.user)?;
    (user.enabled && identity.domains.get(&user.domain)?.enabled).then_some(user)
}

/// Whether a scope exists and is enabled.
pub(super) fn is_open(identity: &Identity, scope: &IdentityScope) -> bool {
    let domain = |id| identity.domains.get(id).is_some_and(|domain| domain.enabled);
    match scope {
        IdentityScope::Project(id) => identity.projects.get(id).is_some_and(|project| open_project(identity, project)),
        IdentityScope::Domain(id) => domain(id),
        IdentityScope::System => true,
    }
}

pub(super) fn open_project(identity: &Identity, project: &Project) -> bool {
    project.enabled && identity.domains.get(&project.domain).is_some_and(|domain| domain.enabled)
}

/// The roles of a token on its scope: those of its user, or of its application credential.
fn held(identity: &Identity, claims: &Claims, scope: &IdentityScope) -> BTreeSet<RoleId> {
    match &claims.credential {
        None => identity.roles_on(&claims.user, scope),
        Some(_) => credential(identity, claims).map(|one| identity.roles_of_credential(one)).unwrap_or_default(),
    }
}

/// The roles of a token on its scope, by name.
pub(super) fn roles<'a>(identity: &'a Identity, claims: &Claims, scope: &IdentityScope) -> Vec<&'a Role> {
    let held = held(identity, claims, scope);
    let mut roles: Vec<&Role> = held.iter().filter_map(|role| identity.roles.get(role)).collect();
    roles.sort_by(|a, b| a.name.cmp(&b.name));
    roles
}

/// An access rule, with the service's name as in [`Service::catalogue_type`]. Rules may name the volume API in several
/// ways.
fn access_rule(rule: &UserAccessRule) -> AccessRule {
    let service = match rule.service.as_str() {
        "block-storage" | "block-store" | "volume" => Service::Volume.catalogue_type(),
        service => service,
    };
    AccessRule { service: service.to_owned(), method: rule.method.clone(), path: rule.path.clone() }
}

fn owner(identity: &Identity, claims: &Claims, catalogue: &ServiceCatalogue) -> Option<TokenOwner> {
    let user = identity.users.get(&claims.user)?;
    let scope = match &claims.scope {
        None => TokenScope::Unscoped,
        Some(IdentityScope::Project(id)) => {
            let project = identity.projects.get(id)?;
            let (name, domain) = (project.attributes.name.clone(), Some(project.domain.clone()));
            TokenScope::Project { id: id.clone(), name, domain }
        }
        Some(IdentityScope::Domain(id)) => TokenScope::Domain(id.clone()),
        Some(IdentityScope::System) => TokenScope::System,
    };
    let roles = claims.scope.as_ref().map(|scope| roles(identity, claims, scope)).unwrap_or_default();
    let rules = credential(identity, claims).and_then(|credential| identity.rules_of(credential));
    let access_rules: Option<Vec<AccessRule>> = rules.map(|rules| rules.into_iter().map(access_rule).collect());
    // Only the check of access rules asks for the services.
    let service_types = access_rules.as_ref().map(|_| catalogue.services.iter().map(|one| one.kind.clone()).collect());
    Some(TokenOwner {
        user: user.id.clone(),
        user_name: user.attributes.name.clone(),
        user_domain: Some(user.domain.clone()),
        scope,
        roles: roles.into_iter().map(|role| role.name.clone()).collect(),
        expires_at: claims.expires_at,
        access_rules,
        service_types,
        is_admin_project: true,
    })
}
