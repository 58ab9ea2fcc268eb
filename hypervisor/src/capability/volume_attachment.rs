//! Volumes that a guest gets, loses or exchanges after it was created.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::guest::VolumeDisk;

#[async_trait]
pub trait VolumeAttachment: Send + Sync {
    /// Gives the guest a volume as one more disk: at once if it is on, and at every later start. Attached already is
    /// success.
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()>;
    /// Takes the volume with this serial from the guest. A running guest must release it, and is asked several times:
    /// `Failed` says that it did not. Gone already is success.
    async fn detach_disk(&self, instance: InstanceId, serial: &str) -> DriverResult<()>;
    /// Copies the volume `old` to `new`, which is not smaller, and gives the running guest `new` in its place. `new`
    /// there already is success.
    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()>;
    /// The serials of the volumes that the guest has at its next start, sorted.
    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>>;
}
