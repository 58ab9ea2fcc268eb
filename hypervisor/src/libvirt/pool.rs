//! The storage pool and its volumes.
//!
//! The code looks volumes up one by one, if possible without a refresh of the pool. A refresh would read the header of
//! every file. [`refresh`] finds files that libvirtd or QEMU create without the pool (rotated console logs).

use chronova_events::ids::InstanceId;
use virt::connect::Connect;
use virt::error::ErrorNumber;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::stream::Stream;

use super::error::{Context, found, is, translate};
use super::{secrets, sparse};
use crate::driver::{DriverError, DriverResult};
use crate::guest::VolumeDisk;
use crate::options::LibvirtOptions;
use crate::volumes;
use crate::xml::Element;

const CALL: &str = "storage pool";

/// Opens and starts the pool. Defines it with the host's UUID if it does not exist.
pub(super) fn open(connect: &Connect, options: &LibvirtOptions) -> DriverResult<StoragePool> {
    let pool = match found(CALL, connect.lookup_storage_pool_by_name(&options.pool_name))? {
        Some(pool) => pool,
        // The pool takes the host's UUID as its own and is the host's identity from then on. libvirt's host UUID comes
        // from the firmware. If the firmware has no UUID, libvirt's host UUID is random at each start of libvirtd. The
        // pool's UUID is on the disk and stays.
        None => {
            let host = super::node::host_uuid(connect)?;
            define(connect, &options.pool_name, &options.pool_path, host.map(|uuid| uuid.to_string()))?
        }
    };
    started(pool)
}

/// Opens and starts the pool of the volume service. Defines it if it does not exist. An operator may have defined a
/// pool of another type with this name.
pub(super) fn open_volumes(connect: &Connect, options: &LibvirtOptions) -> DriverResult<StoragePool> {
    let pool = match found(CALL, connect.lookup_storage_pool_by_name(&options.volume_pool_name))? {
        Some(pool) => pool,
        None => define(connect, &options.volume_pool_name, &options.volume_pool_path, None)?,
    };
    started(pool)
}

fn started(pool: StoragePool) -> DriverResult<StoragePool> {
    if !pool.is_active().during(CALL)? {
        // The pool is not built yet, or its directory was removed while it was stopped.
        let _ = pool.build(0);
        if let Err(error) = pool.create(virt_sys::VIR_STORAGE_POOL_CREATE_NORMAL)
            && !pool.is_active().unwrap_or(false)
        {
            return Err(translate(CALL, &error));
        }
    }
    Ok(pool)
}

fn define(connect: &Connect, name: &str, path: &str, uuid: Option<String>) -> DriverResult<StoragePool> {
    let permissions = Element::new("permissions").child(Element::leaf("mode", "0711"));
    let target = Element::new("target").child(Element::leaf("path", path)).child(permissions);
    let xml = Element::new("pool")
        .attr("type", "dir")
        .child(Element::leaf("name", name))
        .children(uuid.map(|uuid| Element::leaf("uuid", uuid)))
        .child(target);
    define_as(connect, name, &xml)
}

fn define_as(connect: &Connect, name: &str, xml: &Element) -> DriverResult<StoragePool> {
    match connect.define_storage_pool_xml(&xml.render(), 0) {
        Ok(pool) => {
            pool.set_autostart(true).during(CALL)?;
            Ok(pool)
        }
        // Another process defined the pool at the same moment.
        Err(error) => match connect.lookup_storage_pool_by_name(name) {
            Ok(pool) => Ok(pool),
            Err(_) => Err(translate(CALL, &error)),
        },
    }
}

/// Opens and starts the pool of this name, and defines the pool if it does not exist. The pool's directory or volume
/// group must exist, because nothing is built.
pub(super) fn open_as(connect: &Connect, name: &str, xml: &Element) -> DriverResult<StoragePool> {
    let pool = match found(CALL, connect.lookup_storage_pool_by_name(name))? {
        Some(pool) => pool,
        None => define_as(connect, name, xml)?,
    };
    if !pool.is_active().during(CALL)?
        && let Err(error) = pool.create(virt_sys::VIR_STORAGE_POOL_CREATE_NORMAL)
        && !pool.is_active().unwrap_or(false)
    {
        return Err(translate(CALL, &error));
    }
    Ok(pool)
}

/// Whether the pool exists and is started.
pub(super) fn is_open(connect: &Connect, name: &str) -> DriverResult<bool> {
    match found(CALL, connect.lookup_storage_pool_by_name(name))? {
        Some(pool) => pool.is_active().during(CALL),
        None => Ok(false),
    }
}

/// Looks for files that were created or removed without the pool. libvirt refuses a refresh while volumes are being
/// written. A refused refresh is no error, because a later refresh finds the files.
pub(super) fn refresh(pool: &StoragePool) {
    if let Err(error) = pool.refresh(0) {
        tracing::debug!(%error, "storage pool not refreshed");
    }
}

/// Like [`refresh`], but a refusal is an error.
pub(super) fn must_refresh(pool: &StoragePool) -> DriverResult<()> {
    pool.refresh(0).during("storage pool refresh")
}

/// Opens a pool over an existing directory. The pool is not defined, so it ends with libvirtd at the latest.
pub(super) fn open_folder(connect: &Connect, name: &str, path: &str) -> DriverResult<StoragePool> {
    // An interrupted call may have left a pool of this name.
    if let Some(left) = found(CALL, connect.lookup_storage_pool_by_name(name))? {
        left.destroy().during(CALL)?;
    }
    let target = Element::new("target").child(Element::leaf("path", path));
    let xml = Element::new("pool").attr("type", "dir").child(Element::leaf("name", name)).child(target);
    connect.create_storage_pool_xml(&xml.render(), 0).during(CALL)
}

pub(super) fn lookup(pool: &StoragePool, name: &str) -> DriverResult<Option<StorageVol>> {
    found("volume lookup", pool.lookup_storage_vol_by_name(name))
}

/// Prepares this host for the volumes that a guest is about to use. Finds volumes in their pools, and defines the
/// secrets of disks that QEMU reaches over the network. On shared storage, another host may have created the volumes
/// since this host last looked.
pub(super) fn look_for(connect: &Connect, options: &LibvirtOptions, disks: &[VolumeDisk]) -> DriverResult<()> {
    for disk in disks {
        if disk.network.is_some() {
            secrets::provide(connect, options, disk)?;
            continue;
        }
        let pool = match disk.pool == options.volume_pool_name {
            true => Some(open_volumes(connect, options)?),
            false => found(CALL, connect.lookup_storage_pool_by_name(&disk.pool))?,
        };
        if let Some(pool) = pool
            && lookup(&pool, &disk.volume)?.is_none()
        {
            refresh(&pool);
        }
    }
    Ok(())
}

/// Names of all volumes.
pub(super) fn names(pool: &StoragePool) -> DriverResult<Vec<String>> {
    pool.list_volumes().during("volume list")
}

/// The size of the file in bytes, read each time.
pub(super) fn physical_size(volume: &StorageVol) -> DriverResult<u64> {
    // With this flag `allocation` is the physical size.
    Ok(volume.info_flags(virt_sys::VIR_STORAGE_VOL_GET_PHYSICAL).during("volume size")?.allocation)
}

/// The base file of a copy-on-write volume, from which unwritten parts are read.
pub(super) struct BackingStore {
    pub(super) path: String,
    pub(super) format: &'static str,
}

pub(super) fn volume_xml(
    name: &str,
    capacity: u64,
    format: &str,
    mode: &str,
    backing: Option<&BackingStore>,
) -> String {
    let bytes = |name: &'static str, value: u64| Element::leaf(name, value).attr("unit", "bytes");
    let target = Element::new("target")
        .child(Element::new("format").attr("type", format))
        .child(Element::new("permissions").child(Element::leaf("mode", mode)));
    let backing = backing.map(|backing| {
        Element::new("backingStore")
            .child(Element::leaf("path", &backing.path))
            .child(Element::new("format").attr("type", backing.format))
    });
    Element::new("volume")
        .child(Element::leaf("name", name))
        .child(bytes("capacity", capacity))
        .child(bytes("allocation", 0))
        .child(target)
        .children(backing)
        .render()
}

pub(super) fn create(pool: &StoragePool, xml: &str) -> DriverResult<StorageVol> {
    StorageVol::create_xml(pool, xml, 0).during("volume create")
}

/// Creates a sparse file with this mode. The emulator's user must be able to read a base image, because libvirt never
/// relabels shared base images for one guest.
pub(super) fn create_raw(pool: &StoragePool, name: &str, capacity: u64, mode: &str) -> DriverResult<StorageVol> {
    create(pool, &volume_xml(name, capacity, "raw", mode, None))
}

/// Creates a qcow2 disk, unless exactly this disk exists. An existing disk with another size, format or base is the
/// rest of an interrupted creation, so it is recreated.
pub(super) fn ensure_disk(
    pool: &StoragePool,
    name: &str,
    capacity: u64,
    backing: Option<&BackingStore>,
) -> DriverResult<()> {
    if let Some(volume) = lookup(pool, name)? {
        if is_disk(&volume, capacity, backing) {
            return Ok(());
        }
        delete(&volume)?;
    }
    create(pool, &volume_xml(name, capacity, "qcow2", "0600", backing)).map(drop)
}

fn is_disk(volume: &StorageVol, capacity: u64, backing: Option<&BackingStore>) -> bool {
    // `info` rereads the file, so that libvirtd does not report cached values.
    let Ok(info) = volume.info() else { return false };
    let Ok(xml) = volume.xml_desc(0) else { return false };
    let Ok(document) = roxmltree::Document::parse(&xml) else { return false };
    let root = document.root_element();
    let child =
        |of: roxmltree::Node<'_, '_>, name: &str| of.children().find(|node| node.has_tag_name(name)).map(|n| n.id());
    let format = child(root, "target")
        .and_then(|id| document.get_node(id))
        .and_then(|target| child(target, "format"))
        .and_then(|id| document.get_node(id))
        .and_then(|format| format.attribute("type"));
    info.capacity == capacity
        && format == Some("qcow2")
        && backing_path(&xml).as_deref() == backing.map(|backing| backing.path.as_str())
}

/// The base file of the volume that `xml` describes.
pub(super) fn backing_path(xml: &str) -> Option<String> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let store = document.root_element().children().find(|node| node.has_tag_name("backingStore"))?;
    store.children().find(|node| node.has_tag_name("path"))?.text().map(str::to_owned)
}

/// Deletes a volume. Succeeds if there is none.
pub(super) fn delete(volume: &StorageVol) -> DriverResult<()> {
    match volume.delete(0) {
        Err(error) if !is(&error, ErrorNumber::NoStorageVolume) && !vanished(error.message()) => {
            Err(translate("volume delete", &error))
        }
        _ => Ok(()),
    }
}

fn vanished(message: &str) -> bool {
    message.contains("No such file or directory")
}

/// Deletes every volume of a guest, rotated logs included.
pub(super) fn delete_of(pool: &StoragePool, instance: InstanceId) -> DriverResult<()> {
    refresh(pool);
    for name in names(pool)? {
        if volumes::owner(&name) == Some(instance)
            && let Some(volume) = lookup(pool, &name)?
        {
            delete(&volume)?;
        }
    }
    Ok(())
}

/// Creates a volume with exactly this content. Only its owner can read it, because a config drive has passwords, keys
/// and user data. When a guest uses the volume, libvirt makes the emulator's user the owner.
pub(super) fn put(connect: &Connect, pool: &StoragePool, name: &str, content: &[u8]) -> DriverResult<()> {
    if let Some(old) = lookup(pool, name)? {
        delete(&old)?;
    }
    let size = content.len() as u64;
    let volume = create_raw(pool, name, size, "0600")?;
    // A drive with a FAT file system consists mostly of zeros, which need not be sent.
    let mut upload = Upload::start_sparse(connect, &volume, size)?;
    for chunk in content.chunks(CHUNK) {
        upload.send(chunk)?;
    }
    upload.finish()
}

/// The bytes of a volume that are sent at once, at most. libvirt takes up to 32 MiB.
const CHUNK: usize = 1024 * 1024;

/// A running upload. Dropping this value before [`Self::finish`] aborts the upload.
pub(super) struct Upload {
    stream: Option<Stream>,
    /// Whether zeros are skipped instead of written.
    sparse: bool,
}

impl Upload {
    pub(super) fn start(connect: &Connect, volume: &StorageVol, size: u64) -> DriverResult<Self> {
        Self::begin(connect, volume, size, false)
    }

    /// Starts an upload to a volume that reads as zeros.
    pub(super) fn start_sparse(connect: &Connect, volume: &StorageVol, size: u64) -> DriverResult<Self> {
        Self::begin(connect, volume, size, true)
    }

    fn begin(connect: &Connect, volume: &StorageVol, size: u64, sparse: bool) -> DriverResult<Self> {
        let stream = Stream::new(connect, 0).during("upload")?;
        let flags = if sparse { virt_sys::VIR_STORAGE_VOL_UPLOAD_SPARSE_STREAM } else { 0 };
        volume.upload(&stream, 0, size, flags).during("upload")?;
        Ok(Self { stream: Some(stream), sparse })
    }

    pub(super) fn send(&mut self, mut data: &[u8]) -> DriverResult<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        if self.sparse && sparse::is_hole(data) {
            return if data.is_empty() { Ok(()) } else { sparse::skip(stream, data.len(), "upload") };
        }
        while !data.is_empty() {
            let sent = stream.send(&data[..data.len().min(CHUNK)]).during("upload")?;
            let sent = usize::try_from(sent).unwrap_or(0);
            if sent == 0 {
                return Err(DriverError::Failed { call: "upload", message: "the stream accepted no bytes".to_owned() });
            }
            data = &data[sent.min(data.len())..];
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> DriverResult<()> {
        match self.stream.take() {
            Some(stream) => stream.finish().during("upload"),
            None => Ok(()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = stream.abort();
        }
    }
}

/// The first `max` bytes of a volume.
pub(super) fn head(connect: &Connect, volume: &StorageVol, max: usize) -> DriverResult<Vec<u8>> {
    let wanted = physical_size(volume)?.min(max as u64);
    excerpt(connect, volume, 0, wanted)
}

/// The last `max` bytes of a volume.
pub(super) fn tail(connect: &Connect, volume: &StorageVol, max: usize) -> DriverResult<Vec<u8>> {
    let size = physical_size(volume)?;
    let wanted = size.min(max as u64);
    excerpt(connect, volume, size - wanted, wanted)
}

fn excerpt(connect: &Connect, volume: &StorageVol, from: u64, wanted: u64) -> DriverResult<Vec<u8>> {
    const CALL: &str = "download";
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let stream = Stream::new(connect, 0).during(CALL)?;
    volume.download(&stream, from, wanted, 0).during(CALL)?;
    let mut content = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
    let mut buffer = vec![0_u8; 256 * 1024];
    loop {
        match stream.recv(&mut buffer).map(usize::try_from) {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(received)) => content.extend_from_slice(&buffer[..received]),
            Err(error) => {
                let _ = stream.abort();
                return Err(translate(CALL, &error));
            }
        }
    }
    stream.finish().during(CALL)?;
    Ok(content)
}
