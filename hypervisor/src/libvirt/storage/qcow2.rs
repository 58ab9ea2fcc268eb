//! Copy-on-write files over the cached image: `images_type = qcow2`.

use super::{HostStorage, ImageBackend, VolumeToCreate, copy_image, volume_xml};
use crate::domain_xml::DiskSource;
use crate::driver::DriverResult;
use crate::guest::ImageRef;
use crate::libvirt::cached_image::format_name;
use crate::libvirt::pool::{self, BackingStore};
use crate::options::{ImagesType, LibvirtOptions};
use crate::volumes;

pub(super) struct Qcow2;

impl ImageBackend for Qcow2 {
    fn kind(&self) -> ImagesType {
        ImagesType::Qcow2
    }

    fn is_raw(&self) -> bool {
        false
    }

    fn copies_image(&self) -> bool {
        false
    }

    fn directory(&self, options: &LibvirtOptions) -> Option<String> {
        Some(options.pool_path.clone())
    }

    fn for_raw(&self) -> Option<&'static dyn ImageBackend> {
        Some(&super::flat::Flat)
    }

    fn disk<'v>(&self, volume: &'v str) -> Option<&'v str> {
        (!super::is_claimed(volume, self.kind())).then_some(volume)
    }

    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource {
        DiskSource::File { path: format!("{}/{volume}", options.pool_path), format: "qcow2" }
    }

    fn make(&self, _: HostStorage<'_>, wanted: &VolumeToCreate<'_>) -> DriverResult<()> {
        pool::ensure_disk(wanted.pool, wanted.volume, wanted.capacity, None)
    }

    fn fill(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>, image: &ImageRef) -> DriverResult<()> {
        let path = format!("{}/{}", site.options.pool_path, volumes::base(image));
        let backing = BackingStore { path, format: format_name(image.format) };
        pool::ensure_disk(wanted.pool, wanted.volume, wanted.capacity, Some(&backing))
    }
}

/// Creates a file in the image's own format without a backing file, like Nova's `flat` without `force_raw_images`.
pub(super) fn whole(site: HostStorage<'_>, disk: &str, capacity: u64, image: &ImageRef) -> DriverResult<()> {
    let pool = Qcow2.pool(site)?;
    let volume = copy_image(site, &pool, &volume_xml(disk, capacity, 0, "qcow2"), image)?;
    let grown = super::StoredDisk { backend: &Qcow2, pool, volume, name: disk.to_owned() };
    grown.grow(site, capacity)
}
