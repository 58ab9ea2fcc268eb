//! The first start creates the administrator and the initial identities.

use chronova_events::envelope::Meta;
use chronova_events::ids::{ProjectId, RoleId, UserId};
use chronova_events::store::StoreError;
use thiserror::Error;
use uuid::Uuid;

use super::passwords::{Password, PasswordError, Passwords};
use super::{IdentityCommand, IdentityRealmId, IdentityReject, IdentityRoot, IdentitySeed};
use crate::aggregate::CommandError;
use crate::gateway::CommandGateway;

#[derive(Debug, Error)]
pub enum BootstrapError {
    #[error("the identity stream cannot be read")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Password(#[from] PasswordError),
    #[error("the first users could not be created")]
    Command(#[from] CommandError<IdentityReject>),
}

/// The result of the bootstrap.
#[derive(Debug, Clone, Default)]
pub struct Bootstrapped {
    /// The administrator's password, if this was the first start. Only its hash is in the log, so the caller must keep
    /// it.
    pub password: Option<Password>,
}

/// Creates domain `Default`, projects `admin` and `service`, the roles, and user `admin`, unless there is a domain
/// already. `chosen` is the operator's password; without it, a random one is generated.
pub async fn bootstrap(
    gateway: &CommandGateway,
    passwords: &Passwords,
    chosen: Option<Password>,
) -> Result<Bootstrapped, BootstrapError> {
    if !gateway.look::<IdentityRoot>(&IdentityRealmId).await?.domains.is_empty() {
        return Ok(Bootstrapped::default());
    }
    let password = chosen.map_or_else(Password::generate, Ok)?;
    let hex = || Uuid::new_v4().simple().to_string();
    let seed = IdentitySeed {
        admin: UserId::from(hex()),
        admin_password: passwords.hash(&password).await?,
        admin_project: ProjectId::from(hex()),
        service_project: ProjectId::from(hex()),
        roles: [(); 5].map(|()| RoleId::from(hex())),
    };
    let command = IdentityCommand::Bootstrap(Box::new(seed));
    let committed = gateway.send::<IdentityRoot>(&IdentityRealmId, command, Meta::system("bootstrap")).await?;
    Ok(Bootstrapped { password: (!committed.events.is_empty()).then_some(password) })
}
