//! The volume service: real Cinder, or the embedded one.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chronova_actors::ports::VolumeService;
use chronova_actors::ports::keys::VolumeKeyKeeper;
use chronova_actors::runtime::Member;
use chronova_actors::services::embedded::volume::service::EmbeddedVolumes;
use chronova_actors::services::external::cinder::{CinderVolumes, RbdAccess};
use chronova_actors::services::external::http::{CallOptions, ServiceClient};
use chronova_actors::services::external::keystone::{
    CalledService, CallingAccounts, KeystoneSession, ServicePlace, SharedUserTokens,
};
use chronova_events::clock::Clock;
use chronova_hypervisor::options::{RbdKey, RbdOptions};
use chronova_web::App;
use chronova_web::service::Service;
use serde_json::json;

use super::identity::OpenedIdentity;
use crate::config::Config;
use crate::config::account::{AccountProblem, HasAccount as _};

/// How long one answer may take if the configuration does not say. Cinder connects a volume before it answers.
const PATIENCE: Duration = Duration::from_mins(1);

/// The volume service of this cloud.
pub(super) enum OpenedVolumes {
    Embedded(Arc<EmbeddedVolumes>),
    Cinder { volumes: Arc<CinderVolumes>, users: SharedUserTokens },
}

impl OpenedVolumes {
    pub(super) fn port(&self) -> Arc<dyn VolumeService> {
        match self {
            Self::Embedded(volumes) => Arc::clone(volumes) as _,
            Self::Cinder { volumes, .. } => Arc::clone(volumes) as _,
        }
    }

    /// The clients of other services, for metrics.
    pub(super) fn clients(&self) -> Vec<Arc<ServiceClient>> {
        match self {
            Self::Embedded(_) => Vec::new(),
            Self::Cinder { volumes, .. } => volumes.service().clients().to_vec(),
        }
    }

    /// Adds the embedded volume API, or else Cinder's address and the report of `/healthz` about Cinder. If Cinder does
    /// not answer, this member stays healthy, because another member could not reach Cinder either.
    pub(super) fn serve(self, app: App) -> App {
        let (volumes, users) = match self {
            Self::Embedded(volumes) => return app.with_volumes(volumes),
            Self::Cinder { volumes, users } => (volumes, users),
        };
        let (service, place) = (Arc::clone(volumes.service()), volumes.service().address());
        let at = place.clone();
        let tell = move || {
            let trouble = service.clients().iter().find_map(|client| client.trouble());
            let state = trouble.unwrap_or_else(|| "no trouble".to_owned());
            json!({"service": "cinder", "place": at, "state": state, "embedded": "not served"})
        };
        let mut app = app.with_user_tokens(users).with_elsewhere(Service::Volume, place);
        app.health = std::mem::take(&mut app.health).telling("volumes", Arc::new(tell));
        app
    }
}

/// Opens the volume service that the configuration names.
pub(super) fn open(
    config: &Config,
    member: &Member,
    (identity, users, keys): (&OpenedIdentity, &SharedUserTokens, Option<Arc<dyn VolumeKeyKeeper>>),
    embedded: impl FnOnce() -> Arc<EmbeddedVolumes>,
) -> Result<OpenedVolumes> {
    match (config.chronova.volume_service.as_str(), identity) {
        ("embedded", _) | ("auto", OpenedIdentity::Embedded(_)) => Ok(OpenedVolumes::Embedded(embedded())),
        (_, OpenedIdentity::Keystone { accounts, .. }) => {
            cinder(config, member, accounts.clone(), (Arc::clone(users), keys))
        }
        _ => bail!("[chronova] volume_service = cinder needs the Keystone of [keystone_authtoken] auth_url"),
    }
}

fn cinder(
    config: &Config,
    member: &Member,
    accounts: CallingAccounts,
    (users, keys): (SharedUserTokens, Option<Arc<dyn VolumeKeyKeeper>>),
) -> Result<OpenedVolumes> {
    let (section, fields) = (&config.cinder, config.cinder.account());
    let wrong = |problem: AccountProblem| anyhow::anyhow!(problem.message);
    let calls = CallOptions {
        name: "cinder",
        timeout: section.timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into())),
        retries: section.http_retries,
        tls: fields.trust().map_err(wrong)?,
    };
    let own = match fields.complete().map_err(wrong)? {
        None => accounts.own,
        Some(account) => {
            let client = ServiceClient::new(CallOptions { name: "keystone_cinder", ..calls.clone() })?;
            KeystoneSession::new(account, client, Arc::clone(&member.clock) as Arc<dyn Clock>)
        }
    };
    let (kind, interface) = section.catalogue_entry().context("[cinder] catalog_info")?;
    let place = ServicePlace {
        endpoints: section.endpoint_template.clone().into_iter().collect(),
        service_type: kind.to_owned(),
        interfaces: vec![interface.to_owned()],
        region: section.os_region_name.clone(),
        version: "v3",
        vouches_for_itself: true,
    };
    let service = CalledService::new(calls, place, CallingAccounts { own, ..accounts }).context("[cinder]")?;
    tracing::info!(place = service.address(), "volumes are in Cinder; the embedded volume service is not served");
    let rbd = RbdAccess { user: config.libvirt.rbd_user.clone(), secret: config.libvirt.rbd_secret_uuid.clone() };
    Ok(OpenedVolumes::Cinder { volumes: CinderVolumes::new(service, Arc::clone(&users), rbd, keys), users })
}

/// Reads `[chronova] rbd_keyring`.
pub(super) fn read_keyring(config: &Config, rbd: &mut RbdOptions) -> Result<()> {
    let Some(path) = &config.chronova.rbd_keyring else { return Ok(()) };
    let at = || format!("[chronova] rbd_keyring: {}", path.display());
    let text = fs::read_to_string(path).with_context(at)?;
    rbd.key = Some(key_of(&text, config.libvirt.rbd_user.as_deref()).with_context(at)?);
    rbd.keyring = Some(path.clone());
    Ok(())
}

/// The key of a user, or of the only user, in a keyring of Ceph's.
fn key_of(keyring: &str, user: Option<&str>) -> Result<RbdKey> {
    let (mut found, mut section) = (Vec::new(), "");
    for line in keyring.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, value)) = line.split_once('=')
            && key.trim() == "key"
            && let Some(name) = section.strip_prefix("client.")
        {
            found.push((name, value.trim()));
        }
    }
    found.retain(|(name, _)| user.is_none_or(|user| user == *name));
    let [(name, value)] = found.as_slice() else {
        bail!(
            "it has {} keys of {}",
            found.len(),
            user.map_or_else(|| "clients".to_owned(), |user| format!("client.{user}"))
        );
    };
    let value = STANDARD.decode(value).ok().with_context(|| format!("the key of client.{name} is not base64"))?;
    Ok(RbdKey { user: (*name).to_owned(), value })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_key_of_the_named_user_is_read() {
        let keyring = "[client.cinder]\n\tkey = aGVsbG8=\n\tcaps mon = \"profile rbd\"\n[client.nova]\n key=d29ybGQ=\n";
        let key = key_of(keyring, Some("nova")).unwrap();
        assert_eq!((key.user.as_str(), key.value.as_slice()), ("nova", b"world".as_slice()));
        assert!(!format!("{key:?}").contains("119"), "the key is printed");
        for (keyring, user, words) in [
            (keyring, None, "2 keys of clients"),
            (keyring, Some("glance"), "0 keys of client.glance"),
            ("[client.a]\nkey = ?\n", None, "not base64"),
        ] {
            assert!(key_of(keyring, user).unwrap_err().to_string().contains(words), "{words}");
        }
    }
}
