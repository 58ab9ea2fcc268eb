//! The traits of key managers. [`KeyManager`] keeps the passphrases of servers' emulated TPMs. [`CertificateKeeper`]
//! gives out the certificates of signed images, and [`VolumeKeyKeeper`] the keys of encrypted volumes.
//!
//! Barbican has the same calls. A secret belongs to the project of the user who stored it, and only users of that
//! project can read it. The log of events has a secret's reference, and never the secret.

use std::fmt;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ProjectId, UserId};
use uuid::Uuid;

use super::PortError;

/// The user in whose name a secret is stored or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequester {
    pub user: UserId,
    pub project: ProjectId,
}

/// A secret. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretPayload(String);

impl SecretPayload {
    pub fn new(payload: impl Into<String>) -> Self {
        Self(payload.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretPayload(...)")
    }
}

/// A service outside acts with the token of the user whose request began `work`.
#[async_trait]
pub trait KeyManager: Send + Sync {
    /// Stores a secret for its requester, and returns its reference. If a secret with this id exists, it does not
    /// change.
    async fn store(
        &self,
        id: Uuid,
        payload: SecretPayload,
        requester: &KeyRequester,
        work: &Meta,
    ) -> Result<String, PortError>;
    /// Reads a secret. `Forbidden` for users of other projects.
    async fn read(&self, reference: &str, requester: &KeyRequester, work: &Meta) -> Result<SecretPayload, PortError>;
    /// Deletes a secret with its server. The id of a secret is a reference, too. Succeeds if there is none.
    async fn delete(&self, reference: &str, work: &Meta) -> Result<(), PortError>;
}

/// The certificates that a key manager keeps. Images are signed with the keys of these certificates.
#[async_trait]
pub trait CertificateKeeper: Send + Sync {
    /// The certificate with this id, in PEM or DER, for the user whose request began `work`. `Invalid`: the secret is
    /// no certificate. An id that is no UUID is `NotFound`.
    async fn certificate(&self, id: &str, work: &Meta) -> Result<Vec<u8>, PortError>;
}

/// The keys of encrypted volumes. Cinder made them in the key manager.
#[async_trait]
pub trait VolumeKeyKeeper: fmt::Debug + Send + Sync {
    /// The passphrase of a volume whose key has this id, for the user whose request began `work`: the bytes of the key
    /// in lower-case hexadecimal digits, as in Nova. `Invalid`: the secret is no symmetric key. An id that is no UUID
    /// is `NotFound`.
    async fn passphrase(&self, id: &str, work: &Meta) -> Result<SecretPayload, PortError>;
}

/// The implementation for a deployment without a key manager. It refuses every secret.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoKeyManager;

fn none<T>() -> Result<T, PortError> {
    let message = "This cloud has no key manager, so it keeps no passphrase of a TPM: set [chronova] key_manager.";
    Err(PortError::Invalid(message.to_owned()))
}

#[async_trait]
impl KeyManager for NoKeyManager {
    async fn store(&self, _: Uuid, _: SecretPayload, _: &KeyRequester, _: &Meta) -> Result<String, PortError> {
        none()
    }

    async fn read(&self, _: &str, _: &KeyRequester, _: &Meta) -> Result<SecretPayload, PortError> {
        none()
    }

    async fn delete(&self, _: &str, _: &Meta) -> Result<(), PortError> {
        Ok(())
    }
}
