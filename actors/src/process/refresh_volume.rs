//! Renews the attachment of a volume, and with it the connection of its host. The guest is off.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `reserve_volume` | reserves the volume for the server once more | ending the attachments that are not recorded |
//! | `renew_connection` | ends the old attachment, connects the new one, plugs the disk again | completing it |
//!
//! When an attachment ends, the volume service takes the volume away from the host. So the old attachment ends before
//! the new one is connected. The second reservation keeps other servers away meanwhile, as in Nova's `nova-manage
//! volume_attachment refresh`. After the end of the old attachment, an undo also connects the new one, because nothing
//! can bring the old one back. If a reset of the volume has ended the reservation, the process reserves the volume
//! again as soon as the volume service allows it. The event `VolumeSwapped` with the same volume records the new
//! attachment. This event is the last change. After it, another process may work on the volume.

use chronova_events::ids::{AttachmentId, HostId, ProjectId};
use chronova_events::instance::{Alive, BlockDevice, OngoingTask};
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::disks::{self, host, mine, recorded, still_mine, task};
use crate::instance::InstanceVolumeRecord;
use crate::ports::PortError;

pub const DEFINITION: Definition = Definition {
    name: "refresh_volume",
    steps: steps! {
        "reserve_volume" => reserve, undone by release;
        "renew_connection" => renew, undone by go_on;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        if outcome == ProcessOutcome::Succeeded {
            return Ok(());
        }
        let (process, device) = (work.running.process, task(work)?.device);
        let failed = InstanceVolumeRecord::SwapFailed { process, device, fault: disks::fault(work) };
        disks::record(work, failed).await.map(drop)
    }
    .boxed()
}

/// The new attachment.
fn new(work: &StepRun) -> Result<AttachmentId, StepError> {
    match work.running.task {
        Task::SwapVolume { new_attachment, .. } => Ok(new_attachment),
        _ => Err(StepError::fatal(500, "This process renews no attachment.", "")),
    }
}

async fn reserve(work: &StepRun) -> Result<StepOutput, StepError> {
    still_mine(work).await?;
    disks::reserve(work, new(work)?, task(work)?.volume).await
}

/// Ends the attachments of the server to the volume, except the recorded one. If the server is deleted or being
/// deleted, ends all. After the record of the renewal, this process has no attachments to end.
async fn release(work: &StepRun) -> Result<(), StepError> {
    let (disk, process) = (task(work)?, work.running.process);
    let server = work.server().await?;
    let stays = server.filter(|server| !matches!(server.ongoing, Some(OngoingTask::Delete { .. })));
    let Some(server) = stays else { return disks::release_others(work, disk.volume, &[]).await };
    let known = server.disks.iter().find(|known| known.device.id == disk.device);
    match known.filter(|known| known.work.map(|work| work.process()) == Some(process)) {
        Some(known) => disks::release_others(work, disk.volume, known.device.attachment.as_slice()).await,
        None => Ok(()),
    }
}

/// Whether an earlier run of the step recorded the new attachment.
async fn is_renewed(work: &StepRun) -> Result<bool, StepError> {
    let (disk, process) = (task(work)?, work.running.process);
    let server = work.server().await?;
    let known = server.iter().flat_map(|server| &server.disks).find(|known| known.device.id == disk.device);
    Ok(known.is_some_and(|known| {
        known.work.map(|work| work.process()) != Some(process) && known.device.attachment != Some(disk.attachment)
    }))
}

async fn renew(work: &StepRun) -> Result<StepOutput, StepError> {
    if !is_renewed(work).await? {
        let (server, device) = still_mine(work).await?;
        check_key(work, &server, &device).await?;
        exchange(work, &server, device).await?;
    }
    Ok(StepOutput::Nothing)
}

/// Refuses the renewal if this process may not read the key of an encrypted volume. After the end of the old
/// attachment, it would be too late: the new one cannot be connected without the key.
async fn check_key(work: &StepRun, server: &Alive, device: &BlockDevice) -> Result<(), StepError> {
    let Some(connection) = &device.connection else { return Ok(()) };
    match disks::volume_disk(work.context.volumes.as_ref(), server, device, connection, &work.meta).await {
        Err(error @ PortError::Invalid(_)) => Err(error.into()),
        // An old attachment that is gone or broken is what the renewal is for.
        _ => Ok(()),
    }
}

/// Completes the renewal if the old attachment is gone, because nothing can bring it back.
async fn go_on(work: &StepRun) -> Result<(), StepError> {
    // A server that is being deleted loses its attachments with the undo of the first step.
    let Some((server, device)) = mine(work).await? else { return Ok(()) };
    let disk = task(work)?;
    let known = match work.context.volumes.find(disk.volume, &ProjectId::new(""), true).await {
        Ok(info) => info.attachments,
        Err(PortError::NotFound(_)) => return Ok(()),
        Err(error) => return Err(StepError::again(error)),
    };
    match known.iter().any(|known| known.id == disk.attachment) {
        true => Ok(()),
        false => exchange(work, &server, device).await,
    }
}

/// Ends the old attachment, and gives the server the new one. The function can be repeated.
async fn exchange(work: &StepRun, server: &Alive, device: BlockDevice) -> Result<(), StepError> {
    let (disk, (at, hostname), volumes) = (task(work)?, host(server)?, &work.context.volumes);
    let attachment = reservation(work, &hostname).await?;
    disks::release(work, disk.volume, disk.attachment).await?;
    let name = device.device_name.as_deref();
    let way = volumes.connect(disk.volume, attachment, &hostname, name, work.meta.clone()).await?;
    let attachment = way.replaced_by.unwrap_or(attachment);
    let renewed = BlockDevice { attachment: Some(attachment), connection: Some(recorded(way)), ..device };
    plug_again(work, at, server, &renewed).await?;
    volumes.complete(disk.volume, attachment, work.meta.clone()).await?;
    disks::release_others(work, disk.volume, &[attachment]).await?;
    let done = InstanceVolumeRecord::Swapped { process: work.running.process, device: Box::new(renewed) };
    match disks::record(work, done).await? {
        true => Ok(()),
        // The server is being deleted.
        false => release(work).await,
    }
}

/// The attachment that replaces the old one. The volume is reserved again if the reservation is gone, unless an earlier
/// run has completed an attachment in its place.
async fn reservation(work: &StepRun, hostname: &str) -> Result<AttachmentId, StepError> {
    let (disk, proposed) = (task(work)?, new(work)?);
    let reserved = disks::reserved(work, proposed);
    let known = work.context.volumes.find(disk.volume, &ProjectId::new(""), true).await?.attachments;
    if known.iter().any(|known| known.id == reserved) {
        return Ok(reserved);
    }
    let made = disks::attached(work, disk.volume, hostname).await?;
    if let Some(made) = made.into_iter().find(|made| *made != disk.attachment) {
        return Ok(made);
    }
    tracing::warn!(
        server = %work.instance_id(), volume = %disk.volume,
        "the reservation of a volume whose attachment is renewed is gone; reserving the volume again"
    );
    Ok(work.context.volumes.reserve(proposed, disk.volume, work.instance_id(), work.meta.clone()).await?)
}

/// Replaces the disk in the definition of the guest. A guest that is not defined gets the disk when it is created
/// again. If the host is down, the next start defines the guest with the new connection. So the server can be evacuated
/// meanwhile.
async fn plug_again(work: &StepRun, at: HostId, server: &Alive, device: &BlockDevice) -> Result<(), StepError> {
    let Some(connection) = &device.connection else { return Ok(()) };
    if !work.host_answers(at)? {
        return Ok(());
    }
    let disk = disks::volume_disk(work.context.volumes.as_ref(), server, device, connection, &work.meta).await?;
    let driver = work.driver(at)?;
    let part = driver.volume_attachment().needed()?;
    disks::told_or_gone(part.detach_disk(work.instance_id(), connection.disk_key()).await)?;
    disks::told_or_gone(part.attach_disk(work.instance_id(), &disk).await)
}
