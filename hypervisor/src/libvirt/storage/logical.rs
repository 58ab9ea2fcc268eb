//! Logical volumes: `images_type = lvm`.
//!
//! libvirt's logical pools create, list and remove volumes. They can neither resize nor rename a volume. So a volume
//! grows by being copied to a larger one and back. `NAME.larger` is complete as long as `NAME` is missing or has the
//! same size.

use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt_sys as sys;

use super::{HostStorage, ImageBackend, StoredDisk, VolumeToCreate, copy_image, open_apart, volume_xml};
use crate::domain_xml::DiskSource;
use crate::driver::DriverResult;
use crate::guest::ImageRef;
use crate::libvirt::error::Context;
use crate::libvirt::{pool, sparse};
use crate::options::{ImagesType, LibvirtOptions, VolumeClear};
use crate::xml::Element;

/// The initial allocation of a sparse volume in bytes, as in Nova.
const SPARSE_ROOM: u64 = 64 << 20;
const LARGER: &str = ".larger";
const MIB: u64 = 1 << 20;

pub(super) struct Logical;

fn group(options: &LibvirtOptions) -> &str {
    options.images.volume_group.as_deref().unwrap_or_default()
}

fn pool_name(options: &LibvirtOptions, group: &str) -> String {
    format!("{}-lvm-{group}", options.pool_name)
}

pub(super) fn pool_xml(options: &LibvirtOptions, group: &str) -> Element {
    let source =
        Element::new("source").child(Element::leaf("name", group)).child(Element::new("format").attr("type", "lvm2"));
    Element::new("pool")
        .attr("type", "logical")
        .child(Element::leaf("name", pool_name(options, group)))
        .child(source)
        .child(Element::new("target").child(Element::leaf("path", format!("/dev/{group}"))))
}

pub(super) fn blank_xml(options: &LibvirtOptions, volume: &str, capacity: u64) -> String {
    let allocation = if options.images.sparse_logical_volumes { SPARSE_ROOM.min(capacity) } else { capacity };
    volume_xml(volume, capacity, allocation, "raw")
}

fn remove(pool: &StoragePool, name: &str) -> DriverResult<()> {
    match pool::lookup(pool, name)? {
        Some(volume) => pool::delete(&volume),
        None => Ok(()),
    }
}

fn copy(pool: &StoragePool, xml: &str, of: &StorageVol) -> DriverResult<StorageVol> {
    StorageVol::create_xml_from(pool, xml, of, 0).during("grow disk")
}

impl ImageBackend for Logical {
    fn kind(&self) -> ImagesType {
        ImagesType::Lvm
    }

    fn directory(&self, options: &LibvirtOptions) -> Option<String> {
        options.images.volume_group.as_deref().map(|group| format!("/dev/{group}"))
    }

    fn is_apart(&self) -> bool {
        true
    }

    /// As in Nova, a configured volume group may have disks from the time when `images_type` was `lvm`.
    fn is_set_up(&self, options: &LibvirtOptions) -> bool {
        options.images.volume_group.is_some()
    }

    fn pool(&self, site: HostStorage<'_>) -> DriverResult<StoragePool> {
        let group = group(site.options);
        let setting = format!("[libvirt] images_volume_group names the volume group {group}");
        open_apart(site.connect, &pool_name(site.options, group), &pool_xml(site.options, group), &setting)
    }

    fn disk<'v>(&self, volume: &'v str) -> Option<&'v str> {
        (!volume.ends_with(LARGER)).then_some(volume)
    }

    /// An interrupted growth leaves two volumes. The complete one is the disk.
    fn lookup(&self, site: HostStorage<'_>, pool: &StoragePool, volume: &str) -> DriverResult<Option<StorageVol>> {
        let found = pool::lookup(pool, volume)?;
        let Some(larger) = pool::lookup(pool, &format!("{volume}{LARGER}"))? else { return Ok(found) };
        let size = |volume: &StorageVol| Ok(volume.info().during("disk size")?.capacity);
        let capacity = size(&larger)?;
        if let Some(found) = found {
            if size(&found)? < capacity {
                return Ok(Some(found));
            }
            pool::delete(&found)?;
        }
        let whole = copy(pool, &blank_xml(site.options, volume, capacity), &larger)?;
        self.clear(site, &larger)?;
        pool::delete(&larger)?;
        Ok(Some(whole))
    }

    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource {
        DiskSource::Block { path: format!("/dev/{}/{volume}", group(options)) }
    }

    fn make(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>) -> DriverResult<()> {
        pool::create(wanted.pool, &blank_xml(site.options, wanted.volume, wanted.capacity)).map(drop)
    }

    fn fill(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>, image: &ImageRef) -> DriverResult<()> {
        let xml = blank_xml(site.options, wanted.volume, wanted.capacity);
        copy_image(site, wanted.pool, &xml, image).map(drop)
    }

    fn grow(&self, site: HostStorage<'_>, disk: &StoredDisk, capacity: u64) -> DriverResult<()> {
        let (pool, xml) = (&disk.pool, |name: &str| blank_xml(site.options, name, capacity));
        let larger = format!("{}{LARGER}", disk.name);
        remove(pool, &larger)?;
        let whole = copy(pool, &xml(&larger), &disk.volume)?;
        disk.remove(site)?;
        copy(pool, &xml(&disk.name), &whole)?;
        self.clear(site, &whole)?;
        pool::delete(&whole)
    }

    /// Clears a volume as configured by Nova's `volume_clear`.
    fn clear(&self, site: HostStorage<'_>, volume: &StorageVol) -> DriverResult<()> {
        let images = &site.options.images;
        // Unwritten parts of a sparse volume have no allocated space to wipe, and libvirt refuses to wipe such a
        // volume.
        if images.clear == VolumeClear::None || images.sparse_logical_volumes {
            return Ok(());
        }
        let size = pool::physical_size(volume)?;
        let part = if images.clear_mib == 0 { size } else { size.min(images.clear_mib.saturating_mul(MIB)) };
        match images.clear {
            VolumeClear::Shred if part == size => {
                volume.wipe_pattern(sys::VIR_STORAGE_VOL_WIPE_ALG_NNSA, 0).during("clear disk")
            }
            _ if part == size => volume.wipe(0).during("clear disk"),
            _ => sparse::write_zeros(site.connect, volume, part),
        }
    }

    /// Every host has a volume group of its own, even if the names are equal.
    fn shared(&self, _: HostStorage<'_>) -> DriverResult<Option<StoragePool>> {
        Ok(None)
    }
}
