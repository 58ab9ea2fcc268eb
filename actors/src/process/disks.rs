//! Steps on a server's volumes that several processes share.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, HostId, ProjectId, VolumeId};
use chronova_events::instance::{Alive, BlockConnection, BlockDevice, DiskWork, FaultInfo, OngoingTask};
use chronova_events::process::{DiskTask, StepOutput, Task};
use chronova_hypervisor::driver::{DriverError, DriverResult};
use chronova_hypervisor::guest::VolumeDisk;

use super::definition::{StepError, StepRun};
use crate::aggregate::CommandError;
use crate::instance::{InstanceRecord, InstanceReject, InstanceRoot, InstanceVolumeRecord, disks};
use crate::ports::{Connection, PortError, VolumeService};

/// Converts a connection into the type of the events.
pub(super) fn recorded(connection: Connection) -> BlockConnection {
    let Connection { replaced_by: _, pool, volume, format, serial, readonly, shareable } = connection;
    BlockConnection { pool, volume, format, serial, readonly, shareable }
}

/// Converts a volume into the driver's type. The function asks the volume service how QEMU reaches the volume over the
/// network. No event has this answer, because it may hold a password, and because the storage's addresses may change.
pub(crate) async fn volume_disk(
    volumes: &dyn VolumeService,
    server: &Alive,
    device: &BlockDevice,
    connection: &BlockConnection,
    meta: &Arc<Meta>,
) -> Result<VolumeDisk, PortError> {
    let bootable = device.boot_index.filter(|_| server.is_volume_backed());
    let host = server.placement.as_ref().map_or("", |placed| placed.hostname.as_str());
    let network = match (device.volume, device.attachment) {
        (Some(volume), Some(attachment)) => volumes.network_disk(volume, attachment, host, Arc::clone(meta)).await?,
        _ => None,
    };
    Ok(VolumeDisk {
        serial: connection.serial.clone(),
        pool: connection.pool.clone(),
        volume: connection.volume.clone(),
        network,
        format: connection.format.clone(),
        readonly: connection.readonly,
        shareable: connection.shareable,
        device: disks::name_of(device).unwrap_or("vdz").to_owned(),
        bus: disks::bus(server.hardware_image(), device),
        kind: device.device_type.clone().unwrap_or_else(|| "disk".to_owned()),
        boot_order: bootable.map(|index| index + 1),
    })
}

/// The volumes of a new guest. Bootable volumes come first, in their boot order. The others follow in the order of
/// their device names.
pub(super) async fn volumes(
    service: &dyn VolumeService,
    server: &Alive,
    meta: &Arc<Meta>,
) -> Result<Vec<VolumeDisk>, PortError> {
    let has = |work: Option<DiskWork>| !matches!(work, Some(DiskWork::Attaching(_)));
    let mut volumes = Vec::new();
    for disk in server.disks.iter().filter(|disk| has(disk.work) && disk.device.is_volume()) {
        if let Some(connection) = &disk.device.connection {
            volumes.push(volume_disk(service, server, &disk.device, connection, meta).await?);
        }
    }
    volumes.sort_by(|a, b| {
        (a.boot_order.is_none(), a.boot_order, &a.device).cmp(&(b.boot_order.is_none(), b.boot_order, &b.device))
    });
    Ok(volumes)
}

/// The task of the process on its disk.
pub(super) fn task(work: &StepRun) -> Result<DiskTask, StepError> {
    match work.running.task {
        Task::AttachVolume(disk) | Task::DetachVolume(disk) | Task::SwapVolume { disk, .. } => Ok(disk),
        _ => Err(StepError::fatal(500, "This process works on no disk.", "")),
    }
}

/// The server and the disk. `None`: the server is deleted or being deleted, or another process owns the disk's task.
pub(super) async fn mine(work: &StepRun) -> Result<Option<(Alive, BlockDevice)>, StepError> {
    let id = task(work)?.device;
    let Some(server) = work.server().await? else { return Ok(None) };
    if matches!(server.ongoing, Some(OngoingTask::Delete { .. })) {
        return Ok(None);
    }
    let process = work.running.process;
    let disk = server.disks.iter().find(|disk| disk.device.id == id);
    let device = disk.filter(|disk| disk.work.map(|work| work.process()) == Some(process));
    let device = device.map(|disk| disk.device.clone());
    Ok(device.map(|device| (server, device)))
}

/// Like [`mine`], but `None` becomes an error.
pub(super) async fn still_mine(work: &StepRun) -> Result<(Alive, BlockDevice), StepError> {
    mine(work).await?.ok_or_else(|| StepError::fatal(409, "The server is being deleted.", ""))
}

pub(super) fn host(server: &Alive) -> Result<(HostId, String), StepError> {
    let placed = server.placement.as_ref().ok_or_else(|| StepError::fatal(500, "The server has no host.", ""))?;
    Ok((placed.host, placed.hostname.clone()))
}

/// The complete attachments of the server to this volume on this host. An interrupted run may have made such an
/// attachment.
pub(super) async fn attached(work: &StepRun, volume: VolumeId, hostname: &str) -> Result<Vec<AttachmentId>, StepError> {
    let known = work.context.volumes.find(volume, &ProjectId::new(""), true).await?.attachments;
    let here = known.into_iter().filter(|known| known.instance == Some(work.instance_id()) && known.attached);
    Ok(here.filter(|known| known.host.as_deref() == Some(hostname)).map(|known| known.id).collect())
}

/// Reserves a volume for the server. The output is the id of the attachment, if the volume service did not use the
/// proposed id.
pub(super) async fn reserve(work: &StepRun, proposed: AttachmentId, volume: VolumeId) -> Result<StepOutput, StepError> {
    let made = work.context.volumes.reserve(proposed, volume, work.instance_id(), work.meta.clone()).await?;
    Ok(if made == proposed { StepOutput::Nothing } else { StepOutput::Reserved(made) })
}

/// The id of the attachment that [`reserve`] made.
pub(super) fn reserved(work: &StepRun, proposed: AttachmentId) -> AttachmentId {
    let told = work.running.done.iter().rev().find_map(|record| match record.output {
        StepOutput::Reserved(attachment) => Some(attachment),
        _ => None,
    });
    told.unwrap_or(proposed)
}

/// Ends an attachment; a refusal of the volume service is logged and does not stop the process.
pub(super) async fn release(work: &StepRun, volume: VolumeId, attachment: AttachmentId) -> Result<(), StepError> {
    ended(volume, work.context.volumes.release(volume, attachment, work.meta.clone()).await)
}

/// Ends the server's attachments to a volume, except those in `keep`. Also ends attachments whose ids the process never
/// received, because an answer of the volume service was lost.
pub(super) async fn release_others(work: &StepRun, volume: VolumeId, keep: &[AttachmentId]) -> Result<(), StepError> {
    let server = work.instance_id();
    ended(volume, work.context.volumes.release_others(volume, server, keep, work.meta.clone()).await)
}

fn ended(volume: VolumeId, result: Result<(), PortError>) -> Result<(), StepError> {
    match result {
        Err(error @ PortError::Unavailable(_)) => Err(StepError::again(error)),
        Err(error) => {
            tracing::warn!(%volume, %error, "ending an attachment failed");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Deletes a volume with `delete_on_termination`, or one that a failed process created. As in Nova, a volume that
/// cannot be deleted stays.
pub(super) async fn delete(work: &StepRun, volume: VolumeId) -> Result<(), StepError> {
    match work.context.volumes.delete(volume, work.meta.clone()).await {
        Err(error @ PortError::Unavailable(_)) => Err(StepError::again(error)),
        Err(error) => {
            tracing::warn!(%volume, %error, "deleting a server's volume failed; it stays");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Tells the volume service that the volume is being detached.
pub(super) async fn begin_detaching(
    work: &StepRun,
    volume: VolumeId,
    project: &ProjectId,
) -> Result<StepOutput, StepError> {
    match work.context.volumes.begin_detaching(volume, work.meta.clone()).await {
        // This step may have marked the volume before a crash.
        Err(PortError::Invalid(reason)) => match work.context.volumes.find(volume, project, true).await {
            Ok(info) if info.status == "detaching" => Ok(StepOutput::Nothing),
            _ => Err(PortError::Invalid(reason).into()),
        },
        result => result.map(|()| StepOutput::Nothing).map_err(StepError::from),
    }
}

/// Tells the volume service that the volume stays attached.
pub(super) async fn keep(work: &StepRun) -> Result<(), StepError> {
    let Some((server, _)) = mine(work).await? else { return Ok(()) };
    roll_detaching(work, task(work)?.volume, &server.request.project).await
}

/// Marks a `detaching` volume as `in-use` again, and leaves any other volume as it is. Fails only if the volume service
/// is unavailable.
async fn roll_detaching(work: &StepRun, volume: VolumeId, project: &ProjectId) -> Result<(), StepError> {
    match work.context.volumes.find(volume, project, true).await {
        Ok(info) if info.status == "detaching" => {}
        Err(error @ PortError::Unavailable(_)) => return Err(StepError::again(error)),
        _ => return Ok(()),
    }
    match work.context.volumes.roll_detaching(volume, work.meta.clone()).await {
        Err(error @ PortError::Unavailable(_)) => Err(StepError::again(error)),
        _ => Ok(()),
    }
}

/// Converts the driver's result of a change of disks into the result of a step.
pub(super) fn told(result: DriverResult<()>) -> Result<(), StepError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        // No other host can do this, so the error is final.
        Err(error) => Err(StepError::fatal(500, "The hypervisor refused.", error)),
    }
}

/// Like [`told`], but for a detachment: succeeds if the guest is missing, because then it has no disk.
pub(super) fn told_or_gone(result: DriverResult<()>) -> Result<(), StepError> {
    match result {
        Err(DriverError::NoSuchGuest(_)) => Ok(()),
        other => told(other),
    }
}

/// Sends a record; `false` if the server is deleted, or another process has overtaken this process.
pub(super) async fn record(work: &StepRun, record: InstanceVolumeRecord) -> Result<bool, StepError> {
    let record = InstanceRecord::from(record);
    match work.context.gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await {
        Ok(_) => Ok(true),
        Err(CommandError::Rejected(InstanceReject::NotFound | InstanceReject::Superseded)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Why the process failed.
pub(super) fn fault(work: &StepRun) -> FaultInfo {
    let failure = work.running.failure.as_ref().map(|failure| failure.fault.clone());
    failure.unwrap_or_else(|| StepError::again("cancelled").fault())
}
