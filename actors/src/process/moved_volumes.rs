//! Volumes of a server that moves to another host: each gets an attachment there, which replaces its old one.
//!
//! Only the recorded attachment of a volume counts. Others of the same server are leftovers of an interrupted step; the
//! next successful one ends them. Nova exchanges attachments the same way (`_terminate_volume_connections`), so a
//! volume is never free for another server in between.

use chronova_events::ids::AttachmentId;
use chronova_events::instance::{Alive, BlockDevice, Placed};

use super::definition::{StepError, StepRun};
use super::disks::{self, recorded};
use crate::instance::InstanceVolumeRecord;
use crate::ports::PortError;

/// Attaches the volumes to the host of `to`. Done already is success.
pub(super) async fn take(work: &StepRun, server: &Alive, to: &Placed) -> Result<(), StepError> {
    if !server.disks.iter().any(|disk| disk.device.is_volume()) {
        return Ok(());
    }
    let mut devices: Vec<BlockDevice> = server.disks.iter().map(|disk| disk.device.clone()).collect();
    for device in &mut devices {
        let (Some(volume), Some(now)) = (device.volume, device.attachment) else { continue };
        let known = work.context.volumes.find(volume, &server.request.project, true).await?.attachments;
        if known.iter().any(|known| known.id == now && known.host.as_deref() == Some(&to.hostname) && known.attached) {
            continue;
        }
        let attachment = attachment(work, device, to);
        let name = device.device_name.as_deref();
        work.context.volumes.reserve(attachment, volume, work.instance_id(), work.meta.clone()).await?;
        let way = work.context.volumes.connect(volume, attachment, &to.hostname, name, work.meta.clone()).await?;
        work.context.volumes.complete(volume, attachment, work.meta.clone()).await?;
        (device.attachment, device.connection) = (Some(attachment), Some(recorded(way)));
    }
    let record = InstanceVolumeRecord::Prepared { process: work.running.process, devices: devices.clone() };
    match disks::record(work, record).await? {
        true => release_unrecorded(work, server, &devices).await,
        // The server is gone, and its recorded attachments are released; the rest is released now.
        false => release_all(work, &devices).await,
    }
}

/// As [`take`], but it must succeed: a refusal of the volume service is logged and ignored.
pub(super) async fn take_back(work: &StepRun, server: &Alive, to: &Placed) -> Result<(), StepError> {
    match take(work, server, to).await {
        Err(StepError::Fatal(fault) | StepError::Elsewhere(fault)) => {
            tracing::warn!(instance = %work.instance_id(), fault = fault.message, "volumes stay attached as they are");
            Ok(())
        }
        other => other,
    }
}

/// A repeated step finds it again.
fn attachment(work: &StepRun, device: &BlockDevice, to: &Placed) -> AttachmentId {
    let name = format!("attachment-{}-{}-{}", device.id, to.host, work.running.attempt);
    AttachmentId::derive(work.running.process.0, &name)
}

/// Ends the attachments of the server that are not recorded.
async fn release_unrecorded(work: &StepRun, server: &Alive, devices: &[BlockDevice]) -> Result<(), StepError> {
    for device in devices {
        let (Some(volume), Some(attachment)) = (device.volume, device.attachment) else { continue };
        let known = match work.context.volumes.find(volume, &server.request.project, true).await {
            Ok(info) => info.attachments,
            Err(PortError::Unavailable(reason)) => return Err(StepError::Again(reason)),
            Err(_) => continue,
        };
        for other in known.iter().filter(|known| known.instance == Some(work.instance_id()) && known.id != attachment) {
            disks::release(work, volume, other.id).await?;
        }
    }
    Ok(())
}

/// Ends what this process has attached.
async fn release_all(work: &StepRun, devices: &[BlockDevice]) -> Result<(), StepError> {
    for device in devices {
        if let (Some(volume), Some(attachment)) = (device.volume, device.attachment) {
            disks::release(work, volume, attachment).await?;
        }
    }
    Ok(())
}
