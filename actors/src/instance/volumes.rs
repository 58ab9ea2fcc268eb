//! The decisions on a server's volumes.

use chronova_events::ids::{AttachmentId, BlockDeviceId, ProcessId, VolumeId};
use chronova_events::instance::{
    Alive, BlockDevice, BlockDevicesPrepared, DiskExtensionRequested, DiskWork, InstanceDisk, InstanceEvent,
    OngoingTask, VolumeAttachFailed, VolumeAttachRequested, VolumeAttached, VolumeDeletionChanged, VolumeDetachFailed,
    VolumeDetachRequested, VolumeDetached, VolumeSwapFailed, VolumeSwapRequested, VolumeSwapped,
};

use super::actions::{ServerAction, admit};
use super::decision::{CallerRights, InstanceDecision, InstanceReject, one};
use super::disks;
use super::records::InstanceVolumeRecord;
use super::requests::InstanceVolumeRequest;

pub(super) fn decide(server: &Alive, request: InstanceVolumeRequest) -> InstanceDecision {
    match request {
        InstanceVolumeRequest::Attach { process, device, limit, asker } => {
            attach(server, process, *device, limit, asker)
        }
        InstanceVolumeRequest::Detach { process, volume, asker } => detach(server, process, volume, asker),
        InstanceVolumeRequest::Extend { process, volume } => {
            attached_disk(server, volume)?;
            one(DiskExtensionRequested { process, volume })
        }
        InstanceVolumeRequest::Swap { process, old, new, new_attachment, asker } => {
            swap(server, process, (old, new, new_attachment), asker)
        }
        InstanceVolumeRequest::Refresh { process, volume, new_attachment } => {
            refresh(server, process, volume, new_attachment)
        }
        InstanceVolumeRequest::SetDeletion { volume, delete_on_termination } => {
            let disk = attached_disk(server, volume)?;
            match disk.device.delete_on_termination == delete_on_termination {
                true => Ok(vec![]),
                false => one(VolumeDeletionChanged { device: disk.device.id, delete_on_termination }),
            }
        }
    }
}

/// The process that removes the server from its host, if there is one.
fn leaving(server: &Alive) -> Option<ProcessId> {
    match server.ongoing {
        Some(OngoingTask::Offload { process } | OngoingTask::Shelve { process, .. }) => Some(process),
        _ => None,
    }
}

fn attached_disk(server: &Alive, volume: VolumeId) -> Result<&InstanceDisk, InstanceReject> {
    server.disk_of(volume).ok_or(InstanceReject::VolumeNotAttached { volume })
}

fn attach(
    server: &Alive,
    process: ProcessId,
    mut device: BlockDevice,
    limit: Option<usize>,
    asker: CallerRights,
) -> InstanceDecision {
    admit(server, ServerAction::AttachVolume, asker)?;
    if let Some(volume) = device.volume.filter(|volume| server.disk_of(*volume).is_some()) {
        return Err(InstanceReject::VolumeAttached { volume });
    }
    let (name, count) = disks::next_name(server, &device);
    if let Some(limit) = limit.filter(|limit| count + 1 > *limit) {
        return Err(InstanceReject::TooManyDisks { limit });
    }
    device.device_name = Some(name);
    one(VolumeAttachRequested { process, device })
}

/// The disk and its attachment. Refuses a disk that a process works on.
fn idle_disk(server: &Alive, volume: VolumeId) -> Result<(&InstanceDisk, AttachmentId), InstanceReject> {
    let disk = attached_disk(server, volume)?;
    match (disk.work, disk.device.attachment) {
        (None, Some(attachment)) => Ok((disk, attachment)),
        _ => Err(InstanceReject::VolumeBusy { volume }),
    }
}

fn detach(server: &Alive, process: ProcessId, volume: VolumeId, asker: CallerRights) -> InstanceDecision {
    if attached_disk(server, volume)?.device.is_root() {
        return Err(InstanceReject::RootVolume { volume });
    }
    admit(server, ServerAction::DetachVolume, asker)?;
    let (disk, attachment) = idle_disk(server, volume)?;
    one(VolumeDetachRequested { process, device: disk.device.id, volume, attachment })
}

fn swap(
    server: &Alive,
    process: ProcessId,
    (old, new, new_attachment): (VolumeId, VolumeId, AttachmentId),
    asker: CallerRights,
) -> InstanceDecision {
    admit(server, ServerAction::SwapVolume, asker)?;
    let (disk, old_attachment) = idle_disk(server, old)?;
    if server.disk_of(new).is_some() {
        return Err(InstanceReject::VolumeAttached { volume: new });
    }
    one(VolumeSwapRequested { process, device: disk.device.id, old, old_attachment, new, new_attachment })
}

fn refresh(server: &Alive, process: ProcessId, volume: VolumeId, new_attachment: AttachmentId) -> InstanceDecision {
    admit(server, ServerAction::RefreshVolume, CallerRights { overrides_lock: false })?;
    let (disk, old_attachment) = idle_disk(server, volume)?;
    let device = disk.device.id;
    one(VolumeSwapRequested { process, device, old: volume, old_attachment, new: volume, new_attachment })
}

/// Refuses to define or start the guest while a process renews the attachment of one of its volumes. Meanwhile the host
/// has no connection to the volume.
pub(super) fn check_connected(server: &Alive, action: ServerAction) -> Result<(), InstanceReject> {
    let connects = matches!(
        action,
        ServerAction::Start
            | ServerAction::RebootHard
            | ServerAction::Rebuild
            | ServerAction::Rescue
            | ServerAction::Unshelve
    );
    match connects && server.disks.iter().any(InstanceDisk::renews_attachment) {
        true => {
            let (action, attribute) = (action.name(), "task_state");
            Err(InstanceReject::NotInState { action, attribute, value: "refreshing_volume_attachment" })
        }
        false => Ok(()),
    }
}

/// The disk, if this process owns its task and the server is not being deleted. A delete releases all volumes, so a
/// later record must have no effect.
fn worked_on(server: &Alive, device: BlockDeviceId, process: ProcessId) -> Result<&InstanceDisk, InstanceReject> {
    if matches!(server.ongoing, Some(OngoingTask::Delete { .. })) {
        return Err(InstanceReject::Superseded);
    }
    let disk = server.disks.iter().find(|disk| disk.device.id == device);
    disk.filter(|disk| disk.work.map(|work: DiskWork| work.process()) == Some(process))
        .ok_or(InstanceReject::Superseded)
}

pub(super) fn record(server: &Alive, record: InstanceVolumeRecord) -> InstanceDecision {
    let is_recorded =
        |device: &BlockDevice| server.disks.iter().any(|disk| disk.work.is_none() && disk.device == *device);
    let gone = |id: BlockDeviceId| server.disks.iter().all(|disk| disk.device.id != id);
    let recorded =
        |device: BlockDeviceId, process, event: InstanceEvent| worked_on(server, device, process).map(|_| vec![event]);
    match record {
        InstanceVolumeRecord::Prepared { process, devices } => {
            // Only a process that builds, unshelves or moves the server, or removes it from its host, may record
            // prepared volumes. A cancelled process releases its own volumes instead.
            if server.interruptible() != Some(process) && leaving(server) != Some(process) {
                return Err(InstanceReject::Superseded);
            }
            let same = server.disks.iter().map(|disk| &disk.device).eq(&devices);
            if same { Ok(vec![]) } else { one(BlockDevicesPrepared { process, devices }) }
        }
        InstanceVolumeRecord::Attached { device, .. } | InstanceVolumeRecord::Swapped { device, .. }
            if is_recorded(&device) =>
        {
            Ok(vec![])
        }
        InstanceVolumeRecord::Attached { process, device } => {
            recorded(device.id, process, VolumeAttached { process, device: *device }.into())
        }
        InstanceVolumeRecord::Swapped { process, device } => {
            recorded(device.id, process, VolumeSwapped { process, device: *device }.into())
        }
        InstanceVolumeRecord::AttachFailed { device, .. } | InstanceVolumeRecord::Detached { device, .. }
            if gone(device) =>
        {
            Ok(vec![])
        }
        InstanceVolumeRecord::AttachFailed { process, device, fault } => {
            recorded(device, process, VolumeAttachFailed { process, device, fault }.into())
        }
        InstanceVolumeRecord::Detached { process, device } => {
            recorded(device, process, VolumeDetached { process, device }.into())
        }
        InstanceVolumeRecord::DetachFailed { process, device, fault } => {
            recorded(device, process, VolumeDetachFailed { process, device, fault }.into())
        }
        InstanceVolumeRecord::SwapFailed { process, device, fault } => {
            recorded(device, process, VolumeSwapFailed { process, device, fault }.into())
        }
    }
}
