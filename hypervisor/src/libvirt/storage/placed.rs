//! Copies of disks in the storage of the image service. The storage itself makes such a copy, without a transfer.
//! Chronova only reads the copy to compute its hash.

use chronova_events::ids::ImageId;

use super::{HostStorage, StoredDisk};
use crate::driver::DriverResult;

/// A back end with a storage that the image service may also use. The steps are idempotent.
pub(in crate::libvirt) trait PlacedCopies: Sync {
    /// Whether this disk and the images are in one storage.
    fn may_place(&self, site: HostStorage<'_>, disk: &StoredDisk) -> DriverResult<bool>;
    /// Keeps the disk's content of this moment.
    fn take(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<()>;
    /// Makes the copy from the content that [`Self::take`] has kept. The copy does not depend on the disk.
    fn place(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<()>;
    /// The URL of a complete copy.
    fn placed(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<Option<String>>;
    /// The SHA-512 of a complete copy.
    fn digest(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<String>;
    /// Removes the copy, complete or not.
    fn unplace(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<()>;
    /// Like [`Self::unplace`], for a disk that was removed meanwhile.
    fn unplace_of_none(&self, site: HostStorage<'_>, copy: ImageId) -> DriverResult<()>;
}
