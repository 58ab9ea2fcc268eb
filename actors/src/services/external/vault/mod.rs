//! Vault with a key-value store, as [`CertificateKeeper`], [`VolumeKeyKeeper`] and [`KeyManager`]. The secrets have
//! castellan's form: a record with the type of the secret, and its bytes in hexadecimal digits.
//!
//! Vault knows no user of Keystone. Chronova's own account in Vault reads every secret, as castellan does. So a
//! passphrase also names its project, and Chronova itself refuses other projects.
//!
//! Invariants: an id from outside becomes part of an address only if it is a UUID, with or without its dashes. A
//! payload is bounded. No payload, token or secret of an account is logged.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::RequestId;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::ports::keys::{CertificateKeeper, KeyManager, KeyRequester, SecretPayload, VolumeKeyKeeper};
use crate::ports::{PortError, UserToken};
use crate::services::external::http::{CallFailure, ServiceAnswer, ServiceClient, ServiceRequest};
use crate::services::external::secrets::{SecretKind, bytes_of, hexadecimal, text_of, tpm_name};

/// The limit on a secret's length in bytes.
const LONGEST: usize = 64 * 1024;
/// The header with the token.
const TOKEN: &str = "x-vault-token";
/// A token is not used in the last part of its life, so that a call with it does not come too late.
const BEFORE_ITS_END: Duration = Duration::from_secs(10);

/// How Chronova logs in to Vault.
#[derive(Debug, Clone)]
pub enum VaultLogin {
    /// With a token that the operator made.
    Token(UserToken),
    /// By Vault's `AppRole`, which gives a token for a while.
    Role { role: UserToken, secret: Option<UserToken> },
}

/// The store of secrets in Vault.
#[derive(Debug, Clone)]
pub struct VaultStore {
    /// `http://127.0.0.1:8200`.
    pub url: String,
    /// The mount point of the key-value store.
    pub mountpoint: String,
    /// The folder of the secrets in the store.
    pub path: Option<String>,
    /// Whether the store keeps versions of its secrets (version 2 of Vault's key-value store).
    pub has_versions: bool,
    /// The namespace in Vault Enterprise.
    pub namespace: Option<String>,
}

/// A token of the `AppRole`, and when it is too old. `None`: it does not expire.
#[derive(Debug)]
struct VaultToken {
    token: UserToken,
    until: Option<Instant>,
}

/// Vault.
#[derive(Debug)]
pub struct VaultSecrets {
    client: Arc<ServiceClient>,
    store: VaultStore,
    login: VaultLogin,
    kept: Mutex<Option<VaultToken>>,
}

/// The fields of a secret that this client reads.
#[derive(Deserialize)]
struct VaultRecord {
    #[serde(rename = "type")]
    kind: String,
    value: String,
    /// The project of a passphrase that Chronova stored.
    project: Option<String>,
}

fn nonsense() -> PortError {
    PortError::Unavailable("Vault's answer has not the expected form".to_owned())
}

impl VaultSecrets {
    pub fn new(client: Arc<ServiceClient>, store: VaultStore, login: VaultLogin) -> Arc<Self> {
        Arc::new(Self { client, store, login, kept: Mutex::default() })
    }

    /// The client, for metrics.
    pub fn client(&self) -> &Arc<ServiceClient> {
        &self.client
    }

    /// Vault's address, for the report of `/healthz`.
    pub fn address(&self) -> &str {
        &self.store.url
    }

    fn url(&self, rest: &str) -> String {
        format!("{}/v1/{rest}", self.store.url.trim_end_matches('/'))
    }

    fn place_of(&self, id: &str) -> String {
        let store = &self.store;
        let data = if store.has_versions { "data/" } else { "" };
        let folder = store.path.as_deref().map(|path| format!("{}/", path.trim_matches('/'))).unwrap_or_default();
        self.url(&format!("{}/{data}{folder}{id}", store.mountpoint.trim_matches('/')))
    }

    /// The token for the next call, and whether Vault gave it to the `AppRole`. Concurrent callers wait for one log-in.
    async fn token(&self, request: Option<&RequestId>) -> Result<(UserToken, bool), PortError> {
        let (role, secret) = match &self.login {
            VaultLogin::Token(token) => return Ok((token.clone(), false)),
            VaultLogin::Role { role, secret } => (role, secret),
        };
        let mut kept = self.kept.lock().await;
        let fits = |kept: &&VaultToken| kept.until.is_none_or(|until| Instant::now() < until);
        if let Some(known) = kept.as_ref().filter(fits) {
            return Ok((known.token.clone(), true));
        }
        let began = Instant::now();
        let mut account = json!({"role_id": role.expose()});
        if let Some(secret) = secret {
            account["secret_id"] = json!(secret.expose());
        }
        let call = ServiceRequest::post(self.url("auth/approle/login")).json(&account);
        let body = self.ask(call, request).await?.json().ok_or_else(nonsense)?;
        let auth = &body["auth"];
        let token = UserToken::new(auth["client_token"].as_str().ok_or_else(nonsense)?);
        let life = auth["lease_duration"].as_u64().filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let until = life.and_then(|life| began.checked_add(life.saturating_sub(BEFORE_ITS_END)));
        *kept = Some(VaultToken { token: token.clone(), until });
        Ok((token, true))
    }

    /// Makes a call on a secret.
    async fn call(
        &self,
        id: &str,
        request: Option<&RequestId>,
        make: impl Fn(String) -> ServiceRequest + Send + Sync,
    ) -> Result<ServiceAnswer, PortError> {
        let (token, is_of_role) = self.token(request).await?;
        match self.ask(make(self.place_of(id)).secret(TOKEN, &token), request).await {
            // Vault may have revoked the token.
            Err(PortError::Forbidden(_)) if is_of_role => {
                self.kept.lock().await.take_if(|kept| kept.token.expose() == token.expose());
                let (token, _) = self.token(request).await?;
                self.ask(make(self.place_of(id)).secret(TOKEN, &token), request).await
            }
            first => first,
        }
    }

    async fn record(&self, id: &str, request: Option<&RequestId>) -> Result<VaultRecord, PortError> {
        let answer = self.call(id, request, ServiceRequest::get).await?;
        let body = answer.json().ok_or_else(nonsense)?;
        let record = if self.store.has_versions { &body["data"]["data"] } else { &body["data"] };
        VaultRecord::deserialize(record).map_err(|_| nonsense())
    }

    /// The payload of a secret of this kind.
    async fn payload(&self, id: &str, wanted: SecretKind, work: &Meta) -> Result<Vec<u8>, PortError> {
        let is_plain = id.chars().all(|char| char.is_ascii_hexdigit() || char == '-');
        if !is_plain || id.parse::<Uuid>().is_err() {
            return Err(PortError::NotFound(format!("{id} is not the UUID of a secret")));
        }
        payload_of(id, &self.record(id, work.request_id.as_ref()).await?, wanted)
    }

    async fn ask(&self, call: ServiceRequest, request: Option<&RequestId>) -> Result<ServiceAnswer, PortError> {
        let unanswered = |failure: CallFailure| PortError::Unavailable(failure.to_string());
        let call = match &self.store.namespace {
            Some(namespace) => call.header("x-vault-namespace", namespace),
            None => call,
        };
        let answer = self.client.call(call.on_behalf_of(request)).await.map_err(unanswered)?;
        let complaint = || format!("Vault gives no secret ({})", answer.complaint());
        match answer.status {
            200..300 => Ok(answer),
            404 => Err(PortError::NotFound(complaint())),
            403 => Err(PortError::Forbidden(complaint())),
            _ => Err(PortError::Unavailable(complaint())),
        }
    }
}

/// The payload in a secret's record.
fn payload_of(id: &str, record: &VaultRecord, wanted: SecretKind) -> Result<Vec<u8>, PortError> {
    wanted.check(&record.kind)?;
    if record.value.len() > 2 * LONGEST {
        return Err(PortError::Invalid(format!("The secret {id} is too long")));
    }
    match bytes_of(&record.value) {
        Some(bytes) if bytes.is_empty() => Err(PortError::Invalid(format!("The secret {id} has no payload"))),
        Some(bytes) => Ok(bytes),
        None => Err(PortError::Invalid(format!("The secret {id} is not in hexadecimal digits"))),
    }
}

/// Passphrases of emulated TPMs.
#[async_trait]
impl KeyManager for VaultSecrets {
    async fn store(
        &self,
        id: Uuid,
        payload: SecretPayload,
        requester: &KeyRequester,
        work: &Meta,
    ) -> Result<String, PortError> {
        let (reference, place, request) = (id.to_string(), id.simple().to_string(), work.request_id.as_ref());
        match self.record(&place, request).await {
            Ok(found) if found.project.as_deref() == Some(requester.project.as_str()) => return Ok(reference),
            Ok(_) => return Err(PortError::Conflict("Another project has this secret.".to_owned())),
            Err(PortError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let record = json!({"type": "passphrase", "value": hexadecimal(payload.expose().as_bytes()), "algorithm": null,
            "bit_length": null, "name": tpm_name(&reference), "created": null, "project": requester.project.as_str()});
        // With versions, Vault refuses to write over the secret of an earlier attempt whose answer came too late. The
        // next attempt finds that secret.
        let body = if self.store.has_versions { json!({"options": {"cas": 0}, "data": record}) } else { record };
        self.call(&place, request, |url| ServiceRequest::post(url).json(&body)).await?;
        Ok(reference)
    }

    async fn read(&self, reference: &str, requester: &KeyRequester, work: &Meta) -> Result<SecretPayload, PortError> {
        let missing = |_| PortError::NotFound(format!("{reference} is not the UUID of a secret"));
        let place = reference.parse::<Uuid>().map_err(missing)?.simple().to_string();
        let record = self.record(&place, work.request_id.as_ref()).await?;
        if record.project.as_deref() != Some(requester.project.as_str()) {
            return Err(PortError::Forbidden(format!("Secret {reference} belongs to another project.")));
        }
        text_of(payload_of(reference, &record, SecretKind::Passphrase)?)
    }

    async fn delete(&self, reference: &str, work: &Meta) -> Result<(), PortError> {
        let Ok(id) = reference.parse::<Uuid>() else { return Ok(()) };
        match self.call(&id.simple().to_string(), work.request_id.as_ref(), ServiceRequest::delete).await {
            Err(PortError::NotFound(_)) => Ok(()),
            // A server is deleted even if the account may not delete secrets.
            Err(PortError::Forbidden(reason)) => {
                tracing::warn!(reference, reason, "the passphrase of a TPM stays in Vault");
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

#[async_trait]
impl CertificateKeeper for VaultSecrets {
    async fn certificate(&self, id: &str, work: &Meta) -> Result<Vec<u8>, PortError> {
        self.payload(id, SecretKind::Certificate, work).await
    }
}

#[async_trait]
impl VolumeKeyKeeper for VaultSecrets {
    async fn passphrase(&self, id: &str, work: &Meta) -> Result<SecretPayload, PortError> {
        let key = self.payload(id, SecretKind::Symmetric, work).await?;
        Ok(SecretPayload::new(hexadecimal(&key)))
    }
}
