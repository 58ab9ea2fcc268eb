//! Attaches a volume to a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `reserve_volume` | reserves the volume for the server | ending the attachment |
//! | `connect_volume` | gets the host's connection to the volume | (with the attachment) |
//! | `plug_disk` | attaches the disk to the guest, running or not | detaching it |
//! | `complete_attachment` | tells the volume service that the guest has the volume | (with the attachment) |
//!
//! A server without a host has no guest. Its attachment is completed at once, and the volume is connected when the
//! server gets a host.
//!
//! A delete of the server releases all its volumes. This process then releases only its own attachment.

use chronova_events::instance::BlockDevice;
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::disks::{self, host, recorded, still_mine, task};
use crate::instance::InstanceVolumeRecord;

pub const DEFINITION: Definition = Definition {
    name: "attach_volume",
    steps: steps! {
        "reserve_volume" => reserve, undone by release;
        "connect_volume" => connect;
        "plug_disk" => plug, undone by pull;
        "complete_attachment" => complete;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (process, disk) = (work.running.process, task(work)?);
        if outcome != ProcessOutcome::Succeeded {
            let failed = InstanceVolumeRecord::AttachFailed { process, device: disk.device, fault: disks::fault(work) };
            return disks::record(work, failed).await.map(drop);
        }
        let device = match disks::mine(work).await? {
            Some((_, device)) => {
                let attachment = Some(disks::reserved(work, disk.attachment));
                BlockDevice { attachment, connection: connection(work), ..device }
            }
            // The attachment was recorded before a crash, or the server is being deleted and the volume must be
            // released.
            None => return give_up_attachment(work).await,
        };
        let done = InstanceVolumeRecord::Attached { process, device: Box::new(device) };
        match disks::record(work, done).await? {
            true => Ok(()),
            false => give_up_attachment(work).await,
        }
    }
    .boxed()
}

/// Called when this process does not own the disk's task any more. If the server has the disk and is not being deleted,
/// the attachment stays. Otherwise it is released.
async fn give_up_attachment(work: &StepRun) -> Result<(), StepError> {
    let disk = task(work)?;
    let server = work.server().await?;
    let has = server.is_some_and(|server| {
        let ends = matches!(server.ongoing, Some(chronova_events::instance::OngoingTask::Delete { .. }));
        !ends && server.disks.iter().any(|known| known.device.id == disk.device)
    });
    if has { Ok(()) } else { disks::release(work, disk.volume, disks::reserved(work, disk.attachment)).await }
}

async fn reserve(work: &StepRun) -> Result<StepOutput, StepError> {
    still_mine(work).await?;
    let disk = task(work)?;
    disks::reserve(work, disk.attachment, disk.volume).await
}

/// Ends all attachments of the server to the volume. They are all from this process, because a server attaches a volume
/// only once.
async fn release(work: &StepRun) -> Result<(), StepError> {
    disks::release_others(work, task(work)?.volume, &[]).await
}

async fn connect(work: &StepRun) -> Result<StepOutput, StepError> {
    let (server, device) = still_mine(work).await?;
    if server.placement.is_none() {
        return Ok(StepOutput::Nothing);
    }
    let (disk, (_, hostname)) = (task(work)?, host(&server)?);
    let (name, attachment) = (device.device_name.as_deref(), disks::reserved(work, disk.attachment));
    let connection = work.context.volumes.connect(disk.volume, attachment, &hostname, name, work.meta.clone()).await?;
    Ok(StepOutput::Connected(recorded(connection)))
}

fn connection(work: &StepRun) -> Option<chronova_events::instance::BlockConnection> {
    work.running.done.iter().rev().find_map(|record| match &record.output {
        StepOutput::Connected(connection) => Some(connection.clone()),
        _ => None,
    })
}

async fn plug(work: &StepRun) -> Result<StepOutput, StepError> {
    let (server, device) = still_mine(work).await?;
    if server.placement.is_none() {
        return Ok(StepOutput::Nothing);
    }
    let (host, _) = host(&server)?;
    let connection = connection(work).ok_or_else(|| StepError::fatal(500, "The volume is not connected.", ""))?;
    let device = BlockDevice { attachment: Some(disks::reserved(work, task(work)?.attachment)), ..device };
    let disk = disks::volume_disk(work.context.volumes.as_ref(), &server, &device, &connection, &work.meta).await?;
    disks::told(work.driver(host)?.volume_attachment().needed()?.attach_disk(work.instance_id(), &disk).await)?;
    Ok(StepOutput::Nothing)
}

async fn pull(work: &StepRun) -> Result<(), StepError> {
    let Some(connection) = connection(work) else { return Ok(()) };
    let Some(placed) = work.server().await?.and_then(|server| server.placement) else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    let driver = work.driver(placed.host)?;
    let Some(volumes) = driver.volume_attachment() else { return Ok(()) };
    disks::told_or_gone(volumes.detach_disk(work.instance_id(), connection.disk_key()).await)
}

async fn complete(work: &StepRun) -> Result<StepOutput, StepError> {
    still_mine(work).await?;
    let disk = task(work)?;
    let attachment = disks::reserved(work, disk.attachment);
    work.context.volumes.complete(disk.volume, attachment, work.meta.clone()).await?;
    Ok(StepOutput::Nothing)
}
