//! The trait of the image service, embedded or real Glance.
//!
//! Glance's API, version 2, has a call for each method. `POST images` takes the id from the caller. `PUT
//! images/{id}/file` takes the data, and refuses (409) an image that already has data. A list filtered by properties
//! shows the backups.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::{ImageSnapshot, SortedPairs};
use chronova_hypervisor::capability::snapshots::PlacedCopy;
use chronova_hypervisor::driver::{ByteStream, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;

use super::image_resources::ImageResources;
use super::{PortError, ServiceCaller};

/// A new image for the data of a server's disk.
#[derive(Debug, Clone)]
pub struct ImageDraft {
    pub image: ImageId,
    pub name: String,
    pub owner: ProjectId,
    /// The disk format, for example `qcow2`. The container format is always `bare`.
    pub format: String,
    pub min_disk_gib: u32,
    pub min_memory_mib: u64,
    pub properties: SortedPairs,
}

/// The image service: images and their data.
#[async_trait]
pub trait ImageService: ImageSource + 'static {
    /// The image for a server of `project`. It must be active, and the project must see it unless `is_admin` is set.
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError>;

    /// The image for a server of `project`, if the caller sees it. A client of Glance sends the caller's token.
    async fn find_as(
        &self,
        image: ImageId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<ImageSnapshot, PortError> {
        self.find(image, project, caller.is_admin).await
    }

    /// Creates a private image without data.
    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError>;

    /// The disk format of an image that may have no data yet, for work with this cause.
    async fn format_of(&self, image: ImageId, work: &Arc<Meta>) -> Result<String, PortError>;

    /// Uploads the data of an image. Succeeds without reading anything if the image already has data.
    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Whether the service takes data that are in its own storage already.
    fn takes_placed(&self) -> bool {
        false
    }

    /// Gives an image the data at a place in the service's own storage. Succeeds if the image already has data.
    /// [`PortError::Forbidden`]: the service takes only uploads.
    async fn adopt(&self, image: ImageId, copy: &PlacedCopy, meta: Arc<Meta>) -> Result<(), PortError> {
        let _ = (copy, meta);
        Err(PortError::Forbidden(format!("The data of image {image} must be uploaded.")))
    }

    /// Deletes an image, with or without data.
    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// The server's backups of this kind that have data and belong to the owner of `like`, newest first. Empty if
    /// `like` was deleted. Images of other owners are left out, even if they have the properties of a backup.
    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError>;

    /// The image's data. A client of Glance sends the token of the user whose request began `work`.
    async fn open_as(&self, image: &ImageRef, work: &Meta) -> DriverResult<ByteStream> {
        let _ = work;
        self.open(image).await
    }

    /// Where the service stores the image's data, as URLs; see [`ImageSource::places`]. A client of Glance sends the
    /// token of the user whose request began `work`.
    async fn places_as(&self, image: &ImageRef, work: &Meta) -> DriverResult<Vec<String>> {
        let _ = (image, work);
        Ok(Vec::new())
    }

    /// The images of users, for Nova's old API. `None`: the service does not offer them.
    fn resources(&self) -> Option<&dyn ImageResources> {
        None
    }
}
