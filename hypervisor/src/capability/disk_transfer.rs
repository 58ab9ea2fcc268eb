//! Disks that go to another host or to another name: the driver reads them, writes them, and defines a guest over disks
//! that exist.
//!
//! Nothing of ours is on a host, so disks travel through the control plane. They travel as what they are: a copy-on-write
//! file stays one, and what it is based on is in the cache of the destination already; of any other disk the bytes that the
//! guest sees.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::{ByteStream, DriverResult};
use crate::guest::{GuestSpec, ImageRef};

/// The prefix, after the guest's id, in the names of disks that are set aside.
pub(crate) const KEPT: &str = "_kept";

/// A guest's disk, as something that can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFile {
    /// The part of the volume's name after the guest's id: `_disk`, `_disk.swap`.
    pub suffix: String,
    /// Bytes that are sent.
    pub size: u64,
    /// Bytes that the guest sees.
    pub capacity: u64,
    /// Whether what is sent is what the guest sees; else it is a copy-on-write file.
    pub raw: bool,
}

impl DiskFile {
    /// Whether it is what a disk was before a move on the same host, set aside until the move is confirmed.
    pub fn is_kept(&self) -> bool {
        self.suffix.starts_with(KEPT)
    }

    /// The same content under the name of what is set aside.
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
    /// The files of a guest's disks, those set aside included; not what is made again wherever a guest is defined (config
    /// drive, console log).
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>>;
    /// The bytes of a disk that nobody writes.
    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream>;
    /// The cached content of an image, as it was uploaded: the image itself may be deleted while disks are based on it.
    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream>;
    /// Makes a disk with exactly this content; one of that name is replaced. The guest is off or not defined.
    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, content: ByteStream) -> DriverResult<()>;
    /// Removes a disk; gone already is success.
    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()>;
    /// Makes the disks of a guest that is not defined; those that are there are leftovers, and thrown away. Nothing where it
    /// is defined.
    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()>;
    /// Defines the guest over the disks that are there, replaces an earlier definition, and starts it if `on`. Disks
    /// grow to the sizes in the specification; missing ones are made, except the root. A running guest is success.
    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_is_known_by_its_name() {
        let disk = DiskFile { suffix: "_disk.eph0".to_owned(), size: 1, capacity: 2, raw: false };
        assert!(!disk.is_kept());
        assert!(disk.kept().is_kept());
        assert_eq!(disk.kept().unkept(), disk);
    }
}
