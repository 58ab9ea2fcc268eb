//! A real Glance of this test's own, started by `tests/testbed/glance.sh` beside a Keystone whose tokens live for a few
//! seconds: the service's own account needs a new one all the time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::ensure;
use async_trait::async_trait;
use chronova_actors::services::external::glance::{GlanceImages, GlanceOptions};
use chronova_events::ids::ProjectId;
use tempfile::TempDir;
use uuid::Uuid;

use super::images::ImageStage;
use super::real_keystone::{RealKeystone, calls};

/// A running Glance; it ends with this.
pub struct RealGlance {
    folder: TempDir,
    script: PathBuf,
    keystone: RealKeystone,
}

impl Drop for RealGlance {
    fn drop(&mut self) {
        let _ = Command::new("bash").arg(&self.script).arg("down").arg(self.folder.path()).status();
    }
}

impl RealGlance {
    /// `None` where Keystone or Glance is not installed.
    pub fn start() -> anyhow::Result<Option<Self>> {
        if !Path::new("/usr/bin/glance-wsgi-api").is_file() {
            return Ok(None);
        }
        let Some(keystone) = RealKeystone::start()? else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbed/glance.sh");
        let up = Command::new("bash").arg(&script).arg("up").args([folder.path(), keystone.folder()]).status()?;
        ensure!(up.success(), "glance.sh does not start a Glance");
        Ok(Some(Self { folder, script, keystone }))
    }

    /// The client of this Glance, by the catalogue.
    pub fn images(&self) -> anyhow::Result<Arc<GlanceImages>> {
        let options = GlanceOptions {
            calls: calls("glance"),
            endpoints: Vec::new(),
            service_type: "image".to_owned(),
            interfaces: vec!["internal".to_owned(), "public".to_owned()],
            region: Some("RegionOne".to_owned()),
            vouch: true,
        };
        Ok(GlanceImages::new(options, Arc::clone(self.keystone.provider()?.session()))?)
    }
}

#[async_trait]
impl ImageStage for RealGlance {
    async fn project(&self) -> ProjectId {
        ProjectId::from(Uuid::new_v4().simple().to_string())
    }
}
