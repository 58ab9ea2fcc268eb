//! Vendor data of guests: the static file for all guests, and the services in `[api] vendordata_dynamic_targets`.
//! Chronova calls the services over HTTP for each metadata request that needs them.
//!
//! The services are external, so Chronova limits the time to connect, the time to answer, the length of an answer and
//! the number of concurrent calls. With an account in `[vendordata_dynamic_auth]`, each call carries a token of that
//! account, so that a service can verify its caller. A service that fails, or does not answer in time, gives `{}` under
//! its name. With `vendordata_dynamic_failure_fatal`, the guest gets an error instead.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use async_trait::async_trait;
use chronova_actors::metadata::MetadataOptions;
use chronova_actors::metadata::dynamic::{DynamicVendorData, VendorServices};
use chronova_actors::ports::UserToken;
use chronova_actors::services::external::http::{CallOptions, ServiceClient};
use chronova_actors::services::external::keystone::KeystoneSession;
use chronova_events::authorities;
use chronova_events::clock::Clock;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_rustls::rustls::crypto::ring;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use crate::config::Config;
use crate::config::account::{AccountProblem, HasAccount as _};

/// The longest accepted answer: more than the largest user data.
const LONGEST: u64 = 256 * 1024;

/// The number of concurrent calls. Each call holds a thread.
const AT_ONCE: usize = 32;

/// How long Keystone may take if the configuration does not say.
const PATIENCE: Duration = Duration::from_secs(10);

/// Adds vendor data to the guests' metadata, as `[api] vendordata_providers` says. Fails if the file of StaticJSON is
/// not a JSON object, or if a certificate cannot be read.
pub(super) fn complete(metadata: &mut MetadataOptions, config: &Config, clock: &Arc<dyn Clock>) -> Result<()> {
    let api = &config.api;
    let provided = |by: &str| api.vendordata_providers.iter().any(|provider| provider == by);
    match &api.vendordata_jsonfile_path {
        _ if !provided("StaticJSON") => metadata.vendor_data = None,
        None => {}
        Some(path) => metadata.vendor_data = Some(Arc::new(Value::Object(read_file(path)?))),
    }
    if provided("DynamicJSON") {
        metadata.dynamic = Some(DynamicVendorData(Arc::new(HttpServices::new(config, clock)?)));
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Map<String, Value>> {
    let what = || format!("[api] vendordata_jsonfile_path: {}", path.display());
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", what()))?;
    serde_json::from_str(&text).with_context(|| format!("{} holds no JSON object", what()))
}

#[derive(Debug)]
struct HttpServices {
    agent: Agent,
    targets: Vec<VendorDataTarget>,
    fatal: bool,
    slots: Arc<Semaphore>,
    /// The account whose token each call carries.
    account: Option<Arc<KeystoneSession>>,
}

/// The account of `[vendordata_dynamic_auth]`.
fn account(config: &Config, clock: &Arc<dyn Clock>) -> Result<Option<Arc<KeystoneSession>>> {
    let section = &config.vendordata_dynamic_auth;
    let (fields, wrong) = (section.account(), |problem: AccountProblem| anyhow!(problem.message));
    let Some(account) = fields.complete().map_err(wrong)? else { return Ok(None) };
    let calls = CallOptions {
        name: "keystone_vendordata",
        timeout: section.timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into())),
        retries: config.keystone_authtoken.http_request_max_retries,
        tls: fields.trust().map_err(wrong)?,
    };
    let client = ServiceClient::new(calls).context("[vendordata_dynamic_auth]")?;
    Ok(Some(KeystoneSession::new(account, client, Arc::clone(clock))))
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct VendorDataTarget {
    name: String,
    url: String,
}

impl HttpServices {
    fn new(config: &Config, clock: &Arc<dyn Clock>) -> Result<Self> {
        let api = &config.api;
        let targets = targets(&api.vendordata_dynamic_targets);
        let secure = targets.iter().any(|target| target.url.starts_with("https://"));
        let authorities = match (&api.vendordata_dynamic_ssl_certfile, secure) {
            (Some(path), _) => certificates(path).context("[api] vendordata_dynamic_ssl_certfile")?,
            (None, true) => system_authorities()?,
            (None, false) => Vec::new(),
        };
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .root_certs(RootCerts::Specific(Arc::new(authorities)));
        let read = Duration::from_secs(api.vendordata_dynamic_read_timeout.into());
        let agent = Agent::config_builder()
            .http_status_as_error(true)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(api.vendordata_dynamic_connect_timeout.into())))
            .timeout_send_request(Some(read))
            .timeout_send_body(Some(read))
            .timeout_recv_response(Some(read))
            .timeout_recv_body(Some(read))
            .user_agent("openstack-nova-vendordata")
            .tls_config(tls.build())
            .build()
            .into();
        let fatal = api.vendordata_dynamic_failure_fatal;
        let account = account(config, clock)?;
        Ok(Self { agent, targets, fatal, slots: Arc::new(Semaphore::new(AT_ONCE)), account })
    }

    async fn ask_one(&self, target: &VendorDataTarget, about: &Value) -> Result<Value> {
        let Some(account) = &self.account else { return self.send(target, about, None).await };
        let refused = |reason: String| anyhow!("[vendordata_dynamic_auth]: {reason}");
        let token = account.token(None).await.map_err(refused)?;
        let answer = self.send(target, about, Some(token.token.clone())).await;
        // Keystone may have revoked an older token.
        if !(answer.as_ref().is_err_and(is_unauthorized) && account.doubt(&token).await) {
            return answer;
        }
        let renewed = account.token(None).await.map_err(refused)?;
        self.send(target, about, Some(renewed.token.clone())).await
    }

    async fn send(&self, target: &VendorDataTarget, about: &Value, token: Option<UserToken>) -> Result<Value> {
        let slot = Arc::clone(&self.slots).acquire_owned().await?;
        let (agent, url, about) = (self.agent.clone(), target.url.clone(), about.clone());
        let asked = tokio::task::spawn_blocking(move || {
            let answer = post(&agent, &url, &about, token.as_ref());
            drop(slot);
            answer
        });
        asked.await?
    }
}

fn is_unauthorized(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ureq::Error::StatusCode(401)))
}

fn post(agent: &Agent, url: &str, about: &Value, token: Option<&UserToken>) -> Result<Value> {
    let mut request = agent.post(url).header("Accept", "application/json").header("Content-Type", "application/json");
    if let Some(token) = token {
        request = request.header("X-Auth-Token", token.expose());
    }
    let mut answer = request.send(about.to_string())?;
    // The description of a server goes to the configured address alone, so a redirect is an error.
    ensure!(answer.status().is_success(), "the answer is {}", answer.status());
    let text = answer.body_mut().with_config().limit(LONGEST).read_to_vec()?;
    match text.is_empty() {
        true => Ok(Value::Object(Map::new())),
        false => serde_json::from_slice(&text).context("the answer is not JSON"),
    }
}

#[async_trait]
impl VendorServices for HttpServices {
    async fn ask(&self, about: Value) -> Result<Map<String, Value>, String> {
        let about = &about;
        let asked = self.targets.iter().map(|target| async move { (target, self.ask_one(target, about).await) });
        let mut vendor_data = Map::new();
        for (VendorDataTarget { name, url }, answer) in futures::future::join_all(asked).await {
            let data = match answer {
                Ok(data) => data,
                Err(error) => {
                    tracing::warn!(
                        name,
                        url,
                        error = format!("{error:#}"),
                        "a vendor data service gave no valid answer"
                    );
                    if self.fatal {
                        return Err(format!("the vendor data service {name} gave no valid answer"));
                    }
                    Value::Object(Map::new())
                }
            };
            vendor_data.insert(name.clone(), data);
        }
        Ok(vendor_data)
    }
}

/// Parses the targets, each as `name@url`. As in Nova, a word without `@`, or with a repeated name, is skipped.
fn targets(words: &[String]) -> Vec<VendorDataTarget> {
    let mut names = BTreeSet::new();
    let mut targets = Vec::new();
    for word in words {
        match word.split_once('@') {
            Some((name, url)) if !name.is_empty() && names.insert(name) => {
                targets.push(VendorDataTarget { name: name.to_owned(), url: url.to_owned() });
            }
            known => {
                let reason = match known {
                    Some((name, _)) if !name.is_empty() => "an earlier target has this name",
                    _ => "it is not NAME@URL",
                };
                tracing::warn!(target = word, "a target in [api] vendordata_dynamic_targets is skipped: {reason}");
            }
        }
    }
    targets
}

fn system_authorities() -> Result<Vec<Certificate<'static>>> {
    match authorities::system_file() {
        Some(path) => certificates(&path),
        None => bail!(
            "[api] vendordata_dynamic_targets has https URLs, but this system has no file with certificates of \
             authorities in the usual places: set [api] vendordata_dynamic_ssl_certfile to such a file"
        ),
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let text = std::fs::read(path).with_context(|| path.display().to_string())?;
    let mut all = Vec::new();
    for item in ureq::tls::parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.with_context(|| path.display().to_string())? {
            all.push(certificate);
        }
    }
    ensure!(!all.is_empty(), "{}: there is no certificate in it", path.display());
    Ok(all)
}

#[cfg(test)]
mod tests;
