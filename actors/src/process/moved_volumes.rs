//! Moves the attachments of a server's volumes to another host: each volume gets a new attachment, which replaces its
//! old one.
//!
//! Only the recorded attachment of a volume is valid. Other attachments of the same server are leftovers of an
//! interrupted step, and the next successful step ends them, or the delete of the server. Nova exchanges attachments the same way
//! (`_terminate_volume_connections`), so a volume is never free for another server in between.

use chronova_events::error_chain::ErrorChain;
use chronova_events::ids::AttachmentId;
use chronova_events::instance::{Alive, BlockDevice, Placed};

use super::definition::{StepError, StepRun};
use super::disks::{self, recorded};
use crate::instance::InstanceVolumeRecord;
use crate::ports::PortError;

/// Attaches the volumes to the host of `to`. A repetition succeeds, too.
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
        // The server was deleted, and the delete releases the recorded attachments. This call releases the attachments
        // in `devices`.
        false => release_all(work, &devices).await,
    }
}

/// Like [`take`], but it must succeed, so a refusal of the volume service is only logged.
pub(super) async fn take_back(work: &StepRun, server: &Alive, to: &Placed) -> Result<(), StepError> {
    match take(work, server, to).await {
        Err(StepError::Fatal(fault) | StepError::Elsewhere(fault)) => {
            tracing::warn!(
                instance = %work.instance_id(),
                fault = %ErrorChain(&fault),
                "connecting the server's volumes to its host again failed; they stay as they are"
            );
            Ok(())
        }
        other => other,
    }
}

/// The id of the new attachment. A repeated step has the same id.
fn attachment(work: &StepRun, device: &BlockDevice, to: &Placed) -> AttachmentId {
    let name = format!("attachment-{}-{}-{}", device.id, to.host, work.running.attempt);
    AttachmentId::derive(work.running.process.0, &name)
}

/// Ends the attachments of the server that are not recorded.
pub(super) async fn release_unrecorded(
    work: &StepRun,
    server: &Alive,
    devices: &[BlockDevice],
) -> Result<(), StepError> {
    for device in devices {
        let (Some(volume), Some(attachment)) = (device.volume, device.attachment) else { continue };
        let known = match work.context.volumes.find(volume, &server.request.project, true).await {
            Ok(info) => info.attachments,
            Err(error @ PortError::Unavailable(_)) => return Err(StepError::again(error)),
            Err(_) => continue,
        };
        for other in known.iter().filter(|known| known.instance == Some(work.instance_id()) && known.id != attachment) {
            disks::release(work, volume, other.id).await?;
        }
    }
    Ok(())
}

/// Ends the attachments in `devices`.
async fn release_all(work: &StepRun, devices: &[BlockDevice]) -> Result<(), StepError> {
    for device in devices {
        if let (Some(volume), Some(attachment)) = (device.volume, device.attachment) {
            disks::release(work, volume, attachment).await?;
        }
    }
    Ok(())
}
