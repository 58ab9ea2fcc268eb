//! Copies of a guest's root disk that become images.

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId};

use crate::driver::{ByteStream, DriverResult};
use crate::guest::{DiskCopy, ImageFormat, Quiesce};

/// A copy of a root disk in the image service's own storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedCopy {
    /// In the form of [`ImageSource::places`](crate::driver::ImageSource::places).
    pub url: String,
    /// The SHA-512 of its content in lower-case hex.
    pub sha512: String,
}

#[async_trait]
pub trait DiskSnapshots: Send + Sync {
    /// Copies the guest's root disk into one file on the host. The copy has the content of one moment. `copy` names the
    /// file, and `format` is its format. The guest continues to run. Succeeds if the copy already exists.
    async fn copy_root(
        &self,
        instance: InstanceId,
        copy: ImageId,
        format: ImageFormat,
        quiesce: Quiesce,
    ) -> DriverResult<DiskCopy>;
    /// Reads a complete copy.
    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream>;
    /// Removes a copy, complete or not. Succeeds if there is none.
    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()>;

    /// Makes the copy in the image service's own storage as a raw image, without a transfer. `false`: the disk is not in
    /// that storage, so [`Self::copy_root`] must make the copy. Succeeds if the copy already exists.
    async fn place_copy(&self, instance: InstanceId, copy: ImageId, quiesce: Quiesce) -> DriverResult<bool> {
        let _ = (instance, copy, quiesce);
        Ok(false)
    }
    /// The complete copy that [`Self::place_copy`] made.
    async fn placed_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<Option<PlacedCopy>> {
        let _ = (instance, copy);
        Ok(None)
    }
    /// Removes a copy that [`Self::place_copy`] made, complete or not, and that the image service does not know.
    async fn remove_placed_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        let _ = (instance, copy);
        Ok(())
    }
}
