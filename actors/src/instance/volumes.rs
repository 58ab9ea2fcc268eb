//! What may happen to a server's volumes.

use chronova_events::ids::{AttachmentId, BlockDeviceId, ProcessId, VolumeId};
use chronova_events::instance::{
    Alive, BlockDevice, BlockDevicesPrepared, Disk, DiskWork, InstanceEvent, Ongoing, VolumeAttachFailed,
    VolumeAttachRequested, VolumeAttached, VolumeDeletionChanged, VolumeDetachFailed, VolumeDetachRequested,
    VolumeDetached, VolumeSwapFailed, VolumeSwapRequested, VolumeSwapped,
};

use super::actions::{Action, admit};
use super::decide::{Decision, one};
use super::{Asker, InstanceReject, VolumeCommand, disks};

pub(super) fn decide(server: &Alive, command: VolumeCommand) -> Decision {
    match command {
        VolumeCommand::Attach { process, device, limit, asker } => attach(server, process, *device, limit, asker),
        VolumeCommand::Detach { process, volume, asker } => detach(server, process, volume, asker),
        VolumeCommand::Swap { process, old, new, new_attachment, asker } => {
            swap(server, process, (old, new, new_attachment), asker)
        }
        VolumeCommand::SetDeletion { volume, delete_on_termination } => {
            let disk = found(server, volume)?;
            match disk.device.delete_on_termination == delete_on_termination {
                true => Ok(vec![]),
                false => one(VolumeDeletionChanged { device: disk.device.id, delete_on_termination }),
            }
        }
        VolumeCommand::RecordPrepared { process, devices } => {
            // A build's, or those of a server that leaves its host or goes to another one; whoever is called off gives back
            // what it took.
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
        Some(Ongoing::Offload { process } | Ongoing::Shelve { process, .. }) => Some(process),
        _ => None,
    }
}

fn found(server: &Alive, volume: VolumeId) -> Result<&Disk, InstanceReject> {
    server.disk_of(volume).ok_or(InstanceReject::VolumeNotAttached { volume })
}

fn attach(server: &Alive, process: ProcessId, mut device: BlockDevice, limit: Option<usize>, asker: Asker) -> Decision {
    admit(server, Action::AttachVolume, asker)?;
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

/// The disk, if nothing is being done to it, and its attachment.
fn at_rest(server: &Alive, volume: VolumeId) -> Result<(&Disk, AttachmentId), InstanceReject> {
    let disk = found(server, volume)?;
    match (disk.work, disk.device.attachment) {
        (None, Some(attachment)) => Ok((disk, attachment)),
        _ => Err(InstanceReject::VolumeBusy { volume }),
    }
}

fn detach(server: &Alive, process: ProcessId, volume: VolumeId, asker: Asker) -> Decision {
    if found(server, volume)?.device.is_root() {
        return Err(InstanceReject::RootVolume { volume });
    }
    admit(server, Action::DetachVolume, asker)?;
    let (disk, attachment) = at_rest(server, volume)?;
    one(VolumeDetachRequested { process, device: disk.device.id, volume, attachment })
}

fn swap(
    server: &Alive,
    process: ProcessId,
    (old, new, new_attachment): (VolumeId, VolumeId, AttachmentId),
    asker: Asker,
) -> Decision {
    admit(server, Action::SwapVolume, asker)?;
    let (disk, old_attachment) = at_rest(server, old)?;
    if server.disk_of(new).is_some() {
        return Err(InstanceReject::VolumeAttached { volume: new });
    }
    one(VolumeSwapRequested { process, device: disk.device.id, old, old_attachment, new, new_attachment })
}

/// The disk as long as it is this process's turn, and nobody has decided that the server ends: a delete gives all volumes
/// back, and what comes after it must not be taken for the server's.
fn worked_on(server: &Alive, device: BlockDeviceId, process: ProcessId) -> Result<&Disk, InstanceReject> {
    if matches!(server.ongoing, Some(Ongoing::Delete { .. })) {
        return Err(InstanceReject::Superseded);
    }
    let disk = server.disks.iter().find(|disk| disk.device.id == device);
    disk.filter(|disk| disk.work.map(|work: DiskWork| work.process()) == Some(process))
        .ok_or(InstanceReject::Superseded)
}

fn record_of(server: &Alive, command: VolumeCommand) -> Decision {
    let is_so = |device: &BlockDevice| server.disks.iter().any(|disk| disk.work.is_none() && disk.device == *device);
    let gone = |id: BlockDeviceId| server.disks.iter().all(|disk| disk.device.id != id);
    let recorded =
        |device: BlockDeviceId, process, event: InstanceEvent| worked_on(server, device, process).map(|_| vec![event]);
    match command {
        VolumeCommand::RecordAttached { device, .. } | VolumeCommand::RecordSwapped { device, .. }
            if is_so(&device) =>
        {
            Ok(vec![])
        }
        VolumeCommand::RecordAttached { process, device } => {
            recorded(device.id, process, VolumeAttached { process, device: *device }.into())
        }
        VolumeCommand::RecordSwapped { process, device } => {
            recorded(device.id, process, VolumeSwapped { process, device: *device }.into())
        }
        VolumeCommand::RecordAttachFailed { device, .. } | VolumeCommand::RecordDetached { device, .. }
            if gone(device) =>
        {
            Ok(vec![])
        }
        VolumeCommand::RecordAttachFailed { process, device, fault } => {
            recorded(device, process, VolumeAttachFailed { process, device, fault }.into())
        }
        VolumeCommand::RecordDetached { process, device } => {
            recorded(device, process, VolumeDetached { process, device }.into())
        }
        VolumeCommand::RecordDetachFailed { process, device, fault } => {
            recorded(device, process, VolumeDetachFailed { process, device, fault }.into())
        }
        VolumeCommand::RecordSwapFailed { process, device, fault } => {
            recorded(device, process, VolumeSwapFailed { process, device, fault }.into())
        }
        VolumeCommand::Attach { .. }
        | VolumeCommand::Detach { .. }
        | VolumeCommand::Swap { .. }
        | VolumeCommand::SetDeletion { .. }
        | VolumeCommand::RecordPrepared { .. } => Ok(vec![]),
    }
}
