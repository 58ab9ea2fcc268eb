//! An image service in two parts: servers get their disks from [`OneImage`], and users' requests go to the embedded
//! service.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::ports::{ImageDraft, ImageResources, ImageService, PortError};
use chronova_actors::runtime::Leadership;
use chronova_actors::services::embedded::image::PropertyLimit;
use chronova_actors::services::embedded::image::records::ImageRecords;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::{ByteStream, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;

use crate::services::OneImage;

pub struct MixedImages {
    /// Gives servers their disks; it outlives a crash.
    pub disks: Arc<OneImage>,
    /// Answers users.
    pub records: ImageRecords,
}

impl MixedImages {
    pub fn new(disks: Arc<OneImage>, leadership: &Leadership) -> Arc<Self> {
        let records = ImageRecords::new(
            Arc::clone(&leadership.views),
            Arc::clone(&leadership.gateway),
            None,
            PropertyLimit::default(),
        );
        Arc::new(Self { disks, records })
    }
}

#[async_trait]
impl ImageSource for MixedImages {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        self.disks.open(image).await
    }
}

#[async_trait]
impl ImageService for MixedImages {
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError> {
        self.disks.find(image, project, is_admin).await
    }

    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError> {
        self.disks.create(draft, meta).await
    }

    async fn format_of(&self, image: ImageId, work: &Arc<Meta>) -> Result<String, PortError> {
        self.disks.format_of(image, work).await
    }

    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError> {
        self.disks.upload(image, bytes, meta).await
    }

    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.disks.delete(image, meta).await
    }

    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError> {
        self.disks.backups(like, instance, kind).await
    }

    fn resources(&self) -> Option<&dyn ImageResources> {
        Some(&self.records)
    }
}
