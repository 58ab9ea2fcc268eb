//! The embedded identity service, and the credentials of its first administrator.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_actors::runtime::Core;
use chronova_actors::services::embedded::identity::bootstrap::bootstrap;
use chronova_actors::services::embedded::identity::passwords::Password;
use chronova_actors::services::embedded::identity::{IdentityRealmId, IdentityRoot};
use chronova_web::identity::catalogue::ServiceCatalogue;
use chronova_web::identity::clouds::clouds_yaml;
use chronova_web::identity::{IdentityOptions, IdentityService};
use chronova_web::secret::Secret;

use super::listen;
use crate::config::Config;

/// Opens the service. `shared`: the token key of all members of a cluster.
pub(super) fn open(
    config: &Config,
    options: IdentityOptions,
    core: &Core,
    shared: Option<[u8; 32]>,
) -> Result<Arc<IdentityService>> {
    let folder = &config.chronova.data_dir;
    let base = listen::public_url(config, &listen::listeners(config)?);
    let options =
        IdentityOptions { catalogue: ServiceCatalogue::on_one_port(&base, &config.chronova.region_name), ..options };
    let (views, clock) = (Arc::clone(&core.views), Arc::clone(&core.clock));
    match shared {
        Some(key) => Ok(IdentityService::shared(key, options, views, clock)),
        None => IdentityService::open(folder, options, views, clock).context("cannot use the token signing key"),
    }
}

/// At the first start creates the administrator and writes `clouds.yaml`.
pub(super) async fn begin(config: &Config, core: &Core, service: &IdentityService) -> Result<()> {
    if core.gateway.look::<IdentityRoot>(&IdentityRealmId).await?.domains.is_empty() {
        let base = listen::public_url(config, &listen::listeners(config)?);
        first_start(config, core, service, &base).await?;
    }
    Ok(())
}

/// The file comes before the event: a crash between the two makes the next start create both again, with another password.
async fn first_start(config: &Config, core: &Core, service: &IdentityService, base: &str) -> Result<()> {
    let password = match &config.chronova.admin_password_file {
        Some(file) => Password::new(read_password(file)?),
        None => Password::generate()?,
    };
    let path = config.chronova.data_dir.join("clouds.yaml");
    let content = clouds_yaml(base, &config.chronova.region_name, &Secret::new(password.expose()));
    write_private(&path, &content).with_context(|| format!("cannot write {}", path.display()))?;
    bootstrap(&core.gateway, service.passwords(), Some(password)).await.context("cannot create the first users")?;
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

/// Writes the file whole, readable by its owner only from the first moment on.
fn write_private(path: &Path, content: &str) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
