//! Raw files without a backing file: `images_type = raw` or `flat`.
//!
//! libvirt detects the format of a file from its first bytes. The guest writes the first bytes of a raw file. Before
//! libvirt interprets the content of such a file, the code checks the format that libvirt detects (`snapshot`).

use virt_sys as sys;

use super::{HostStorage, ImageBackend, StoredDisk, VolumeToCreate, copy_image, volume_xml};
use crate::domain_xml::DiskSource;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{ImageFormat, ImageRef};
use crate::libvirt::error::Context;
use crate::libvirt::pool;
use crate::options::{ImagesType, LibvirtOptions};

/// The suffix of raw disks in the directory. Copy-on-write files have no suffix.
const SUFFIX: &str = ".raw";

pub(super) struct Flat;

/// Grows the disk to its size, and allocates all its space in the file system if preallocation is configured.
fn settle(site: HostStorage<'_>, disk: &StoredDisk, capacity: u64) -> DriverResult<()> {
    let now = disk.capacity()?;
    let flags = if site.options.images.preallocate { sys::VIR_STORAGE_VOL_RESIZE_ALLOCATE } else { 0 };
    if now >= capacity && flags == 0 {
        return Ok(());
    }
    disk.volume.resize(capacity.max(now), flags).during("grow disk")?;
    match disk.capacity()? < capacity {
        true => {
            let message = "libvirt detected another format in the raw file".to_owned();
            Err(DriverError::Failed { call: "grow disk", message })
        }
        false => Ok(()),
    }
}

impl ImageBackend for Flat {
    fn kind(&self) -> ImagesType {
        ImagesType::Flat
    }

    fn format_is_guessed(&self) -> bool {
        true
    }

    fn is_blank(&self, options: &LibvirtOptions) -> bool {
        !options.images.preallocate
    }

    fn directory(&self, options: &LibvirtOptions) -> Option<String> {
        Some(options.pool_path.clone())
    }

    fn keeps_format(&self, options: &LibvirtOptions, image: &ImageRef) -> bool {
        options.images.keep_format && image.format == ImageFormat::Qcow2
    }

    fn volume(&self, disk: &str) -> String {
        format!("{disk}{SUFFIX}")
    }

    fn disk<'v>(&self, volume: &'v str) -> Option<&'v str> {
        volume.strip_suffix(SUFFIX)
    }

    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource {
        DiskSource::File { path: format!("{}/{volume}", options.pool_path), format: "raw" }
    }

    fn make(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>) -> DriverResult<()> {
        let VolumeToCreate { pool, volume, capacity } = *wanted;
        let allocation = if site.options.images.preallocate { capacity } else { 0 };
        pool::create(pool, &volume_xml(volume, capacity, allocation, "raw")).map(drop)
    }

    fn fill(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>, image: &ImageRef) -> DriverResult<()> {
        let VolumeToCreate { pool, volume, capacity } = *wanted;
        let made = copy_image(site, pool, &volume_xml(volume, capacity, 0, "raw"), image)?;
        let disk = StoredDisk { backend: &Self, pool: pool.clone(), volume: made, name: volume.to_owned() };
        settle(site, &disk, capacity)
    }

    fn grow(&self, site: HostStorage<'_>, disk: &StoredDisk, capacity: u64) -> DriverResult<()> {
        settle(site, disk, capacity)
    }
}
