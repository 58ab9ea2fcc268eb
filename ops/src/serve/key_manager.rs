//! The key managers: the embedded one for secrets of servers, and real Barbican or Vault for the certificates of signed
//! images and the keys of encrypted volumes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronova_actors::ports::UserToken;
use chronova_actors::ports::keys::{CertificateKeeper, KeyManager, NoKeyManager, VolumeKeyKeeper};
use chronova_actors::services::embedded::keys::EmbeddedKeyManager;
use chronova_actors::services::external::barbican::BarbicanSecrets;
use chronova_actors::services::external::http::{CallOptions, ServiceClient, TlsTrust};
use chronova_actors::services::external::keystone::{CalledService, ServicePlace, SharedUserTokens};
use chronova_actors::services::external::vault::{VaultLogin, VaultSecrets, VaultStore};
use chronova_web::App;
use serde_json::json;

use super::identity::OpenedIdentity;
use crate::config::Config;

/// How long one answer of Barbican may take. castellan has no option for it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a call is repeated when Barbican cannot be reached.
const RETRIES: u32 = 2;

/// The key manager with the certificates of signed images and the keys of encrypted volumes.
enum OpenedSecrets {
    /// There is no Keystone, and so no Barbican.
    None,
    Barbican(Arc<BarbicanSecrets>),
    Vault(Arc<VaultSecrets>),
}

/// The key managers of this cloud.
pub(super) struct OpenedKeyManagers {
    pub keys: Arc<dyn KeyManager>,
    secrets: OpenedSecrets,
}

impl OpenedKeyManagers {
    pub(super) fn open(config: &Config, identity: &OpenedIdentity, users: &SharedUserTokens) -> Result<Self> {
        let secrets = match identity {
            _ if config.key_manager.is_vault() => OpenedSecrets::Vault(vault(config)?),
            OpenedIdentity::Embedded(_) => OpenedSecrets::None,
            OpenedIdentity::Keystone { accounts, .. } => {
                let place = place(config);
                let service = CalledService::new(calls(config), place, accounts.clone()).context("[barbican]")?;
                OpenedSecrets::Barbican(BarbicanSecrets::new(service, Arc::clone(users)))
            }
        };
        Ok(Self { keys: keys(config, &secrets)?, secrets })
    }

    pub(super) fn certificates(&self) -> Option<Arc<dyn CertificateKeeper>> {
        match &self.secrets {
            OpenedSecrets::None => None,
            OpenedSecrets::Barbican(barbican) => Some(Arc::clone(barbican) as _),
            OpenedSecrets::Vault(vault) => Some(Arc::clone(vault) as _),
        }
    }

    /// The keys of encrypted volumes.
    pub(super) fn volume_keys(&self) -> Option<Arc<dyn VolumeKeyKeeper>> {
        match &self.secrets {
            OpenedSecrets::None => None,
            OpenedSecrets::Barbican(barbican) => Some(Arc::clone(barbican) as _),
            OpenedSecrets::Vault(vault) => Some(Arc::clone(vault) as _),
        }
    }

    /// The clients of other services, for metrics.
    pub(super) fn clients(&self) -> Vec<Arc<ServiceClient>> {
        match &self.secrets {
            OpenedSecrets::None => Vec::new(),
            OpenedSecrets::Barbican(barbican) => barbican.service().clients().to_vec(),
            OpenedSecrets::Vault(vault) => vec![Arc::clone(vault.client())],
        }
    }

    /// Adds the report of `/healthz` about Barbican or Vault. If it does not answer, this member stays healthy, because
    /// only signed images and encrypted volumes need it.
    pub(super) fn serve(self, mut app: App) -> App {
        let clients = self.clients();
        let (service, place) = match &self.secrets {
            OpenedSecrets::None => return app,
            OpenedSecrets::Barbican(barbican) => ("barbican", barbican.service().address()),
            OpenedSecrets::Vault(vault) => ("vault", vault.address().to_owned()),
        };
        let tell = move || {
            let trouble = clients.iter().find_map(|client| client.trouble());
            let state = trouble.unwrap_or_else(|| "no trouble".to_owned());
            json!({"service": service, "place": place, "state": state})
        };
        app.health = std::mem::take(&mut app.health).telling("key manager", Arc::new(tell));
        match self.secrets {
            OpenedSecrets::Barbican(barbican) => app.with_user_tokens(Arc::clone(barbican.users())),
            OpenedSecrets::Vault(_) | OpenedSecrets::None => app,
        }
    }
}

fn vault(config: &Config) -> Result<Arc<VaultSecrets>> {
    let section = &config.vault;
    let timeout = Duration::try_from_secs_f64(section.timeout).context("[vault] timeout")?;
    let tls = TlsTrust { ca_file: section.ssl_ca_crt_file.clone(), insecure: false, certificate: None };
    let client =
        ServiceClient::new(CallOptions { name: "vault", timeout, retries: RETRIES, tls }).context("[vault]")?;
    let store = VaultStore {
        url: section.vault_url.clone(),
        mountpoint: section.kv_mountpoint.clone(),
        path: section.kv_path.clone(),
        has_versions: section.kv_version > 1,
        namespace: section.namespace.clone(),
    };
    let login = match (&section.root_token_id, &section.approle_role_id) {
        (Some(token), _) => VaultLogin::Token(UserToken::new(token)),
        (None, Some(role)) => {
            let secret = section.approle_secret_id.as_ref().map(UserToken::new);
            VaultLogin::Role { role: UserToken::new(role), secret }
        }
        (None, None) => bail!("[vault] root_token_id or approle_role_id is missing"),
    };
    Ok(VaultSecrets::new(client, store, login))
}

fn place(config: &Config) -> ServicePlace {
    let section = &config.barbican;
    ServicePlace {
        endpoints: section.barbican_endpoint.clone().into_iter().collect(),
        service_type: "key-manager".to_owned(),
        interfaces: vec![section.barbican_endpoint_type.clone()],
        region: section.barbican_region_name.clone(),
        version: "v1",
        vouches_for_itself: false,
    }
}

fn calls(config: &Config) -> CallOptions {
    let section = &config.barbican;
    let tls = TlsTrust { ca_file: section.verify_ssl_path.clone(), insecure: !section.verify_ssl, certificate: None };
    CallOptions { name: "barbican", timeout: PATIENCE, retries: RETRIES, tls }
}

/// The key manager of servers' secrets that the configuration names.
fn keys(config: &Config, secrets: &OpenedSecrets) -> Result<Arc<dyn KeyManager>> {
    match (config.chronova.key_manager.as_str(), secrets) {
        ("none", _) => Ok(Arc::new(NoKeyManager)),
        ("external", OpenedSecrets::Barbican(barbican)) => Ok(Arc::clone(barbican) as _),
        ("external", OpenedSecrets::Vault(vault)) => Ok(Arc::clone(vault) as _),
        ("external", OpenedSecrets::None) => bail!("[chronova] key_manager = external, and there is no key manager"),
        _ => {
            let opened = EmbeddedKeyManager::open(&config.chronova.data_dir);
            Ok(opened.context("cannot use the folder of the key manager")?)
        }
    }
}
