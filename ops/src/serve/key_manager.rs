//! The key managers: the embedded one for secrets of servers, and real Barbican for the certificates of signed images.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::ports::keys::{CertificateKeeper, KeyManager, NoKeyManager};
use chronova_actors::services::embedded::keys::EmbeddedKeyManager;
use chronova_actors::services::external::barbican::BarbicanCertificates;
use chronova_actors::services::external::http::{CallOptions, ServiceClient, TlsTrust};
use chronova_actors::services::external::keystone::{CalledService, ServicePlace, SharedUserTokens};
use chronova_web::App;
use serde_json::json;

use super::identity::OpenedIdentity;
use crate::config::Config;

/// How long one answer of Barbican may take. castellan has no option for it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many times a call is repeated when Barbican cannot be reached.
const RETRIES: u32 = 2;

/// The key managers of this cloud.
pub(super) struct OpenedKeyManagers {
    pub keys: Arc<dyn KeyManager>,
    /// `None`: there is no Keystone, and so no Barbican.
    barbican: Option<Arc<BarbicanCertificates>>,
}

impl OpenedKeyManagers {
    pub(super) fn open(config: &Config, identity: &OpenedIdentity, users: &SharedUserTokens) -> Result<Self> {
        let barbican = match identity {
            OpenedIdentity::Embedded(_) => None,
            OpenedIdentity::Keystone { accounts, .. } => {
                let place = place(config);
                let service = CalledService::new(calls(config), place, accounts.clone()).context("[barbican]")?;
                Some(BarbicanCertificates::new(service, Arc::clone(users)))
            }
        };
        Ok(Self { keys: keys(config)?, barbican })
    }

    pub(super) fn certificates(&self) -> Option<Arc<dyn CertificateKeeper>> {
        self.barbican.clone().map(|barbican| barbican as _)
    }

    /// The clients of other services, for metrics.
    pub(super) fn clients(&self) -> Vec<Arc<ServiceClient>> {
        self.barbican.iter().flat_map(|barbican| barbican.service().clients().to_vec()).collect()
    }

    /// Adds the report of `/healthz` about Barbican. If Barbican does not answer, this member stays healthy, because
    /// only signed images need Barbican.
    pub(super) fn serve(self, mut app: App) -> App {
        let Some(barbican) = self.barbican else { return app };
        let (service, place) = (Arc::clone(barbican.service()), barbican.service().address());
        let tell = move || {
            let trouble = service.clients().iter().find_map(|client| client.trouble());
            let state = trouble.unwrap_or_else(|| "no trouble".to_owned());
            json!({"service": "barbican", "place": place, "state": state})
        };
        app.health = std::mem::take(&mut app.health).telling("key manager", Arc::new(tell));
        app.with_user_tokens(Arc::clone(barbican.users()))
    }
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
fn keys(config: &Config) -> Result<Arc<dyn KeyManager>> {
    match config.chronova.key_manager.as_str() {
        "none" => Ok(Arc::new(NoKeyManager)),
        _ => {
            let opened = EmbeddedKeyManager::open(&config.chronova.data_dir);
            Ok(opened.context("cannot use the folder of the key manager")?)
        }
    }
}
