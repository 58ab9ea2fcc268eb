//! Copies of the image in QEMU's format that need no other file: `images_type = whole`.

use super::{HostStorage, ImageBackend, StoredDisk, VolumeToCreate, copy_image, volume_xml};
use crate::domain_xml::DiskSource;
use crate::driver::DriverResult;
use crate::guest::ImageRef;
use crate::libvirt::pool;
use crate::options::{ImagesType, LibvirtOptions};

/// The suffix that tells these files from those of other back ends.
const SUFFIX: &str = ".whole";

pub(super) struct Whole;

impl ImageBackend for Whole {
    fn kind(&self) -> ImagesType {
        ImagesType::Whole
    }

    fn is_raw(&self) -> bool {
        false
    }

    fn directory(&self, options: &LibvirtOptions) -> Option<String> {
        Some(options.pool_path.clone())
    }

    fn for_raw(&self) -> Option<&'static dyn ImageBackend> {
        Some(&super::flat::Flat)
    }

    fn volume(&self, disk: &str) -> String {
        format!("{disk}{SUFFIX}")
    }

    fn disk<'v>(&self, volume: &'v str) -> Option<&'v str> {
        volume.strip_suffix(SUFFIX)
    }

    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource {
        DiskSource::File { path: format!("{}/{volume}", options.pool_path), format: "qcow2" }
    }

    fn make(&self, _: HostStorage<'_>, wanted: &VolumeToCreate<'_>) -> DriverResult<()> {
        pool::ensure_disk(wanted.pool, wanted.volume, wanted.capacity, None)
    }

    fn fill(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>, image: &ImageRef) -> DriverResult<()> {
        let VolumeToCreate { pool, volume, capacity } = *wanted;
        let made = copy_image(site, pool, &volume_xml(volume, capacity, 0, "qcow2"), image)?;
        let disk = StoredDisk { backend: &Self, pool: pool.clone(), volume: made, name: volume.to_owned() };
        disk.grow(site, capacity)
    }
}
