//! The volumes of the volume service, in a pool of their own.
//!
//! In a pool of files the volumes are qcow2. Raw files would not be safe there, because libvirt detects the format from
//! the first sector, which the guest writes. In a pool of block devices they are raw. Copies have no backing file.
//! While a guest writes, QEMU itself copies the content that the volume had when the copy began.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use roxmltree::Document;
use tokio::sync::mpsc;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::error::Error;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;
use virt_sys as sys;

use super::disk_snapshots::whole_or_error;
use super::error::{Context, translate};
use super::host::LibvirtDriver;
use super::{cached_image, domain, pool, snapshot};
use crate::capability::volume_store::{PoolStatus, PoolVolume, VolumeContent, VolumeStore};
use crate::driver::{ByteStream, DriverError, DriverResult};
use crate::options::LibvirtOptions;
use crate::volumes;
use crate::xml::Element;

/// How long copying a volume may take.
const COPY_LIMIT: Duration = Duration::from_hours(6);
/// The pause between two checks of a copy by QEMU.
const COPY_POLL: Duration = Duration::from_millis(200);
const CHUNK: usize = 1 << 20;

fn failed(call: &'static str, message: impl Into<String>) -> DriverError {
    DriverError::Failed { call, message: message.into() }
}

/// The format of the pool's volumes.
fn format_of(pool: &StoragePool) -> DriverResult<&'static str> {
    let xml = pool.xml_desc(0).during("storage pool")?;
    let document = Document::parse(&xml).map_err(|error| failed("storage pool", error.to_string()))?;
    let kind = document.root_element().attribute("type").unwrap_or_default();
    Ok(if matches!(kind, "dir" | "fs" | "netfs" | "gluster") { "qcow2" } else { "raw" })
}

fn volume_xml(name: &str, capacity: u64, format: &str) -> String {
    let bytes = |name: &'static str, value: u64| Element::leaf(name, value).attr("unit", "bytes");
    let compat = (format == "qcow2").then(|| Element::leaf("compat", "1.1"));
    let target = Element::new("target")
        .child(Element::new("format").attr("type", format))
        .child(Element::new("permissions").child(Element::leaf("mode", "0600")))
        .children(compat);
    Element::new("volume")
        .child(Element::leaf("name", name))
        .child(bytes("capacity", capacity))
        .child(bytes("allocation", 0))
        .child(target)
        .render()
}

/// Finds the volume, even if another host on the same storage created it after this host's last refresh.
fn find(pool: &StoragePool, name: &str) -> DriverResult<Option<StorageVol>> {
    if let Some(volume) = pool::lookup(pool, name)? {
        return Ok(Some(volume));
    }
    pool::must_refresh(pool)?;
    pool::lookup(pool, name)
}

fn require(pool: &StoragePool, name: &str) -> DriverResult<StorageVol> {
    find(pool, name)?.ok_or_else(|| failed("volume lookup", format!("volume {name} is not there")))
}

fn remove(pool: &StoragePool, name: &str) -> DriverResult<()> {
    match pool::lookup(pool, name)? {
        Some(volume) => pool::delete(&volume),
        None => Ok(()),
    }
}

/// The guest's domain, if the guest runs. A running guest has its volumes open.
fn running(connect: &Connect, user: Option<InstanceId>) -> DriverResult<Option<Domain>> {
    let Some(instance) = user else { return Ok(None) };
    match domain::lookup(connect, instance)? {
        Some(domain) if domain.is_active().during("guest lookup")? => Ok(Some(domain)),
        _ => Ok(None),
    }
}

/// The name of the guest's device for a volume in the pool, for example `vdb`.
fn target(domain: &Domain, name: &str) -> DriverResult<Option<String>> {
    let xml = domain.xml_desc(0).during("guest")?;
    let document = Document::parse(&xml).map_err(|error| failed("guest", error.to_string()))?;
    let is_source = |node: roxmltree::Node<'_, '_>| {
        let by_path = ["file", "dev", "name"].iter().filter_map(|key| node.attribute(*key));
        node.attribute("volume") == Some(name) || by_path.into_iter().any(|path| path.rsplit('/').next() == Some(name))
    };
    let disks = document.descendants().filter(|node| node.has_tag_name("disk"));
    let mut ours = disks.filter(|disk| disk.children().any(|node| node.has_tag_name("source") && is_source(node)));
    Ok(ours.find_map(|disk| {
        let target = disk.children().find(|node| node.has_tag_name("target"))?;
        target.attribute("dev").map(str::to_owned)
    }))
}

fn create(
    connect: &Connect,
    options: &LibvirtOptions,
    name: &str,
    size: u64,
    content: &VolumeContent,
) -> DriverResult<()> {
    let pool = pool::open_volumes(connect, options)?;
    let format = format_of(&pool)?;
    // In a shared pool, this libvirtd may not have listed the volume yet.
    if let Some(old) = find(&pool, name)? {
        pool::delete(&old)?;
    }
    match content {
        VolumeContent::Blank => {
            StorageVol::create_xml(&pool, &volume_xml(name, size, format), 0).during("volume create").map(drop)
        }
        VolumeContent::Image(image) => {
            let base = cached_image::volume(connect, options, image)?;
            clone(&pool, name, size, format, &base)
        }
        VolumeContent::Copy { of, user } => copy(connect, &pool, name, size, format, of, *user),
    }
}

/// Creates a complete copy of a volume that no guest writes to.
fn clone(pool: &StoragePool, name: &str, size: u64, format: &str, of: &StorageVol) -> DriverResult<()> {
    let xml = volume_xml(name, size, format);
    let volume = StorageVol::create_xml_from(pool, &xml, of, 0).during("volume copy")?;
    grow(&volume, size).inspect_err(|_| {
        let _ = pool::delete(&volume);
    })
}

/// Grows a volume. `info` rereads the file, so that libvirtd does not report a cached size.
fn grow(volume: &StorageVol, size: u64) -> DriverResult<()> {
    if volume.info().during("volume size")?.capacity >= size {
        return Ok(());
    }
    volume.resize(size, 0).during("volume resize")
}

fn copy(
    connect: &Connect,
    pool: &StoragePool,
    name: &str,
    size: u64,
    format: &str,
    of: &str,
    user: Option<InstanceId>,
) -> DriverResult<()> {
    let source = require(pool, of)?;
    let guest = running(connect, user)?;
    let disk = guest.as_ref().map(|guest| target(guest, of)).transpose()?.flatten();
    let (Some(guest), Some(disk)) = (guest, disk) else { return clone(pool, name, size, format, &source) };
    let capacity = source.info().during("volume size")?.capacity;
    let volume = StorageVol::create_xml(pool, &volume_xml(name, capacity, format), 0).during("volume create")?;
    let path = volume.path().during("volume create")?;
    let copied = backup(&guest, &disk, &path, format).and_then(|()| grow(&volume, size));
    copied.inspect_err(|_| {
        let _ = pool::delete(&volume);
    })
}

/// Lets QEMU copy the present content of a running guest's disk into an existing volume.
fn backup(guest: &Domain, disk: &str, path: &str, format: &str) -> DriverResult<()> {
    const CALL: &str = "volume copy";
    let file = if path.starts_with("/dev/") { ("block", "dev") } else { ("file", "file") };
    let disk = Element::new("disk")
        .attr("name", disk)
        .attr("backup", "yes")
        .attr("type", file.0)
        .child(Element::new("driver").attr("type", format))
        .child(Element::new("target").attr(file.1, path));
    let xml = Element::new("domainbackup").attr("mode", "push").child(Element::new("disks").child(disk)).render();
    let xml = CString::new(xml).map_err(|error| failed(CALL, error.to_string()))?;
    // SAFETY: the domain is alive (we hold a reference), and the text ends with a zero. No checkpoint is requested.
    let begun = unsafe {
        sys::virDomainBackupBegin(
            guest.as_ptr(),
            xml.as_ptr(),
            std::ptr::null(),
            sys::VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL,
        )
    };
    if begun != 0 {
        return Err(translate(CALL, &Error::last_error()));
    }
    if !ends_within(COPY_LIMIT, || job(guest, 0))? {
        // SAFETY: the domain is alive; the call takes no other pointer. If it fails, the job goes on without us.
        unsafe { sys::virDomainAbortJob(guest.as_ptr()) };
        return Err(DriverError::Timeout { call: CALL, seconds: COPY_LIMIT.as_secs() });
    }
    match job(guest, sys::VIR_DOMAIN_JOB_STATS_COMPLETED)? {
        sys::VIR_DOMAIN_JOB_COMPLETED => Ok(()),
        other => Err(failed(CALL, format!("the copy ended in state {other}"))),
    }
}

/// Waits until the guest's job has ended, at most for `patience`. Returns whether it has ended. The wait is limited,
/// because it holds a thread of the host and the volume's gate, and its caller has given up by then.
fn ends_within(patience: Duration, mut job: impl FnMut() -> DriverResult<sys::virDomainJobType>) -> DriverResult<bool> {
    let end = Instant::now() + patience;
    while job()? != sys::VIR_DOMAIN_JOB_NONE {
        if Instant::now() >= end {
            return Ok(false);
        }
        pause();
    }
    Ok(true)
}

#[expect(clippy::disallowed_methods, reason = "on a thread of the host's own")]
fn pause() {
    thread::sleep(COPY_POLL);
}

/// The kind of the guest's job.
fn job(guest: &Domain, flags: sys::virDomainGetJobStatsFlags) -> DriverResult<sys::virDomainJobType> {
    let (mut kind, mut count) = (0, 0);
    let mut parameters: sys::virTypedParameterPtr = std::ptr::null_mut();
    // SAFETY: the domain is alive. The three variables are ours, and the list from the call is freed below.
    let got =
        unsafe { sys::virDomainGetJobStats(guest.as_ptr(), &raw mut kind, &raw mut parameters, &raw mut count, flags) };
    if got != 0 {
        return Err(translate("volume copy", &Error::last_error()));
    }
    // SAFETY: the call above made the list with this many elements. Null is allowed.
    unsafe { sys::virTypedParamsFree(parameters, count) };
    Ok(sys::virDomainJobType::try_from(kind).unwrap_or(sys::VIR_DOMAIN_JOB_NONE))
}

fn resize(
    connect: &Connect,
    options: &LibvirtOptions,
    name: &str,
    size: u64,
    user: Option<InstanceId>,
) -> DriverResult<()> {
    let pool = pool::open_volumes(connect, options)?;
    let volume = require(&pool, name)?;
    if let Some(guest) = running(connect, user)?
        && let Some(disk) = target(&guest, name)?
    {
        return guest.block_resize(&disk, size, sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES).during("volume resize");
    }
    grow(&volume, size)
}

/// Sends a volume's content as a guest would read it. Copies the volume first, so that the stream shows the volume at
/// one moment. The stream has raw bytes, even if the volume is qcow2.
fn send(
    connect: &Connect,
    options: &LibvirtOptions,
    name: &str,
    user: Option<InstanceId>,
    chunks: &mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> DriverResult<()> {
    let pool = pool::open_volumes(connect, options)?;
    let format = format_of(&pool)?;
    let capacity = require(&pool, name)?.info().during("volume size")?.capacity;
    let (still, plain) = (format!("{name}.still"), format!("{name}.plain"));
    let sent = (|| {
        remove(&pool, &still)?;
        remove(&pool, &plain)?;
        copy(connect, &pool, &still, capacity, format, name, user)?;
        clone(&pool, &plain, capacity, "raw", &require(&pool, &still)?)?;
        remove(&pool, &still)?;
        download(connect, &require(&pool, &plain)?, capacity, chunks)
    })();
    let _ = remove(&pool, &still);
    let _ = remove(&pool, &plain);
    sent
}

fn download(
    connect: &Connect,
    volume: &StorageVol,
    size: u64,
    chunks: &mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> DriverResult<()> {
    const CALL: &str = "volume download";
    let stream = Stream::new(connect, 0).during(CALL)?;
    volume.download(&stream, 0, size, 0).during(CALL)?;
    let mut buffer = vec![0_u8; CHUNK];
    let mut sent = 0;
    loop {
        match stream.recv(&mut buffer).map(usize::try_from) {
            Ok(Ok(0)) => {
                stream.finish().during(CALL)?;
                return snapshot::is_whole(CALL, sent, size);
            }
            Ok(Ok(received)) => {
                sent += received as u64;
                if chunks.blocking_send(Ok(Bytes::copy_from_slice(&buffer[..received]))).is_err() {
                    let _ = stream.abort();
                    return Err(failed(CALL, "its caller gave up"));
                }
            }
            Ok(Err(_)) => return Err(failed(CALL, "the stream returned no bytes")),
            Err(error) => {
                let _ = stream.abort();
                return Err(translate(CALL, &error));
            }
        }
    }
}

#[async_trait]
impl VolumeStore for LibvirtDriver {
    async fn volume_pool(&self) -> DriverResult<PoolStatus> {
        self.ask("volume pool", |connect, options| {
            let pool = pool::open_volumes(connect, options)?;
            let info = pool.info().during("volume pool")?;
            Ok(PoolStatus {
                name: options.volume_pool_name.clone(),
                format: format_of(&pool)?.to_owned(),
                capacity: info.capacity,
                free: info.available,
            })
        })
        .await
    }

    async fn volumes(&self) -> DriverResult<Vec<PoolVolume>> {
        self.ask("volumes", |connect, options| {
            let pool = pool::open_volumes(connect, options)?;
            pool::refresh(&pool);
            let mut all = Vec::new();
            for name in pool::names(&pool)?.into_iter().filter(|name| volumes::kept(name).is_some()) {
                if let Some(volume) = pool::lookup(&pool, &name)? {
                    let size = volume.info().during("volumes")?.capacity;
                    all.push(PoolVolume { name, size });
                }
            }
            all.sort();
            Ok(all)
        })
        .await
    }

    async fn create_volume(&self, name: &str, size: u64, content: &VolumeContent) -> DriverResult<()> {
        let pass = self.volumes.enter(&name.to_owned(), "volume create", COPY_LIMIT).await?;
        let (name, content) = (name.to_owned(), content.clone());
        self.call_within("volume create", COPY_LIMIT, move |connect, options| {
            let _until_done = pass;
            create(connect, options, &name, size, &content)
        })
        .await
    }

    async fn delete_volume(&self, name: &str) -> DriverResult<()> {
        let deadline = self.options.call_deadline;
        let pass = self.volumes.enter(&name.to_owned(), "volume delete", deadline).await?;
        let name = name.to_owned();
        self.call("volume delete", move |connect, options| {
            let _until_done = pass;
            let pool = pool::open_volumes(connect, options)?;
            for leftover in [format!("{name}.still"), format!("{name}.plain")] {
                remove(&pool, &leftover)?;
            }
            find(&pool, &name)?.map_or(Ok(()), |volume| pool::delete(&volume))
        })
        .await
    }

    async fn resize_volume(&self, name: &str, size: u64, user: Option<InstanceId>) -> DriverResult<()> {
        let deadline = self.options.call_deadline;
        let pass = self.volumes.enter(&name.to_owned(), "volume resize", deadline).await?;
        let name = name.to_owned();
        self.call("volume resize", move |connect, options| {
            let _until_done = pass;
            resize(connect, options, &name, size, user)
        })
        .await
    }

    async fn read_volume(&self, name: &str, user: Option<InstanceId>) -> DriverResult<ByteStream> {
        let pass = self.volumes.enter(&name.to_owned(), "volume download", self.options.call_deadline).await?;
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let (name, options) = (name.to_owned(), Arc::clone(&self.options));
        let (chunks, incoming) = mpsc::channel(4);
        // The thread waits for its reader, so it must not be one of the threads that change the host.
        self.readings.serve(Arc::as_ptr(&session).addr());
        let sent = self.readings.start("volume download", move || {
            let _until_done = pass;
            link.line(&session).and_then(|line| send(&line, &options, &name, user, &chunks))
        })?;
        Ok(whole_or_error(incoming, sent))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_copy_that_does_not_end_frees_its_thread() {
        assert!(!ends_within(Duration::ZERO, || Ok(sys::VIR_DOMAIN_JOB_UNBOUNDED)).unwrap());
        let mut left = [sys::VIR_DOMAIN_JOB_NONE, sys::VIR_DOMAIN_JOB_UNBOUNDED].to_vec();
        assert!(ends_within(COPY_LIMIT, || Ok(left.pop().unwrap())).unwrap());
        assert!(left.is_empty());
    }
}
