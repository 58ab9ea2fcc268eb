//! Copies a guest's root disk into one file without a backing file. The file then becomes an image.
//!
//! QEMU copies the disk of a running guest with a full backup job. The job copies the content that the disk had at the
//! beginning, while the guest continues to write. The storage pool copies the disk of a guest that is off. After the
//! last byte, an empty volume beside the copy marks the copy as complete. A copy that a crash interrupted has no mark
//! and is repeated.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use chronova_events::ids::{ImageId, InstanceId};
use roxmltree::{Document, Node};
use tokio::sync::mpsc;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::{Error, ErrorNumber};
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;
use virt_sys as sys;

use super::cached_image::format_seen;
use super::error::{Context, number, translate};
use super::storage::{self, HostStorage};
use super::{agent, domain, managed_save, pool};
use crate::capability::snapshots::PlacedCopy;
use crate::domain_xml::DiskSource;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{DiskCopy, Quiesce};
use crate::options::LibvirtOptions;
use crate::volumes;
use crate::xml::Element;

const CALL: &str = "disk copy";
const CHUNK: usize = 256 * 1024;

/// The progress of a copy.
pub(super) enum SnapshotStart {
    Complete(DiskCopy),
    /// The host is copying; the caller checks again later.
    Running,
}

fn failed(message: impl Into<String>) -> DriverError {
    DriverError::Failed { call: CALL, message: message.into() }
}

/// Starts a copy in libvirt's format `format`, unless it is complete. First ends a copy that an earlier process left
/// running, and removes an incomplete copy. If another job of the guest runs, such as a copy of a volume or a
/// migration, libvirt refuses to start this copy.
pub(super) fn begin(
    connect: &Connect,
    options: &LibvirtOptions,
    (instance, copy): (InstanceId, ImageId),
    format: &'static str,
    quiesce: Quiesce,
) -> DriverResult<SnapshotStart> {
    let guest = domain::require(connect, instance)?;
    let pool = pool::open(connect, options)?;
    if let Some(done) = complete(&pool, instance, copy)? {
        return Ok(SnapshotStart::Complete(done));
    }
    if is_written(&guest, &format!("{}/{}", options.pool_path, volumes::copies(instance)))? {
        abort(&guest)?;
    }
    remove_from(&pool, instance, copy)?;
    let site = HostStorage::new(connect, options);
    super::adopted::take_disks(site, instance)?;
    let xml = |capacity| pool::volume_xml(&volumes::copy(instance, copy), capacity, format, "0600", None);
    if guest.is_active().during(CALL)? {
        let (source, capacity) = match super::adopted::root_in_use(site, &guest, instance)? {
            Some(of_nova) => of_nova,
            None => {
                let root = site.find(&volumes::root(instance))?.ok_or_else(no_disk)?;
                (root.source(options), root.capacity()?)
            }
        };
        // The pool creates the volume, because it knows only volumes that it created or found at a refresh. QEMU fills
        // the volume.
        StorageVol::create_xml(&pool, &xml(capacity), 0).during(CALL)?;
        let target = format!("{}/{}", options.pool_path, volumes::copy(instance, copy));
        return back_up(&guest, &source, (&target, format), quiesce).map(|()| SnapshotStart::Running);
    }
    let root = site.find(&volumes::root(instance))?.ok_or_else(no_disk)?;
    let file = root.as_file(site, &pool)?;
    let looked = match &file {
        Some(file) => is_taken_as_bytes(&pool, file),
        None if root.is_guessed() => is_taken_as_bytes(&root.pool, &root.volume),
        None => Ok(()),
    };
    // The new volume has no backing file, so the pool copies the whole content.
    let made = looked.and_then(|()| {
        let from = file.as_ref().unwrap_or(&root.volume);
        StorageVol::create_xml_from(&pool, &xml(root.capacity()?), from, 0).during(CALL)
    });
    if let Some(file) = &file {
        pool::delete(file)?;
    }
    made?;
    mark(&pool, instance, copy).map(SnapshotStart::Complete)
}

/// Makes the copy in the image service's storage, if the root disk is there, too. After `false`, [`begin`] must make
/// the copy.
pub(super) fn place(
    connect: &Connect,
    options: &LibvirtOptions,
    (instance, copy): (InstanceId, ImageId),
    quiesce: Quiesce,
) -> DriverResult<bool> {
    let guest = domain::require(connect, instance)?;
    let site = HostStorage::new(connect, options);
    let Some(root) = site.find(&volumes::root(instance))? else { return Ok(false) };
    let Some(placing) = root.placing() else { return Ok(false) };
    if !placing.may_place(site, &root)? {
        return Ok(false);
    }
    if placing.placed(site, &root, copy)?.is_some() {
        return Ok(true);
    }
    let frozen = guest.is_active().during(CALL)? && freeze_if_wanted(&guest, quiesce)?;
    let taken = placing.take(site, &root, copy);
    if frozen && let Err(error) = agent::thaw(&guest) {
        tracing::error!(%error, "cannot thaw the guest's file systems");
    }
    match taken.and_then(|()| placing.place(site, &root, copy)) {
        Ok(()) => Ok(true),
        Err(error) => {
            tracing::warn!(server = %instance, %error, "an image is copied through the host of its server");
            placing.unplace(site, &root, copy)?;
            Ok(false)
        }
    }
}

/// The copy that [`place`] made.
pub(super) fn placed(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    copy: ImageId,
) -> DriverResult<Option<PlacedCopy>> {
    let site = HostStorage::new(connect, options);
    let Some(root) = site.find(&volumes::root(instance))? else { return Ok(None) };
    let Some(placing) = root.placing() else { return Ok(None) };
    match placing.placed(site, &root, copy)? {
        Some(url) => Ok(Some(PlacedCopy { url, sha512: placing.digest(site, &root, copy)? })),
        None => Ok(None),
    }
}

/// Removes the copy that [`place`] made, even if the guest was deleted with its disk meanwhile.
pub(super) fn unplace(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    copy: ImageId,
) -> DriverResult<()> {
    let site = HostStorage::new(connect, options);
    match site.find(&volumes::root(instance))? {
        Some(root) => root.placing().map_or(Ok(()), |placing| placing.unplace(site, &root, copy)),
        None => storage::placing(options).map_or(Ok(()), |placing| placing.unplace_of_none(site, copy)),
    }
}

/// Checks a copy that the host is making.
pub(super) fn progress(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    copy: ImageId,
) -> DriverResult<SnapshotStart> {
    let guest = domain::require(connect, instance)?;
    if is_copying(&guest)? {
        return Ok(SnapshotStart::Running);
    }
    let pool = pool::open(connect, options)?;
    if let Some(done) = complete(&pool, instance, copy)? {
        return Ok(SnapshotStart::Complete(done));
    }
    if !succeeded(&guest) {
        remove_from(&pool, instance, copy)?;
        return Err(failed("the host aborted the copy"));
    }
    mark(&pool, instance, copy).map(SnapshotStart::Complete)
}

pub(super) fn remove(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    copy: ImageId,
) -> DriverResult<()> {
    // Only the job of this copy ends. Another job of the guest continues, such as another copy or a migration.
    if let Some(guest) = domain::lookup(connect, instance)?
        && is_written(&guest, &format!("{}/{}", options.pool_path, volumes::copy(instance, copy)))?
    {
        abort(&guest)?;
    }
    remove_from(&pool::open(connect, options)?, instance, copy)
}

/// Whether the host is copying the guest to a file whose path begins with `path`.
fn is_written(guest: &Domain, path: &str) -> DriverResult<bool> {
    if !guest.is_active().during(CALL)? {
        return Ok(false);
    }
    // SAFETY: the domain is alive, and the call takes no other pointer. The call returns a new text or null.
    let text = unsafe { sys::virDomainBackupGetXMLDesc(guest.as_ptr(), 0) };
    if text.is_null() {
        let error = Error::last_error();
        return match number(&error) {
            // There is no backup job, or the guest went off between the two calls.
            Some(ErrorNumber::NoDomainBackup | ErrorNumber::OperationInvalid | ErrorNumber::NoDomain) => Ok(false),
            _ => Err(translate(CALL, &error)),
        };
    }
    // SAFETY: the text ends with a zero and belongs to us. The text is read before it is freed, and freed once.
    let xml = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: as above; libvirt allocates its texts with the C library.
    unsafe { libc_free(text.cast()) };
    Ok(backs_up_to(&xml, path))
}

unsafe extern "C" {
    /// The C library's `free`, for libvirt's texts.
    #[link_name = "free"]
    fn libc_free(text: *mut c_void);
}

/// Whether a backup with this description writes to a file whose path begins with `path`.
fn backs_up_to(xml: &str, path: &str) -> bool {
    let Ok(document) = Document::parse(xml) else { return false };
    let targets = document.descendants().filter(|node| node.has_tag_name("target"));
    targets.filter_map(|target| target.attribute("file")).any(|file| file.starts_with(path))
}

fn remove_from(pool: &StoragePool, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
    for name in [volumes::copy_complete(instance, copy), volumes::copy(instance, copy)] {
        if let Some(volume) = pool::lookup(pool, &name)? {
            pool::delete(&volume)?;
        }
    }
    Ok(())
}

fn complete(pool: &StoragePool, instance: InstanceId, copy: ImageId) -> DriverResult<Option<DiskCopy>> {
    if pool::lookup(pool, &volumes::copy_complete(instance, copy))?.is_none() {
        return Ok(None);
    }
    let volume = pool::lookup(pool, &volumes::copy(instance, copy))?;
    volume.map(|volume| Ok(DiskCopy { size: pool::physical_size(&volume)? })).transpose()
}

fn mark(pool: &StoragePool, instance: InstanceId, copy: ImageId) -> DriverResult<DiskCopy> {
    let volume = pool::lookup(pool, &volumes::copy(instance, copy))?;
    let volume = volume.ok_or_else(|| failed("the copy is not in the pool"))?;
    let size = pool::physical_size(&volume)?;
    pool::create_raw(pool, &volumes::copy_complete(instance, copy), 0, "0600")?;
    Ok(DiskCopy { size })
}

fn no_disk() -> DriverError {
    DriverError::Unsupported("the guest has no disk of its own".to_owned())
}

/// Refuses a raw disk that looks like another format. The guest writes the first bytes of the disk. libvirt would read
/// the disk as that format. It would then read any file of the host that the disk's header names as its base.
fn is_taken_as_bytes(pool: &StoragePool, volume: &StorageVol) -> DriverResult<()> {
    // The refresh makes libvirt detect the format again. The guest is off, so the format cannot change afterwards.
    pool.refresh(0).map_err(|error| {
        tracing::debug!(%error, "storage pool not refreshed");
        DriverError::Timeout { call: CALL, seconds: 0 }
    })?;
    match format_seen(volume)?.as_str() {
        "raw" | "iso" | "" => Ok(()),
        other => {
            Err(DriverError::Unsupported(format!("the guest's disk is raw and looks like {other}: start the guest")))
        }
    }
}

fn back_up(guest: &Domain, root: &DiskSource, (target, format): (&str, &str), quiesce: Quiesce) -> DriverResult<()> {
    let xml = backup_xml(&guest.xml_desc(0).during(CALL)?, root, target, format)?;
    let xml = CString::new(xml).map_err(|_| failed("a path has a zero byte"))?;
    let frozen = freeze_if_wanted(guest, quiesce)?;
    // The target file exists and is formatted.
    let flags = sys::VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL;
    // SAFETY: the domain is alive, the text lives until the call returns, and a null checkpoint asks for none.
    let begun = unsafe { sys::virDomainBackupBegin(guest.as_ptr(), xml.as_ptr(), ptr::null(), flags) };
    let begun = if begun == 0 { Ok(()) } else { Err(translate(CALL, &Error::last_error())) };
    if frozen && let Err(error) = agent::thaw(guest) {
        tracing::error!(%error, target, "cannot thaw the guest's file systems");
    }
    begun
}

/// Describes a backup job that copies the whole disk at `root` to the file `target` in this format. The job copies no
/// other disk.
fn backup_xml(domain: &str, root: &DiskSource, target: &str, format: &str) -> DriverResult<String> {
    let document = Document::parse(domain).map_err(|error| failed(format!("the domain cannot be read: {error}")))?;
    let mut disks = Element::new("disks");
    let mut found = false;
    for disk in document.descendants().filter(|node| node.has_tag_name("disk")) {
        let child = |name: &str, key: &str| -> Option<String> {
            let node: Node<'_, '_> = disk.children().find(|node| node.has_tag_name(name))?;
            node.attribute(key).map(str::to_owned)
        };
        let Some(device) = child("target", "dev") else { continue };
        let (key, path) = root.address();
        let is_root = child("source", key).as_deref() == Some(path);
        found |= is_root;
        let element = Element::new("disk").attr("name", device).attr("backup", if is_root { "yes" } else { "no" });
        disks = disks.child(match is_root {
            true => element
                .attr("type", "file")
                .child(Element::new("driver").attr("type", format))
                .child(Element::new("target").attr("file", target)),
            false => element,
        });
    }
    match found {
        true => Ok(Element::new("domainbackup").attr("mode", "push").child(disks).render()),
        false => Err(no_disk()),
    }
}

/// Lets the agent freeze the guest's file systems if `quiesce` demands it. Returns whether they are frozen.
fn freeze_if_wanted(guest: &Domain, quiesce: Quiesce) -> DriverResult<bool> {
    if quiesce == Quiesce::No {
        return Ok(false);
    }
    match agent::freeze(guest) {
        Ok(()) => Ok(true),
        Err(error) if quiesce == Quiesce::Required => Err(error),
        Err(error) => {
            tracing::info!(%error, "copying the guest's disk without quiescing it");
            Ok(false)
        }
    }
}

fn is_copying(guest: &Domain) -> DriverResult<bool> {
    if !guest.is_active().during(CALL)? {
        return Ok(false);
    }
    match job(guest, 0) {
        Ok(kind) => Ok(kind != sys::VIR_DOMAIN_JOB_NONE.cast_signed()),
        // The guest went off between the two calls.
        Err(error) if number(&error) == Some(ErrorNumber::OperationInvalid) => Ok(false),
        Err(error) => Err(translate(CALL, &error)),
    }
}

/// Whether the guest's last job succeeded. Reading does not delete libvirt's report, but a restart of libvirtd does.
fn succeeded(guest: &Domain) -> bool {
    let flags = sys::VIR_DOMAIN_JOB_STATS_COMPLETED | sys::VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED;
    job(guest, flags).is_ok_and(|kind| kind == sys::VIR_DOMAIN_JOB_COMPLETED.cast_signed())
}

/// The kind of the guest's job. The bindings' own call would build a vector from libvirt's list. Without a job that
/// list is null, which would abort the program.
fn job(guest: &Domain, flags: u32) -> Result<i32, Error> {
    let (mut kind, mut list, mut count) = (0, ptr::null_mut(), 0);
    // SAFETY: the domain is alive, and the three variables that the call writes to live until it returns.
    let got = unsafe { sys::virDomainGetJobStats(guest.as_ptr(), &raw mut kind, &raw mut list, &raw mut count, flags) };
    if got < 0 {
        return Err(Error::last_error());
    }
    // SAFETY: the list is libvirt's and has `count` elements, or is null, which the call accepts. Nobody else uses it.
    unsafe { sys::virTypedParamsFree(list, count) };
    Ok(kind)
}

/// Ends a running copy. Succeeds if there is none.
fn abort(guest: &Domain) -> DriverResult<()> {
    if !is_copying(guest)? {
        return Ok(());
    }
    // SAFETY: the domain is alive; the call takes no other pointer.
    match unsafe { sys::virDomainAbortJob(guest.as_ptr()) } {
        0 => Ok(()),
        _ => match is_copying(guest)? {
            true => Err(translate(CALL, &Error::last_error())),
            false => Ok(()),
        },
    }
}

/// Sends the bytes of a copy in chunks until the reader stops.
pub(super) fn send(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    copy: ImageId,
    out: &mpsc::Sender<Result<bytes::Bytes, std::io::Error>>,
) -> DriverResult<()> {
    const CALL: &str = "read copy";
    let pool = pool::open(connect, options)?;
    let size = complete(&pool, instance, copy)?.ok_or_else(|| failed("there is no such copy"))?.size;
    let volume = pool::lookup(&pool, &volumes::copy(instance, copy))?.ok_or_else(|| failed("the copy is gone"))?;
    let stream = Stream::new(connect, 0).during(CALL)?;
    volume.download(&stream, 0, size, 0).during(CALL)?;
    let mut buffer = vec![0_u8; CHUNK];
    let mut sent = 0;
    loop {
        match stream.recv(&mut buffer).map(usize::try_from) {
            Ok(Ok(0) | Err(_)) => {
                stream.finish().during(CALL)?;
                return is_whole(CALL, sent, size);
            }
            Ok(Ok(received)) => {
                sent += received as u64;
                if out.blocking_send(Ok(bytes::Bytes::copy_from_slice(&buffer[..received]))).is_err() {
                    let _ = stream.abort();
                    return Ok(());
                }
            }
            Err(error) => {
                let _ = stream.abort();
                return Err(translate(CALL, &error));
            }
        }
    }
}

/// Fails if the stream ended before the last byte, because the reader would take the copy as complete.
pub(super) fn is_whole(call: &'static str, sent: u64, size: u64) -> DriverResult<()> {
    if sent == size {
        return Ok(());
    }
    Err(DriverError::Failed { call, message: format!("the host sent {sent} of {size} bytes") })
}

/// Powers a guest off and deletes its saved memory, so that it can get another definition.
pub(super) fn put_down(guest: &Domain) -> DriverResult<()> {
    domain::pull(guest)?;
    managed_save::forget(guest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_the_root_disk_is_copied() {
        let domain = "<domain><devices>\
            <disk type='file' device='disk'><source file='/p/a_disk'/><target dev='vda' bus='virtio'/></disk>\
            <disk type='file' device='cdrom'><source file='/p/a_disk.config'/><target dev='hda' bus='ide'/></disk>\
            </devices></domain>";
        let root = |path: &str| DiskSource::File { path: path.to_owned(), format: "qcow2" };
        let xml = backup_xml(domain, &root("/p/a_disk"), "/p/a_copy.1", "raw").unwrap();
        assert!(xml.contains("<driver type='raw'/>"), "{xml}");
        let document = Document::parse(&xml).unwrap();
        let disks: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name("disk"))
            .map(|node| (node.attribute("name").unwrap(), node.attribute("backup").unwrap()))
            .collect();
        assert_eq!(disks, [("vda", "yes"), ("hda", "no")]);
        assert!(xml.contains("file='/p/a_copy.1'"));
        assert!(matches!(backup_xml(domain, &root("/p/other"), "/p/x", "raw"), Err(DriverError::Unsupported(_))));
        assert!(backs_up_to(&xml, "/p/a_copy.1"));
        assert!(!backs_up_to(&xml, "/p/a_copy.2"), "a copy to another file must not count");
        let block = domain.replace(
            "type='file' device='disk'><source file='/p/a_disk'",
            "type='block' device='disk'><source dev='/dev/vg/a_disk'",
        );
        let root = DiskSource::Block { path: "/dev/vg/a_disk".to_owned() };
        assert!(backup_xml(&block, &root, "/p/a_copy.1", "qcow2").unwrap().contains("name='vda' backup='yes'"));
    }
}
