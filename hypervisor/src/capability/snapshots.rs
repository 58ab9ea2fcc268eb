//! Copies of a guest's root disk that become images.

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId};

use crate::driver::{ByteStream, DriverResult};
use crate::guest::{DiskCopy, ImageFormat, Quiesce};

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
}
