//! Moves the attachments of a server's volumes to another host. Each volume gets a new attachment, which replaces the
//! old attachment.
//!
//! Only the recorded attachment of a volume is valid. Other attachments of the same server are leftovers of an
//! interrupted step. The next successful step or the delete of the server ends them. As in Nova
//! (`_terminate_volume_connections`), a volume is never free for another server in between.

use chronova_events::error_chain::ErrorChain;
use chronova_events::ids::AttachmentId;
use chronova_events::instance::{Alive, BlockDevice, Placed};

use super::definition::{StepError, StepRun};
use super::disks::{self, recorded};
use crate::instance::InstanceVolumeRecord;

/// Attaches the volumes to the host of `to`. A repetition succeeds, too.
pub(super) async fn take(work: &StepRun, server: &Alive, to: &Placed) -> Result<(), StepError> {
    if !server.disks.iter().any(|disk| disk.device.is_volume()) {
        return Ok(());
    }
    let mut devices: Vec<BlockDevice> = server.disks.iter().map(|disk| disk.device.clone()).collect();
    for device in &mut devices {
        let (Some(volume), Some(now)) = (device.volume, device.attachment) else { continue };
        let there = disks::attached(work, volume, &to.hostname).await?;
        if there.contains(&now) {
            continue;
        }
        let attachment = match there.first() {
            // An interrupted step attached the volume.
            Some(made) => *made,
            None => {
                let proposed = attachment(work, device, to);
                work.context.volumes.reserve(proposed, volume, work.instance_id(), work.meta.clone()).await?
            }
        };
        let name = device.device_name.as_deref();
        let way = work.context.volumes.connect(volume, attachment, &to.hostname, name, work.meta.clone()).await?;
        let attachment = way.replaced_by.unwrap_or(attachment);
        work.context.volumes.complete(volume, attachment, work.meta.clone()).await?;
        (device.attachment, device.connection) = (Some(attachment), Some(recorded(way)));
    }
    let record = InstanceVolumeRecord::Prepared { process: work.running.process, devices: devices.clone() };
    match disks::record(work, record).await? {
        true => release_unrecorded(work, &devices).await,
        // The server was deleted, or another process has overtaken this one.
        false => release_unused(work, &devices).await,
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

/// The proposed id of the new attachment. A repeated step has the same id.
fn attachment(work: &StepRun, device: &BlockDevice, to: &Placed) -> AttachmentId {
    let name = format!("attachment-{}-{}-{}", device.id, to.host, work.running.attempt);
    AttachmentId::derive(work.running.process.0, &name)
}

/// Ends the attachments of the server that are not recorded.
async fn release_unrecorded(work: &StepRun, devices: &[BlockDevice]) -> Result<(), StepError> {
    for device in devices {
        if let (Some(volume), Some(attachment)) = (device.volume, device.attachment) {
            disks::release_others(work, volume, &[attachment]).await?;
        }
    }
    Ok(())
}

/// Ends the attachments in `devices` that the server does not use. A deleted server uses none.
async fn release_unused(work: &StepRun, devices: &[BlockDevice]) -> Result<(), StepError> {
    let server = work.server().await?;
    let is_used = |attachment| {
        let mut disks = server.iter().flat_map(|server| &server.disks);
        disks.any(|disk| disk.device.attachment == Some(attachment))
    };
    for device in devices {
        if let (Some(volume), Some(attachment)) = (device.volume, device.attachment)
            && !is_used(attachment)
        {
            disks::release(work, volume, attachment).await?;
        }
    }
    Ok(())
}
