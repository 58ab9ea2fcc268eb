//! The volumes of the volume service in a storage pool of a host.
//!
//! Each volume and each snapshot is one volume of the pool. A snapshot is a full copy, so the volume can be deleted
//! before its snapshot. [`crate::volumes::volume`] and [`crate::volumes::snapshot`] form their names.
//!
//! Every call can be repeated after an interruption. A repeated creation begins again from the start, and the deletion
//! of a missing volume succeeds.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::{ByteStream, DriverResult};
use crate::guest::ImageRef;

/// The initial content of a new volume.
#[derive(Debug, Clone, PartialEq)]
pub enum VolumeContent {
    Blank,
    /// An image that is already in the host's cache.
    Image(ImageRef),
    /// The content that another volume of the pool has at one moment during the call. `user` is a guest that may be
    /// writing to it.
    Copy {
        of: String,
        user: Option<InstanceId>,
    },
}

/// The properties of the pool, and its space in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    /// The name of the pool in libvirt.
    pub name: String,
    /// The format of its volumes: `qcow2` or `raw`.
    pub format: String,
    pub capacity: u64,
    pub free: u64,
}

/// One volume of the pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolVolume {
    pub name: String,
    /// The number of bytes that a guest sees.
    pub size: u64,
}

/// The pool of one host for the volume service.
#[async_trait]
pub trait VolumeStore: Send + Sync {
    /// The pool. Creates it if it does not exist.
    async fn volume_pool(&self) -> DriverResult<PoolStatus>;

    /// Every volume of the volume service in the pool.
    async fn volumes(&self) -> DriverResult<Vec<PoolVolume>>;

    /// Creates a volume of at least `size` bytes. An earlier call may have left the volume incomplete, and nothing
    /// tells an incomplete volume from a complete one. So an existing volume of this name is removed first, and its
    /// space counts as free. Nobody may use the volume before the last of these calls has succeeded.
    async fn create_volume(&self, name: &str, size: u64, content: &VolumeContent) -> DriverResult<()>;

    async fn delete_volume(&self, name: &str) -> DriverResult<()>;

    /// Enlarges a volume. `user` is the guest that uses it and sees the new size at once.
    async fn resize_volume(&self, name: &str, size: u64, user: Option<InstanceId>) -> DriverResult<()>;

    /// Reads all bytes as a guest sees them. `user` as in [`VolumeContent::Copy`].
    async fn read_volume(&self, name: &str, user: Option<InstanceId>) -> DriverResult<ByteStream>;
}
