//! Guests that Nova defined, and that `chronova adopt` took over as they are.

use std::collections::BTreeMap;

use chronova_events::ids::InstanceId;
use roxmltree::{Document, Node};
use virt::domain::Domain;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;

use super::cached_image::format_seen;
use super::error::Context;
use super::storage::{self, HostStorage};
use super::{domain, pool};
use crate::capability::live_migration::MigrationPlan;
use crate::domain_xml::{DiskSource, GuestFiles, is_config_drive, refile};
use crate::driver::{DriverError, DriverResult};
use crate::options::LibvirtOptions;
use crate::volumes;

const CALL: &str = "redefinition of an adopted guest";

/// A disk in Nova's definition that is not a volume.
#[derive(Debug, PartialEq, Eq)]
struct AdoptedDisk {
    /// The place where Nova created the disk: a file, a device or an image in Ceph.
    place: String,
    is_file: bool,
    /// The format in the definition: `qcow2`.
    format: String,
    /// The name of the same disk among our disks.
    name: String,
}

impl AdoptedDisk {
    fn of(disk: Node<'_, '_>, instance: InstanceId) -> Option<Self> {
        let child = |name: &str| disk.children().find(|node| node.has_tag_name(name));
        // Nova gives each volume, and no other disk, a serial number.
        if disk.attribute("device").unwrap_or("disk") != "disk" || child("serial").is_some() {
            return None;
        }
        let source = child("source")?;
        let place = ["file", "dev", "name"].iter().find_map(|key| source.attribute(*key))?.to_owned();
        let last = place.rsplit('/').next().unwrap_or_default();
        let name = match last.starts_with(&format!("{instance}_")) {
            true => last.to_owned(),
            false => volumes::suffixed(instance, &format!("_{last}")),
        };
        let format = child("driver").and_then(|driver| driver.attribute("type")).unwrap_or("raw").to_owned();
        Some(Self { is_file: source.has_attribute("file"), place, format, name })
    }

    fn has_our_name(&self) -> bool {
        self.place.ends_with(&self.name)
    }

    /// Whether the disk is a file of our directory.
    fn is_ours(&self, options: &LibvirtOptions) -> bool {
        self.place == format!("{}/{}", options.pool_path, self.name)
    }
}

fn own_disks(xml: &str, instance: InstanceId) -> DriverResult<Vec<AdoptedDisk>> {
    let failed = |error| DriverError::Failed { call: CALL, message: format!("the domain cannot be read: {error}") };
    let document = Document::parse(xml).map_err(failed)?;
    let disks = document.descendants().filter(|node| node.has_tag_name("disk"));
    Ok(disks.filter_map(|disk| AdoptedDisk::of(disk, instance)).collect())
}

/// Checks a guest that Nova defined, before it gets a new definition. Each disk that the guest keeps must be among our
/// disks. If one is not, the check fails. Otherwise the new definition would name a new disk, created from the image,
/// and the guest would lose its data.
pub(super) fn keep_disks(
    site: HostStorage<'_>,
    guest: &Domain,
    instance: InstanceId,
    renewed: &[String],
) -> DriverResult<()> {
    if domain::has_our_definition(guest).during(CALL)? {
        return Ok(());
    }
    let xml = guest.xml_desc(virt_sys::VIR_DOMAIN_XML_INACTIVE).during(CALL)?;
    for disk in own_disks(&xml, instance)?.into_iter().filter(|disk| !renewed.contains(&disk.name)) {
        if !disk.has_our_name() || site.find(&disk.name)?.is_none() {
            let place = disk.place;
            let message = format!(
                "Nova created the guest's disk {place}, and it is not among the disks of Chronova's pool, so the guest \
                 keeps the definition that Nova gave it"
            );
            return Err(DriverError::Failed { call: CALL, message });
        }
    }
    Ok(())
}

fn failed(message: String) -> DriverError {
    DriverError::Failed { call: CALL, message }
}

/// The root disk of a running guest of Nova, and its size in bytes as the guest sees it. `None`: the disk is no file of
/// Nova's.
pub(super) fn root_in_use(
    site: HostStorage<'_>,
    guest: &Domain,
    instance: InstanceId,
) -> DriverResult<Option<(DiskSource, u64)>> {
    if domain::has_our_definition(guest).during(CALL)? {
        return Ok(None);
    }
    let root = own_disks(&guest.xml_desc(0).during(CALL)?, instance)?
        .into_iter()
        .find(|disk| disk.is_file && disk.name == volumes::root(instance) && !disk.is_ours(site.options));
    let Some(root) = root else { return Ok(None) };
    let capacity = guest.block_info(&root.place, 0).during(CALL)?.capacity;
    let format = if root.format == "qcow2" { "qcow2" } else { "raw" };
    Ok(Some((DiskSource::File { path: root.place, format }, capacity)))
}

/// The places that the files of a guest of Nova get at the destination of its live migration. `None` if the files keep
/// their places.
pub(super) fn files_there(
    options: &LibvirtOptions,
    guest: &Domain,
    instance: InstanceId,
    plan: &MigrationPlan,
) -> DriverResult<Option<GuestFiles>> {
    if plan.shared || domain::has_our_definition(guest).during(CALL)? {
        return Ok(None);
    }
    let xml = guest.xml_desc(virt_sys::VIR_DOMAIN_XML_MIGRATABLE).during(CALL)?;
    let mut disks = BTreeMap::new();
    for disk in own_disks(&xml, instance)?.into_iter().filter(|disk| disk.is_file) {
        if is_config_drive(&disk.place) {
            return Err(failed("the guest's config drive is a writable disk, so the guest cannot migrate".to_owned()));
        }
        match storage::new_source(options, &disk.name) {
            DiskSource::File { path, format } => drop(disks.insert(disk.place, (path, format))),
            _ => return Err(failed(format!("{} is a file, and new disks are no files here", disk.place))),
        }
    }
    let file = |name: String| Some(format!("{}/{name}", options.pool_path));
    let (config_drive, console_log) = (file(volumes::config_drive(instance)), file(volumes::console_log(instance)));
    Ok(Some(GuestFiles { disks, config_drive, console_log }))
}

/// Copies the disks of a guest into our directory, under our names, if Nova defined the guest and the guest is off. A
/// copy may be incomplete until the definition names it, so an interrupted call starts again from the beginning. Nova's
/// files stay. libvirt does not sync the copies to the disk, so a power failure could still destroy the copies.
pub(super) fn take_disks(site: HostStorage<'_>, instance: InstanceId) -> DriverResult<()> {
    let Some(guest) = domain::lookup(site.connect, instance)? else { return Ok(()) };
    if domain::has_our_definition(&guest).during(CALL)? || guest.is_active().during(CALL)? {
        return Ok(());
    }
    let xml = guest.xml_desc(virt_sys::VIR_DOMAIN_XML_INACTIVE | virt_sys::VIR_DOMAIN_XML_SECURE).during(CALL)?;
    let mut elsewhere = own_disks(&xml, instance)?;
    elsewhere.retain(|disk| disk.is_file && !disk.is_ours(site.options));
    if !elsewhere.is_empty() && guest.has_managed_save(0).during(CALL)? {
        return Err(failed("the guest's saved memory names Nova's disks: resume the server first".to_owned()));
    }
    let mut files = GuestFiles::default();
    for disk in elsewhere {
        let path = format!("{}/{}", site.options.pool_path, disk.name);
        in_folder(site, instance, &disk.place, |from, name| copy_disk(site, from, name, &disk))?;
        files.disks.insert(disk.place, (path, "qcow2"));
    }
    if !files.disks.is_empty() {
        let xml = refile(&xml, &files).map_err(|error| failed(format!("the domain cannot be read: {error}")))?;
        site.connect.define_domain_xml_flags(&xml, 0).during(CALL)?;
    }
    // A move sends only our disks. If a disk were not ours by now, the destination would create an empty disk in its
    // place.
    keep_disks(site, &guest, instance, &[])
}

/// Opens a pool over the folder in which Nova stored the file. Calls `work` with this pool and the file's name.
fn in_folder<T>(
    site: HostStorage<'_>,
    instance: InstanceId,
    place: &str,
    work: impl FnOnce(&StoragePool, &str) -> DriverResult<T>,
) -> DriverResult<T> {
    let (folder, name) = place.rsplit_once('/').unwrap_or(("/", place));
    let pool = pool::open_folder(site.connect, &format!("{}-adopts-{instance}", site.options.pool_name), folder)?;
    let done = work(&pool, name);
    let closed = pool.destroy().during(CALL);
    done.and_then(|done| closed.map(|()| done))
}

/// Copies a disk with its base into one file of ours.
fn copy_disk(site: HostStorage<'_>, from: &StoragePool, name: &str, disk: &AdoptedDisk) -> DriverResult<()> {
    let place = &disk.place;
    let volume = pool::lookup(from, name)?.ok_or_else(|| failed(format!("there is no file {place}")))?;
    // The guest writes the first bytes of a raw disk. libvirt would believe any format and any base that these bytes
    // name.
    let (told, seen) = (disk.format.as_str(), format_seen(&volume)?);
    if (told, seen.as_str()) != ("qcow2", "qcow2") {
        return Err(failed(format!("Nova's disk {place} has the format {told}, and only qcow2 is copied")));
    }
    let capacity = volume.info().during(CALL)?.capacity;
    site.remove(&disk.name)?;
    let ours = pool::open(site.connect, site.options)?;
    let xml = pool::volume_xml(&disk.name, capacity, "qcow2", "0600", None);
    StorageVol::create_xml_from(&ours, &xml, &volume, 0).during(CALL).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ID: &str = "e7ee3d45-92a9-43a3-9ab0-40bd8d075433";

    fn names(disks: &str) -> Vec<(String, String, bool)> {
        let xml = format!("<domain><devices>{disks}</devices></domain>");
        let found = own_disks(&xml, InstanceId(ID.parse().unwrap())).unwrap();
        found
            .into_iter()
            .map(|disk| (disk.has_our_name(), disk))
            .map(|(ours, disk)| (disk.place, disk.name, ours))
            .collect()
    }

    #[test]
    fn disks_of_novas_forms_get_our_names_and_volumes_get_none() {
        let path = format!("/var/lib/nova/instances/{ID}/disk");
        let files = format!(
            "<disk type='file' device='disk'><source file='{path}'/></disk>\
             <disk type='file'><source file='{path}.eph0'/></disk>\
             <disk type='file' device='cdrom'><source file='{path}.config'/></disk>\
             <disk type='network' device='disk'><source protocol='rbd' name='volumes/volume-x'/><serial>x</serial></disk>"
        );
        let expected =
            [(path.clone(), format!("{ID}_disk"), false), (format!("{path}.eph0"), format!("{ID}_disk.eph0"), false)];
        assert_eq!(names(&files), expected);
        let ceph = format!("<disk type='network' device='disk'><source protocol='rbd' name='vms/{ID}_disk'/></disk>");
        assert_eq!(names(&ceph), [(format!("vms/{ID}_disk"), format!("{ID}_disk"), true)]);
        assert!(own_disks("<domain", InstanceId(ID.parse().unwrap())).is_err());
    }
}
