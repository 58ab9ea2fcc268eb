//! The steps of [`super::offload`] and [`super::unshelve`] on the volumes of a server that leaves its host, or gets a
//! host.
//!
//! The volume service cannot remove the host from an attachment. So when a server leaves its host, a step first makes a
//! second attachment, which reserves the volume for the server. Then it ends the host's attachment. A repeated step
//! finds its own attachments, because the proposed ids derive from the process and its attempt. Cinder chooses its own
//! ids, so its client returns the server's open reservation instead. If the server is being deleted, the step releases
//! the attachments that were not recorded.

use chronova_events::ids::{AttachmentId, VolumeId};
use chronova_events::instance::{Alive, BlockDevice};
use chronova_events::process::StepOutput;

use super::definition::{StepError, StepRun};
use super::disks::{self, host, recorded};
use super::turn;
use crate::instance::{InstanceRoot, InstanceVolumeRecord};

/// The proposed id of the attachment that reserves the volume while the server has no host. Each attempt of the process
/// proposes its own id.
fn keeper(work: &StepRun, device: &BlockDevice) -> AttachmentId {
    AttachmentId::derive(work.running.process.0, &format!("kept-{}-{}", device.id, work.running.attempt))
}

fn volumes(server: &Alive) -> impl Iterator<Item = (&BlockDevice, VolumeId)> {
    server.disks.iter().map(|disk| &disk.device).filter_map(|device| Some((device, device.volume?)))
}

/// Fails while another process works on one of the disks, because that process may change the disk's attachment.
fn ensure_disks_idle(server: &Alive) -> Result<(), StepError> {
    match server.disks.iter().any(|disk| disk.work.is_some()) {
        true => Err(StepError::again("another request is changing one of the server's volumes")),
        false => Ok(()),
    }
}

/// Ends the host's attachments. The volumes stay reserved for the server.
pub(super) async fn keep(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    ensure_disks_idle(server)?;
    let mut devices = Vec::new();
    for device in server.disks.iter().map(|disk| &disk.device) {
        let mut device = device.clone();
        if let Some(volume) = device.volume {
            let proposed = keeper(work, &device);
            let keeper = work.context.volumes.reserve(proposed, volume, work.instance_id(), work.meta.clone()).await?;
            // The old attachment ends only after the new attachment reserves the volume. Otherwise another server could
            // take the volume.
            if let Some(old) = device.attachment.filter(|old| *old != keeper) {
                disks::release(work, volume, old).await?;
            }
            (device.attachment, device.connection) = (Some(keeper), None);
        }
        devices.push(device);
    }
    record(work, devices).await
}

/// Releases the attachments that [`keep`] created and could not record. It cannot record them if another process, such
/// as a deletion, has overtaken this process.
pub(super) async fn let_go(work: &StepRun) -> Result<(), StepError> {
    let instance = work.context.gateway.look::<InstanceRoot>(&work.instance_id()).await?;
    // The attachments must be released even if the server is deleted by now.
    let Some(server) = instance.known() else { return Ok(()) };
    for (device, volume) in volumes(server) {
        let recorded = device.attachment.filter(|_| instance.alive().is_some());
        disks::release_others(work, volume, recorded.as_slice()).await?;
    }
    Ok(())
}

/// Connects the server's volumes to its host.
pub(super) async fn connect(work: &StepRun, server: &Alive) -> Result<StepOutput, StepError> {
    ensure_disks_idle(server)?;
    if volumes(server).next().is_none() {
        return Ok(StepOutput::Nothing);
    }
    let (_, hostname) = host(server)?;
    let mut devices = Vec::new();
    for device in server.disks.iter().map(|disk| &disk.device) {
        let mut device = device.clone();
        if let (Some(volume), Some(attachment)) = (device.volume, device.attachment) {
            let name = device.device_name.as_deref();
            let way = work.context.volumes.connect(volume, attachment, &hostname, name, work.meta.clone()).await?;
            device.connection = Some(recorded(way));
        }
        devices.push(device);
    }
    record(work, devices).await?;
    Ok(StepOutput::Nothing)
}

/// Completes the attachments, because the guest has the volumes.
pub(super) async fn complete(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    for (device, volume) in volumes(server) {
        if let Some(attachment) = device.attachment {
            work.context.volumes.complete(volume, attachment, work.meta.clone()).await?;
        }
    }
    Ok(())
}

async fn record(work: &StepRun, devices: Vec<BlockDevice>) -> Result<(), StepError> {
    let process = work.running.process;
    match disks::record(work, InstanceVolumeRecord::Prepared { process, devices }).await? {
        true => Ok(()),
        // The process that overtook this process releases the recorded attachments. This process releases the
        // attachments that are not recorded.
        false => {
            let_go(work).await?;
            turn::still_mine(work).await.map(drop)
        }
    }
}
