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
//!
//! If the volume service itself migrates the old volume, it waits for the end of the exchange. As in Nova, the process
//! completes the new attachment, ends the old one, and tells the service. The service then gives the new content the id
//! of the old volume, and the server keeps that id. After a failure, the process ends the new attachment, and tells the
//! service. All of this is the conclusion of the process, which is repeated until it succeeds.

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
use crate::ports::{MigrationPair, PortError, VolumeExchange};

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
            tell(work, true).await?;
            let failed = InstanceVolumeRecord::SwapFailed { process, device: disk.device, fault: disks::fault(work) };
            return disks::record(work, failed).await.map(drop);
        }
        let Some((_, device)) = mine(work).await? else { return give_up_swap(work).await };
        work.context.volumes.complete(volume, attachment, work.meta.clone()).await?;
        disks::release(work, disk.volume, disk.attachment).await?;
        let kept = tell(work, false).await?;
        let device = BlockDevice {
            source: BlockSource::Volume(kept),
            volume: Some(kept),
            attachment: Some(attachment),
            connection: connection(work),
            ..device
        };
        match disks::record(work, InstanceVolumeRecord::Swapped { process, device: Box::new(device) }).await? {
            true => Ok(()),
            false => give_up_swap(work).await,
        }
    }
    .boxed()
}

/// Called when this process does not own the disk's task any more. Either the swap was recorded before a crash, or the
/// server is being deleted. Releases the old volume. If the server does not have the new volume, releases the new
/// volume, too. Before that, it tells the service that the exchange succeeded. The guest has written to the new volume,
/// so the service must keep that volume.
async fn give_up_swap(work: &StepRun) -> Result<(), StepError> {
    let (disk, (_, attachment)) = (task(work)?, new(work)?);
    let server = work.server().await?;
    let has = server.is_some_and(|server| server.disks.iter().any(|disk| disk.device.attachment == Some(attachment)));
    disks::release(work, disk.volume, disk.attachment).await?;
    if has {
        return Ok(());
    }
    let kept = tell(work, false).await?;
    disks::release(work, kept, attachment).await
}

/// Tells the volume service that the exchange has ended. Returns the id of the guest's volume. If the service refuses,
/// the exchange counts as one that the service did not request. There is one exception: after a success, a call that
/// lacks a right is repeated until an operator grants the right. Otherwise the service would believe that the guest
/// still has the old volume.
async fn tell(work: &StepRun, failed: bool) -> Result<VolumeId, StepError> {
    let (old, (new, attachment)) = (task(work)?.volume, new(work)?);
    let exchange = VolumeExchange { old, new, attachment };
    match work.context.volumes.end_migration(exchange, failed, work.meta.clone()).await {
        Err(error @ PortError::Unavailable(_)) => Err(StepError::again(error)),
        Err(error @ PortError::Forbidden(_)) if !failed => Err(StepError::again(error)),
        Err(error) => {
            tracing::warn!(%old, %new, %error, "the volume service does not end its migration of a volume");
            Ok(if failed { old } else { new })
        }
        Ok(kept) => Ok(kept),
    }
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
    let (name, old) = (device.device_name.as_deref(), task(work)?.volume);
    let connection = work.context.volumes.connect(volume, attachment, &hostname, name, work.meta.clone()).await?;
    let connection = recorded(connection);
    match work.context.volumes.standing_of(old, volume).await? {
        MigrationPair::This => Ok(StepOutput::Connected(with_serial(connection, old))),
        MigrationPair::Neither => Ok(StepOutput::Connected(connection)),
        MigrationPair::OldElsewhere => {
            Err(StepError::fatal(409, "The volume service migrates the old volume to another volume.", ""))
        }
    }
}

/// The connection to the new volume, with the id of the old volume as its serial. The guest's volume keeps the old id,
/// because the volume service migrates it. If only the serial identifies the disk in the guest, the connection does not
/// change, because two disks with one serial could not be distinguished. The driver refuses the exchange of such a
/// disk.
fn with_serial(connection: BlockConnection, old: VolumeId) -> BlockConnection {
    let moved = BlockConnection { serial: old.to_string(), ..connection.clone() };
    match moved.disk_key() == moved.serial {
        true => connection,
        false => moved,
    }
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
    let old = old.disk_key().to_owned();
    let (volume, attachment) = self::new(work)?;
    let device = BlockDevice { volume: Some(volume), attachment: Some(attachment), ..device };
    let disk = disks::volume_disk(work.context.volumes.as_ref(), &server, &device, &new, &work.meta).await?;
    let driver = work.driver(host(&server)?.0)?;
    disks::told(driver.volume_attachment().needed()?.swap_disk(work.instance_id(), &old, &disk).await)?;
    Ok(StepOutput::Nothing)
}

/// Ends an unfinished copy. If the guest has the new volume, gives it the old volume again.
async fn back(work: &StepRun) -> Result<(), StepError> {
    let Some((server, device)) = mine(work).await? else { return Ok(()) };
    let (Some(old), Some(new)) = (&device.connection, connection(work)) else { return Ok(()) };
    if old.disk_key() == new.disk_key() {
        // The guest cannot have got such a disk, and a copy of a disk onto itself would destroy it.
        return Ok(());
    }
    let (host, _) = host(&server)?;
    if !work.host_answers(host)? {
        return Ok(());
    }
    let driver = work.driver(host)?;
    let Some(volumes) = driver.volume_attachment() else { return Ok(()) };
    // A copy that still runs would write to the new volume after its deletion.
    disks::told_or_gone(volumes.abandon_swap(work.instance_id(), old.disk_key()).await)?;
    // Without an answer the guest may have the new volume, which must then not be released.
    let keys = match volumes.disks(work.instance_id()).await {
        Err(DriverError::NoSuchGuest(_)) => return Ok(()),
        found => found.map_err(StepError::again)?,
    };
    if !keys.iter().any(|key| key == new.disk_key()) {
        return Ok(());
    }
    let disk = disks::volume_disk(work.context.volumes.as_ref(), &server, &device, old, &work.meta).await?;
    disks::told_or_gone(volumes.swap_disk(work.instance_id(), new.disk_key(), &disk).await)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_disk_that_only_its_serial_identifies_keeps_the_serial_of_the_new_volume() {
        let (old, new) = (VolumeId(Uuid::from_u128(1)), VolumeId(Uuid::from_u128(2)));
        for (name, serial) in [(format!("volume-{new}"), old), ("1".to_owned(), new)] {
            let connection = BlockConnection {
                pool: "pool".to_owned(),
                volume: name.clone(),
                format: "raw".to_owned(),
                serial: new.to_string(),
                readonly: false,
                shareable: false,
            };
            let moved = with_serial(connection, old);
            assert_eq!(moved.serial, serial.to_string(), "{name}");
            assert_eq!(moved.disk_key(), new.to_string(), "{name}");
        }
    }
}
