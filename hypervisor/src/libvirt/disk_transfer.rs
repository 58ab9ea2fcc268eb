//! Moves guests between hosts: reads and writes disks, and defines domains over them.
//!
//! The header of a copy-on-write file names its base image. Pool paths are the same on every host, and the destination
//! has the image in its cache. So the file is sent without its base. Any other disk is sent as the bytes that the guest
//! sees. For a part that was never written, libvirtd and the control plane send each other only its length.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use virt::connect::Connect;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;

use super::error::{Context, translate};
use super::host::{COPY_LIMIT, LibvirtDriver};
use super::sparse::{self, SparsePiece};
use super::storage::{self, HostStorage};
use super::{adopted, definition, pool};
use crate::capability::disk_transfer::{DiskFile, DiskTransfer};
use crate::domain_xml::HostFacts;
use crate::driver::{ByteStream, DriverError, DriverResult};
use crate::guest::{GuestSpec, ImageFormat, ImageRef};
use crate::options::LibvirtOptions;
use crate::volumes;

const CHUNK: usize = 256 * 1024;
/// The number of chunks that may be under way between two hosts.
const DEPTH: usize = 8;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const CALL: &str = "move disk";

fn failed(message: impl Into<String>) -> DriverError {
    DriverError::Failed { call: CALL, message: message.into() }
}

/// Whether a volume stays on this host. This holds if every host creates the volume for itself, or if it is no disk of
/// the guest.
fn stays_behind(suffix: &str) -> bool {
    suffix.starts_with("_console.log")
        || suffix.starts_with("_copy.")
        || suffix.ends_with(storage::PASSING)
        || suffix == "_disk.config"
}

fn list(connect: &Connect, options: &LibvirtOptions, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
    let id = instance.to_string();
    let mut disks = Vec::new();
    for (name, disk) in HostStorage::new(connect, options).disks_of(instance)? {
        let Some(suffix) = name.strip_prefix(&id).filter(|suffix| !stays_behind(suffix)) else { continue };
        let (suffix, size) = (suffix.to_owned(), disk.length()?);
        disks.push(DiskFile { suffix, size, capacity: disk.capacity()?, raw: disk.is_raw() });
    }
    Ok(disks)
}

/// A volume to read: its size in bytes, and whether libvirt reports its holes.
struct VolumeReading {
    volume: StorageVol,
    size: u64,
    sparse: bool,
}

type Out = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// Sends the bytes of a volume until the reader stops.
fn send(connect: &Connect, reading: &VolumeReading, out: &Out) -> DriverResult<()> {
    let stream = Stream::new(connect, 0).during(CALL)?;
    let flags = if reading.sparse { virt_sys::VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM } else { 0 };
    reading.volume.download(&stream, 0, reading.size, flags).during(CALL)?;
    let mut buffer = vec![0_u8; CHUNK];
    let sent = loop {
        let piece = match reading.sparse {
            true => sparse::receive(&stream, &mut buffer, CALL),
            false => match stream.recv(&mut buffer).map(usize::try_from) {
                Ok(Ok(0) | Err(_)) => Ok(SparsePiece::End),
                Ok(Ok(received)) => Ok(SparsePiece::Data(received)),
                Err(error) => Err(translate(CALL, &error)),
            },
        };
        let taken = match piece {
            Ok(SparsePiece::End) => return stream.finish().during(CALL),
            Ok(SparsePiece::Data(received)) => {
                out.blocking_send(Ok(Bytes::copy_from_slice(&buffer[..received]))).is_ok()
            }
            Ok(SparsePiece::Hole(length)) => send_hole(length, out),
            Err(error) => break Err(error),
        };
        if !taken {
            break Ok(());
        }
    };
    let _ = stream.abort();
    sent
}

/// Sends zeros in pieces. Returns whether the reader took them.
fn send_hole(length: u64, out: &Out) -> bool {
    let mut left = length;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(sparse::PIECE).min(sparse::PIECE);
        if out.blocking_send(Ok(Bytes::from_static(&sparse::ZEROS[..part]))).is_err() {
            return false;
        }
        left = left.saturating_sub(part as u64);
    }
    true
}

/// Gives exactly `size` incoming bytes to `put`.
fn pass_on(
    incoming: &mut mpsc::Receiver<Bytes>,
    size: u64,
    mut put: impl FnMut(&[u8]) -> DriverResult<()>,
) -> DriverResult<()> {
    let mut arrived = 0_u64;
    while let Some(chunk) = incoming.blocking_recv() {
        arrived += chunk.len() as u64;
        if arrived > size {
            return Err(failed("the disk is longer than announced"));
        }
        put(&chunk)?;
    }
    match arrived == size {
        true => Ok(()),
        false => Err(failed(format!("{arrived} bytes arrived instead of {size}"))),
    }
}

/// Writes a disk of exactly `disk.size` bytes. If the stream breaks, removes the incomplete disk.
fn store(
    connect: &Connect,
    options: &LibvirtOptions,
    instance: InstanceId,
    disk: &DiskFile,
    mut incoming: mpsc::Receiver<Bytes>,
) -> DriverResult<()> {
    let site = HostStorage::new(connect, options);
    // The pool creates the disk in the incoming format, so that the pool knows the disk. Then the incoming bytes
    // overwrite it.
    let made = site.provide_empty(&volumes::suffixed(instance, &disk.suffix), disk.capacity, disk.raw)?;
    let written = made.write_whole(site, &mut |out| {
        pass_on(&mut incoming, disk.size, |chunk| out.write_all(chunk).map_err(|error| failed(error.to_string())))
    })?;
    if written {
        pool::refresh(&made.pool);
        return Ok(());
    }
    let mut upload = match made.is_blank(options) {
        true => pool::Upload::start_sparse(connect, &made.volume, disk.size)?,
        false => pool::Upload::start(connect, &made.volume, disk.size)?,
    };
    let stored = pass_on(&mut incoming, disk.size, |chunk| upload.send(chunk)).and_then(|()| upload.finish());
    if let Err(error) = stored {
        let _ = pool::delete(&made.volume);
        return Err(error);
    }
    pool::refresh(&made.pool);
    Ok(())
}

fn remove(connect: &Connect, options: &LibvirtOptions, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
    HostStorage::new(connect, options).remove(&volumes::suffixed(instance, &disk.suffix))
}

/// Grows disks to the sizes in the specification. Creates, recreates or removes disks without content.
fn provide(site: HostStorage<'_>, guest: &GuestSpec) -> DriverResult<()> {
    let pool = pool::open(site.connect, site.options)?;
    pool::refresh(&pool);
    if let Some(root) = guest.root.as_ref().filter(|root| root.image.format != ImageFormat::Iso) {
        site.require(&volumes::root(guest.instance))?.grow(site, u64::from(root.size_gib) * GIB)?;
    }
    for (number, gib) in guest.ephemerals_gib.iter().enumerate() {
        let (name, wanted) = (volumes::ephemeral(guest.instance, number), u64::from(*gib) * GIB);
        match site.find(&name)? {
            Some(disk) => disk.grow(site, wanted)?,
            None => site.provide(&name, wanted)?,
        }
    }
    let swap = volumes::swap(guest.instance);
    match u64::from(guest.swap_mib) * MIB {
        0 => site.remove(&swap)?,
        size => site.provide(&swap, size)?,
    }
    definition::provide_files(site, &pool, guest)
}

impl LibvirtDriver {
    async fn read(
        &self,
        work: impl FnOnce(&Connect, &LibvirtOptions, &Out) -> DriverResult<()> + Send + 'static,
    ) -> DriverResult<ByteStream> {
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let options = Arc::clone(&self.options);
        let (out, chunks) = mpsc::channel(DEPTH);
        self.readings.serve(Arc::as_ptr(&session).addr());
        // Nobody waits for the result. The reader gets an error as the last item.
        let sent = self.readings.start("read disk", move || {
            let sent = link.line(&session).and_then(|line| work(&line, &options, &out));
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
impl DiskTransfer for LibvirtDriver {
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
        // If Nova defined the guest and the guest is off, this call first copies the guest's disks into our directory.
        self.change("take disks", instance, COPY_LIMIT, move |connect, options| {
            adopted::take_disks(HostStorage::new(connect, options), instance)
        })
        .await?;
        self.call("disk files", move |connect, options| list(connect, options, instance)).await
    }

    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream> {
        let (name, size) = (volumes::suffixed(instance, &disk.suffix), disk.size);
        self.read(move |connect, options, out| {
            let site = HostStorage::new(connect, options);
            let disk = site.require(&name)?;
            let mut take = |bytes: &[u8]| out.blocking_send(Ok(Bytes::copy_from_slice(bytes))).is_ok();
            match disk.read_whole(site, &mut take)? {
                true => Ok(()),
                false => send(connect, &VolumeReading { sparse: disk.is_raw(), volume: disk.volume, size }, out),
            }
        })
        .await
    }

    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let (name, size) = (volumes::base(image), image.size);
        self.read(move |connect, options, out| {
            let volume = pool::lookup(&pool::open(connect, options)?, &name)?;
            let volume = volume.ok_or_else(|| failed(format!("there is no volume {name}")))?;
            send(connect, &VolumeReading { volume, size, sparse: false }, out)
        })
        .await
    }

    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, mut content: ByteStream) -> DriverResult<()> {
        let stall = self.options.transfer_stall;
        let pass = self.guests.enter(&instance, CALL, stall).await?;
        let (link, session) = (Arc::clone(&self.link), self.link.connect().await?);
        let (options, wanted) = (Arc::clone(&self.options), disk.clone());
        let (chunks, incoming) = mpsc::channel(DEPTH);
        let stored = self.threads.start(CALL, move || {
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
                // The writing thread has ended; its result has the reason.
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
            Ok(Err(_)) => Err(failed("the caller has given up")),
            Err(_) => Err(stalled()),
        };
        fed.and(stored)
    }

    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        let disk = disk.clone();
        self.change("remove disk", instance, self.making(), move |connect, options| {
            remove(connect, options, instance, &disk)
        })
        .await
    }

    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()> {
        let spec = guest.clone();
        let deadline = self.making();
        self.change("provide", guest.instance, deadline, move |connect, options| {
            definition::provide(connect, options, &spec)
        })
        .await
    }

    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()> {
        let known = self.known().await?;
        let (spec, link) = (guest.clone(), Arc::clone(&self.link));
        let direct_io = Arc::clone(&self.direct_io);
        let deadline = self.making();
        let secrets = self.hold_secrets(&guest.volumes, "install", deadline).await?;
        self.change("install", guest.instance, deadline, move |connect, options| {
            let _until_done = secrets;
            link.guests_known().forget(spec.instance);
            let facts = HostFacts { direct_io: direct_io.load(Ordering::Relaxed), ..known.facts.clone() };
            let site = HostStorage::new(connect, options);
            if definition::install(site, &facts, &spec, on, || provide(site, &spec))?
                == definition::HostFinding::NoDirectIo
            {
                direct_io.store(false, Ordering::Relaxed);
            }
            link.guests_known().ours.insert(spec.instance);
            Ok(())
        })
        .await
    }
}
