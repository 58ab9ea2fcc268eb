//! Logical volumes: `images_type = lvm`.
//!
//! libvirt's logical pools create, list and remove volumes. They can neither resize nor rename a volume. So a volume
//! grows by being copied to a larger one and back. The mark `NAME.larger.complete` exists from the end of the first
//! copy to the end of the second. While the mark exists, `NAME.larger` is the disk. Without the mark, `NAME` is the
//! disk, even if an interrupted growth has left a `NAME.larger`.

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
use crate::volumes;
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

fn larger(volume: &str) -> String {
    format!("{volume}{LARGER}")
}

/// The mark: while this volume exists, the larger volume is the disk.
fn mark(volume: &str) -> String {
    volumes::complete(&larger(volume))
}

fn remove_mark(pool: &StoragePool, volume: &str) -> DriverResult<()> {
    match pool::lookup(pool, &mark(volume))? {
        Some(mark) => pool::delete(&mark),
        None => Ok(()),
    }
}

fn capacity(volume: &StorageVol) -> DriverResult<u64> {
    Ok(volume.info().during("disk size")?.capacity)
}

fn copy(pool: &StoragePool, xml: &str, of: &StorageVol) -> DriverResult<StorageVol> {
    StorageVol::create_xml_from(pool, xml, of, 0).during("grow disk")
}

impl Logical {
    fn remove(&self, site: HostStorage<'_>, volume: &StorageVol) -> DriverResult<()> {
        self.clear(site, volume)?;
        pool::delete(volume)
    }

    /// Creates the disk from its complete larger copy, and then removes that copy.
    fn copy_back(
        &self,
        site: HostStorage<'_>,
        pool: &StoragePool,
        volume: &str,
        larger: &StorageVol,
    ) -> DriverResult<StorageVol> {
        let whole = copy(pool, &blank_xml(site.options, volume, capacity(larger)?), larger)?;
        // Clearing takes long and destroys the copy, so the mark is removed first.
        remove_mark(pool, volume)?;
        self.remove(site, larger)?;
        Ok(whole)
    }
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

    /// As in Nova, a configured volume group may still have disks that were created when `images_type` was `lvm`.
    fn is_set_up(&self, options: &LibvirtOptions) -> bool {
        options.images.volume_group.is_some()
    }

    fn pool(&self, site: HostStorage<'_>) -> DriverResult<StoragePool> {
        let group = group(site.options);
        let setting = format!("[libvirt] images_volume_group names the volume group {group}");
        open_apart(site.connect, &pool_name(site.options, group), &pool_xml(site.options, group), &setting)
    }

    fn disk<'v>(&self, volume: &'v str) -> Option<&'v str> {
        (!volume.contains(LARGER)).then_some(volume)
    }

    /// Completes a growth that was interrupted after its first copy. Removes the larger copy if the growth was
    /// interrupted after its second copy.
    fn lookup(&self, site: HostStorage<'_>, pool: &StoragePool, volume: &str) -> DriverResult<Option<StorageVol>> {
        let found = pool::lookup(pool, volume)?;
        let Some(larger) = pool::lookup(pool, &larger(volume))? else { return Ok(found) };
        if pool::lookup(pool, &mark(volume))?.is_some() {
            if let Some(found) = found {
                self.remove(site, &found)?;
            }
            return self.copy_back(site, pool, volume, &larger).map(Some);
        }
        // A smaller disk may be growing at this moment.
        if let Some(found) = &found
            && capacity(found)? >= capacity(&larger)?
        {
            self.remove(site, &larger)?;
        }
        Ok(found)
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
        let pool = &disk.pool;
        remove_mark(pool, &disk.name)?;
        if let Some(leftover) = pool::lookup(pool, &larger(&disk.name))? {
            self.remove(site, &leftover)?;
        }
        let larger = copy(pool, &blank_xml(site.options, &larger(&disk.name), capacity), &disk.volume)?;
        pool::create(pool, &blank_xml(site.options, &mark(&disk.name), MIB))?;
        disk.remove(site)?;
        self.copy_back(site, pool, &disk.name, &larger).map(drop)
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

    /// Hosts never share a volume group, even if their volume groups have the same name.
    fn shared(&self, _: HostStorage<'_>) -> DriverResult<Option<StoragePool>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use virt::connect::Connect;

    use super::*;

    const DISK: &str = "UUID_disk";
    /// The allocation of the volumes that the test creates. The back end allocates the whole capacity of a volume. So
    /// the allocation tells the volumes apart. Their content does not, because libvirt's mock host copies no bytes.
    const ALLOCATED: u64 = 512;

    fn own(pool: &StoragePool, name: &str, capacity: u64) -> StorageVol {
        pool::create(pool, &volume_xml(name, capacity, ALLOCATED, "raw")).unwrap()
    }

    fn sizes(volume: &StorageVol) -> (u64, u64) {
        let info = volume.info().unwrap();
        (info.capacity, info.allocation)
    }

    fn options(clear: VolumeClear) -> LibvirtOptions {
        let mut options = LibvirtOptions { pool_name: "growth".to_owned(), ..LibvirtOptions::default() };
        options.images.volume_group = Some("vg".to_owned());
        options.images.clear = clear;
        options
    }

    /// The mock host cannot clear a volume. So a growth with `volume_clear` stops there, as in a crash.
    #[test]
    fn an_interrupted_growth_never_replaces_the_disk_by_a_cleared_copy() {
        let connect = Connect::open(Some("test:///default")).unwrap();
        let (keeping, clearing) = (options(VolumeClear::None), options(VolumeClear::Zero));
        let (site, stopped) = (HostStorage::new(&connect, &keeping), HostStorage::new(&connect, &clearing));
        let pool = Logical.pool(site).unwrap();
        let found = |site| Logical.lookup(site, &pool, DISK);
        let names = || {
            let mut names = pool::names(&pool).unwrap();
            names.sort();
            names
        };

        own(&pool, DISK, 2 * MIB);
        own(&pool, &larger(DISK), 4 * MIB);
        let disk = found(site).unwrap().unwrap();
        assert_eq!(sizes(&disk), (2 * MIB, ALLOCATED), "an incomplete copy replaced the disk");
        pool::delete(&pool::lookup(&pool, &larger(DISK)).unwrap().unwrap()).unwrap();

        let disk = StoredDisk { backend: &Logical, pool: pool.clone(), volume: disk, name: DISK.to_owned() };
        assert!(Logical.grow(stopped, &disk, 4 * MIB).is_err());
        assert_eq!(names(), [DISK.to_owned(), larger(DISK), mark(DISK)], "the growth must keep the mark");
        assert_eq!(sizes(&found(site).unwrap().unwrap()), (4 * MIB, 4 * MIB), "the disk is not the complete copy");
        assert_eq!(names(), [DISK]);

        pool::delete(&found(site).unwrap().unwrap()).unwrap();
        own(&pool, DISK, 4 * MIB);
        own(&pool, &larger(DISK), 4 * MIB);
        assert!(found(stopped).is_err(), "the lookup must fail, because it cannot clear the copy");
        assert_eq!(sizes(&found(site).unwrap().unwrap()), (4 * MIB, ALLOCATED), "a cleared copy replaced the disk");
        assert_eq!(names(), [DISK]);

        let volume = found(site).unwrap().unwrap();
        let disk = StoredDisk { backend: &Logical, pool: pool.clone(), volume, name: DISK.to_owned() };
        Logical.grow(site, &disk, 8 * MIB).unwrap();
        assert_eq!(sizes(&found(site).unwrap().unwrap()), (8 * MIB, 8 * MIB));
        assert_eq!(names(), [DISK]);
    }

    #[test]
    fn the_larger_copy_and_its_mark_are_no_disks() {
        assert_eq!(Logical.disk(DISK), Some(DISK));
        assert_eq!((Logical.disk(&larger(DISK)), Logical.disk(&mark(DISK))), (None, None));
    }
}
