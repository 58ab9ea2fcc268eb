//! The volumes of a server that is built or deleted.
//!
//! A build creates, reserves and connects them, and completes their attachments once the guest has them. Its undo and a
//! delete release them. Moves only look up the host that the volumes require.

use chronova_events::ids::{AttachmentId, HostId, VolumeId};
use chronova_events::instance::{Alive, BlockDevice, BlockSource};
use chronova_events::process::StepOutput;

use super::definition::{StepError, StepRun};
use super::disks::{self, recorded};
use crate::instance::InstanceVolumeRecord;
use crate::ports::{NewContent, NewVolume, PortError, VolumeInfo};

/// The host on which the server must be, because no other host reaches one of its volumes. `None` if there is no such
/// volume.
pub(super) async fn only_host(work: &StepRun, server: &Alive) -> Result<Option<HostId>, StepError> {
    for device in server.disks.iter().map(|disk| &disk.device).filter(|device| device.is_volume()) {
        let volume = match (device.volume, device.source) {
            // The build created this volume, or the user named it.
            (Some(volume), _) | (None, BlockSource::Volume(volume)) => volume,
            (None, BlockSource::Snapshot(snapshot)) => {
                match work.context.volumes.find_snapshot(snapshot, &server.request.project, true).await {
                    Ok(info) => info.volume,
                    Err(error @ PortError::Unavailable(_)) => return Err(StepError::again(error)),
                    Err(_) => continue,
                }
            }
            _ => continue,
        };
        match work.context.volumes.find(volume, &server.request.project, true).await {
            Ok(VolumeInfo { host: Some(host), .. }) => return Ok(Some(host)),
            Err(error @ PortError::Unavailable(_)) => return Err(StepError::again(error)),
            _ => {}
        }
    }
    Ok(None)
}

/// Creates the new volumes, waits until they are available, and reserves and connects all volumes.
pub(super) async fn prepare(
    work: &StepRun,
    server: &Alive,
    host: HostId,
    hostname: &str,
) -> Result<StepOutput, StepError> {
    if !server.disks.iter().any(|disk| disk.device.is_volume()) {
        return Ok(StepOutput::Nothing);
    }
    let mut devices: Vec<BlockDevice> = server.disks.iter().map(|disk| disk.device.clone()).collect();
    for device in devices.iter_mut().filter(|device| device.is_volume()) {
        let volume = match device.source {
            BlockSource::Volume(volume) => volume,
            _ => made(work, server, device, host).await?,
        };
        let attachment = match disks::attached(work, volume, hostname).await?.first() {
            // An earlier run completed this attachment, and lost its records in a crash.
            Some(made) => *made,
            None => {
                let proposed = attachment(work, device);
                work.context.volumes.reserve(proposed, volume, work.instance_id(), work.meta.clone()).await?
            }
        };
        let name = device.device_name.as_deref();
        let connection = work.context.volumes.connect(volume, attachment, hostname, name, work.meta.clone()).await?;
        device.volume = Some(volume);
        device.attachment = Some(attachment);
        device.connection = Some(recorded(connection));
    }
    disks::record(work, InstanceVolumeRecord::Prepared { process: work.running.process, devices }).await?;
    Ok(StepOutput::Nothing)
}

/// The proposed id of a new volume. A repeated step gets the same id. Another attempt gets another id, because its
/// volume may be on another host.
fn new_volume(work: &StepRun, device: &BlockDevice) -> VolumeId {
    let name = format!("{}-{}", device.id, work.running.attempt);
    VolumeId::derive(work.running.process.0, &format!("volume-{name}"))
}

fn attachment(work: &StepRun, device: &BlockDevice) -> AttachmentId {
    AttachmentId::derive(work.running.process.0, &format!("attachment-{}-{}", device.id, work.running.attempt))
}

async fn made(work: &StepRun, server: &Alive, device: &BlockDevice, host: HostId) -> Result<VolumeId, StepError> {
    let proposed = new_volume(work, device);
    let (content, origin) = match device.source {
        BlockSource::Image(image) => (NewContent::Image(image), ""),
        BlockSource::Snapshot(snapshot) => (NewContent::Snapshot(snapshot), ""),
        BlockSource::Volume(volume) => (NewContent::Volume(volume), ""),
        // Nova gives only blank volumes a name.
        BlockSource::Blank => (NewContent::Blank, "-blank-vol"),
    };
    let name = if origin.is_empty() { String::new() } else { format!("{}{origin}", work.instance_id()) };
    let wanted = NewVolume {
        volume: proposed,
        project: server.request.project.clone(),
        user: server.request.user.clone(),
        name,
        description: None,
        size_gb: device.size,
        content,
        volume_type: device.volume_type.clone(),
        availability_zone: zone(work, server),
        metadata: vec![],
        host: Some(host),
    };
    // The API checked the project's rights when it accepted the server.
    let volume = work.context.volumes.create(wanted, true, work.meta.clone()).await?.id;
    await_volume(work, server, volume).await?;
    Ok(volume)
}

/// The zone that a new volume must be in: the zone of the server's host, from the record of the server's placement.
/// `None` if a server may have volumes of other zones.
fn zone(work: &StepRun, server: &Alive) -> Option<String> {
    let placed = server.placement.as_ref().filter(|_| !work.context.options.cross_az_attach);
    placed.map(|placed| placed.availability_zone.clone())
}

/// Waits until a volume is available. After the first poll, polls at most `[DEFAULT] block_device_allocate_retries`
/// times more.
async fn await_volume(work: &StepRun, server: &Alive, volume: VolumeId) -> Result<(), StepError> {
    let options = &work.context.options;
    let (began, mut looks, mut status) = (tokio::time::Instant::now(), 0, String::new());
    for look in 0..=options.volume_looks {
        if look > 0 {
            tokio::time::sleep(options.volume_pause).await;
        }
        looks = look + 1;
        match work.context.volumes.find(volume, &server.request.project, true).await {
            // This step may have reserved or connected the volume before a crash.
            Ok(info) if matches!(info.status.as_str(), "available" | "reserved" | "attaching" | "in-use") => {
                return Ok(());
            }
            Ok(info) => status = info.status,
            Err(error @ PortError::Unavailable(_)) => return Err(StepError::again(error)),
            Err(error) => return Err(error.into()),
        }
        if status.starts_with("error") {
            break;
        }
        // Another process has overtaken the build.
        if work.server().await?.is_none_or(|server| server.building() != Some(work.running.process)) {
            break;
        }
    }
    let seconds = began.elapsed().as_secs();
    let message = format!(
        "Build of instance {} aborted: Volume {volume} did not finish being created even after we waited {seconds} seconds \
         or {looks} attempts. And its status is {status}.",
        work.instance_id(),
    );
    Err(StepError::fatal(500, &message, ""))
}

/// Releases the reserved volumes and deletes the created ones, even those that were not recorded.
pub(super) async fn undo(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = work.server().await? else { return Ok(()) };
    let mut devices: Vec<BlockDevice> = server.disks.iter().map(|disk| disk.device.clone()).collect();
    if !devices.iter().any(BlockDevice::is_volume) {
        return Ok(());
    }
    for device in devices.iter_mut().filter(|device| device.is_volume()) {
        match device.source {
            BlockSource::Volume(volume) => disks::release_others(work, volume, &[]).await?,
            _ => {
                drop_made(work, &server, new_volume(work, device)).await?;
                device.volume = None;
            }
        }
        (device.attachment, device.connection) = (None, None);
    }
    disks::record(work, InstanceVolumeRecord::Prepared { process: work.running.process, devices }).await.map(drop)
}

/// Releases and deletes a volume that the build created. Finds the volume by the id that the build proposed.
async fn drop_made(work: &StepRun, server: &Alive, proposed: VolumeId) -> Result<(), StepError> {
    let volume = match work.context.volumes.find(proposed, &server.request.project, true).await {
        Ok(made) => made.id,
        Err(PortError::NotFound(_)) => return Ok(()),
        Err(error) => return Err(StepError::again(error)),
    };
    disks::release_others(work, volume, &[]).await?;
    disks::delete(work, volume).await
}

/// Completes the attachments, because the guest has the volumes.
pub(super) async fn complete(work: &StepRun, server: &Alive) -> Result<StepOutput, StepError> {
    for device in server.disks.iter().map(|disk| &disk.device) {
        if let (Some(volume), Some(attachment)) = (device.volume, device.attachment) {
            work.context.volumes.complete(volume, attachment, work.meta.clone()).await?;
        }
    }
    Ok(StepOutput::Nothing)
}

/// Releases the volumes of a server that is being deleted, and deletes those with `delete_on_termination`.
pub(super) async fn give_back(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = work.server().await? else { return Ok(StepOutput::Nothing) };
    for disk in &server.disks {
        let device = &disk.device;
        let Some(volume) = device.volume else { continue };
        // A move that the delete called off may have left further attachments, so all of the server's attachments end.
        disks::release_others(work, volume, &[]).await?;
        if let Some(chronova_events::instance::DiskWork::Swapping { to, .. }) = disk.work {
            disks::release_others(work, to, &[]).await?;
        }
        if device.delete_on_termination && device.is_volume() {
            disks::delete(work, volume).await?;
        }
    }
    Ok(StepOutput::Nothing)
}
