//! An image service that breaks one chosen promise. A case of the conformance suite must detect it.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::ports::{ImageDraft, ImageResources, ImageService, PortError, ServiceCaller};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::{ByteStream, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;

/// The promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFault {
    /// Every project sees every image.
    ShowsAll,
    /// Images without bytes are found.
    ShowsEmpty,
    /// Reading ignores the checksum that the caller names.
    ReadsStale,
    /// A second upload is refused.
    UploadsOnlyOnce,
    /// An upload that fails is reported as a success.
    TakesHalf,
    DeletesNothing,
    /// Backups come oldest first.
    TurnsBackups,
    /// Lists of backups have every image that was created through the port.
    BelievesAll,
    /// Every user sees every image.
    ShowsAllUsers,
    ListsOldestFirst,
    /// A removed property stays.
    RemovesNoProperty,
    /// Every user deletes every image.
    DeletesForAll,
}

pub struct BrokenImages {
    pub images: Arc<dyn ImageService>,
    pub fault: ImageFault,
    /// The images that were created through the port. [`ImageFault::BelievesAll`] adds them to every list of backups.
    pub foreign: std::sync::Mutex<Vec<ImageId>>,
}

impl BrokenImages {
    pub fn new(images: Arc<dyn ImageService>, fault: ImageFault) -> Self {
        Self { images, fault, foreign: std::sync::Mutex::default() }
    }

    fn has(&self, fault: ImageFault) -> bool {
        self.fault == fault
    }
}

#[async_trait]
impl ImageSource for BrokenImages {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        if self.has(ImageFault::ReadsStale)
            && let Ok(found) = self.images.find(image.id, &ProjectId::new("anybody"), true).await
        {
            return self.images.open(&ImageRef { checksum: found.checksum, ..image.clone() }).await;
        }
        self.images.open(image).await
    }
}

#[async_trait]
impl ImageService for BrokenImages {
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError> {
        let found = self.images.find(image, project, is_admin || self.has(ImageFault::ShowsAll)).await;
        match found {
            Err(PortError::Invalid(_)) if self.has(ImageFault::ShowsEmpty) => Ok(crate::services::OneImage::snapshot()),
            found => found,
        }
    }

    async fn find_as(
        &self,
        image: ImageId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<ImageSnapshot, PortError> {
        let raised = ServiceCaller { is_admin: caller.is_admin || self.has(ImageFault::ShowsAll), ..caller.clone() };
        self.images.find_as(image, project, &raised).await
    }

    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError> {
        self.foreign.lock().unwrap().push(draft.image);
        self.images.create(draft, meta).await
    }

    async fn format_of(&self, image: ImageId, work: &Arc<Meta>) -> Result<String, PortError> {
        self.images.format_of(image, work).await
    }

    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError> {
        let active = self.images.find(image, &ProjectId::new("anybody"), true).await.is_ok();
        if self.has(ImageFault::UploadsOnlyOnce) && active {
            return Err(PortError::Conflict("the image has its bytes".to_owned()));
        }
        let uploaded = self.images.upload(image, bytes, meta).await;
        if self.has(ImageFault::TakesHalf) { Ok(()) } else { uploaded }
    }

    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError> {
        if self.has(ImageFault::DeletesNothing) {
            return Ok(());
        }
        self.images.delete(image, meta).await
    }

    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError> {
        let mut backups = self.images.backups(like, instance, kind).await?;
        match self.fault {
            ImageFault::TurnsBackups => backups.reverse(),
            ImageFault::BelievesAll => backups.extend(self.foreign.lock().unwrap().iter()),
            _ => {}
        }
        Ok(backups)
    }

    fn resources(&self) -> Option<&dyn ImageResources> {
        Some(self)
    }
}
