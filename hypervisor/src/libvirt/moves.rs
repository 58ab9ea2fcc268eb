//! Moving guests between hosts: volumes read and written as the files that they are, domains defined over them.
//!
//! A disk is a copy-on-write file whose header names what it is based on. Pool paths are the same on every host, and the
//! destination has the image in its cache, so the file is as good there as here and the base is not sent again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use virt::connect::Connect;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;

use super::error::{Context, translate};
use super::{LibvirtDriver, domain, pool};
use crate::domain_xml::HostFacts;
use crate::driver::{ByteStream, DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageFormat, ImageRef};
use crate::moves::{DiskFile, Moves};
use crate::options::LibvirtOptions;
use crate::volumes;

const CHUNK: usize = 256 * 1024;
/// Chunks on their way between two hosts.
const DEPTH: usize = 8;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const CALL: &str = "move disk";

fn failed(message: impl Into<String>) -> DriverError {
    DriverError::Failed { call: CALL, message: message.into() }
}

/// Volumes that are made anew wherever the guest is defined, and those that are no disks of it.
fn stays_behind(suffix: &str) -> bool {
    suffix.starts_with("_console.log") || suffix.starts_with("_copy.") || suffix == "_disk.config"
}

fn list(connect: &Connect, options: &LibvirtOptions, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
    let pool = pool::open(connect, options)?;
    pool::refresh(&pool);
    let id = instance.to_string();
    let mut disks = Vec::new();
    for name in pool::names(&pool)? {
        let Some(suffix) = name.strip_prefix(&id).filter(|suffix| suffix.starts_with('_') && !stays_behind(suffix))
        else {
            continue;
        };
        if let Some(volume) = pool::lookup(&pool, &name)? {
            let capacity = volume.info().during(CALL)?.capacity;
            disks.push(DiskFile { suffix: suffix.to_owned(), size: pool::physical_size(&volume)?, capacity });
        }
    }
    disks.sort_by(|a, b| a.suffix.cmp(&b.suffix));
    Ok(disks)
}

fn volume(pool: &StoragePool, instance: InstanceId, suffix: &str) -> DriverResult<StorageVol> {
    let name = volumes::suffixed(instance, suffix);
    pool::lookup(pool, &name)?.ok_or_else(|| failed(format!("there is no volume {name}")))
}

/// Sends so many bytes of a volume until the reader goes away.
fn send(
    connect: &Connect,
    options: &LibvirtOptions,
    name: &str,
    size: u64,
    out: &mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> DriverResult<()> {
    let pool = pool::open(connect, options)?;
    let volume = pool::lookup(&pool, name)?.ok_or_else(|| failed(format!("there is no volume {name}")))?;
    let stream = Stream::new(connect, 0).during(CALL)?;
    volume.download(&stream, 0, size, 0).during(CALL)?;
    let mut buffer = vec![0_u8; CHUNK];
    loop {
        match stream.recv(&mut buffer).map(usize::try_from) {
            Ok(Ok(0) | Err(_)) => return stream.finish().during(CALL),
            Ok(Ok(received)) => {
                if out.blocking_send(Ok(Bytes::copy_from_slice(&buffer[..received]))).is_err() {
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

/// Writes a volume of exactly `disk.size` bytes; what is left of one that was torn is removed.
fn store(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    disk: &DiskFile,
    mut incoming: mpsc::Receiver<Bytes>,
) -> DriverResult<()> {
    let pool = pool::open(connect, options)?;
    let name = volumes::suffixed(instance, &disk.suffix);
    if let Some(old) = pool::lookup(&pool, &name)? {
        pool::delete(&old)?;
    }
    // Made in the format that comes, so that the pool knows it however busy it is; then overwritten.
    pool::ensure_disk(&pool, &name, disk.capacity, None)?;
    let volume = volume(&pool, instance, &disk.suffix)?;
    let mut upload = pool::Upload::start(connect, &volume, disk.size)?;
    let mut size = 0_u64;
    let mut sent = Ok(());
    while let Some(chunk) = incoming.blocking_recv() {
        size += chunk.len() as u64;
        if size > disk.size {
            sent = Err(failed("the disk is longer than announced"));
        } else {
            sent = upload.send(&chunk);
        }
        if sent.is_err() {
            break;
        }
    }
    let stored = match sent {
        Ok(()) if size == disk.size => upload.finish(),
        Ok(()) => Err(failed(format!("{size} bytes came instead of {}", disk.size))),
        Err(error) => Err(error),
    };
    if let Err(error) = stored {
        let _ = pool::delete(&volume);
        return Err(error);
    }
    pool::refresh(&pool);
    Ok(())
}

fn remove(connect: &Connect, options: &LibvirtOptions, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
    let pool = pool::open(connect, options)?;
    match pool::lookup(&pool, &volumes::suffixed(instance, &disk.suffix))? {
        Some(volume) => pool::delete(&volume),
        None => Ok(()),
    }
}

/// Disks as large as the guest is to have them; those that hold nothing are made, or made anew, or removed.
fn provide(connect: &Connect, pool: &StoragePool, guest: &GuestSpec) -> DriverResult<()> {
    pool::refresh(pool);
    if let Some(root) = guest.root.as_ref().filter(|root| root.image.format != ImageFormat::Iso) {
        grow(&volume(pool, guest.instance, "_disk")?, u64::from(root.size_gib) * GIB)?;
    }
    for (number, gib) in guest.ephemerals_gib.iter().enumerate() {
        let (name, wanted) = (volumes::ephemeral(guest.instance, number), u64::from(*gib) * GIB);
        match pool::lookup(pool, &name)? {
            Some(volume) => grow(&volume, wanted)?,
            None => pool::ensure_disk(pool, &name, wanted, None)?,
        }
    }
    let swap = volumes::swap(guest.instance);
    match (pool::lookup(pool, &swap)?, u64::from(guest.swap_mib) * MIB) {
        (None, 0) => {}
        (Some(volume), 0) => pool::delete(&volume)?,
        (_, size) => pool::ensure_disk(pool, &swap, size, None)?,
    }
    if let Some(drive) = &guest.config_drive {
        pool::put(connect, pool, &volumes::config_drive(guest.instance), drive)?;
    }
    let log = volumes::console_log(guest.instance);
    if pool::lookup(pool, &log)?.is_none() {
        pool::create_raw(pool, &log, 0, "0600")?;
    }
    Ok(())
}

fn grow(volume: &StorageVol, wanted: u64) -> DriverResult<()> {
    match volume.info().during(CALL)?.capacity < wanted {
        true => volume.resize(wanted, 0).during("grow disk").map(drop),
        false => Ok(()),
    }
}

impl LibvirtDriver {
    async fn read(&self, name: String, size: u64) -> DriverResult<ByteStream> {
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let options = Arc::clone(&self.options);
        let (out, chunks) = mpsc::channel(DEPTH);
        // Nobody waits for the result: what goes wrong is the last thing that the reader reads.
        let sent = self.lane.start("read disk", move || {
            let sent = link.line(&session).and_then(|line| send(&line, &options, &name, size, &out));
            if let Err(error) = sent {
                let _ = out.blocking_send(Err(std::io::Error::other(error)));
            }
            Ok(())
        })?;
        Ok(Box::pin(stream::unfold((chunks, sent), |(mut chunks, sent)| async move {
            chunks.recv().await.map(|chunk| (chunk, (chunks, sent)))
        })))
    }
}

#[async_trait]
impl Moves for LibvirtDriver {
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
        self.call("disk files", move |connect, options| list(connect, options, instance)).await
    }

    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream> {
        self.read(volumes::suffixed(instance, &disk.suffix), disk.size).await
    }

    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        self.read(volumes::base(image), image.size).await
    }

    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, mut content: ByteStream) -> DriverResult<()> {
        let stall = self.options.transfer_stall;
        let pass = self.guests.enter(&instance, CALL, stall).await?;
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let (options, wanted) = (Arc::clone(&self.options), disk.clone());
        let (chunks, incoming) = mpsc::channel(DEPTH);
        let stored = self.lane.start(CALL, move || {
            let _until_done = pass;
            store(&*link.line(&session)?, &options, instance, &wanted, incoming)
        })?;
        let stalled = || DriverError::Timeout { call: CALL, seconds: stall.as_secs() };
        let mut fed = Ok(());
        loop {
            let chunk = match timeout(stall, content.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    fed = Err(failed(format!("the disk could not be read: {error}")));
                    break;
                }
                Err(_) => {
                    fed = Err(stalled());
                    break;
                }
            };
            match timeout(stall, chunks.send(chunk)).await {
                Ok(Ok(())) => {}
                // The writing thread ended: its result says why.
                Ok(Err(_)) => break,
                Err(_) => {
                    fed = Err(stalled());
                    break;
                }
            }
        }
        drop(chunks);
        let stored = match timeout(stall, stored).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(failed("the call was abandoned")),
            Err(_) => Err(stalled()),
        };
        fed.and(stored)
    }

    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        let disk = disk.clone();
        self.change("remove disk", instance, self.options.call_deadline, move |connect, options| {
            remove(connect, options, instance, &disk)
        })
        .await
    }

    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()> {
        let spec = guest.clone();
        let deadline = self.options.call_deadline * 3;
        self.change("provide", guest.instance, deadline, move |connect, options| {
            domain::provide(connect, options, &spec)
        })
        .await
    }

    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()> {
        let known = self.known().await?;
        let (spec, link) = (guest.clone(), Arc::clone(&self.link));
        let direct_io = Arc::clone(&self.direct_io);
        let deadline = self.options.call_deadline * 3;
        self.change("install", guest.instance, deadline, move |connect, options| {
            link.roll().forget(spec.instance);
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            let pool = pool::open(connect, options)?;
            if domain::install(connect, &facts, &spec, on, || provide(connect, &pool, &spec))?
                == domain::Lesson::NoDirectIo
            {
                direct_io.store(false, Ordering::Relaxed);
            }
            link.roll().ours.insert(spec.instance);
            Ok(())
        })
        .await
    }
}
