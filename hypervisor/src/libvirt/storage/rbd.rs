//! Images in a Ceph pool: `images_type = rbd`.
//!
//! libvirt creates, grows and removes images of a Ceph pool. It can neither clone an image of another pool nor write a
//! content into its pool. So [`CephPrograms`] do this beside Chronova:
//!
//! | image | disk |
//! |---|---|
//! | raw, and the image service stores it in this cluster | a copy-on-write clone; no byte is transferred |
//! | any other | a copy of the image in the host's cache |
//!
//! A file in the host's cache (`UUID.parent`) names the snapshot that disks of an image are cloned from. Each
//! `ensure_image` looks for the snapshot again, so the file is never older than the last preparation of a disk.
//!
//! Several hosts use the pool. libvirt's list of a pool is as old as its last refresh, so Ceph itself says whether a disk
//! exists.

use std::collections::BTreeSet;
use std::io::{self, Write};

use chronova_events::ids::ImageId;
use virt::connect::Connect;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;

use super::ceph::{self, CephPrograms};
use super::placed::PlacedCopies;
use super::{HostStorage, ImageBackend, PASSING, StoredDisk, VolumeToCreate, open_apart, volume_xml};
use crate::ceph_place::{CephPlace, SNAPSHOT};
use crate::checksum::RunningDigest;
use crate::domain_xml::source::host;
use crate::domain_xml::{DiskSource, RbdImage};
use crate::driver::{DriverError, DriverResult};
use crate::guest::{ImageFormat, ImageRef};
use crate::libvirt::error::Context;
use crate::libvirt::sparse::{self, SparsePiece};
use crate::libvirt::{cached_image, pool, secrets};
use crate::options::{ImagesType, LibvirtOptions};
use crate::volumes;
use crate::xml::Element;

/// The size of a host's mark. libvirt refuses an empty image in a Ceph pool.
const MARK: u64 = 4096;
/// The longest name of a snapshot that a parent file holds, in bytes.
const LONGEST: usize = 1024;
/// The length of a SHA-512 in hexadecimal digits.
const SHA512: usize = 128;

pub(super) struct Rbd;

fn pool_name(options: &LibvirtOptions) -> String {
    format!("{}-rbd-{}", options.pool_name, options.images.rbd.pool)
}

pub(super) fn pool_xml(options: &LibvirtOptions) -> Element {
    let rbd = &options.images.rbd;
    let auth = rbd.user.as_ref().map(|user| {
        let secret = rbd.secret.as_ref().map(|uuid| Element::new("secret").attr("uuid", uuid));
        Element::new("auth").attr("type", "ceph").attr("username", user).children(secret)
    });
    let source = Element::new("source")
        .children(rbd.monitors.iter().map(|monitor| host(monitor)))
        .child(Element::leaf("name", &rbd.pool))
        .children(auth);
    Element::new("pool").attr("type", "rbd").child(Element::leaf("name", pool_name(options))).child(source)
}

/// `POOL/IMAGE`.
fn image_name(options: &LibvirtOptions, volume: &str) -> String {
    format!("{}/{volume}", options.images.rbd.pool)
}

/// The snapshot that disks of the image are cloned from, if `ensure_image` has found one.
fn parent(site: HostStorage<'_>, image: &ImageRef) -> DriverResult<Option<String>> {
    let cache = pool::open(site.connect, site.options)?;
    snapshot_in(site, &cache, &volumes::parent(image.id))
}

/// The snapshot that a parent file names.
fn snapshot_in(site: HostStorage<'_>, cache: &StoragePool, file: &str) -> DriverResult<Option<String>> {
    let Some(file) = pool::lookup(cache, file)? else { return Ok(None) };
    let text = pool::tail(site.connect, &file, LONGEST)?;
    Ok(String::from_utf8(text).ok().filter(|name| !name.is_empty()))
}

/// The Ceph pools of the image service with the images from which disks are cloned, except the pool of the disks.
fn pools_of_images(site: HostStorage<'_>) -> DriverResult<BTreeSet<String>> {
    let cache = pool::open(site.connect, site.options)?;
    pool::refresh(&cache);
    let mut pools = BTreeSet::new();
    for file in pool::names(&cache)?.iter().filter(|name| volumes::is_parent(name)) {
        let snapshot = snapshot_in(site, &cache, file)?;
        pools.extend(snapshot.and_then(|snapshot| other_pool(site.options, &snapshot)));
    }
    Ok(pools)
}

/// The pool of the snapshot, unless it is that of the disks.
fn other_pool(options: &LibvirtOptions, snapshot: &str) -> Option<String> {
    let (pool, _) = snapshot.split_once('/')?;
    (pool != options.images.rbd.pool).then(|| pool.to_owned())
}

/// Removes a file that an interrupted copy left, and returns the name for a new one.
fn passing(cache: &StoragePool, volume: &str) -> DriverResult<String> {
    let name = format!("{volume}{PASSING}");
    if let Some(left) = pool::lookup(cache, &name)? {
        pool::delete(&left)?;
    }
    Ok(name)
}

/// Writes the content of a raw file of the host. A hole is written as zeros, which take no space in Ceph.
fn pour(connect: &Connect, file: &StorageVol, size: u64, out: &mut dyn Write) -> DriverResult<()> {
    const CALL: &str = "disk from image";
    let stream = Stream::new(connect, 0).during(CALL)?;
    file.download(&stream, 0, size, virt_sys::VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM).during(CALL)?;
    let broken = |error: io::Error| DriverError::Failed { call: CALL, message: error.to_string() };
    let mut buffer = vec![0_u8; sparse::PIECE];
    let poured = loop {
        let written = match sparse::receive(&stream, &mut buffer, CALL) {
            Ok(SparsePiece::End) => return stream.finish().during(CALL),
            Ok(SparsePiece::Data(received)) => out.write_all(&buffer[..received]).map_err(broken),
            Ok(SparsePiece::Hole(length)) => write_zeros(length, out).map_err(broken),
            Err(error) => Err(error),
        };
        if written.is_err() {
            break written;
        }
    };
    let _ = stream.abort();
    poured
}

fn write_zeros(length: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(sparse::PIECE).min(sparse::PIECE);
        out.write_all(&sparse::ZEROS[..part])?;
        left = left.saturating_sub(part as u64);
    }
    Ok(())
}

/// Gives the bytes of an image or a snapshot to `take`, until it refuses.
fn read_out(
    site: HostStorage<'_>,
    name: &str,
    call: &'static str,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> DriverResult<()> {
    let broken = |error: io::Error| DriverError::Failed { call, message: error.to_string() };
    CephPrograms::of(site.options).export(name, |bytes| {
        let mut buffer = vec![0_u8; sparse::PIECE];
        loop {
            let received = bytes.read(&mut buffer).map_err(broken)?;
            if received == 0 || !take(&buffer[..received]) {
                return Ok(());
            }
        }
    })
}

/// Copies the image from the host's cache into Ceph. An image with a format of its own becomes a raw file first.
fn copy_in(site: HostStorage<'_>, volume: &str, image: &ImageRef) -> DriverResult<()> {
    let (connect, cache) = (site.connect, pool::open(site.connect, site.options)?);
    let base = cached_image::volume(connect, site.options, image)?;
    let programs = CephPrograms::of(site.options);
    let target = image_name(site.options, volume);
    if image.format != ImageFormat::Qcow2 {
        return programs.import(&target, |out| pour(connect, &base, image.size, out));
    }
    let xml = pool::volume_xml(&passing(&cache, volume)?, image.virtual_size, "raw", "0600", None);
    let raw = StorageVol::create_xml_from(&cache, &xml, &base, 0).during("disk from image")?;
    let copied = programs.import(&target, |out| pour(connect, &raw, pool::physical_size(&raw)?, out));
    copied.and(pool::delete(&raw))
}

/// The first snapshot among these places that a disk can be cloned from. It must have the image's size, because a place
/// may be older than the image's data.
fn snapshot_among(options: &LibvirtOptions, image: &ImageRef, places: &[String]) -> DriverResult<Option<String>> {
    let places = CephPlace::of_image(image.id, places);
    if places.is_empty() {
        return Ok(None);
    }
    let programs = CephPrograms::of(options);
    let own = programs.cluster()?;
    for place in places.into_iter().filter(|place| place.cluster == own) {
        if programs.image(&place.name())?.is_some_and(|found| found.size == image.size) {
            return Ok(Some(place.name()));
        }
    }
    Ok(None)
}

impl ImageBackend for Rbd {
    fn kind(&self) -> ImagesType {
        ImagesType::Rbd
    }

    fn shares_disks_alone(&self) -> bool {
        true
    }

    fn directory(&self, _: &LibvirtOptions) -> Option<String> {
        None
    }

    fn is_apart(&self) -> bool {
        true
    }

    fn mark_size(&self) -> u64 {
        MARK
    }

    fn pool(&self, site: HostStorage<'_>) -> DriverResult<StoragePool> {
        let name = pool_name(site.options);
        if !pool::is_open(site.connect, &name)? {
            secrets::provide_for_pool(site.connect, site.options)?;
        }
        let setting = format!("[libvirt] images_rbd_pool names the Ceph pool {}", site.options.images.rbd.pool);
        open_apart(site.connect, &name, &pool_xml(site.options), &setting)
    }

    fn lookup(&self, site: HostStorage<'_>, pool: &StoragePool, volume: &str) -> DriverResult<Option<StorageVol>> {
        if !ceph::is_installed() {
            return pool::lookup(pool, volume);
        }
        if CephPrograms::of(site.options).image(&image_name(site.options, volume))?.is_none() {
            return Ok(None);
        }
        if let Some(found) = pool::lookup(pool, volume)? {
            return Ok(Some(found));
        }
        pool::refresh(pool);
        // libvirt refuses a refresh while a volume is being written. A later attempt succeeds.
        let later = || DriverError::Timeout { call: "volume lookup", seconds: 0 };
        pool::lookup(pool, volume)?.ok_or_else(later).map(Some)
    }

    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource {
        let rbd = &options.images.rbd;
        DiskSource::Rbd(RbdImage {
            name: image_name(options, volume),
            monitors: rbd.monitors.clone(),
            conf: rbd.conf.clone(),
            user: rbd.user.clone(),
            secret: rbd.secret.clone(),
        })
    }

    fn make(&self, _: HostStorage<'_>, wanted: &VolumeToCreate<'_>) -> DriverResult<()> {
        // Another host may have removed a disk that libvirt still lists here.
        if pool::lookup(wanted.pool, wanted.volume)?.is_some() {
            pool::refresh(wanted.pool);
        }
        pool::create(wanted.pool, &volume_xml(wanted.volume, wanted.capacity, 0, "raw")).map(drop)
    }

    fn may_have_image(&self, image: &ImageRef) -> bool {
        image.format == ImageFormat::Raw
    }

    fn adopt_image(&self, site: HostStorage<'_>, image: &ImageRef, places: &[String]) -> DriverResult<bool> {
        let found = match ceph::is_installed() {
            true => snapshot_among(site.options, image, places)?,
            false => None,
        };
        let known = parent(site, image)?;
        let cache = pool::open(site.connect, site.options)?;
        let file = volumes::parent(image.id);
        match (&found, &known) {
            (Some(found), Some(known)) if found == known => {}
            (Some(found), _) => pool::put(site.connect, &cache, &file, found.as_bytes())?,
            (None, Some(_)) => {
                if let Some(file) = pool::lookup(&cache, &file)? {
                    pool::delete(&file)?;
                }
            }
            (None, None) => {}
        }
        Ok(found.is_some())
    }

    fn keeps_image(&self, site: HostStorage<'_>, image: &ImageRef) -> DriverResult<bool> {
        let Some(parent) = parent(site, image)? else { return Ok(false) };
        let found = CephPrograms::of(site.options).image(&parent)?;
        Ok(found.is_some_and(|found| found.size == image.size))
    }

    fn has_image(&self, site: HostStorage<'_>, image: &ImageRef) -> DriverResult<bool> {
        Ok(parent(site, image)?.is_some())
    }

    fn fill(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>, image: &ImageRef) -> DriverResult<()> {
        match parent(site, image)? {
            Some(parent) => {
                CephPrograms::of(site.options).clone_of(&parent, &image_name(site.options, wanted.volume))?;
            }
            None => copy_in(site, wanted.volume, image)?,
        }
        let missing = || DriverError::Failed {
            call: "disk from image",
            message: format!("there is no volume {}", wanted.volume),
        };
        let made = self.lookup(site, wanted.pool, wanted.volume)?.ok_or_else(missing)?;
        match made.info().during("disk size")?.capacity < wanted.capacity {
            true => made.resize(wanted.capacity, 0).during("grow disk"),
            false => Ok(()),
        }
    }

    /// Removes snapshots that an interrupted copy left, because Ceph removes no image with snapshots.
    fn clear(&self, site: HostStorage<'_>, volume: &StorageVol) -> DriverResult<()> {
        if !ceph::is_installed() {
            return Ok(());
        }
        let image = image_name(site.options, &volume.name().during("volume name")?);
        CephPrograms::of(site.options).remove_snapshots(&image)
    }

    /// Ceph removes no image that a client has open. If the client has died, Ceph waits half a minute for it.
    fn delete(&self, site: HostStorage<'_>, volume: &StorageVol) -> DriverResult<()> {
        let rbd = &site.options.images.rbd;
        for _ in 0..rbd.destroy_retries {
            match pool::delete(volume) {
                Err(DriverError::Failed { message, .. }) if message.contains("failed to remove volume") => {
                    ceph::pause(rbd);
                }
                result => return result,
            }
        }
        pool::delete(volume)
    }

    fn as_file(
        &self,
        site: HostStorage<'_>,
        disk: &StoredDisk,
        directory: &StoragePool,
    ) -> DriverResult<Option<StorageVol>> {
        let capacity = disk.capacity()?;
        let file = pool::create_raw(directory, &passing(directory, &disk.name)?, capacity, "0600")?;
        let mut upload = pool::Upload::start_sparse(site.connect, &file, capacity)?;
        let mut sent = Ok(());
        let read = self.read_whole(site, disk, &mut |bytes| {
            sent = upload.send(bytes);
            sent.is_ok()
        });
        let copied = sent.and(read).and_then(|_| upload.finish());
        if copied.is_err() {
            let _ = pool::delete(&file);
        }
        copied.map(|()| Some(file))
    }

    fn placing(&self) -> Option<&dyn PlacedCopies> {
        Some(self)
    }

    fn length(&self, volume: &StorageVol) -> DriverResult<u64> {
        Ok(volume.info().during("disk size")?.capacity)
    }

    fn read_whole(
        &self,
        site: HostStorage<'_>,
        disk: &StoredDisk,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> DriverResult<bool> {
        read_out(site, &image_name(site.options, &disk.name), "read disk", take)?;
        Ok(true)
    }

    fn write_whole(
        &self,
        site: HostStorage<'_>,
        disk: &StoredDisk,
        send: &mut dyn FnMut(&mut dyn Write) -> DriverResult<()>,
    ) -> DriverResult<bool> {
        let (programs, image) = (CephPrograms::of(site.options), image_name(site.options, &disk.name));
        // An import creates its image.
        programs.remove(&image)?;
        programs.import(&image, send)?;
        Ok(true)
    }
}

/// The disk and its copy in Ceph.
struct PlacedNames {
    /// The snapshot of the disk from which the copy is made.
    taken: String,
    /// The image that is the copy; `None`: the disk is no clone of an image.
    copy: Option<String>,
}

/// The pool of the image below a clone is the image service's.
fn placed_names(site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<PlacedNames> {
    let image = image_name(site.options, &disk.name);
    let found = CephPrograms::of(site.options).image(&image)?;
    let pool = found.and_then(|found| found.parent_pool).filter(|pool| *pool != site.options.images.rbd.pool);
    Ok(PlacedNames { taken: format!("{image}@{copy}"), copy: pool.map(|pool| format!("{pool}/{copy}")) })
}

fn no_clone() -> DriverError {
    DriverError::Unsupported("the disk is no clone of an image in this Ceph cluster".to_owned())
}

impl PlacedCopies for Rbd {
    fn may_place(&self, site: HostStorage<'_>, disk: &StoredDisk) -> DriverResult<bool> {
        Ok(ceph::is_installed() && placed_names(site, disk, ImageId::random())?.copy.is_some())
    }

    fn take(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<()> {
        // The snapshot of an earlier attempt is older than this attempt's freeze of the guest.
        self.unplace(site, disk, copy)?;
        CephPrograms::of(site.options).snapshot(&placed_names(site, disk, copy)?.taken)
    }

    fn place(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<()> {
        let names = placed_names(site, disk, copy)?;
        let target = names.copy.ok_or_else(no_clone)?;
        let programs = CephPrograms::of(site.options);
        programs.remove(&target)?;
        programs.clone_of(&names.taken, &target)?;
        programs.flatten(&target)?;
        programs.remove_snapshot(&names.taken)?;
        programs.snapshot(&format!("{target}@{SNAPSHOT}"))
    }

    fn placed(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<Option<String>> {
        if !ceph::is_installed() {
            return Ok(None);
        }
        let Some(target) = placed_names(site, disk, copy)?.copy else { return Ok(None) };
        let programs = CephPrograms::of(site.options);
        match programs.image(&format!("{target}@{SNAPSHOT}"))? {
            Some(_) => {
                // An interruption may have left the snapshot unprotected. Then nobody could clone it.
                programs.snapshot(&format!("{target}@{SNAPSHOT}"))?;
                Ok(Some(format!("rbd://{}/{target}/{SNAPSHOT}", programs.cluster()?)))
            }
            None => Ok(None),
        }
    }

    fn digest(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<String> {
        let target = placed_names(site, disk, copy)?.copy.ok_or_else(no_clone)?;
        let mut digest = RunningDigest::new(&"0".repeat(SHA512));
        read_out(site, &format!("{target}@{SNAPSHOT}"), "read copy", &mut |bytes| {
            digest.update(bytes);
            true
        })?;
        Ok(digest.finish())
    }

    fn unplace(&self, site: HostStorage<'_>, disk: &StoredDisk, copy: ImageId) -> DriverResult<()> {
        // Without the programs there is no copy.
        if !ceph::is_installed() {
            return Ok(());
        }
        let names = placed_names(site, disk, copy)?;
        let programs = CephPrograms::of(site.options);
        if let Some(target) = names.copy {
            programs.remove(&target)?;
        }
        programs.remove_snapshot(&names.taken)
    }

    fn unplace_of_none(&self, site: HostStorage<'_>, copy: ImageId) -> DriverResult<()> {
        if !ceph::is_installed() {
            return Ok(());
        }
        for pool in pools_of_images(site)? {
            CephPrograms::of(site.options).remove(&format!("{pool}/{copy}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_never_looked_for_in_the_pool_of_the_disks() {
        let mut options = LibvirtOptions::default();
        options.images.rbd.pool = "vms".to_owned();
        assert_eq!(other_pool(&options, "images/7a1f6f5c@snap").as_deref(), Some("images"));
        assert_eq!(other_pool(&options, "vms/7a1f6f5c@snap"), None);
        assert_eq!(other_pool(&options, "7a1f6f5c"), None);
        let image = ImageId::random();
        assert!(volumes::is_parent(&volumes::parent(image)));
        assert!(!volumes::is_parent(&image.to_string()) && !volumes::is_parent("of-somebody.parent"));
    }
}
