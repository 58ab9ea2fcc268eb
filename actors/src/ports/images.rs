//! Images, as compute asks for them: from the embedded image service, or from real Glance.
//!
//! Glance's API, version 2, has a call for each of these: `POST images` takes the id from the caller, `PUT images/{id}/file`
//! takes the bytes and refuses (409) an image that has them, and a list filtered by properties tells the backups.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_events::instance::{ImageSnapshot, SortedPairs};
use chronova_hypervisor::driver::{ByteStream, ImageSource};

use super::{PortError, ServiceCaller};

/// An image that is to be made of a server's disk.
#[derive(Debug, Clone)]
pub struct ImageDraft {
    pub image: ImageId,
    pub name: String,
    pub owner: ProjectId,
    /// `qcow2`; the container is always `bare`.
    pub format: String,
    pub min_disk_gib: u32,
    pub min_memory_mib: u64,
    pub properties: SortedPairs,
}

/// Images, and their bytes.
#[async_trait]
pub trait ImageService: ImageSource + 'static {
    /// The image as a server of `project` would be made from it; only an active one that the project can see.
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError>;

    /// The same for a user who waits: the client of another service asks in their name, so that its own rules judge.
    async fn find_as(
        &self,
        image: ImageId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<ImageSnapshot, PortError> {
        self.find(image, project, caller.is_admin).await
    }

    /// Makes an image without bytes, which only its owner sees.
    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Gives an image its bytes. One that has them already is success, and nothing is read.
    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Deletes an image, with bytes or without.
    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// The backups of a server of this kind that have their bytes and belong to the owner of `like`, newest first; none if
    /// `like` is gone. Images of other owners do not count, whatever their properties say.
    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError>;
}
