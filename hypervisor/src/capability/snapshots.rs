//! Copies of a guest's root disk, on their way to become images.

use async_trait::async_trait;
use chronova_events::ids::{ImageId, InstanceId};

use crate::driver::{ByteStream, DriverResult};
use crate::guest::{DiskCopy, Quiesce};

#[async_trait]
pub trait DiskSnapshots: Send + Sync {
    /// Copies the guest's root disk, as it is at one moment, into one file on the host that `copy` names. The guest goes
    /// on meanwhile. Copied already is success.
    async fn copy_root(&self, instance: InstanceId, copy: ImageId, quiesce: Quiesce) -> DriverResult<DiskCopy>;
    /// The bytes of a copy that is complete.
    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream>;
    /// Removes a copy, complete or not. Gone already is success.
    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()>;
}
