//! The volumes of the volume service, kept in a storage pool of a host.
//!
//! A volume and a snapshot are each one whole volume of the pool: a snapshot is a copy, so that neither depends on the
//! other and either can go first. Names are given by [`crate::volumes::volume`] and [`crate::volumes::snapshot`].
//!
//! Every call is idempotent under the name: what is there already in the size asked for is success, what is gone is gone.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::{ByteStream, DriverResult};
use crate::guest::ImageRef;

/// The first content of a new volume.
#[derive(Debug, Clone, PartialEq)]
pub enum VolumeContent {
    Blank,
    /// An image that is in the host's cache already.
    Image(ImageRef),
    /// Another volume of the pool, as it is at a moment during the call. `user`: the guest that may be writing to it.
    Copy {
        of: String,
        user: Option<InstanceId>,
    },
}

/// The pool's room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    /// Its name in libvirt.
    pub name: String,
    /// How its volumes are encoded: `qcow2` or `raw`.
    pub format: String,
    pub capacity: u64,
    pub free: u64,
}

/// One volume of the pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolVolume {
    pub name: String,
    /// Bytes that a guest sees.
    pub size: u64,
}

/// The pool of one host.
#[async_trait]
pub trait VolumeStore: Send + Sync {
    /// The pool, made where it is not there yet.
    async fn volume_pool(&self) -> DriverResult<PoolStatus>;

    /// Every volume of the volume service in the pool.
    async fn volumes(&self) -> DriverResult<Vec<PoolVolume>>;

    /// Makes a volume of at least `size` bytes. A volume that an earlier call left half done is made again, so nobody may use the
    /// volume before this call has succeeded once.
    async fn create_volume(&self, name: &str, size: u64, content: &VolumeContent) -> DriverResult<()>;

    async fn delete_volume(&self, name: &str) -> DriverResult<()>;

    /// Makes a volume larger; `user`: the guest that has it, which sees its new size at once.
    async fn resize_volume(&self, name: &str, size: u64, user: Option<InstanceId>) -> DriverResult<()>;

    /// The bytes that a guest reads from it, from first to last; `user` as in [`VolumeContent::Copy`].
    async fn read_volume(&self, name: &str, user: Option<InstanceId>) -> DriverResult<ByteStream>;
}
