//! The image service: real Glance, or the embedded image service.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronova_actors::gateway::CommandGateway;
use chronova_actors::ports::ImageService;
use chronova_actors::runtime::{Leadership, Member};
use chronova_actors::services::embedded::image::PropertyLimit;
use chronova_actors::services::embedded::image::embedded::{EmbeddedImages, ImageLimits};
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_actors::services::external::glance::{CephDownload, GlanceImages};
use chronova_actors::services::external::http::CallOptions;
use chronova_actors::services::external::keystone::{CalledService, CallingAccounts, ServicePlace, SharedUserTokens};
use chronova_web::App;
use chronova_web::service::Service;
use serde_json::json;

use super::identity::OpenedIdentity;
use crate::config::Config;

/// How long one answer of Glance may take, and how long a transfer may pause, if the configuration does not say.
const PATIENCE: Duration = Duration::from_mins(1);

/// The image service of this cloud.
pub(super) enum OpenedImages {
    Embedded(Arc<EmbeddedImages>),
    Glance { images: Arc<GlanceImages>, users: SharedUserTokens },
}

impl OpenedImages {
    pub(super) fn port(&self) -> Arc<dyn ImageService> {
        match self {
            Self::Embedded(images) => Arc::clone(images) as _,
            Self::Glance { images, .. } => Arc::clone(images) as _,
        }
    }

    /// Repairs what a crash left unfinished in the embedded service.
    pub(super) async fn begin(&self, leadership: &Leadership) -> Result<()> {
        let Self::Embedded(images) = self else { return Ok(()) };
        images.recover(&leadership.gateway).await.context("cannot recover the image store")
    }

    /// Adds the embedded image API, or else Glance's address and the report of `/healthz` about Glance. If Glance does
    /// not answer, this member stays healthy, because another member could not reach Glance either.
    pub(super) fn serve(self, app: App) -> App {
        let (images, users) = match self {
            Self::Embedded(images) => return app.with_images(images),
            Self::Glance { images, users } => (images, users),
        };
        let (service, place) = (Arc::clone(images.service()), images.service().address());
        let at = place.clone();
        let tell = move || {
            let trouble = service.clients().iter().find_map(|client| client.trouble());
            let state = trouble.unwrap_or_else(|| "no trouble".to_owned());
            json!({"service": "glance", "place": at, "state": state, "embedded": "not served"})
        };
        let mut app = app.with_user_tokens(users).with_elsewhere(Service::Image, place);
        app.health = std::mem::take(&mut app.health).telling("images", Arc::new(tell));
        app
    }
}

/// Opens the image service that the configuration names.
pub(super) fn open(
    config: &Config,
    member: &Member,
    gateway: &Arc<CommandGateway>,
    identity: &OpenedIdentity,
    users: &SharedUserTokens,
) -> Result<OpenedImages> {
    match (config.chronova.image_service.as_str(), identity) {
        ("embedded", _) | ("auto", OpenedIdentity::Embedded(_)) => embedded(config, member, gateway),
        (_, OpenedIdentity::Keystone { accounts, .. }) => glance(config, accounts.clone(), Arc::clone(users)),
        _ => bail!("[chronova] image_service = glance needs the Keystone of [keystone_authtoken] auth_url"),
    }
}

fn embedded(config: &Config, member: &Member, gateway: &Arc<CommandGateway>) -> Result<OpenedImages> {
    let (folder, size_cap) = (&config.chronova.data_dir, config.glance.image_size_cap);
    let files = ImageFiles::open(folder, size_cap).context("cannot use the folder of the images")?;
    let limit = |number: i64| usize::try_from(number).ok();
    let (images, properties) = (config.glance.image_count_total, config.glance.image_property_quota);
    let limits = ImageLimits { images: limit(images), properties: PropertyLimit(limit(properties)) };
    Ok(OpenedImages::Embedded(EmbeddedImages::limited(files, Arc::clone(&member.views), Arc::clone(gateway), limits)))
}

fn glance(config: &Config, accounts: CallingAccounts, users: SharedUserTokens) -> Result<OpenedImages> {
    let section = &config.glance;
    let timeout = section.timeout.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into()));
    let tls = crate::config::account::glance_trust(section).map_err(|problem| anyhow::anyhow!(problem.message))?;
    let calls = CallOptions { name: "glance", timeout, retries: section.num_retries, tls };
    let place = ServicePlace {
        endpoints: section.endpoint_override.clone().map_or_else(|| section.api_servers.clone(), |one| vec![one]),
        service_type: section.service_type.clone(),
        interfaces: section.valid_interfaces.iter().map(|name| name.trim_end_matches("URL").to_owned()).collect(),
        region: section.region_name.clone(),
        version: "v2",
        vouches_for_itself: false,
    };
    let service = CalledService::new(calls, place, accounts).context("[glance]")?;
    tracing::info!(place = service.address(), "images are in Glance; the embedded image service is not served");
    let download = section.enable_rbd_download.then(|| CephDownload {
        user: section.rbd_user.clone(),
        pool: section.rbd_pool.clone(),
        conf: section.rbd_ceph_conf.clone(),
        connect_timeout: Duration::from_secs(section.rbd_connect_timeout.into()),
    });
    Ok(OpenedImages::Glance { images: GlanceImages::new(service, Arc::clone(&users), download), users })
}
