//! Attaches volumes to a guest as disks, detaches them, and swaps them while the guest runs.
//!
//! A disk is identified by its key ([`VolumeDisk::key`]): the id in the name of its source. If the source's name has no
//! id, the key is the disk's serial number. Device names cannot identify a disk, because the guest chooses them. After
//! a swap, a running guest still sees the serial of the old disk. A guest has a live definition and a persistent one
//! (for the next start). If a change reached only one of them, the next attempt completes the change.

use roxmltree::{Document, Node};
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::Error;
use virt_sys as sys;

use super::error::{Context, translate};
use super::{blockcopy, pool};
use crate::domain_xml::{self, HostFacts};
use crate::driver::{DriverError, DriverResult};
use crate::guest::VolumeDisk;
use crate::xml::Element;

/// The definition for the next start of the guest.
pub(super) const PERSISTENT: u32 = sys::VIR_DOMAIN_XML_INACTIVE;
/// The definition of the running guest. For a guest that is off it equals [`PERSISTENT`].
pub(super) const LIVE: u32 = 0;

fn document(domain: &Domain, which: u32, call: &'static str) -> DriverResult<String> {
    domain.xml_desc(which).during(call)
}

fn parsed<T>(xml: &str, call: &'static str, read: impl FnOnce(&Document<'_>) -> T) -> DriverResult<T> {
    let failed = |error| DriverError::Failed { call, message: format!("the domain cannot be read: {error}") };
    Document::parse(xml).map(|document| read(&document)).map_err(failed)
}

fn disks<'a, 'd>(document: &'a Document<'d>) -> impl Iterator<Item = Node<'a, 'd>> {
    let devices = document.root_element().children().filter(|node| node.has_tag_name("devices"));
    devices.flat_map(|devices| devices.children()).filter(|node| node.has_tag_name("disk"))
}

/// The key of a disk.
fn key_of<'a>(disk: Node<'a, '_>) -> Option<&'a str> {
    named_by_source(disk).or_else(|| disk.children().find(|node| node.has_tag_name("serial"))?.text())
}

/// The id that the source of a disk, or of its copy, has in its name.
fn named_by_source<'a>(disk: Node<'a, '_>) -> Option<&'a str> {
    let source = disk.children().find(|node| node.has_tag_name("source"));
    let path =
        source.and_then(|source| ["volume", "file", "dev", "name"].iter().find_map(|key| source.attribute(*key)));
    path.and_then(|path| path.rsplit('/').next()).and_then(|name| name.strip_prefix("volume-"))
}

/// The key of the volume to which a disk is being copied.
fn copied_to<'a>(disk: Node<'a, '_>) -> Option<&'a str> {
    named_by_source(disk.children().find(|node| node.has_tag_name("mirror"))?)
}

/// Whether the XML of a disk shows a running copy of the disk to this volume.
fn is_copied_to(disk: &str, key: &str) -> DriverResult<bool> {
    parsed(disk, "disk exchange", |document| copied_to(document.root_element()) == Some(key))
}

/// A disk in the domain's definition.
struct DomainDisk {
    xml: String,
    /// For example `vdb`.
    device: String,
}

fn find(domain: &Domain, which: u32, key: &str, call: &'static str) -> DriverResult<Option<DomainDisk>> {
    let xml = document(domain, which, call)?;
    parsed(&xml, call, |document| {
        let disk = disks(document).find(|disk| key_of(*disk) == Some(key))?;
        let device = disk.children().find(|node| node.has_tag_name("target"))?.attribute("dev")?.to_owned();
        Some(DomainDisk { xml: xml[disk.range()].to_owned(), device })
    })
}

/// Whether the guest has the disk.
pub(super) fn has(domain: &Domain, which: u32, key: &str) -> DriverResult<bool> {
    find(domain, which, key, "disk lookup").map(|found| found.is_some())
}

/// Whether the guest's memory is encrypted, so that its virtio disks need the IOMMU.
fn has_encrypted_memory(domain: &Domain, call: &'static str) -> DriverResult<bool> {
    let xml = document(domain, PERSISTENT, call)?;
    parsed(&xml, call, |document| document.root_element().children().any(|node| node.has_tag_name("launchSecurity")))
}

/// The keys of the volumes in the guest's persistent definition, sorted.
pub(super) fn keys(domain: &Domain) -> DriverResult<Vec<String>> {
    const CALL: &str = "disks";
    let xml = document(domain, PERSISTENT, CALL)?;
    let mut keys: Vec<String> =
        parsed(&xml, CALL, |document| disks(document).filter_map(key_of).map(str::to_owned).collect())?;
    keys.sort();
    Ok(keys)
}

/// Attaches the disk to each definition that lacks it.
pub(super) fn attach(domain: &Domain, disk: &VolumeDisk, facts: &HostFacts) -> DriverResult<()> {
    const CALL: &str = "disk attachment";
    let mut where_to = 0;
    if !has(domain, PERSISTENT, disk.key())? {
        where_to |= sys::VIR_DOMAIN_AFFECT_CONFIG;
    }
    if domain.is_active().during(CALL)? && !has(domain, LIVE, disk.key())? {
        where_to |= sys::VIR_DOMAIN_AFFECT_LIVE;
    }
    if where_to == 0 {
        return Ok(());
    }
    // The boot order is a property of the whole guest, so a disk that is attached later gets no position in this order.
    let disk = VolumeDisk { boot_order: None, ..disk.clone() };
    let xml = domain_xml::render_disk(&disk, facts, has_encrypted_memory(domain, CALL)?);
    domain.attach_device_flags(&xml, where_to).during(CALL)
}

/// The size that the guest sees of an encrypted disk. The volume has a whole number of GiB; its header, which keeps its
/// size, is what the guest lacks of them.
fn payload(volume: u64, seen: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    volume.saturating_sub(seen.next_multiple_of(GIB) - seen)
}

/// Tells the running guest the size of a disk.
pub(super) fn resize(domain: &Domain, key: &str, size: u64) -> DriverResult<()> {
    const CALL: &str = "disk resize";
    if !domain.is_active().during(CALL)? {
        return Ok(());
    }
    let missing = || DriverError::Failed { call: CALL, message: format!("the guest has no disk {key}") };
    let found = find(domain, LIVE, key, CALL)?.ok_or_else(missing)?;
    let size = match is_encrypted(&found.xml) {
        true => payload(size, domain.block_info(&found.device, 0).during(CALL)?.capacity),
        false => size,
    };
    domain.block_resize(&found.device, size, sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES).during(CALL)
}

/// Removes the disk from the persistent definition.
pub(super) fn forget(domain: &Domain, key: &str) -> DriverResult<()> {
    const CALL: &str = "disk detachment";
    match find(domain, PERSISTENT, key, CALL)? {
        Some(found) => match domain.detach_device_flags(&found.xml, sys::VIR_DOMAIN_AFFECT_CONFIG) {
            Err(error) if !is_absent(&error) => Err(translate(CALL, &error)),
            _ => Ok(()),
        },
        None => Ok(()),
    }
}

/// Asks the guest to release the disk. `true`: the guest no longer has it.
pub(super) fn ask_for(domain: &Domain, key: &str) -> DriverResult<bool> {
    const CALL: &str = "disk detachment";
    if !domain.is_active().during(CALL)? {
        return Ok(true);
    }
    let Some(found) = find(domain, LIVE, key, CALL)? else { return Ok(true) };
    match domain.detach_device_flags(&found.xml, sys::VIR_DOMAIN_AFFECT_LIVE) {
        Ok(()) => Ok(false),
        Err(error) if is_absent(&error) => Ok(true),
        // QEMU has not finished an earlier request, so the guest may still react to that request.
        Err(error) if error.message().contains("in the process of unplug") => Ok(false),
        Err(error) => match domain.is_active() {
            Ok(false) => Ok(true),
            _ => Err(translate(CALL, &error)),
        },
    }
}

/// Whether the running guest still has the disk.
pub(super) fn still_has(domain: &Domain, key: &str) -> DriverResult<bool> {
    Ok(domain.is_active().during("disk lookup")? && has(domain, LIVE, key)?)
}

fn is_absent(error: &Error) -> bool {
    let message = error.message();
    message.contains("not found") || message.contains("no target device") || message.contains("cannot find")
}

/// The progress of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    /// This call has begun the copy.
    Begun,
    Copying,
    Done,
}

/// Begins or continues to copy `old` to `new`. The caller repeats this call until the swap is done.
pub(super) fn exchange(
    connect: &Connect,
    domain: &Domain,
    old: &str,
    new: &VolumeDisk,
    facts: &HostFacts,
) -> DriverResult<Exchange> {
    const CALL: &str = "disk exchange";
    let failed = |message: &str| DriverError::Failed { call: CALL, message: message.to_owned() };
    if !domain.is_active().during(CALL)? {
        return Err(failed("the guest is not running"));
    }
    if let Some(live) = find(domain, LIVE, old, CALL)? {
        if is_encrypted(&live.xml) {
            return Err(no_encrypted_swap());
        }
        match blockcopy::progress(domain, &live.device)? {
            None => {
                // The definition names the new volume before the guest uses only that volume. If the guest ends in
                // between, the new volume must have the guest's last writes.
                let synchronous = facts.libvirt_version >= 8_000_000;
                blockcopy::begin(domain, &live.device, &mirror(connect, new, facts)?, synchronous)?;
                return Ok(Exchange::Begun);
            }
            // An earlier swap to another volume was never ended.
            Some(_) if !is_copied_to(&live.xml, new.key())? => {
                blockcopy::abandon(domain, &live.device)?;
                return Ok(Exchange::Copying);
            }
            Some(progress) if !progress.is_ready() => return Ok(Exchange::Copying),
            Some(_) => {
                // The definition is changed first. It shows afterwards that the guest may have the new volume.
                redefine(domain, old, new, facts)?;
                blockcopy::pivot(domain, &live.device)?;
                return Ok(Exchange::Done);
            }
        }
    }
    if !has(domain, LIVE, new.key())? {
        return Err(failed("the guest has no such disk"));
    }
    redefine(domain, old, new, facts)?;
    Ok(Exchange::Done)
}

/// Whether QEMU decrypts the disk.
fn is_encrypted(disk: &str) -> bool {
    disk.contains("<encryption ")
}

/// Nova refuses such a swap, too. The content of an encrypted volume is smaller than the volume by a header.
pub(super) fn no_encrypted_swap() -> DriverError {
    DriverError::Unsupported("it cannot exchange a volume that QEMU decrypts for another one".to_owned())
}

/// Gives the guest the new volume from its next start on. From then on, the disk also has the serial of `new`.
fn redefine(domain: &Domain, old: &str, new: &VolumeDisk, facts: &HostFacts) -> DriverResult<()> {
    forget(domain, old)?;
    if has(domain, PERSISTENT, new.key())? {
        return Ok(());
    }
    let xml = domain_xml::render_disk(new, facts, has_encrypted_memory(domain, "disk exchange")?);
    domain.attach_device_flags(&xml, sys::VIR_DOMAIN_AFFECT_CONFIG).during("disk exchange")
}

/// Ends a copy of the volume `old`; the guest keeps `old`.
pub(super) fn abandon(domain: &Domain, old: &str) -> DriverResult<()> {
    const CALL: &str = "disk exchange";
    if !domain.is_active().during(CALL)? {
        return Ok(());
    }
    match find(domain, LIVE, old, CALL)? {
        Some(live) if blockcopy::progress(domain, &live.device)?.is_some() => blockcopy::abandon(domain, &live.device),
        _ => Ok(()),
    }
}

/// The target of a copy. libvirt looks up volumes of its pools only when a guest starts, so a copy needs the path.
fn mirror(connect: &Connect, new: &VolumeDisk, facts: &HostFacts) -> DriverResult<String> {
    const CALL: &str = "disk exchange";
    if new.network.is_some() {
        // The copy replaces only the source of the disk, so `iommu` of the device stays as it is.
        let xml = domain_xml::render_disk(new, facts, false);
        // A running guest keeps the serial of the old disk. The source must therefore name the new volume, so that the
        // disk can be found and detached.
        return match parsed(&xml, CALL, |document| named_by_source(document.root_element()) == Some(new.key()))? {
            true => Ok(xml),
            false => Err(DriverError::Unsupported(format!(
                "a running guest cannot get the volume {} in place of another: its address does not name the volume",
                new.key()
            ))),
        };
    }
    let pool = connect.lookup_storage_pool_by_name(&new.pool).during(CALL)?;
    let missing = || DriverError::Failed { call: CALL, message: format!("there is no volume {}", new.volume) };
    let path = pool::lookup(&pool, &new.volume)?.ok_or_else(missing)?.path().during(CALL)?;
    let (kind, key) = match path.as_str() {
        path if path.starts_with("/dev/") => ("block", "dev"),
        path if path.starts_with('/') => ("file", "file"),
        _ => return Err(DriverError::Unsupported(format!("{path} cannot take the place of a disk in use"))),
    };
    let disk = Element::new("disk")
        .attr("type", kind)
        .attr("device", "disk")
        .child(Element::new("driver").attr("name", "qemu").attr("type", &new.format))
        .child(Element::new("source").attr(key, &path));
    Ok(disk.render())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ONE: &str = "5a0e2f4c-0b1d-4a57-9c39-d5f0c3b0a001";
    const TWO: &str = "5a0e2f4c-0b1d-4a57-9c39-d5f0c3b0a002";

    fn key(disk: &str) -> Option<String> {
        let document = Document::parse(disk).unwrap();
        key_of(document.root_element()).map(str::to_owned)
    }

    #[test]
    fn a_disk_that_qemu_decrypts_is_found_in_libvirt_s_definition() {
        let disk =
            |inner: &str| format!("<disk><source protocol='rbd' name='volumes/volume-{ONE}'>{inner}</source></disk>");
        assert!(is_encrypted(&disk(
            "<encryption format='luks' engine='qemu'><secret type='passphrase'/></encryption>"
        )));
        assert!(!is_encrypted(&disk("<auth username='cinder'/>")));
    }

    #[test]
    fn an_encrypted_disk_grows_by_as_much_as_its_volume() {
        let (gib, header) = (1_u64 << 30, 2_068_480);
        assert_eq!(payload(3 * gib, gib - header), 3 * gib - header);
        assert_eq!(payload(3 * gib, gib), 3 * gib);
    }

    #[test]
    fn the_source_names_the_volume_unless_it_is_an_iscsi_target() {
        let file = format!("<disk><source file='/pool/volume-{TWO}'/><serial>{ONE}</serial></disk>");
        let image = format!("<disk><source protocol='rbd' name='volumes/volume-{TWO}'/><serial>{ONE}</serial></disk>");
        let target = format!(
            "<disk><source protocol='iscsi' name='iqn.2010-10.org.openstack:volume-{TWO}/1'/><serial>{ONE}</serial></disk>"
        );
        assert_eq!(key(&file).as_deref(), Some(TWO));
        assert_eq!(key(&image).as_deref(), Some(TWO));
        assert_eq!(key(&target).as_deref(), Some(ONE));
        let document = Document::parse(&target).unwrap();
        assert_eq!(named_by_source(document.root_element()), None);
    }

    /// The keys of the record and of the definition must be the same, also after Cinder has migrated the volume.
    #[test]
    fn a_disk_has_the_same_key_in_the_record_and_in_the_definition() {
        let disk = |source: String| format!("<disk><source {source}/><serial>{ONE}</serial></disk>");
        for (name, source) in [
            (format!("volume-{TWO}"), format!("protocol='nfs' name='/exports/volume-{TWO}'")),
            (format!("volume-{ONE}"), format!("pool='volumes' volume='volume-{ONE}'")),
            ("1".to_owned(), format!("protocol='iscsi' name='iqn.2010-10.org.openstack:volume-{TWO}/1'")),
        ] {
            let recorded = chronova_events::instance::disk_key(&name, ONE);
            assert_eq!(key(&disk(source)).as_deref(), Some(recorded), "{name}");
        }
    }

    #[test]
    fn a_copy_belongs_to_the_volume_that_its_mirror_names() {
        let disk = format!(
            "<disk><source file='/pool/volume-{ONE}'/><mirror type='file' file='/pool/volume-{TWO}' job='copy' \
             ready='yes'><source file='/pool/volume-{TWO}'/></mirror></disk>"
        );
        assert!(is_copied_to(&disk, TWO).unwrap());
        assert!(!is_copied_to(&disk, ONE).unwrap());
        assert!(!is_copied_to(&format!("<disk><source file='/pool/volume-{ONE}'/></disk>"), TWO).unwrap());
    }
}
