//! The storage of guests' disks: how disks are created, filled, grown and removed.
//!
//! An image back end is one kind of storage for disks (`[libvirt] images_type`). It consists of a file in this folder
//! and a line in [`BACKENDS`]. The other modules of the driver know only the name of a disk (`UUID_disk`). This module
//! finds the back end that has the disk. The operator's choice applies to new disks. Existing disks stay in their back
//! end.
//!
//! | back end | pool | volume | needs |
//! |---|---|---|---|
//! | [`qcow2`] | directory | `UUID_disk`, a copy-on-write file | the image in the cache as long as the disk exists |
//! | [`flat`] | directory | `UUID_disk.raw` | nothing |
//! | [`logical`] | volume group | `UUID_disk` | nothing |
//! | [`rbd`] | Ceph pool | `UUID_disk`, a clone if the cluster has the image | the image as long as a clone exists |
//!
//! Invariants: a volume's name and pool identify its back end. The content never identifies the back end, because the
//! guest writes the content in all back ends except `qcow2`. The image cache, config drives and console logs are always
//! files of the directory. Copies of disks are such files, too, except those that [`PlacedCopies`] makes. Code outside
//! of this folder never asks which back end a disk has. [`ImageBackend`] has a method for each difference.

mod ceph;
mod flat;
mod logical;
mod placed;
mod qcow2;
mod rbd;

use std::collections::BTreeMap;
use std::io::Write;

use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;

use self::placed::PlacedCopies;
use super::error::Context;
use super::{cached_image, pool};
use crate::domain_xml::DiskSource;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageRef};
use crate::options::{ImagesType, LibvirtOptions};
use crate::volumes;
use crate::xml::Element;

/// The suffix of a temporary raw file in the host's directory. An image is copied into a disk in Ceph through such a
/// file, and a disk in Ceph is copied into such a file for libvirt.
pub(super) const PASSING: &str = ".passing";

/// A host's storage with the options of this process.
#[derive(Clone, Copy)]
pub(super) struct HostStorage<'a> {
    pub(super) connect: &'a Connect,
    pub(super) options: &'a LibvirtOptions,
}

/// One kind of storage for disks.
trait ImageBackend: Sync {
    /// The configured type that selects this back end. No other file compares this type.
    fn kind(&self) -> ImagesType;
    /// Whether the back end stores its disks in a separate pool, instead of as files of the directory.
    fn is_apart(&self) -> bool {
        false
    }
    /// Whether a host may have disks of this back end even if the operator has chosen another back end. By default,
    /// this is true for back ends that store disks in files.
    fn is_set_up(&self, options: &LibvirtOptions) -> bool {
        let _ = options;
        !self.is_apart()
    }
    /// Whether a volume has exactly the bytes that the guest sees, and not a file format of its own.
    fn is_raw(&self) -> bool {
        true
    }
    /// Whether libvirt detects a volume's format from its content, which the guest writes.
    fn format_is_guessed(&self) -> bool {
        false
    }
    /// Whether unwritten parts of a new disk read as zeros and use no space.
    fn is_blank(&self, options: &LibvirtOptions) -> bool {
        let _ = options;
        false
    }
    /// Whether a disk is created by copying its image, which takes longer.
    fn copies_image(&self) -> bool {
        true
    }
    /// Whether hosts share the disks but not a guest's other files (config drive, console log).
    fn shares_disks_alone(&self) -> bool {
        false
    }
    /// The size in bytes of a mark. A mark is a volume that a host creates in a pool, with the host's id in its name.
    /// Hosts find out by their marks that they share the pool.
    fn mark_size(&self) -> u64 {
        0
    }
    /// Whether the back end's storage may have this image already, because the image service stores it there.
    fn may_have_image(&self, image: &ImageRef) -> bool {
        let _ = image;
        false
    }
    /// Looks for the image at the places that the image service names. If the back end's storage has the image, the
    /// host's cache does not need it.
    fn adopt_image(&self, site: HostStorage<'_>, image: &ImageRef, places: &[String]) -> DriverResult<bool> {
        let _ = (site, image, places);
        Ok(false)
    }
    /// Whether the storage still has the image that [`Self::adopt_image`] has found. The driver asks this if the image
    /// service does not answer.
    fn keeps_image(&self, site: HostStorage<'_>, image: &ImageRef) -> DriverResult<bool> {
        let _ = (site, image);
        Ok(false)
    }
    /// Whether [`Self::adopt_image`] has found the image.
    fn has_image(&self, site: HostStorage<'_>, image: &ImageRef) -> DriverResult<bool> {
        let _ = (site, image);
        Ok(false)
    }
    /// The directory on a host that holds the back end's disks; `None`: the disks are not on a host.
    fn directory(&self, options: &LibvirtOptions) -> Option<String>;
    /// The back end that stores raw content when the operator has chosen this back end. A back end with a file format
    /// of its own must name another back end.
    fn for_raw(&self) -> Option<&'static dyn ImageBackend> {
        None
    }
    fn pool(&self, site: HostStorage<'_>) -> DriverResult<StoragePool> {
        pool::open(site.connect, site.options)
    }
    /// The name of the volume of this disk.
    fn volume(&self, disk: &str) -> String {
        disk.to_owned()
    }
    /// The name of the disk in this volume, if the volume belongs to this back end.
    fn disk<'v>(&self, volume: &'v str) -> Option<&'v str> {
        Some(volume)
    }
    fn lookup(&self, site: HostStorage<'_>, pool: &StoragePool, volume: &str) -> DriverResult<Option<StorageVol>> {
        let _ = site;
        pool::lookup(pool, volume)
    }
    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource;
    /// Creates an empty disk.
    fn make(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>) -> DriverResult<()>;
    /// Whether the back end stores this image as a whole copy in the image's own format.
    fn keeps_format(&self, options: &LibvirtOptions, image: &ImageRef) -> bool {
        let _ = (options, image);
        false
    }
    /// Creates a disk with the content of an image.
    fn fill(&self, site: HostStorage<'_>, wanted: &VolumeToCreate<'_>, image: &ImageRef) -> DriverResult<()>;
    fn grow(&self, site: HostStorage<'_>, disk: &StoredDisk, capacity: u64) -> DriverResult<()> {
        let _ = site;
        disk.volume.resize(capacity, 0).during("grow disk")
    }
    /// Erases the content of a disk, so that the next user of its space cannot read it.
    fn clear(&self, site: HostStorage<'_>, volume: &StorageVol) -> DriverResult<()> {
        let _ = (site, volume);
        Ok(())
    }
    fn delete(&self, site: HostStorage<'_>, volume: &StorageVol) -> DriverResult<()> {
        let _ = site;
        pool::delete(volume)
    }
    /// Makes a raw file of the disk in the host's directory, for a copy by libvirt; `None`: libvirt can copy the volume
    /// itself. The caller removes the file.
    fn as_file(
        &self,
        site: HostStorage<'_>,
        disk: &StoredDisk,
        directory: &StoragePool,
    ) -> DriverResult<Option<StorageVol>> {
        let _ = (site, disk, directory);
        Ok(None)
    }
    /// The number of bytes of the volume, as a transfer sends them.
    fn length(&self, volume: &StorageVol) -> DriverResult<u64> {
        pool::physical_size(volume)
    }
    /// Gives the bytes of a disk to `take`, until it refuses. `false`: the caller reads the volume through libvirt.
    fn read_whole(
        &self,
        site: HostStorage<'_>,
        disk: &StoredDisk,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> DriverResult<bool> {
        let _ = (site, disk, take);
        Ok(false)
    }
    /// Replaces the content of a disk by the bytes that `send` writes. `false`: the caller writes the volume through
    /// libvirt.
    fn write_whole(
        &self,
        site: HostStorage<'_>,
        disk: &StoredDisk,
        send: &mut dyn FnMut(&mut dyn Write) -> DriverResult<()>,
    ) -> DriverResult<bool> {
        let _ = (site, disk, send);
        Ok(false)
    }
    /// The part of a back end that makes copies in its storage, if the image service may use the same storage.
    fn placing(&self) -> Option<&dyn PlacedCopies> {
        None
    }
    /// The pool whose marks show which hosts share the disks; `None`: no other host has this host's disks.
    fn shared(&self, site: HostStorage<'_>) -> DriverResult<Option<StoragePool>> {
        self.pool(site).map(Some)
    }
}

/// A volume to create.
struct VolumeToCreate<'a> {
    pool: &'a StoragePool,
    volume: &'a str,
    /// The number of bytes that the guest sees.
    capacity: u64,
}

/// Every back end. A new back end is a file and a line here.
const BACKENDS: &[&dyn ImageBackend] = &[&flat::Flat, &qcow2::Qcow2, &logical::Logical, &rbd::Rbd];

/// An existing disk.
pub(super) struct StoredDisk {
    backend: &'static dyn ImageBackend,
    pub(super) pool: StoragePool,
    pub(super) volume: StorageVol,
    name: String,
}

impl StoredDisk {
    /// Whether the volume has exactly the bytes that the guest sees, and not a file format of its own.
    pub(super) fn is_raw(&self) -> bool {
        self.backend.is_raw()
    }

    /// Whether libvirt detects the format of its file.
    pub(super) fn is_guessed(&self) -> bool {
        self.backend.format_is_guessed()
    }

    /// Whether its unwritten parts read as zeros and use no space.
    pub(super) fn is_blank(&self, options: &LibvirtOptions) -> bool {
        self.backend.is_blank(options)
    }

    pub(super) fn source(&self, options: &LibvirtOptions) -> DiskSource {
        self.backend.source(options, &self.name)
    }

    pub(super) fn capacity(&self) -> DriverResult<u64> {
        // libvirt may read the capacity of a file from its first bytes, which the guest wrote.
        if self.is_guessed() {
            return pool::physical_size(&self.volume);
        }
        // `info` rereads the volume, so that libvirtd does not report a cached value.
        Ok(self.volume.info().during("disk size")?.capacity)
    }

    /// Grows the disk to `wanted` bytes; disks never shrink.
    pub(super) fn grow(&self, site: HostStorage<'_>, wanted: u64) -> DriverResult<()> {
        match self.capacity()? < wanted {
            true => self.backend.grow(site, self, wanted),
            false => Ok(()),
        }
    }

    pub(super) fn placing(&self) -> Option<&'static dyn PlacedCopies> {
        self.backend.placing()
    }

    /// See [`ImageBackend::length`].
    pub(super) fn length(&self) -> DriverResult<u64> {
        self.backend.length(&self.volume)
    }

    /// See [`ImageBackend::read_whole`].
    pub(super) fn read_whole(&self, site: HostStorage<'_>, take: &mut dyn FnMut(&[u8]) -> bool) -> DriverResult<bool> {
        self.backend.read_whole(site, self, take)
    }

    /// See [`ImageBackend::write_whole`].
    pub(super) fn write_whole(
        &self,
        site: HostStorage<'_>,
        send: &mut dyn FnMut(&mut dyn Write) -> DriverResult<()>,
    ) -> DriverResult<bool> {
        self.backend.write_whole(site, self, send)
    }

    /// See [`ImageBackend::as_file`].
    pub(super) fn as_file(&self, site: HostStorage<'_>, directory: &StoragePool) -> DriverResult<Option<StorageVol>> {
        self.backend.as_file(site, self, directory)
    }

    pub(super) fn remove(&self, site: HostStorage<'_>) -> DriverResult<()> {
        self.backend.clear(site, &self.volume)?;
        self.backend.delete(site, &self.volume)
    }
}

fn backend_of(kind: ImagesType) -> &'static dyn ImageBackend {
    BACKENDS.iter().copied().find(|backend| backend.kind() == kind).unwrap_or(&qcow2::Qcow2)
}

/// Whether another back end with files in the directory recognises this volume by its name.
fn is_claimed(volume: &str, by_others_than: ImagesType) -> bool {
    let others = BACKENDS.iter().filter(|backend| !backend.is_apart() && backend.kind() != by_others_than);
    others.into_iter().any(|backend| backend.disk(volume).is_some())
}

/// The back end of new disks.
fn chosen(options: &LibvirtOptions) -> &'static dyn ImageBackend {
    backend_of(options.images.kind)
}

/// Whether this is the back end of new disks.
fn is_chosen(backend: &dyn ImageBackend, options: &LibvirtOptions) -> bool {
    backend.kind() == options.images.kind
}

/// Whether a new disk is created by copying its image, which takes longer.
pub(super) fn copies_whole(options: &LibvirtOptions) -> bool {
    chosen(options).copies_image()
}

/// The pool in which new disks are created.
pub(super) fn pool_of_new_disks(connect: &Connect, options: &LibvirtOptions) -> DriverResult<StoragePool> {
    chosen(options).pool(HostStorage { connect, options })
}

/// The pool in which hosts leave their marks if they share disks.
pub(super) fn shared_pool(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Option<StoragePool>> {
    chosen(options).shared(HostStorage { connect, options })
}

/// The size in bytes of a mark in the [`shared_pool`].
pub(super) fn mark_size(options: &LibvirtOptions) -> u64 {
    chosen(options).mark_size()
}

/// Whether the storage of new disks may have this image already, because the image service stores it there.
pub(super) fn may_have_image(options: &LibvirtOptions, image: &ImageRef) -> bool {
    chosen(options).may_have_image(image)
}

/// The part of the back end of new disks that may make copies in the image service's storage.
pub(super) fn placing(options: &LibvirtOptions) -> Option<&'static dyn PlacedCopies> {
    chosen(options).placing()
}

/// Whether this path is in a directory of our disks on this host. Other hosts may share the directory.
pub(super) fn is_local(options: &LibvirtOptions, path: &str) -> bool {
    let mut places = BACKENDS.iter().filter_map(|backend| backend.directory(options));
    places.any(|place| path.strip_prefix(&place).is_some_and(|rest| rest.starts_with('/')))
}

/// The source in which a new disk of this name is created.
pub(super) fn new_source(options: &LibvirtOptions, disk: &str) -> DiskSource {
    let backend = chosen(options);
    backend.source(options, &backend.volume(disk))
}

/// Whether hosts share disks but not a guest's other files (config drive, console log).
pub(super) fn shares_disks_alone(options: &LibvirtOptions) -> bool {
    chosen(options).shares_disks_alone()
}

impl<'a> HostStorage<'a> {
    pub(super) fn new(connect: &'a Connect, options: &'a LibvirtOptions) -> Self {
        Self { connect, options }
    }

    /// See [`ImageBackend::adopt_image`].
    pub(super) fn adopt_image(self, image: &ImageRef, places: &[String]) -> DriverResult<bool> {
        chosen(self.options).adopt_image(self, image, places)
    }

    /// See [`ImageBackend::keeps_image`].
    pub(super) fn keeps_image(self, image: &ImageRef) -> DriverResult<bool> {
        chosen(self.options).keeps_image(self, image)
    }

    /// Whether new disks can be made from this image: the host's cache has it, or the storage of new disks does.
    pub(super) fn has_image(self, cache: &StoragePool, image: &ImageRef) -> DriverResult<bool> {
        let cached = pool::lookup(cache, &volumes::base_complete(image))?.is_some();
        Ok(cached || chosen(self.options).has_image(self, image)?)
    }

    fn backends(self) -> impl Iterator<Item = &'static dyn ImageBackend> {
        // The chosen back end comes first, because it most likely has the disk.
        let others = BACKENDS.iter().copied().filter(move |backend| !is_chosen(*backend, self.options));
        [chosen(self.options)].into_iter().chain(others.filter(move |backend| backend.is_set_up(self.options)))
    }

    /// The pools other than the directory that may have guests' disks.
    fn pools_apart(self) -> DriverResult<Vec<(&'static dyn ImageBackend, StoragePool)>> {
        Ok(self.pools()?.into_iter().filter(|(backend, _)| backend.is_apart()).collect())
    }

    /// The back ends that may have disks on this host, with their pools. If the operator no longer chooses a back end,
    /// its pool may be missing.
    fn pools(self) -> DriverResult<Vec<(&'static dyn ImageBackend, StoragePool)>> {
        let mut pools = Vec::new();
        for backend in self.backends() {
            match backend.pool(self) {
                Ok(pool) => pools.push((backend, pool)),
                Err(DriverError::Failed { message, .. }) if backend.is_apart() && !is_chosen(backend, self.options) => {
                    tracing::debug!(message, "a host has no such pool");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pools)
    }

    pub(super) fn find(self, disk: &str) -> DriverResult<Option<StoredDisk>> {
        for (backend, pool) in self.pools()? {
            let name = backend.volume(disk);
            if let Some(volume) = backend.lookup(self, &pool, &name)? {
                return Ok(Some(StoredDisk { backend, pool, volume, name }));
            }
        }
        Ok(None)
    }

    pub(super) fn require(self, disk: &str) -> DriverResult<StoredDisk> {
        let missing = || DriverError::Failed { call: "disk lookup", message: format!("there is no volume {disk}") };
        self.find(disk)?.ok_or_else(missing)
    }

    pub(super) fn remove(self, disk: &str) -> DriverResult<()> {
        match self.find(disk)? {
            Some(found) => found.remove(self),
            None => Ok(()),
        }
    }

    /// Creates an empty disk, unless one of that size exists. Replaces a disk of another size.
    pub(super) fn provide(self, disk: &str, capacity: u64) -> DriverResult<()> {
        if let Some(found) = self.find(disk)? {
            let size = found.capacity()?;
            // A volume group allocates whole extents, so a disk may be larger.
            if size == capacity || (found.backend.is_apart() && size > capacity) {
                return Ok(());
            }
            found.remove(self)?;
        }
        self.make(chosen(self.options), disk, capacity)
    }

    /// Creates an empty disk of a guest, unless it exists. The disk of a defined guest holds the user's data. So it may
    /// grow, but is never replaced.
    pub(super) fn provide_blank(self, disk: &str, capacity: u64, undefined: bool) -> DriverResult<()> {
        match self.find(disk)? {
            Some(found) if !undefined => found.grow(self, capacity),
            _ => self.provide(disk, capacity),
        }
    }

    fn make(self, backend: &'static dyn ImageBackend, disk: &str, capacity: u64) -> DriverResult<()> {
        backend.make(self, &VolumeToCreate { pool: &backend.pool(self)?, volume: &backend.volume(disk), capacity })
    }

    /// Creates a disk with the content of an image, unless the disk exists. If the guest is not defined, an existing
    /// copy of the image may be incomplete, so the disk is replaced.
    pub(super) fn provide_image(
        self,
        disk: &str,
        capacity: u64,
        image: &ImageRef,
        undefined: bool,
    ) -> DriverResult<()> {
        let options = self.options;
        let backend = chosen(options);
        match self.find(disk)? {
            // The disk of a defined guest holds the user's data. So it is kept, even if its size or its base differs
            // from the request.
            Some(_) if !undefined => return Ok(()),
            // If the disk is a copy-on-write file, `fill` checks whether the existing file is the right one. `fill`
            // cannot check a whole copy.
            Some(found) if is_chosen(found.backend, options) && !backend.copies_image() => {}
            Some(found) => found.remove(self)?,
            None => {}
        }
        if backend.keeps_format(options, image) {
            return qcow2::whole(self, disk, capacity, image);
        }
        backend.fill(
            self,
            &VolumeToCreate { pool: &backend.pool(self)?, volume: &backend.volume(disk), capacity },
            image,
        )
    }

    /// Replaces the disk by an empty disk. A transfer, or the emulator's copy of another disk, fills the new disk
    /// later.
    pub(super) fn provide_empty(self, disk: &str, capacity: u64, raw: bool) -> DriverResult<StoredDisk> {
        self.remove(disk)?;
        let chosen = chosen(self.options);
        let backend = match raw {
            false => &qcow2::Qcow2,
            true => chosen.for_raw().unwrap_or(chosen),
        };
        self.make(backend, disk, capacity)?;
        self.require(disk)
    }

    /// Removes every volume of a guest, rotated logs included.
    pub(super) fn remove_all(self, instance: InstanceId) -> DriverResult<()> {
        for (backend, pool) in self.pools_apart()? {
            pool::refresh(&pool);
            for name in pool::names(&pool)? {
                if volumes::owner(&name) == Some(instance)
                    && let Some(volume) = pool::lookup(&pool, &name)?
                {
                    backend.clear(self, &volume)?;
                    backend.delete(self, &volume)?;
                }
            }
        }
        pool::delete_of(&pool::open(self.connect, self.options)?, instance)
    }

    /// The names of all volumes on the host that may belong to a guest, including all files of the directory.
    pub(super) fn volume_names(self) -> DriverResult<Vec<String>> {
        let mut pools = vec![pool::open(self.connect, self.options)?];
        pools.extend(self.pools_apart()?.into_iter().map(|(_, pool)| pool));
        let mut all = Vec::new();
        for pool in pools {
            pool::refresh(&pool);
            all.extend(pool::names(&pool)?);
        }
        Ok(all)
    }

    /// The guest's disks by name, together with its other files in the directory.
    pub(super) fn disks_of(self, instance: InstanceId) -> DriverResult<BTreeMap<String, StoredDisk>> {
        let mut disks = BTreeMap::new();
        for (backend, pool) in self.pools()? {
            pool::refresh(&pool);
            for name in pool::names(&pool)?.into_iter().filter(|name| volumes::owner(name) == Some(instance)) {
                let Some(disk) = backend.disk(&name).map(str::to_owned) else { continue };
                if let Some(volume) = pool::lookup(&pool, &name)? {
                    disks.entry(disk).or_insert(StoredDisk { backend, pool: pool.clone(), volume, name });
                }
            }
        }
        Ok(disks)
    }

    /// The sources of the guest's disks, by name.
    pub(super) fn places(self, guest: &GuestSpec) -> DriverResult<BTreeMap<String, DiskSource>> {
        let instance = guest.instance;
        let ephemerals = (0..guest.ephemerals_gib.len()).map(|number| volumes::ephemeral(instance, number));
        let mut names: Vec<String> = ephemerals.collect();
        names.extend((guest.swap_mib > 0).then(|| volumes::swap(instance)));
        names.extend(guest.root.as_ref().map(|_| volumes::root(instance)));
        names.extend(guest.rescue.as_ref().map(|_| volumes::rescue(instance)));
        let mut places = BTreeMap::new();
        for name in names {
            if let Some(disk) = self.find(&name)? {
                places.insert(name, disk.source(self.options));
            }
        }
        Ok(places)
    }
}

fn volume_xml(name: &str, capacity: u64, allocation: u64, format: &str) -> String {
    let bytes = |name: &'static str, value: u64| Element::leaf(name, value).attr("unit", "bytes");
    let target = Element::new("target")
        .child(Element::new("format").attr("type", format))
        .child(Element::new("permissions").child(Element::leaf("mode", "0600")));
    Element::new("volume")
        .child(Element::leaf("name", name))
        .child(bytes("capacity", capacity))
        .child(bytes("allocation", allocation))
        .child(target)
        .render()
}

/// Creates a volume with the content of an image.
fn copy_image(site: HostStorage<'_>, pool: &StoragePool, xml: &str, image: &ImageRef) -> DriverResult<StorageVol> {
    let base = cached_image::volume(site.connect, site.options, image)?;
    StorageVol::create_xml_from(pool, xml, &base, 0).during("disk from image")
}

/// Opens and starts the pool of a volume group or of Ceph. Defines it if it does not exist. `setting` is the option
/// that the error names if the host cannot open the pool.
fn open_apart(connect: &Connect, name: &str, xml: &Element, setting: &str) -> DriverResult<StoragePool> {
    pool::open_as(connect, name, xml).map_err(|error| match error {
        error if error.is_transient() => error,
        error => {
            let message = format!("{setting}, but this host cannot use it: {error}");
            DriverError::Failed { call: "storage pool", message }
        }
    })
}

#[cfg(test)]
mod tests;
