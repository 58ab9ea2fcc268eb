//! The embedded image service on a log in memory. The bytes of the images are in a temporary folder.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::ports::ServiceCaller;
use chronova_actors::runtime::{Leadership, Member};
use chronova_actors::services::embedded::image::embedded::EmbeddedImages;
use chronova_actors::services::embedded::image::files::ImageFiles;
use chronova_events::clock::SystemClock;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, ProjectId};
use chronova_events::store::faulty::FuseStore;
use chronova_events::store::memory::MemoryStore;
use chronova_projections::views::Views;
use tempfile::TempDir;

use super::images::ImageStage;

const MOST_BYTES: u64 = 1_000;

pub struct EmbeddedImageStage {
    pub images: Arc<EmbeddedImages>,
    pub log: Arc<FuseStore>,
    member: Member,
    _folder: TempDir,
}

impl EmbeddedImageStage {
    /// An empty service. Needs a running actix system.
    pub async fn new() -> Self {
        let log = FuseStore::new(MemoryStore::new(), None);
        let member = Member::start(Arc::clone(&log) as _, Arc::new(SystemClock), Views::new()).await.unwrap();
        let leadership = Leadership::take(&member, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = ImageFiles::open(folder.path(), MOST_BYTES).unwrap();
        let images = EmbeddedImages::new(files, Arc::clone(&leadership.views), Arc::clone(&leadership.gateway));
        Self { images, log, member, _folder: folder }
    }

    pub async fn stop(self) {
        self.member.stop().await;
    }
}

#[async_trait]
impl ImageStage for EmbeddedImageStage {
    async fn project(&self) -> ProjectId {
        ProjectId::new(ImageId::random().to_string())
    }

    async fn user(&self, project: &ProjectId) -> ServiceCaller {
        let meta = Meta::system("conformance");
        ServiceCaller { project: Some(project.clone()), is_admin: false, token: None, rights: None, meta }
    }
}
