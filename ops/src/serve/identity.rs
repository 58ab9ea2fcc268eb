//! The identity service: real Keystone, or the embedded identity service with the credentials of its first
//! administrator.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_actors::ports::identity::IdentityProvider;
use chronova_actors::runtime::{Leadership, Member};
use chronova_actors::services::embedded::identity::bootstrap::bootstrap;
use chronova_actors::services::embedded::identity::passwords::Password;
use chronova_actors::services::embedded::identity::{IdentityRealmId, IdentityRoot};
use chronova_actors::services::external::http::{CallOptions, ServiceClient};
use chronova_actors::services::external::keystone::{
    CallingAccounts, KeystoneOptions, KeystoneProvider, KeystoneSession,
};
use chronova_events::clock::Clock;
use chronova_web::identity::catalogue::ServiceCatalogue;
use chronova_web::identity::clouds::clouds_yaml;
use chronova_web::identity::tokens::Signer;
use chronova_web::identity::{IdentityOptions, IdentityService};
use chronova_web::secret::Secret;

use super::listen;
use crate::config::Config;
use crate::config::account::{AccountProblem, HasAccount as _};

/// How long one answer of Keystone may take if the configuration does not say.
const PATIENCE: Duration = Duration::from_secs(10);

/// The identity service of this cloud.
pub(super) enum OpenedIdentity {
    Embedded(Arc<IdentityService>),
    /// Keystone, and the accounts by which Chronova calls the other services of this cloud.
    Keystone {
        provider: Arc<KeystoneProvider>,
        place: String,
        accounts: CallingAccounts,
    },
}

impl OpenedIdentity {
    /// The service that judges tokens.
    pub(super) fn provider(&self) -> Arc<dyn IdentityProvider> {
        match self {
            Self::Embedded(service) => Arc::clone(service) as _,
            Self::Keystone { provider, .. } => Arc::clone(provider) as _,
        }
    }
}

/// A value by which members of a cluster check that they sign tokens with the same key. It does not reveal the key.
/// `None`: Keystone issues the tokens.
pub(super) fn secret_mark(config: &Config) -> Result<Option<[u8; 32]>> {
    if config.api.auth_strategy != "noauth2" && keystone(config)?.is_some() {
        return Ok(None);
    }
    let signer = Signer::open(&config.chronova.data_dir).context("cannot use the token signing key")?;
    Ok(Some(signer.mark()))
}

/// Opens the identity service that the configuration names.
pub(super) fn open(config: &Config, options: &IdentityOptions, member: &Member) -> Result<OpenedIdentity> {
    if config.api.auth_strategy != "noauth2"
        && let Some((options, place)) = keystone(config)?
    {
        let provider = KeystoneProvider::new(options, Arc::clone(&member.clock) as Arc<dyn Clock>);
        let provider = provider.context("[keystone_authtoken]")?;
        tracing::info!(place, "Keystone validates tokens; the embedded identity service is not served");
        let vouching = vouching(config, &(Arc::clone(&member.clock) as _))?;
        let accounts = CallingAccounts { own: Arc::clone(provider.session()), vouching };
        return Ok(OpenedIdentity::Keystone { provider, place, accounts });
    }
    Ok(OpenedIdentity::Embedded(embedded(config, options, member)?))
}

/// The Keystone of `[keystone_authtoken]`, and its public address.
fn keystone(config: &Config) -> Result<Option<(KeystoneOptions, String)>> {
    let section = &config.keystone_authtoken;
    let wrong = |problem: AccountProblem| anyhow::anyhow!(problem.message);
    let Some(account) = section.account().complete().map_err(wrong)? else { return Ok(None) };
    let place = section.www_authenticate_uri.clone().unwrap_or_else(|| account.auth_url.clone());
    let calls = CallOptions {
        name: "keystone",
        timeout: section.http_connect_timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into())),
        retries: section.http_request_max_retries,
        tls: section.account().trust().map_err(wrong)?,
    };
    let cache_time = u64::try_from(section.token_cache_time).ok().filter(|seconds| *seconds > 0);
    let options = KeystoneOptions {
        account,
        calls,
        interface: section.interface.clone(),
        region: section.region_name.clone(),
        cache_time: cache_time.map(Duration::from_secs),
        include_catalogue: section.include_service_catalog,
    };
    Ok(Some((options, place)))
}

/// The account whose token is sent beside a user's token to other services.
fn vouching(config: &Config, clock: &Arc<dyn Clock>) -> Result<Option<Arc<KeystoneSession>>> {
    let section = &config.service_user;
    if !section.send_service_user_token {
        return Ok(None);
    }
    let fields = section.account();
    let wrong = |problem: AccountProblem| anyhow::anyhow!(problem.message);
    let account = fields.complete().map_err(wrong)?.context("[service_user] has no account")?;
    let timeout = section.timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into()));
    let retries = config.keystone_authtoken.http_request_max_retries;
    let calls = CallOptions { name: "keystone_service_user", timeout, retries, tls: fields.trust().map_err(wrong)? };
    let client = ServiceClient::new(calls).context("[service_user]")?;
    Ok(Some(KeystoneSession::new(account, client, Arc::clone(clock))))
}

fn embedded(config: &Config, options: &IdentityOptions, member: &Member) -> Result<Arc<IdentityService>> {
    let folder = &config.chronova.data_dir;
    let base = base(config)?;
    let options = IdentityOptions {
        catalogue: ServiceCatalogue::on_one_port(&base, &config.chronova.region_name),
        ..options.clone()
    };
    IdentityService::open(folder, options, Arc::clone(&member.views), Arc::clone(&member.clock))
        .context("cannot use the token signing key")
}

fn base(config: &Config) -> Result<String> {
    Ok(listen::public_url(config, &listen::listeners(config)?))
}

/// At the first start, creates the administrator of the embedded service and writes `clouds.yaml`.
pub(super) async fn begin(config: &Config, leadership: &Leadership, opened: &OpenedIdentity) -> Result<()> {
    let OpenedIdentity::Embedded(service) = opened else { return Ok(()) };
    // The read model covers the whole log at this point, and asking it needs no archived event. Loading the aggregate
    // may need archived events if its snapshot is lost.
    let has_none = leadership.views.identities.read(|view| view.identity.domains.is_empty());
    if has_none && leadership.gateway.look::<IdentityRoot>(&IdentityRealmId).await?.domains.is_empty() {
        first_start(config, leadership, service, &base(config)?).await?;
    }
    Ok(())
}

/// Creates the administrator. The file is written before the event, so that no password is lost. After a crash in
/// between, the next start creates both again. If no option names the password, this function generates one.
async fn first_start(config: &Config, leadership: &Leadership, service: &IdentityService, base: &str) -> Result<()> {
    let password = match &config.chronova.admin_password_file {
        Some(file) => Password::new(read_password(file)?),
        None => Password::generate()?,
    };
    let path = config.chronova.data_dir.join("clouds.yaml");
    let content = clouds_yaml(base, &config.chronova.region_name, &Secret::new(password.expose()));
    write_private(&path, &content).with_context(|| format!("cannot write {}", path.display()))?;
    bootstrap(&leadership.gateway, service.passwords(), Some(password))
        .await
        .context("cannot create the first users")?;
    tracing::info!(file = %path.display(), "created the first administrator; credentials are in the file");
    Ok(())
}

fn read_password(file: &Path) -> Result<String> {
    let text =
        fs::read_to_string(file).with_context(|| format!("[chronova] admin_password_file: {}", file.display()))?;
    let password = text.trim_end_matches(['\r', '\n']);
    anyhow::ensure!(!password.is_empty(), "[chronova] admin_password_file: {} is empty", file.display());
    Ok(password.to_owned())
}

/// Writes the file atomically. From the first moment on, only its owner can read it.
fn write_private(path: &Path, content: &str) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
