//! Moves disks to another host or to another name. For this, the driver reads and writes disks, and defines a guest
//! over existing disks.
//!
//! Hosts run no program of ours, so disks go through the control plane. A copy-on-write file is sent unchanged, because
//! its base image is already in the cache of the destination. Any other disk is sent as the bytes that the guest sees.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::{ByteStream, DriverResult};
use crate::guest::{GuestSpec, ImageRef};

/// The name of a disk that is set aside has this text after the guest's id.
pub(crate) const KEPT: &str = "_kept";

/// A guest's disk in the form in which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFile {
    /// The part of the volume's name after the guest's id, for example `_disk` or `_disk.swap`.
    pub suffix: String,
    /// The number of bytes that are sent.
    pub size: u64,
    /// The number of bytes that the guest sees.
    pub capacity: u64,
    /// True: the bytes that the guest sees are sent. False: the copy-on-write file is sent.
    pub raw: bool,
}

impl DiskFile {
    /// Whether the disk is a copy that a move set aside for a revert.
    pub fn is_kept(&self) -> bool {
        self.suffix.starts_with(KEPT)
    }

    /// The same content under the name of a disk that is set aside.
    #[must_use]
    pub fn kept(&self) -> Self {
        Self { suffix: format!("{KEPT}{}", self.suffix), ..self.clone() }
    }

    /// The same content under the name of the disk itself.
    #[must_use]
    pub fn unkept(&self) -> Self {
        Self { suffix: self.suffix.strip_prefix(KEPT).unwrap_or(&self.suffix).to_owned(), ..self.clone() }
    }
}

#[async_trait]
pub trait DiskTransfer: Send + Sync {
    /// The files of a guest's disks, including those set aside. Files that every host creates for itself (config drive,
    /// console log) are not listed.
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>>;
    /// Reads a disk that no guest writes to.
    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream>;
    /// Reads the uploaded content of an image from the host's cache. The image service may have deleted the image,
    /// although disks are still based on it.
    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream>;
    /// Writes a disk with exactly this content over any disk of that name. The guest is off or not defined.
    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, content: ByteStream) -> DriverResult<()>;
    /// Removes a disk. Succeeds if there is none.
    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()>;
    /// Creates the disks of a guest that is not defined. Existing disks are leftovers and are replaced. Does nothing if
    /// the guest is defined.
    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()>;
    /// Defines the guest over its existing disks in place of an earlier definition, and starts it if `on`. Disks grow
    /// to the sizes in the specification. A missing root disk is an error; other missing disks are created. If the
    /// guest already runs, the call succeeds if `on` is true, and fails otherwise.
    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_set_aside_is_recognised_by_its_name() {
        let disk = DiskFile { suffix: "_disk.eph0".to_owned(), size: 1, capacity: 2, raw: false };
        assert!(!disk.is_kept());
        assert!(disk.kept().is_kept());
        assert_eq!(disk.kept().unkept(), disk);
    }
}
