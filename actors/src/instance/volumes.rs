//! The decisions on a server's volumes.

use chronova_events::ids::{AttachmentId, BlockDeviceId, ProcessId, VolumeId};
use chronova_events::instance::{
    Alive, BlockDevice, BlockDevicesPrepared, DiskWork, InstanceDisk, InstanceEvent, OngoingTask, VolumeAttachFailed,
    VolumeAttachRequested, VolumeAttached, VolumeDeletionChanged, VolumeDetachFailed, VolumeDetachRequested,
    VolumeDetached, VolumeSwapFailed, VolumeSwapRequested, VolumeSwapped,
};

use super::actions::{ServerAction, admit};
use super::commands::InstanceVolumeCommand;
use super::decision::{CallerRights, InstanceDecision, InstanceReject, one};
use super::disks;

pub(super) fn decide(server: &Alive, command: InstanceVolumeCommand) -> InstanceDecision {
    match command {
        InstanceVolumeCommand::Attach { process, device, limit, asker } => {
            attach(server, process, *device, limit, asker)
        }
        InstanceVolumeCommand::Detach { process, volume, asker } => detach(server, process, volume, asker),
        InstanceVolumeCommand::Swap { process, old, new, new_attachment, asker } => {
            swap(server, process, (old, new, new_attachment), asker)
        }
        InstanceVolumeCommand::SetDeletion { volume, delete_on_termination } => {
            let disk = found(server, volume)?;
            match disk.device.delete_on_termination == delete_on_termination {
                true => Ok(vec![]),
                false => one(VolumeDeletionChanged { device: disk.device.id, delete_on_termination }),
            }
        }
        InstanceVolumeCommand::RecordPrepared { process, devices } => {
            // Those of a build, or of a server that leaves its host or moves; a cancelled process gives back its own.
            if server.interruptible() != Some(process) && leaving(server) != Some(process) {
                return Err(InstanceReject::Superseded);
            }
            let same = server.disks.iter().map(|disk| &disk.device).eq(&devices);
            if same { Ok(vec![]) } else { one(BlockDevicesPrepared { process, devices }) }
        }
        record => record_of(server, record),
    }
}

/// The process that takes the server off its host.
fn leaving(server: &Alive) -> Option<ProcessId> {
    match server.ongoing {
        Some(OngoingTask::Offload { process } | OngoingTask::Shelve { process, .. }) => Some(process),
        _ => None,
    }
}

fn found(server: &Alive, volume: VolumeId) -> Result<&InstanceDisk, InstanceReject> {
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

/// The disk, if no process works on it, and its attachment.
fn at_rest(server: &Alive, volume: VolumeId) -> Result<(&InstanceDisk, AttachmentId), InstanceReject> {
    let disk = found(server, volume)?;
    match (disk.work, disk.device.attachment) {
        (None, Some(attachment)) => Ok((disk, attachment)),
        _ => Err(InstanceReject::VolumeBusy { volume }),
    }
}

fn detach(server: &Alive, process: ProcessId, volume: VolumeId, asker: CallerRights) -> InstanceDecision {
    if found(server, volume)?.device.is_root() {
        return Err(InstanceReject::RootVolume { volume });
    }
    admit(server, ServerAction::DetachVolume, asker)?;
    let (disk, attachment) = at_rest(server, volume)?;
    one(VolumeDetachRequested { process, device: disk.device.id, volume, attachment })
}

fn swap(
    server: &Alive,
    process: ProcessId,
    (old, new, new_attachment): (VolumeId, VolumeId, AttachmentId),
    asker: CallerRights,
) -> InstanceDecision {
    admit(server, ServerAction::SwapVolume, asker)?;
    let (disk, old_attachment) = at_rest(server, old)?;
    if server.disk_of(new).is_some() {
        return Err(InstanceReject::VolumeAttached { volume: new });
    }
    one(VolumeSwapRequested { process, device: disk.device.id, old, old_attachment, new, new_attachment })
}

/// The disk, while this process owns its task and the server is not being deleted. A delete gives all volumes back; a
/// record after it must not count for the server.
fn worked_on(server: &Alive, device: BlockDeviceId, process: ProcessId) -> Result<&InstanceDisk, InstanceReject> {
    if matches!(server.ongoing, Some(OngoingTask::Delete { .. })) {
        return Err(InstanceReject::Superseded);
    }
    let disk = server.disks.iter().find(|disk| disk.device.id == device);
    disk.filter(|disk| disk.work.map(|work: DiskWork| work.process()) == Some(process))
        .ok_or(InstanceReject::Superseded)
}

fn record_of(server: &Alive, command: InstanceVolumeCommand) -> InstanceDecision {
    let is_so = |device: &BlockDevice| server.disks.iter().any(|disk| disk.work.is_none() && disk.device == *device);
    let gone = |id: BlockDeviceId| server.disks.iter().all(|disk| disk.device.id != id);
    let recorded =
        |device: BlockDeviceId, process, event: InstanceEvent| worked_on(server, device, process).map(|_| vec![event]);
    match command {
        InstanceVolumeCommand::RecordAttached { device, .. } | InstanceVolumeCommand::RecordSwapped { device, .. }
            if is_so(&device) =>
        {
            Ok(vec![])
        }
        InstanceVolumeCommand::RecordAttached { process, device } => {
            recorded(device.id, process, VolumeAttached { process, device: *device }.into())
        }
        InstanceVolumeCommand::RecordSwapped { process, device } => {
            recorded(device.id, process, VolumeSwapped { process, device: *device }.into())
        }
        InstanceVolumeCommand::RecordAttachFailed { device, .. }
        | InstanceVolumeCommand::RecordDetached { device, .. }
            if gone(device) =>
        {
            Ok(vec![])
        }
        InstanceVolumeCommand::RecordAttachFailed { process, device, fault } => {
            recorded(device, process, VolumeAttachFailed { process, device, fault }.into())
        }
        InstanceVolumeCommand::RecordDetached { process, device } => {
            recorded(device, process, VolumeDetached { process, device }.into())
        }
        InstanceVolumeCommand::RecordDetachFailed { process, device, fault } => {
            recorded(device, process, VolumeDetachFailed { process, device, fault }.into())
        }
        InstanceVolumeCommand::RecordSwapFailed { process, device, fault } => {
            recorded(device, process, VolumeSwapFailed { process, device, fault }.into())
        }
        InstanceVolumeCommand::Attach { .. }
        | InstanceVolumeCommand::Detach { .. }
        | InstanceVolumeCommand::Swap { .. }
        | InstanceVolumeCommand::SetDeletion { .. }
        | InstanceVolumeCommand::RecordPrepared { .. } => Ok(vec![]),
    }
}
