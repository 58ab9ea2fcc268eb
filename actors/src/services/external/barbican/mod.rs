//! Real Barbican, as [`CertificateKeeper`], [`VolumeKeyKeeper`] and [`KeyManager`].
//!
//! castellan reads a secret's description, and then its payload in the content type that the description names. So does
//! this client.
//!
//! Invariants: a secret is read with the token of the user whose request began the work, so Barbican applies the user's
//! rights. If no token is known any more, Chronova's own account reads it. An id from outside becomes part of an
//! address only if it is a UUID. A payload is bounded, and no payload is logged.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::RequestId;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ports::keys::{CertificateKeeper, KeyManager, KeyRequester, SecretPayload, VolumeKeyKeeper};
use crate::ports::{PortError, UserToken};
use crate::services::external::http::{CallFailure, ServiceAnswer, ServiceRequest};
use crate::services::external::keystone::{Asker, CalledService, SharedUserTokens};
use crate::services::external::secrets::{SecretKind, hexadecimal, text_of, tpm_name};

/// The limit on a secret's length in bytes. Barbican's own limit on a secret is 20 000 by default.
const LONGEST: usize = 64 * 1024;

/// Real Barbican.
#[derive(Debug)]
pub struct BarbicanSecrets {
    service: Arc<CalledService>,
    /// The tokens of the users whose requests began the calling processes.
    users: SharedUserTokens,
}

/// The fields of a secret's description that this client reads.
#[derive(Debug, Deserialize)]
struct SecretDescription {
    secret_type: Option<String>,
    /// `None`: the secret has no payload yet.
    content_types: Option<SecretContentTypes>,
}

#[derive(Debug, Deserialize)]
struct SecretContentTypes {
    default: String,
}

impl BarbicanSecrets {
    pub fn new(service: Arc<CalledService>, users: SharedUserTokens) -> Arc<Self> {
        Arc::new(Self { service, users })
    }

    pub fn service(&self) -> &Arc<CalledService> {
        &self.service
    }

    /// The tokens of the users for whom certificates are read.
    pub fn users(&self) -> &SharedUserTokens {
        &self.users
    }

    /// The payload of a secret of this kind.
    async fn payload(&self, id: &str, wanted: SecretKind, work: &Meta) -> Result<Vec<u8>, PortError> {
        let missing = |_| PortError::NotFound(format!("{id} is not the UUID of a secret"));
        let secret: Uuid = id.parse().map_err(missing)?;
        let user = self.users.of(work);
        self.read_secret(user.as_ref().map_or(Asker::Own, Asker::User), secret, wanted, work.request_id.as_ref()).await
    }

    async fn read_secret(
        &self,
        asker: Asker<'_>,
        secret: Uuid,
        wanted: SecretKind,
        request: Option<&RequestId>,
    ) -> Result<Vec<u8>, PortError> {
        let describe = |root: &str| ServiceRequest::get(format!("{root}/secrets/{secret}"));
        let answer = self.ask(asker, request, describe).await?;
        let description: SecretDescription = serde_json::from_slice(&answer.body).map_err(|_| nonsense())?;
        let kind = description.secret_type.unwrap_or_default();
        wanted.check(&kind)?;
        let empty = || PortError::Invalid(format!("The secret {secret} has no payload"));
        let content_type = description.content_types.ok_or_else(empty)?.default;
        let fetch = |root: &str| {
            ServiceRequest::get(format!("{root}/secrets/{secret}/payload")).header("accept", &content_type)
        };
        let answer = self.ask(asker, request, fetch).await?;
        match answer.body.len() {
            0 => Err(empty()),
            length if length > LONGEST => Err(PortError::Invalid(format!("The secret {secret} is too long"))),
            _ => Ok(answer.body.to_vec()),
        }
    }

    async fn ask(
        &self,
        asker: Asker<'_>,
        request: Option<&RequestId>,
        call: impl Fn(&str) -> ServiceRequest + Send + Sync,
    ) -> Result<ServiceAnswer, PortError> {
        let unanswered = |failure: CallFailure| PortError::Unavailable(failure.to_string());
        let answer = self.service.call(asker, request, call).await.map_err(unanswered)?;
        let complaint = || format!("Barbican gives no secret ({})", answer.complaint());
        match answer.status {
            200..300 => Ok(answer),
            404 => Err(PortError::NotFound(complaint())),
            401 | 403 => Err(PortError::Forbidden(complaint())),
            _ => Err(PortError::Unavailable(complaint())),
        }
    }
}

fn nonsense() -> PortError {
    PortError::Unavailable("Barbican's answer has not the expected form".to_owned())
}

/// The UUID at the end of a secret's address.
fn id_in(secret: &Value) -> Option<Uuid> {
    secret["secret_ref"].as_str()?.rsplit('/').next()?.parse().ok()
}

/// Passphrases of emulated TPMs. Barbican chooses the ids of secrets, so the name of a secret has the id that Chronova
/// knows.
impl BarbicanSecrets {
    /// The oldest secret with the name of this passphrase, among those of the asker's project.
    async fn passphrase_id(&self, asker: Asker<'_>, id: &str, work: &Meta) -> Result<Option<Uuid>, PortError> {
        let missing = |_| PortError::NotFound(format!("{id} is not the UUID of a secret"));
        let name = tpm_name(&id.parse::<Uuid>().map_err(missing)?.to_string());
        let list = |root: &str| ServiceRequest::get(format!("{root}/secrets?name={name}&limit=1&sort=created:asc"));
        let answer = self.ask(asker, work.request_id.as_ref(), list).await?;
        let body = answer.json().ok_or_else(nonsense)?;
        match body["secrets"].as_array().ok_or_else(nonsense)?.first() {
            None => Ok(None),
            Some(secret) => id_in(secret).map(Some).ok_or_else(nonsense),
        }
    }

    /// The token of the user whose request began the work. Chronova's own account is in another project: a passphrase
    /// that it stored there would be lost to the server's owner, and it finds none of the owner's.
    fn user_of(&self, work: &Meta) -> Result<UserToken, PortError> {
        let lost = || PortError::Forbidden("the token of the user is not known any more".to_owned());
        self.users.of(work).ok_or_else(lost)
    }

    async fn remove(&self, reference: &str, work: &Meta) -> Result<(), PortError> {
        let user = self.user_of(work)?;
        let asker = Asker::User(&user);
        let Some(secret) = self.passphrase_id(asker, reference, work).await? else { return Ok(()) };
        let remove = |root: &str| ServiceRequest::delete(format!("{root}/secrets/{secret}"));
        self.ask(asker, work.request_id.as_ref(), remove).await.map(drop)
    }
}

#[async_trait]
impl KeyManager for BarbicanSecrets {
    async fn store(
        &self,
        id: Uuid,
        payload: SecretPayload,
        _requester: &KeyRequester,
        work: &Meta,
    ) -> Result<String, PortError> {
        let (reference, user) = (id.to_string(), self.user_of(work)?);
        let asker = Asker::User(&user);
        let mut known = self.passphrase_id(asker, &reference, work).await?;
        // The secret of an earlier attempt without an answer may still come. Two secrets would be two passphrases.
        if known.is_none() && self.service.settle(work.request_id.as_ref()).await {
            known = self.passphrase_id(asker, &reference, work).await?;
        }
        if known.is_none() {
            let secret = json!({"name": tpm_name(&reference), "secret_type": "passphrase", "payload": payload.expose(),
                "payload_content_type": "text/plain"});
            let make = |root: &str| ServiceRequest::post(format!("{root}/secrets")).json(&secret);
            self.ask(asker, work.request_id.as_ref(), make).await?;
        }
        Ok(reference)
    }

    async fn read(&self, reference: &str, _requester: &KeyRequester, work: &Meta) -> Result<SecretPayload, PortError> {
        let user = self.user_of(work)?;
        let asker = Asker::User(&user);
        // Barbican lists only secrets of the token's project, so another project finds none.
        let missing = || PortError::NotFound(format!("Barbican has no passphrase {reference}"));
        let secret = self.passphrase_id(asker, reference, work).await?.ok_or_else(missing)?;
        text_of(self.read_secret(asker, secret, SecretKind::Passphrase, work.request_id.as_ref()).await?)
    }

    /// The server is deleted in the name of a user who may have no right to the secret. Then the secret stays in its
    /// owner's project.
    async fn delete(&self, reference: &str, work: &Meta) -> Result<(), PortError> {
        match self.remove(reference, work).await {
            Err(PortError::NotFound(_)) => Ok(()),
            Err(PortError::Forbidden(reason)) => {
                tracing::warn!(reference, reason, "the passphrase of a TPM stays in Barbican");
                Ok(())
            }
            other => other,
        }
    }
}

#[async_trait]
impl CertificateKeeper for BarbicanSecrets {
    async fn certificate(&self, id: &str, work: &Meta) -> Result<Vec<u8>, PortError> {
        self.payload(id, SecretKind::Certificate, work).await
    }
}

#[async_trait]
impl VolumeKeyKeeper for BarbicanSecrets {
    async fn passphrase(&self, id: &str, work: &Meta) -> Result<SecretPayload, PortError> {
        let key = self.payload(id, SecretKind::Symmetric, work).await?;
        Ok(SecretPayload::new(hexadecimal(&key)))
    }
}
