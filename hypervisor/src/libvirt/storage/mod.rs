//! Where guests' disks are kept, and how they are made, filled, grown and removed there.
//!
//! A form is one way of keeping disks (`[libvirt] images_type`): a file here and a line in [`FORMS`]. Everything else of the
//! driver names a disk (`UUID_disk`) and finds it in whichever form it is: what an operator chooses counts for disks that are
//! made from then on, and servers keep the ones that they have.
//!
//! | form | pool | volume | needs |
//! |---|---|---|---|
//! | [`qcow2`] | directory | `UUID_disk`, a copy-on-write file | the image in the cache for as long as it lives |
//! | [`flat`] | directory | `UUID_disk.raw` | nothing |
//! | [`logical`] | volume group | `UUID_disk` | nothing |
//! | [`rbd`] | Ceph pool | `UUID_disk` | nothing |
//!
//! Invariants: a volume's name and pool tell its form, never its content, because the content of all but the first is the
//! guest's. Image cache, config drives, console logs and copies on their way to become images are files of the directory,
//! whatever the form.

mod flat;
mod logical;
mod qcow2;
mod rbd;

use std::collections::BTreeMap;

use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;

use super::error::Context;
use super::{pool, volumes as store};
use crate::domain_xml::DiskSource;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageFormat, ImageRef};
use crate::options::{ImagesType, LibvirtOptions};
use crate::volumes;
use crate::xml::Element;

/// A host's storage, as this process is to use it.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) connect: &'a Connect,
    pub(super) options: &'a LibvirtOptions,
}

/// One way of keeping disks.
trait Form: Sync {
    fn kind(&self) -> ImagesType;
    /// Whether its disks are in a pool of their own, and not files of the directory.
    fn is_apart(&self) -> bool {
        false
    }
    /// Whether a host may have disks of this form: any may have files.
    fn is_set_up(&self, options: &LibvirtOptions) -> bool {
        !self.is_apart() || options.images.kind == self.kind()
    }
    fn pool(&self, site: Site<'_>) -> DriverResult<StoragePool> {
        pool::open(site.connect, site.options)
    }
    /// The name of the volume that is this disk.
    fn volume(&self, disk: &str) -> String {
        disk.to_owned()
    }
    /// The disk that this volume is, if it is one of this form.
    fn disk<'v>(&self, volume: &'v str) -> Option<&'v str> {
        Some(volume)
    }
    fn lookup(&self, site: Site<'_>, pool: &StoragePool, volume: &str) -> DriverResult<Option<StorageVol>> {
        let _ = site;
        pool::lookup(pool, volume)
    }
    fn source(&self, options: &LibvirtOptions, volume: &str) -> DiskSource;
    /// A disk with nothing on it.
    fn make(&self, site: Site<'_>, wanted: &Wanted<'_>) -> DriverResult<()>;
    /// A disk with what the image holds.
    fn fill(&self, site: Site<'_>, wanted: &Wanted<'_>, image: &ImageRef) -> DriverResult<()>;
    fn grow(&self, site: Site<'_>, disk: &Disk, capacity: u64) -> DriverResult<()> {
        let _ = site;
        disk.volume.resize(capacity, 0).during("grow disk")
    }
    /// Makes what is on the disk unreadable to whoever gets its room next.
    fn clear(&self, site: Site<'_>, volume: &StorageVol) -> DriverResult<()> {
        let _ = (site, volume);
        Ok(())
    }
    /// The pool in which hosts see whether they have the same disks; `None`: no other host has this one's.
    fn shared(&self, site: Site<'_>) -> DriverResult<Option<StoragePool>> {
        self.pool(site).map(Some)
    }
}

/// A volume that is to be made.
struct Wanted<'a> {
    pool: &'a StoragePool,
    volume: &'a str,
    /// Bytes that the guest is to see.
    capacity: u64,
}

/// Every form, the one of files that need no other after the one whose names say nothing.
const FORMS: &[&dyn Form] = &[&flat::Flat, &qcow2::Qcow2, &logical::Logical, &rbd::Rbd];

/// A disk that is there.
pub(super) struct Disk {
    form: &'static dyn Form,
    pub(super) pool: StoragePool,
    pub(super) volume: StorageVol,
    name: String,
}

impl Disk {
    /// Whether the volume's bytes are those that the guest sees, and not a file in a format of its own.
    pub(super) fn is_raw(&self) -> bool {
        self.form.kind() != ImagesType::Qcow2
    }

    /// Whether it is a file whose format libvirt guesses.
    pub(super) fn is_guessed(&self) -> bool {
        self.form.kind() == ImagesType::Flat
    }

    /// Whether it reads as zeros as long as nothing is written, and takes no room for them.
    pub(super) fn is_blank(&self, options: &LibvirtOptions) -> bool {
        self.form.kind() == ImagesType::Flat && !options.images.preallocate
    }

    pub(super) fn source(&self, options: &LibvirtOptions) -> DiskSource {
        self.form.source(options, &self.name)
    }

    pub(super) fn capacity(&self) -> DriverResult<u64> {
        // What libvirt takes for the capacity of a file may be what the guest wrote into its first bytes.
        if self.is_guessed() {
            return pool::physical_size(&self.volume);
        }
        // `info` rereads the volume, so this is what is, not what libvirtd remembers.
        Ok(self.volume.info().during("disk size")?.capacity)
    }

    /// As large as it is to be, or larger: disks never shrink.
    pub(super) fn grow(&self, site: Site<'_>, wanted: u64) -> DriverResult<()> {
        match self.capacity()? < wanted {
            true => self.form.grow(site, self, wanted),
            false => Ok(()),
        }
    }

    pub(super) fn remove(&self, site: Site<'_>) -> DriverResult<()> {
        self.form.clear(site, &self.volume)?;
        pool::delete(&self.volume)
    }
}

fn form_of(kind: ImagesType) -> &'static dyn Form {
    FORMS.iter().copied().find(|form| form.kind() == kind).unwrap_or(&qcow2::Qcow2)
}

/// The form of disks that are made now.
fn chosen(options: &LibvirtOptions) -> &'static dyn Form {
    form_of(options.images.kind)
}

/// Whether a disk is made by copying its image: then it takes as long as that.
pub(super) fn copies_whole(options: &LibvirtOptions) -> bool {
    options.images.kind != ImagesType::Qcow2
}

/// The pool whose room is what new disks have.
pub(super) fn pool_of_new_disks(connect: &Connect, options: &LibvirtOptions) -> DriverResult<StoragePool> {
    chosen(options).pool(Site { connect, options })
}

/// The pool in which other hosts' marks tell that they have the same disks.
pub(super) fn shared_pool(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Option<StoragePool>> {
    chosen(options).shared(Site { connect, options })
}

/// Whether what is at this path of a domain's disk is a disk of ours that only this host, or whoever shares the directory, has.
pub(super) fn is_local(options: &LibvirtOptions, path: &str) -> bool {
    let group = options.images.volume_group.as_deref().map(|group| format!("/dev/{group}"));
    let places = [Some(options.pool_path.clone()), group];
    places.iter().flatten().any(|place| path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/')))
}

/// Whether disks are shared and the rest of a guest (config drive, console log) is not.
pub(super) fn shares_disks_alone(options: &LibvirtOptions) -> bool {
    options.images.kind == ImagesType::Rbd
}

impl<'a> Site<'a> {
    pub(super) fn new(connect: &'a Connect, options: &'a LibvirtOptions) -> Self {
        Self { connect, options }
    }

    fn forms(self) -> impl Iterator<Item = &'static dyn Form> {
        // The one that is most likely is looked for first.
        let first = chosen(self.options);
        let others = FORMS.iter().copied().filter(move |form| form.kind() != first.kind());
        [first].into_iter().chain(others.filter(move |form| form.is_set_up(self.options)))
    }

    /// The pools besides the directory that may hold guests' disks.
    fn pools_apart(self) -> DriverResult<Vec<(&'static dyn Form, StoragePool)>> {
        Ok(self.pools()?.into_iter().filter(|(form, _)| form.is_apart()).collect())
    }

    /// The forms that disks may have here, with their pools. What only earlier disks may be in need not be on each host.
    fn pools(self) -> DriverResult<Vec<(&'static dyn Form, StoragePool)>> {
        let mut pools = Vec::new();
        for form in self.forms() {
            match form.pool(self) {
                Ok(pool) => pools.push((form, pool)),
                Err(DriverError::Failed { message, .. })
                    if form.is_apart() && form.kind() != self.options.images.kind =>
                {
                    tracing::debug!(message, "a host has no such pool");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pools)
    }

    pub(super) fn find(self, disk: &str) -> DriverResult<Option<Disk>> {
        for (form, pool) in self.pools()? {
            let name = form.volume(disk);
            if let Some(volume) = form.lookup(self, &pool, &name)? {
                return Ok(Some(Disk { form, pool, volume, name }));
            }
        }
        Ok(None)
    }

    pub(super) fn require(self, disk: &str) -> DriverResult<Disk> {
        let missing = || DriverError::Failed { call: "disk lookup", message: format!("there is no volume {disk}") };
        self.find(disk)?.ok_or_else(missing)
    }

    pub(super) fn remove(self, disk: &str) -> DriverResult<()> {
        match self.find(disk)? {
            Some(found) => found.remove(self),
            None => Ok(()),
        }
    }

    /// An empty disk, unless there is one that is as large.
    pub(super) fn provide(self, disk: &str, capacity: u64) -> DriverResult<()> {
        if let Some(found) = self.find(disk)? {
            let size = found.capacity()?;
            // Volume groups give out room in extents.
            if size == capacity || (found.form.is_apart() && size > capacity) {
                return Ok(());
            }
            found.remove(self)?;
        }
        self.make(chosen(self.options), disk, capacity)
    }

    fn make(self, form: &'static dyn Form, disk: &str, capacity: u64) -> DriverResult<()> {
        form.make(self, &Wanted { pool: &form.pool(self)?, volume: &form.volume(disk), capacity })
    }

    /// A disk with what the image holds, unless it is there. `anew`: its guest is not defined, so that a copy that is there
    /// may have been torn while it was made.
    pub(super) fn provide_image(self, disk: &str, capacity: u64, image: &ImageRef, anew: bool) -> DriverResult<()> {
        let options = self.options;
        let keeps = options.images.kind == ImagesType::Flat && options.images.keep_format;
        let overlay = options.images.kind == ImagesType::Qcow2;
        match self.find(disk)? {
            // It is looked at whether it is the one that is wanted.
            Some(found) if overlay && !found.is_raw() => {}
            Some(found) if anew => found.remove(self)?,
            Some(_) => return Ok(()),
            None => {}
        }
        if keeps && image.format == ImageFormat::Qcow2 {
            return qcow2::whole(self, disk, capacity, image);
        }
        let form = chosen(options);
        form.fill(self, &Wanted { pool: &form.pool(self)?, volume: &form.volume(disk), capacity }, image)
    }

    /// A disk for content that is about to be written over it, or for the copy that an emulator makes of another one.
    pub(super) fn provide_empty(self, disk: &str, capacity: u64, raw: bool) -> DriverResult<Disk> {
        self.remove(disk)?;
        let form = match (raw, self.options.images.kind) {
            (false, _) => form_of(ImagesType::Qcow2),
            (true, ImagesType::Qcow2) => form_of(ImagesType::Flat),
            (true, _) => chosen(self.options),
        };
        self.make(form, disk, capacity)?;
        self.require(disk)
    }

    /// Removes every volume of a guest, rotated logs included.
    pub(super) fn remove_all(self, instance: InstanceId) -> DriverResult<()> {
        for (form, pool) in self.pools_apart()? {
            pool::refresh(&pool);
            for name in pool::names(&pool)? {
                if volumes::owner(&name) == Some(instance)
                    && let Some(volume) = pool::lookup(&pool, &name)?
                {
                    form.clear(self, &volume)?;
                    pool::delete(&volume)?;
                }
            }
        }
        pool::delete_of(&pool::open(self.connect, self.options)?, instance)
    }

    /// The names of all volumes on the host that may be a guest's, with those of the directory.
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

    /// The guest's disks, by name; files of the directory that are none are among them.
    pub(super) fn disks_of(self, instance: InstanceId) -> DriverResult<BTreeMap<String, Disk>> {
        let mut disks = BTreeMap::new();
        for (form, pool) in self.pools()? {
            pool::refresh(&pool);
            for name in pool::names(&pool)?.into_iter().filter(|name| volumes::owner(name) == Some(instance)) {
                let Some(disk) = form.disk(&name).map(str::to_owned) else { continue };
                if let Some(volume) = pool::lookup(&pool, &name)? {
                    disks.entry(disk).or_insert(Disk { form, pool: pool.clone(), volume, name });
                }
            }
        }
        Ok(disks)
    }

    /// How the guest's disks are reached, where that is another way than the one that goes without saying.
    pub(super) fn places(self, guest: &GuestSpec) -> DriverResult<BTreeMap<String, DiskSource>> {
        let instance = guest.instance;
        let ephemerals = (0..guest.ephemerals_gib.len()).map(|number| volumes::ephemeral(instance, number));
        let mut names: Vec<String> = ephemerals.collect();
        names.extend((guest.swap_mib > 0).then(|| volumes::swap(instance)));
        names.extend(guest.root.as_ref().map(|_| volumes::root(instance)));
        names.extend(guest.rescue.as_ref().map(|_| volumes::rescue(instance)));
        let mut places = BTreeMap::new();
        for name in names {
            if let Some(disk) = self.find(&name)?.filter(Disk::is_raw) {
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

/// A new volume with what the image holds.
fn copy_image(site: Site<'_>, pool: &StoragePool, xml: &str, image: &ImageRef) -> DriverResult<StorageVol> {
    let base = store::base(site.connect, site.options, image)?;
    StorageVol::create_xml_from(pool, xml, &base, 0).during("disk from image")
}

/// The pool of a volume group or of Ceph, started; defined where it does not exist. `setting`: what an operator is to look at
/// where the host cannot open it.
fn open_apart(connect: &Connect, name: &str, xml: &Element, setting: &str) -> DriverResult<StoragePool> {
    pool::open_as(connect, name, xml).map_err(|error| match error {
        error if error.is_transient() => error,
        error => {
            let message = format!("{setting}, which this host cannot use: {error}");
            DriverError::Failed { call: "storage pool", message }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kind: ImagesType) -> LibvirtOptions {
        let mut options = LibvirtOptions::default();
        options.images.kind = kind;
        options.images.volume_group = Some("nova-vol".to_owned());
        options.images.rbd.pool = "vms".to_owned();
        options
    }

    #[test]
    fn disks_of_an_earlier_kind_are_found_in_a_group_that_is_named() {
        let mut options = options(ImagesType::Qcow2);
        assert!(form_of(ImagesType::Lvm).is_set_up(&options));
        assert!(!form_of(ImagesType::Rbd).is_set_up(&options), "no cluster is asked that nobody chose");
        options.images.volume_group = None;
        assert!(!form_of(ImagesType::Lvm).is_set_up(&options));
    }

    #[test]
    fn every_kind_has_one_form_and_names_tell_it() {
        let id = InstanceId::random();
        let disk = volumes::root(id);
        for kind in [ImagesType::Qcow2, ImagesType::Flat, ImagesType::Lvm, ImagesType::Rbd] {
            assert_eq!(FORMS.iter().filter(|form| form.kind() == kind).count(), 1, "{kind:?}");
            let volume = form_of(kind).volume(&disk);
            assert_eq!(volumes::owner(&volume), Some(id), "{kind:?}: leftovers are found by their names");
            let in_directory = FORMS.iter().filter(|form| !form.is_apart());
            let claimed: Vec<_> =
                in_directory.filter(|form| form.disk(&volume) == Some(&disk)).map(|f| f.kind()).collect();
            if !form_of(kind).is_apart() {
                assert_eq!(claimed, [kind], "{volume} is of one form");
            }
        }
    }

    #[test]
    fn a_source_is_what_the_form_says() {
        let disk = volumes::root(InstanceId::random());
        let source = |kind| {
            let form = form_of(kind);
            form.source(&options(kind), &form.volume(&disk))
        };
        let path = format!("/var/lib/libvirt/chronova/{disk}");
        assert_eq!(source(ImagesType::Qcow2), DiskSource::File { path: path.clone(), format: "qcow2" });
        assert_eq!(source(ImagesType::Flat), DiskSource::File { path: path + ".raw", format: "raw" });
        assert_eq!(source(ImagesType::Lvm), DiskSource::Block { path: format!("/dev/nova-vol/{disk}") });
        assert!(matches!(source(ImagesType::Rbd), DiskSource::Rbd(image) if image.name == format!("vms/{disk}")));
    }

    #[test]
    fn pools_and_volumes() {
        let mut options = options(ImagesType::Lvm);
        let golden = |name: &str, xml: &str| expectorate::assert_contents(format!("golden/{name}.xml"), xml);
        golden("pool-lvm", &logical::pool_xml(&options, "nova-vol").render());
        golden("volume-lvm", &logical::blank_xml(&options, "UUID_disk", 1 << 30));
        options.images.sparse_logical_volumes = true;
        golden("volume-lvm-sparse", &logical::blank_xml(&options, "UUID_disk", 1 << 30));
        options.images.rbd.monitors = ["10.0.0.1:6789", "ceph-two"].map(str::to_owned).to_vec();
        golden("pool-rbd-open", &rbd::pool_xml(&options).render());
        options.images.rbd.user = Some("nova".to_owned());
        options.images.rbd.secret = Some("457eb676-33da-42ec-9a8c-9293d545c337".to_owned());
        golden("pool-rbd", &rbd::pool_xml(&options).render());
        golden("volume-flat", &volume_xml("UUID_disk.raw", 1 << 30, 0, "raw"));
    }
}
