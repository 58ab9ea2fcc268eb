//! Replaces a server's volume with another one, and copies its content while the guest runs.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `begin_detaching` | marks the old volume as `detaching` | marking it as `in-use` again |
//! | `reserve_volume` | reserves the new volume for the server | ending its attachment |
//! | `connect_volume` | gets the host's connection to the new volume | (with the attachment) |
//! | `exchange_disk` | copies the content, and switches the guest to the copy | copying back |
//!
//! Releasing the old volume cannot be undone, so it is the end of the process.

use chronova_events::ids::{AttachmentId, VolumeId};
use chronova_events::instance::{BlockConnection, BlockDevice, BlockSource};
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::DriverError;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::disks::{self, host, mine, recorded, still_mine, task};
use crate::instance::InstanceVolumeRecord;

pub const DEFINITION: Definition = Definition {
    name: "swap_volume",
    steps: steps! {
        "begin_detaching" => begin, undone by disks::keep;
        "reserve_volume" => reserve, undone by release;
        "connect_volume" => connect;
        "exchange_disk" => exchange, undone by back;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

/// The new volume, and its attachment once it is reserved.
fn new(work: &StepRun) -> Result<(VolumeId, AttachmentId), StepError> {
    match work.running.task {
        Task::SwapVolume { new, new_attachment, .. } => Ok((new, disks::reserved(work, new_attachment))),
        _ => Err(StepError::fatal(500, "This process swaps no volume.", "")),
    }
}

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (process, disk, (volume, attachment)) = (work.running.process, task(work)?, new(work)?);
        if outcome != ProcessOutcome::Succeeded {
            let failed = InstanceVolumeRecord::SwapFailed { process, device: disk.device, fault: disks::fault(work) };
            return disks::record(work, failed).await.map(drop);
        }
        let Some((_, device)) = mine(work).await? else { return give_up_swap(work).await };
        let device = BlockDevice {
            source: BlockSource::Volume(volume),
            volume: Some(volume),
            attachment: Some(attachment),
            connection: connection(work),
            ..device
        };
        work.context.volumes.complete(volume, attachment, work.meta.clone()).await?;
        disks::release(work, disk.volume, disk.attachment).await?;
        match disks::record(work, InstanceVolumeRecord::Swapped { process, device: Box::new(device) }).await? {
            true => Ok(()),
            false => give_up_swap(work).await,
        }
    }
    .boxed()
}

/// Called when this process does not own the disk's task any more. Either the swap was recorded before a crash, or the
/// server is being deleted. Releases the old volume. Releases the new volume, too, if the server does not have it.
async fn give_up_swap(work: &StepRun) -> Result<(), StepError> {
    let (disk, (volume, attachment)) = (task(work)?, new(work)?);
    let has = work.server().await?.is_some_and(|server| server.disk_of(volume).is_some());
    disks::release(work, disk.volume, disk.attachment).await?;
    if has { Ok(()) } else { disks::release(work, volume, attachment).await }
}

async fn begin(work: &StepRun) -> Result<StepOutput, StepError> {
    let (server, _) = still_mine(work).await?;
    disks::begin_detaching(work, task(work)?.volume, &server.request.project).await
}

async fn reserve(work: &StepRun) -> Result<StepOutput, StepError> {
    still_mine(work).await?;
    let (volume, attachment) = new(work)?;
    disks::reserve(work, attachment, volume).await
}

/// Ends all attachments of the server to the new volume. They are all from this process, because a server attaches a
/// volume only once.
async fn release(work: &StepRun) -> Result<(), StepError> {
    disks::release_others(work, new(work)?.0, &[]).await
}

async fn connect(work: &StepRun) -> Result<StepOutput, StepError> {
    let (server, device) = still_mine(work).await?;
    let ((volume, attachment), (_, hostname)) = (new(work)?, host(&server)?);
    let name = device.device_name.as_deref();
    let connection = work.context.volumes.connect(volume, attachment, &hostname, name, work.meta.clone()).await?;
    Ok(StepOutput::Connected(recorded(connection)))
}

fn connection(work: &StepRun) -> Option<BlockConnection> {
    work.running.done.iter().rev().find_map(|record| match &record.output {
        StepOutput::Connected(connection) => Some(connection.clone()),
        _ => None,
    })
}

async fn exchange(work: &StepRun) -> Result<StepOutput, StepError> {
    let (server, device) = still_mine(work).await?;
    let (Some(old), Some(new)) = (&device.connection, connection(work)) else {
        return Err(StepError::fatal(500, "The volume is not connected.", ""));
    };
    let old = old.serial.clone();
    let (volume, attachment) = self::new(work)?;
    let device = BlockDevice { volume: Some(volume), attachment: Some(attachment), ..device };
    let disk = disks::volume_disk(work.context.volumes.as_ref(), &server, &device, &new).await?;
    let driver = work.driver(host(&server)?.0)?;
    disks::told(driver.volume_attachment().needed()?.swap_disk(work.instance_id(), &old, &disk).await)?;
    Ok(StepOutput::Nothing)
}

/// Ends an unfinished copy. If the guest has the new volume, gives it the old volume again.
async fn back(work: &StepRun) -> Result<(), StepError> {
    let Some((server, device)) = mine(work).await? else { return Ok(()) };
    let (Some(old), Some(new)) = (&device.connection, connection(work)) else { return Ok(()) };
    let (host, _) = host(&server)?;
    if !work.host_answers(host)? {
        return Ok(());
    }
    let driver = work.driver(host)?;
    let Some(volumes) = driver.volume_attachment() else { return Ok(()) };
    // A copy that still runs would write to the new volume after its deletion.
    disks::told_or_gone(volumes.abandon_swap(work.instance_id(), &old.serial).await)?;
    // Without an answer the guest may have the new volume, which must then not be released.
    let serials = match volumes.disks(work.instance_id()).await {
        Err(DriverError::NoSuchGuest(_)) => return Ok(()),
        found => found.map_err(StepError::again)?,
    };
    if !serials.contains(&new.serial) {
        return Ok(());
    }
    let disk = disks::volume_disk(work.context.volumes.as_ref(), &server, &device, old).await?;
    disks::told_or_gone(volumes.swap_disk(work.instance_id(), &new.serial, &disk).await)
}
