//! Attaches volumes to existing guests, detaches them and swaps them. A disk is named by its key
//! ([`VolumeDisk::key`]).

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::guest::VolumeDisk;

#[async_trait]
pub trait VolumeAttachment: Send + Sync {
    /// Attaches a volume to the guest as a disk. A running guest gets the disk at once, and every guest gets it at each
    /// later start. Succeeds if the volume is already attached.
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()>;
    /// Detaches the disk with this key. The driver asks a running guest several times to release the volume.
    /// `Failed`: the guest did not release it. Succeeds if the guest has no such volume.
    async fn detach_disk(&self, instance: InstanceId, key: &str) -> DriverResult<()>;
    /// Copies the disk `old` to the volume `new`, and then gives the running guest `new` instead of `old`. `new` must
    /// not be smaller. Succeeds if the guest already has `new`.
    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()>;
    /// Ends an unfinished copy that [`swap_disk`](Self::swap_disk) began for the disk `old`; the guest keeps `old`.
    /// Succeeds if no such copy runs.
    async fn abandon_swap(&self, instance: InstanceId, old: &str) -> DriverResult<()>;
    /// Tells the running guest that the disk with this key has `size` bytes. Does nothing if the guest is off.
    /// `Failed`: the guest has no such volume. Succeeds if the guest knows the size.
    async fn resize_disk(&self, instance: InstanceId, key: &str, size: u64) -> DriverResult<()>;
    /// The keys of the guest's volumes at its next start, sorted.
    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>>;
}
