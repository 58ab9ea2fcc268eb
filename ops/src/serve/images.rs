//! The image service: real Glance, or the embedded one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronova_actors::ports::ImageService;
use chronova_actors::runtime::Core;
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_actors::services::external::glance::{GlanceImages, GlanceOptions};
use chronova_actors::services::external::http::{CallOptions, ServiceClient, TlsTrust};
use chronova_actors::services::external::keystone::KeystoneSession;

use super::identity::OpenedIdentity;
use crate::config::Config;
use crate::config::account::{AccountProblem, HasAccount as _};

/// How long one answer may take, and how long bytes may pause, if the configuration does not say.
const PATIENCE: Duration = Duration::from_secs(60);

/// The image service of this cloud.
pub(super) enum OpenedImages {
    Embedded(Arc<EmbeddedImages>),
    Glance { images: Arc<GlanceImages>, place: String },
}

impl OpenedImages {
    pub(super) fn port(&self) -> Arc<dyn ImageService> {
        match self {
            Self::Embedded(images) => Arc::clone(images) as _,
            Self::Glance { images, .. } => Arc::clone(images) as _,
        }
    }
}

/// Opens the image service that the configuration names.
pub(super) async fn open(config: &Config, core: &Core, identity: &OpenedIdentity) -> Result<OpenedImages> {
    match (config.chronova.image_service.as_str(), identity) {
        ("embedded", _) | ("auto", OpenedIdentity::Embedded(_)) => embedded(config, core).await,
        (_, OpenedIdentity::Keystone { provider, .. }) => glance(config, core, provider.session()),
        _ => bail!("[chronova] image_service = glance needs the Keystone of [keystone_authtoken]"),
    }
}

async fn embedded(config: &Config, core: &Core) -> Result<OpenedImages> {
    let files = ImageFiles::open(&config.chronova.data_dir, config.glance.image_size_cap)
        .context("cannot use the folder of the images")?;
    let most = usize::try_from(config.glance.image_count_total).ok();
    let images = EmbeddedImages::limited(files, Arc::clone(&core.views), Arc::clone(&core.gateway), most);
    images.recover(&core.gateway).await.context("cannot recover the image store")?;
    Ok(OpenedImages::Embedded(images))
}

fn glance(config: &Config, core: &Core, own: &Arc<KeystoneSession>) -> Result<OpenedImages> {
    let section = &config.glance;
    let endpoints: Vec<String> = match &section.endpoint_override {
        Some(address) => vec![address.clone()],
        None => section.api_servers.clone(),
    };
    let certificate = match (&section.certfile, &section.keyfile) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        _ => bail!("[glance] certfile and keyfile go together"),
    };
    let tls = TlsTrust { ca_file: section.cafile.clone(), insecure: section.insecure, certificate };
    let timeout = section.timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into()));
    let options = GlanceOptions {
        calls: CallOptions { name: "glance", timeout, retries: section.num_retries, tls },
        endpoints: endpoints.clone(),
        service_type: section.service_type.clone(),
        interfaces: section.valid_interfaces.iter().map(|name| name.trim_end_matches("URL").to_owned()).collect(),
        region: section.region_name.clone(),
        vouch: config.service_user.send_service_user_token,
    };
    let account = service_user(config, core)?.unwrap_or_else(|| Arc::clone(own));
    let images = GlanceImages::new(options, account).context("[glance]")?;
    let place = endpoints.into_iter().next().unwrap_or_else(|| "the image endpoint of Keystone's catalogue".to_owned());
    tracing::info!(place, "images are in Glance; the embedded image service is not served");
    Ok(OpenedImages::Glance { images, place })
}

/// The account of `[service_user]`, where it has one.
fn service_user(config: &Config, core: &Core) -> Result<Option<Arc<KeystoneSession>>> {
    let fields = config.service_user.account();
    let wrong = |problem: AccountProblem| anyhow::anyhow!(problem.message);
    let Some(account) = fields.complete().map_err(wrong)? else { return Ok(None) };
    let tls = fields.trust().map_err(wrong)?;
    let calls = CallOptions { name: "keystone for [service_user]", timeout: PATIENCE, retries: 3, tls };
    let client = ServiceClient::new(calls).context("[service_user]")?;
    Ok(Some(KeystoneSession::new(account, client, Arc::clone(&core.clock))))
}
