//! The volumes of a server, and the disks that it has besides those of its flavor.
//!
//! If a request has block device mappings, one append records them together with the server. A server without mappings
//! has the disks of its image and flavor, and no such record. Later attachments are recorded in the same form.

use serde::{Deserialize, Serialize};

use super::payloads::{FaultInfo, ImageSnapshot};
use crate::ids::{AttachmentId, BlockDeviceId, ImageId, ProcessId, SnapshotId, VolumeId};

/// The source of a block device's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockSource {
    Blank,
    Image(ImageId),
    Snapshot(SnapshotId),
    Volume(VolumeId),
}

/// Where a block device's content is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockLocation {
    /// The disk of the host.
    Local,
    /// A volume of the volume service.
    Volume,
}

/// How the server's host connects to a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockConnection {
    /// The libvirt storage pool, and the name of the volume in it.
    pub pool: String,
    pub volume: String,
    /// `raw` or `qcow2`.
    pub format: String,
    /// The serial number that the guest sees.
    pub serial: String,
    pub readonly: bool,
    pub shareable: bool,
}

impl BlockConnection {
    /// See [`disk_key`].
    pub fn disk_key(&self) -> &str {
        disk_key(&self.volume, &self.serial)
    }
}

/// The key of a volume's disk in its guest: the id in the name of the source, `volume-ID`. A source without such a
/// name, for example an iSCSI target, is identified by its serial. After Cinder has migrated an attached volume, the
/// key differs from the volume's id: the volume keeps its id and serial, but its content has the name of another
/// volume.
pub fn disk_key<'a>(source: &'a str, serial: &'a str) -> &'a str {
    let name = source.rsplit('/').next().unwrap_or(source);
    name.strip_prefix("volume-").unwrap_or(serial)
}

/// Nova's block device mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    pub id: BlockDeviceId,
    pub source: BlockSource,
    pub place: BlockLocation,
    /// 0: the root disk; `None`: the server does not boot from the device.
    pub boot_index: Option<u32>,
    /// The size in GiB; for a swap disk in MiB.
    pub size: Option<u32>,
    /// `swap` makes an empty local disk a swap disk.
    pub guest_format: Option<String>,
    /// `disk`, `cdrom` or `lun`.
    pub device_type: Option<String>,
    pub disk_bus: Option<String>,
    /// For example `/dev/vdb`.
    pub device_name: Option<String>,
    pub delete_on_termination: bool,
    pub tag: Option<String>,
    pub volume_type: Option<String>,
    /// The volume, once it exists.
    pub volume: Option<VolumeId>,
    /// Set after the volume is reserved for the server.
    pub attachment: Option<AttachmentId>,
    /// Set after the server's host is connected to the volume.
    pub connection: Option<BlockConnection>,
}

impl BlockDevice {
    /// A device with the defaults of Nova's mapping, from which the server does not boot.
    pub fn new(id: BlockDeviceId, source: BlockSource, place: BlockLocation) -> Self {
        Self {
            id,
            source,
            place,
            boot_index: None,
            size: None,
            guest_format: None,
            device_type: None,
            disk_bus: None,
            device_name: None,
            delete_on_termination: false,
            tag: None,
            volume_type: None,
            volume: None,
            attachment: None,
            connection: None,
        }
    }

    pub fn is_volume(&self) -> bool {
        self.place == BlockLocation::Volume
    }

    pub fn is_root(&self) -> bool {
        self.boot_index == Some(0)
    }

    pub fn is_swap(&self) -> bool {
        self.is_blank_local() && self.guest_format.as_deref() == Some("swap")
    }

    /// Whether the device is an empty local disk other than a swap disk.
    pub fn is_ephemeral(&self) -> bool {
        self.is_blank_local() && !self.is_swap()
    }

    fn is_blank_local(&self) -> bool {
        (self.source, self.place) == (BlockSource::Blank, BlockLocation::Local)
    }
}

/// The block devices in the request for a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockDevicesMapped {
    /// All devices in the order of the request, root disk and local disks included.
    pub devices: Vec<BlockDevice>,
    /// The source image of a root volume. It determines the virtual hardware, as the image of a local root disk does.
    pub image: Option<ImageSnapshot>,
}

/// The server's volumes after a build prepared or released them, or after the server left or got a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockDevicesPrepared {
    pub process: ProcessId,
    pub devices: Vec<BlockDevice>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeAttachRequested {
    pub process: ProcessId,
    pub device: BlockDevice,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeAttached {
    pub process: ProcessId,
    pub device: BlockDevice,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeAttachFailed {
    pub process: ProcessId,
    pub device: BlockDeviceId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDetachRequested {
    pub process: ProcessId,
    pub device: BlockDeviceId,
    pub volume: VolumeId,
    pub attachment: AttachmentId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDetached {
    pub process: ProcessId,
    pub device: BlockDeviceId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDetachFailed {
    pub process: ProcessId,
    pub device: BlockDeviceId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSwapRequested {
    pub process: ProcessId,
    pub device: BlockDeviceId,
    pub old: VolumeId,
    pub old_attachment: AttachmentId,
    pub new: VolumeId,
    pub new_attachment: AttachmentId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSwapped {
    pub process: ProcessId,
    /// The present state of the device.
    pub device: BlockDevice,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSwapFailed {
    pub process: ProcessId,
    pub device: BlockDeviceId,
    pub fault: FaultInfo,
}

/// The volume service reported that one of the server's volumes has grown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskExtensionRequested {
    pub process: ProcessId,
    pub volume: VolumeId,
}

/// A volume's `delete_on_termination` was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDeletionChanged {
    pub device: BlockDeviceId,
    pub delete_on_termination: bool,
}

/// A block device of a server, and the unfinished work on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceDisk {
    pub device: BlockDevice,
    pub work: Option<DiskWork>,
}

impl InstanceDisk {
    /// Whether a process renews the attachment of the volume. Such a process swaps the volume for itself.
    pub fn renews_attachment(&self) -> bool {
        matches!(self.work, Some(DiskWork::Swapping { to, .. }) if self.device.volume == Some(to))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskWork {
    Attaching(ProcessId),
    Detaching(ProcessId),
    /// The process replaces the volume by another one, or its attachment by a new one.
    Swapping {
        process: ProcessId,
        to: VolumeId,
        attachment: AttachmentId,
    },
}

impl DiskWork {
    pub fn process(&self) -> ProcessId {
        match self {
            Self::Attaching(process) | Self::Detaching(process) | Self::Swapping { process, .. } => *process,
        }
    }
}

/// Whether the event ends the renewal of an attachment successfully.
pub(super) fn ends_renewal(disks: &[InstanceDisk], event: &super::InstanceEvent) -> bool {
    let super::InstanceEvent::VolumeSwapped(swapped) = event else { return false };
    disks.iter().any(|disk| disk.device.id == swapped.device.id && disk.renews_attachment())
}

/// Applies an event to a server's disks.
pub(super) fn evolve(disks: &mut Vec<InstanceDisk>, event: &super::InstanceEvent) {
    use super::InstanceEvent as E;
    let settled = |device: &BlockDevice| InstanceDisk { device: device.clone(), work: None };
    let find = |disks: &mut Vec<InstanceDisk>, id: BlockDeviceId, act: &mut dyn FnMut(&mut InstanceDisk)| {
        disks.iter_mut().filter(|disk| disk.device.id == id).for_each(act);
    };
    match event {
        E::BlockDevicesMapped(mapped) => *disks = mapped.devices.iter().map(settled).collect(),
        E::BlockDevicesPrepared(prepared) => {
            // Unfinished work on a disk continues.
            let work = |id| disks.iter().find(|disk| disk.device.id == id).and_then(|disk| disk.work);
            *disks = prepared
                .devices
                .iter()
                .map(|device| InstanceDisk { device: device.clone(), work: work(device.id) })
                .collect();
        }
        E::VolumeAttachRequested(asked) => {
            disks.push(InstanceDisk { device: asked.device.clone(), work: Some(DiskWork::Attaching(asked.process)) });
        }
        E::VolumeAttached(attached) => {
            find(disks, attached.device.id, &mut |disk| *disk = settled(&attached.device));
        }
        E::VolumeAttachFailed(failed) => disks.retain(|disk| disk.device.id != failed.device),
        E::VolumeDetachRequested(asked) => {
            find(disks, asked.device, &mut |disk| disk.work = Some(DiskWork::Detaching(asked.process)));
        }
        E::VolumeDetached(detached) => disks.retain(|disk| disk.device.id != detached.device),
        E::VolumeDetachFailed(failed) => find(disks, failed.device, &mut |disk| disk.work = None),
        E::VolumeSwapRequested(asked) => {
            let (process, to, attachment) = (asked.process, asked.new, asked.new_attachment);
            let work = DiskWork::Swapping { process, to, attachment };
            find(disks, asked.device, &mut |disk| disk.work = Some(work));
        }
        E::VolumeSwapped(swapped) => {
            find(disks, swapped.device.id, &mut |disk| *disk = settled(&swapped.device));
        }
        E::VolumeSwapFailed(failed) => find(disks, failed.device, &mut |disk| disk.work = None),
        E::VolumeDeletionChanged(changed) => {
            let wanted = changed.delete_on_termination;
            find(disks, changed.device, &mut |disk| disk.device.delete_on_termination = wanted);
        }
        _ => {}
    }
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = uuid::Uuid::from_u128;
    let process = ProcessId(uuid(2));
    let fault = || FaultInfo { code: 500, message: "The hypervisor refused.".into(), details: "no such disk".into() };
    let id = BlockDeviceId(uuid(30));
    let (volume, attachment) = (VolumeId(uuid(31)), AttachmentId(uuid(32)));
    let device = BlockDevice {
        id,
        source: BlockSource::Volume(volume),
        place: BlockLocation::Volume,
        boot_index: Some(0),
        size: Some(10),
        guest_format: None,
        device_type: Some("disk".into()),
        disk_bus: Some("virtio".into()),
        device_name: Some("/dev/vda".into()),
        delete_on_termination: true,
        tag: Some("root".into()),
        volume_type: Some("fast".into()),
        volume: Some(volume),
        attachment: Some(attachment),
        connection: Some(BlockConnection {
            pool: "volumes".into(),
            volume: "volume-1".into(),
            format: "raw".into(),
            serial: volume.to_string(),
            readonly: false,
            shareable: true,
        }),
    };
    let local = |source| BlockDevice {
        source,
        place: BlockLocation::Local,
        boot_index: None,
        guest_format: Some("swap".into()),
        volume: None,
        attachment: None,
        connection: None,
        ..device.clone()
    };
    let devices = vec![
        device.clone(),
        local(BlockSource::Blank),
        local(BlockSource::Image(ImageId(uuid(3)))),
        local(BlockSource::Snapshot(SnapshotId(uuid(33)))),
    ];
    let (new, new_attachment) = (VolumeId(uuid(34)), AttachmentId(uuid(35)));
    vec![
        BlockDevicesMapped { devices: devices.clone(), image: None }.into(),
        BlockDevicesPrepared { process, devices }.into(),
        VolumeAttachRequested { process, device: device.clone() }.into(),
        VolumeAttached { process, device: device.clone() }.into(),
        VolumeAttachFailed { process, device: id, fault: fault() }.into(),
        VolumeDetachRequested { process, device: id, volume, attachment }.into(),
        VolumeDetached { process, device: id }.into(),
        VolumeDetachFailed { process, device: id, fault: fault() }.into(),
        VolumeSwapRequested { process, device: id, old: volume, old_attachment: attachment, new, new_attachment }
            .into(),
        VolumeSwapped { process, device }.into(),
        VolumeSwapFailed { process, device: id, fault: fault() }.into(),
        VolumeDeletionChanged { device: id, delete_on_termination: false }.into(),
        DiskExtensionRequested { process, volume }.into(),
    ]
}
