//! Creates, changes and removes a guest's disks, files and definition. All calls block.

use std::collections::BTreeSet;

use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;

use super::domain::{has_our_definition, lookup, pull, require, start, undefine};
use super::error::Context;
use super::storage::{self, HostStorage};
use super::{adopted, cached_image, disks, emulated_tpm, managed_save, mdevs, pmem, pool, snapshot};
use crate::domain_xml::{self, HostFacts};
use crate::driver::{DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageFormat, ImageRef, Renew, RootDisk};
use crate::options::LibvirtOptions;
use crate::{vfat, volumes};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Creates disks, config drive, console log and domain, and starts the domain. If the domain exists, only starts it.
pub(super) fn spawn(
    connect: &Connect,
    options: &LibvirtOptions,
    facts: &HostFacts,
    guest: &GuestSpec,
) -> DriverResult<HostFinding> {
    if let Some(domain) = lookup(connect, guest.instance)? {
        start(&domain)?;
        return Ok(HostFinding::Nothing);
    }
    define_and_start(HostStorage::new(connect, options), facts, guest, true)
}

/// Changes a guest's disks, and then gives the guest another definition; see
/// [`crate::capability::Redefinition::redefine`].
pub(super) fn redefine(
    connect: &Connect,
    options: &LibvirtOptions,
    facts: &HostFacts,
    guest: &GuestSpec,
    renew: Renew,
) -> DriverResult<HostFinding> {
    let site = HostStorage::new(connect, options);
    let instance = guest.instance;
    if matches!(renew, Renew::Definition | Renew::AtStart) {
        return renew_definition(site, facts, guest, renew);
    }
    let root = [volumes::root(instance)];
    let ephemerals = (0..guest.ephemerals_gib.len()).map(|number| volumes::ephemeral(instance, number));
    let others = ephemerals.chain([volumes::swap(instance)]);
    let renewed = match renew {
        Renew::Definition | Renew::AtStart | Renew::Nothing => vec![],
        Renew::Root => root.to_vec(),
        Renew::All => root.into_iter().chain(others).collect(),
    };
    // An earlier rescue, or an earlier attempt at this rescue, may have left its rescue disk.
    let renewed: Vec<String> = renewed.into_iter().chain([volumes::rescue(instance)]).collect();
    if let Some(domain) = lookup(connect, instance)? {
        adopted::keep_disks(site, &domain, instance, &renewed)?;
        snapshot::put_down(&domain)?;
        mdevs::remove_others(&domain, &guest.mdevs)?;
    }
    for name in renewed {
        site.remove(&name)?;
    }
    define_and_start(site, facts, guest, false)
}

/// Starts or reboots a guest from a new definition. Its disks and files stay. If the guest does not start, and another
/// attempt would not help, it gets its old definition back. A guest that Nova defined keeps its definition. Another
/// definition could give its devices other addresses, and would name other places of its disks.
fn renew_definition(
    site: HostStorage<'_>,
    facts: &HostFacts,
    guest: &GuestSpec,
    renew: Renew,
) -> DriverResult<HostFinding> {
    let domain = require(site.connect, guest.instance)?;
    if renew == Renew::AtStart && !managed_save::boots_at_start(&domain)? {
        return start(&domain).map(|()| HostFinding::Nothing);
    }
    if !has_our_definition(&domain).during("redefine")? {
        snapshot::put_down(&domain)?;
        return start(&domain).map(|()| HostFinding::Nothing);
    }
    let guest = &with_own_files(site, guest)?;
    pool::look_for(site.connect, site.options, &guest.volumes)?;
    let facts = HostFacts { places: site.places(guest)?, ..facts.clone() };
    // A definition that cannot be rendered is refused while the guest still runs.
    let xml = render(guest, &facts)?;
    let secure = virt_sys::VIR_DOMAIN_XML_INACTIVE | virt_sys::VIR_DOMAIN_XML_SECURE;
    let before = domain.xml_desc(secure).during("redefine")?;
    snapshot::put_down(&domain)?;
    mdevs::remove_others(&domain, &guest.mdevs)?;
    let renewed = start_or_learn(site.connect, &facts, guest, &define(site.connect, &xml)?);
    // The caller may then start the guest with its old definition.
    if let Err(refusal) = &renewed
        && !refusal.is_transient()
        && let Err(error) = site.connect.define_domain_xml_flags(&before, 0)
    {
        tracing::warn!(server = %guest.instance, error = error.message(), "a guest keeps its new definition");
    }
    renewed
}

/// The guest with the first bytes of its config drive, which say what kind of disk the drive is. Fails if the host does
/// not find a disk or the drive: the new definition would name another place, and the guest would lose its data.
fn with_own_files(site: HostStorage<'_>, guest: &GuestSpec) -> DriverResult<GuestSpec> {
    let pool = pool::open(site.connect, site.options)?;
    let drive = guest.config_drive.as_ref().map(|_| volumes::config_drive(guest.instance));
    let found = || -> DriverResult<Option<StorageVol>> {
        for disk in own_disks(guest) {
            site.require(&disk)?;
        }
        let Some(name) = &drive else { return Ok(None) };
        let missing = || DriverError::Failed { call: "redefine", message: format!("there is no volume {name}") };
        pool::lookup(&pool, name)?.ok_or_else(missing).map(Some)
    };
    // On shared storage, another host may have created the files since this host last looked.
    let file = found().or_else(|_| {
        pool::refresh(&pool);
        found()
    })?;
    let head = file.map(|file| pool::head(site.connect, &file, vfat::HEAD)).transpose()?;
    Ok(GuestSpec { config_drive: head.map(Into::into), ..guest.clone() })
}

/// The names of the guest's own disks. A root disk from a CD-ROM image is the image itself.
fn own_disks(guest: &GuestSpec) -> Vec<String> {
    let root = guest.root.as_ref().filter(|root| root.image.format != ImageFormat::Iso);
    let root = root.map(|_| volumes::root(guest.instance));
    let ephemerals = (0..guest.ephemerals_gib.len()).map(|number| volumes::ephemeral(guest.instance, number));
    let swap = (guest.swap_mib > 0).then(|| volumes::swap(guest.instance));
    root.into_iter().chain(ephemerals).chain(swap).collect()
}

/// Creates the guest's disks, defines the guest and starts it. `undefined`: the guest had no definition, so its
/// existing disks may be incomplete.
fn define_and_start(
    site: HostStorage<'_>,
    facts: &HostFacts,
    guest: &GuestSpec,
    undefined: bool,
) -> DriverResult<HostFinding> {
    // A definition that cannot be rendered is refused before anything is created.
    render(guest, facts)?;
    provide_volumes(site, guest, undefined, DiskContent::Yes)?;
    pool::look_for(site.connect, site.options, &guest.volumes)?;
    let facts = with_places(site, facts, guest)?;
    let domain = define(site.connect, &render(guest, &facts)?)?;
    start_or_learn(site.connect, &facts, guest, &domain)
}

/// Adds the sources of the guest's disks to the host's facts. Also creates the files of the guest's persistent memory,
/// because they are on the host's own memory even if hosts share the disks.
fn with_places(site: HostStorage<'_>, facts: &HostFacts, guest: &GuestSpec) -> DriverResult<HostFacts> {
    pmem::provide(site.connect, site.options, guest)?;
    Ok(HostFacts { places: site.places(guest)?, ..facts.clone() })
}

/// Creates disks, config drive and console log of a guest that is not defined. The new files replace any existing
/// files.
pub(super) fn provide(connect: &Connect, options: &LibvirtOptions, guest: &GuestSpec) -> DriverResult<()> {
    if lookup(connect, guest.instance)?.is_some() {
        return Ok(());
    }
    destroy(connect, options, guest.instance, &mut Vec::new())?;
    provide_volumes(HostStorage::new(connect, options), guest, true, DiskContent::Yes)
}

/// Lets `provide` prepare the disks, defines the guest, and starts it if `on`. If the guest already runs, changes
/// nothing: the call succeeds if `on` is true, and fails if `on` is false.
pub(super) fn install(
    site: HostStorage<'_>,
    facts: &HostFacts,
    guest: &GuestSpec,
    on: bool,
    provide: impl FnOnce() -> DriverResult<()>,
) -> DriverResult<HostFinding> {
    let known = lookup(site.connect, guest.instance)?;
    if let Some(domain) = &known
        && domain.is_active().during("install")?
    {
        let message = "the guest runs".to_owned();
        return if on { Ok(HostFinding::Nothing) } else { Err(DriverError::Failed { call: "install", message }) };
    }
    render(guest, facts)?;
    if let Some(domain) = &known {
        mdevs::remove_others(domain, &guest.mdevs)?;
    }
    provide()?;
    pool::look_for(site.connect, site.options, &guest.volumes)?;
    let facts = with_places(site, facts, guest)?;
    let domain = define(site.connect, &render(guest, &facts)?)?;
    if on { start_or_learn(site.connect, &facts, guest, &domain) } else { Ok(HostFinding::Nothing) }
}

/// Starts a guest. If the host cannot open the guest's disks with direct I/O, defines the guest without direct I/O and
/// starts it again.
fn start_or_learn(
    connect: &Connect,
    facts: &HostFacts,
    guest: &GuestSpec,
    domain: &Domain,
) -> DriverResult<HostFinding> {
    match start(domain) {
        Err(DriverError::Failed { message, .. }) if facts.direct_io && message.contains("O_DIRECT") => {
            let facts = HostFacts { direct_io: false, ..facts.clone() };
            start(&define(connect, &render(guest, &facts)?)?)?;
            Ok(HostFinding::NoDirectIo)
        }
        other => other.map(|()| HostFinding::Nothing),
    }
}

/// A fact about the host that a spawn discovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostFinding {
    Nothing,
    /// The pool's file system cannot open files with direct I/O.
    NoDirectIo,
}

fn render(guest: &GuestSpec, facts: &HostFacts) -> DriverResult<String> {
    domain_xml::render(guest, facts).map_err(|error| DriverError::Unsupported(error.to_string()))
}

fn define(connect: &Connect, xml: &str) -> DriverResult<Domain> {
    // Validation against the schema reports elements that libvirt would otherwise ignore.
    connect.define_domain_xml_flags(xml, virt_sys::VIR_DOMAIN_DEFINE_VALIDATE).during("define")
}

/// Whether a new disk gets the content of its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskContent {
    Yes,
    /// A copy from another host overwrites the whole disk. Only a copy-on-write file needs the image.
    FromElsewhere,
}

pub(super) fn provide_volumes(
    site: HostStorage<'_>,
    guest: &GuestSpec,
    undefined: bool,
    content: DiskContent,
) -> DriverResult<()> {
    let pool = pool::open(site.connect, site.options)?;
    if let Some(root) = &guest.root {
        provide_root(site, &pool, guest.instance, root, undefined, content)?;
    }
    if let Some(rescue) = &guest.rescue {
        is_here(site, &pool, &rescue.image)?;
        let disk = volumes::rescue(guest.instance);
        site.provide_image(&disk, rescue.image.virtual_size, &rescue.image, undefined)?;
    }
    for (number, gib) in guest.ephemerals_gib.iter().enumerate() {
        site.provide_blank(&volumes::ephemeral(guest.instance, number), u64::from(*gib) * GIB, undefined)?;
    }
    if guest.swap_mib > 0 {
        site.provide_blank(&volumes::swap(guest.instance), u64::from(guest.swap_mib) * MIB, undefined)?;
    }
    provide_files(site, &pool, guest)
}

/// Creates a guest's files other than its disks.
pub(super) fn provide_files(site: HostStorage<'_>, pool: &StoragePool, guest: &GuestSpec) -> DriverResult<()> {
    if let Some(drive) = &guest.config_drive {
        pool::put(site.connect, pool, &volumes::config_drive(guest.instance), drive)?;
    }
    let log = volumes::console_log(guest.instance);
    if pool::lookup(pool, &log)?.is_none() {
        // The pool creates the console log before virtlogd would. So the pool knows the log, and a reader of the log
        // needs no refresh.
        pool::create_raw(pool, &log, 0, "0600")?;
    }
    Ok(())
}

fn unusable(image: &ImageRef, reason: &str) -> DriverError {
    DriverError::BadImage { image: image.id.to_string(), reason: reason.to_owned() }
}

fn is_here(site: HostStorage<'_>, pool: &StoragePool, image: &ImageRef) -> DriverResult<()> {
    match site.has_image(pool, image)? {
        true => Ok(()),
        false => Err(unusable(image, "it is not in the host's cache")),
    }
}

/// The size of the image as a guest sees it. Nova did not record this size, so the record of a server that Nova built
/// has the size of the file instead. The difference matters only if the flavor gives the root disk no size.
fn virtual_size(site: HostStorage<'_>, root: &RootDisk) -> DriverResult<u64> {
    let image = &root.image;
    if root.size_gib > 0 || image.format != ImageFormat::Qcow2 || image.virtual_size != image.size {
        return Ok(image.virtual_size);
    }
    let base = cached_image::volume(site.connect, site.options, image)?;
    Ok(base.info().during("disk size")?.capacity.max(image.virtual_size))
}

fn provide_root(
    site: HostStorage<'_>,
    pool: &StoragePool,
    instance: InstanceId,
    root: &RootDisk,
    undefined: bool,
    content: DiskContent,
) -> DriverResult<()> {
    let image = &root.image;
    is_here(site, pool, image)?;
    if image.format == ImageFormat::Iso {
        return Ok(());
    }
    let wanted = u64::from(root.size_gib) * GIB;
    if wanted > 0 && image.virtual_size > wanted {
        return Err(unusable(image, "it is larger than the flavor's root disk"));
    }
    let (disk, capacity) = (volumes::root(instance), wanted.max(virtual_size(site, root)?));
    match content == DiskContent::FromElsewhere && storage::copies_whole(site.options) {
        true => site.provide_empty(&disk, capacity, true).map(drop),
        false => site.provide_image(&disk, capacity, image, undefined),
    }
}

/// Removes a guest with all its disks and files on this host. Puts the keys of the guest's disks into `attached`. After
/// a failure, the definition that names the disks may be gone.
pub(super) fn destroy(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    attached: &mut Vec<String>,
) -> DriverResult<()> {
    if let Some(domain) = lookup(connect, instance)? {
        attached.extend(disks::keys(&domain).unwrap_or_default());
        pull(&domain)?;
        // The definition names the devices, so the devices are removed before the definition.
        mdevs::remove(&domain)?;
        undefine(&domain)?;
    }
    if options.emulates_tpm {
        emulated_tpm::remove(connect, instance)?;
    }
    pmem::remove(connect, options, instance)?;
    HostStorage::new(connect, options).remove_all(instance)
}

/// Guests that have volumes here but no domain.
pub(super) fn orphans(connect: &Connect, options: &LibvirtOptions) -> DriverResult<Vec<InstanceId>> {
    let mut names = HostStorage::new(connect, options).volume_names()?;
    names.extend(pmem::names(connect, options)?);
    let mut orphans: BTreeSet<_> = names.iter().filter_map(|name| volumes::owner(name)).collect();
    // The domains are listed after the volumes, because a spawn creates the volumes before the domain.
    for domain in connect.list_all_domains(0).during("orphans")? {
        orphans.remove(&InstanceId(domain.uuid().during("orphans")?));
    }
    Ok(orphans.into_iter().collect())
}
