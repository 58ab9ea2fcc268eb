//! Makes a volume a disk of a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `reserve_volume` | keeps the volume for the server | ending the attachment |
//! | `connect_volume` | asks how the server's host reaches it | (with the attachment) |
//! | `plug_disk` | gives it to the guest, running or not | pulling it out |
//! | `complete_attachment` | tells the volume service that the guest has it | (with the attachment) |
//!
//! A server on no host has nobody who could be told: its volumes are complete, and connected when it finds a host.
//!
//! A delete of the server gives all its volumes back; what this process then still holds it gives back itself.

use chronova_events::instance::BlockDevice;
use chronova_events::process::{Outcome, Output};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work};
use super::disks::{self, host, recorded, still_mine, task};
use crate::instance::VolumeCommand;

pub const DEFINITION: Definition = Definition {
    name: "attach_volume",
    steps: &[
        Step { name: "reserve_volume", run: |work| reserve(work).boxed(), undo: Some(|work| release(work).boxed()) },
        Step { name: "connect_volume", run: |work| connect(work).boxed(), undo: None },
        Step { name: "plug_disk", run: |work| plug(work).boxed(), undo: Some(|work| pull(work).boxed()) },
        Step { name: "complete_attachment", run: |work| complete(work).boxed(), undo: None },
    ],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (process, disk) = (work.running.process, task(work)?);
        if outcome != Outcome::Succeeded {
            let failed = VolumeCommand::RecordAttachFailed { process, device: disk.device, fault: disks::fault(work) };
            return disks::record(work, failed).await.map(drop);
        }
        let device = match disks::mine(work).await? {
            Some((_, device)) => BlockDevice { connection: connection(work), ..device },
            // Recorded before a crash, or the server ends: then the volume goes back.
            None => return settle(work).await,
        };
        let done = VolumeCommand::RecordAttached { process, device: Box::new(device) };
        match disks::record(work, done).await? {
            true => Ok(()),
            false => settle(work).await,
        }
    }
    .boxed()
}

/// The guest had the volume, but it is not this process's turn any more.
async fn settle(work: &Work) -> Result<(), StepError> {
    let disk = task(work)?;
    let server = work.server().await?;
    let has = server.is_some_and(|server| {
        let ends = matches!(server.ongoing, Some(chronova_events::instance::Ongoing::Delete { .. }));
        !ends && server.disks.iter().any(|known| known.device.id == disk.device)
    });
    if has { Ok(()) } else { disks::release(work, disk.volume, disk.attachment).await }
}

async fn reserve(work: &Work) -> Result<Output, StepError> {
    still_mine(work).await?;
    let disk = task(work)?;
    work.context.volumes.reserve(disk.attachment, disk.volume, disk.instance, work.meta.clone()).await?;
    Ok(Output::Nothing)
}

async fn release(work: &Work) -> Result<(), StepError> {
    let disk = task(work)?;
    disks::release(work, disk.volume, disk.attachment).await
}

async fn connect(work: &Work) -> Result<Output, StepError> {
    let (server, device) = still_mine(work).await?;
    if server.placement.is_none() {
        return Ok(Output::Nothing);
    }
    let (disk, (_, hostname)) = (task(work)?, host(&server)?);
    let name = device.device_name.as_deref();
    let connection =
        work.context.volumes.connect(disk.volume, disk.attachment, &hostname, name, work.meta.clone()).await?;
    Ok(Output::Connected(recorded(connection)))
}

fn connection(work: &Work) -> Option<chronova_events::instance::BlockConnection> {
    work.running.done.iter().rev().find_map(|record| match &record.output {
        Output::Connected(connection) => Some(connection.clone()),
        _ => None,
    })
}

async fn plug(work: &Work) -> Result<Output, StepError> {
    let (server, device) = still_mine(work).await?;
    if server.placement.is_none() {
        return Ok(Output::Nothing);
    }
    let (host, _) = host(&server)?;
    let connection = connection(work).ok_or_else(|| StepError::fatal(500, "The volume is not connected.", ""))?;
    let disk = disks::volume_disk(&server, &device, &connection);
    disks::told(work.driver(host)?.volume_attachment().needed()?.attach_disk(work.instance_id(), &disk).await)?;
    Ok(Output::Nothing)
}

async fn pull(work: &Work) -> Result<(), StepError> {
    let Some(connection) = connection(work) else { return Ok(()) };
    let Some(placed) = work.server().await?.and_then(|server| server.placement) else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    let driver = work.driver(placed.host)?;
    let Some(volumes) = driver.volume_attachment() else { return Ok(()) };
    disks::told_or_gone(volumes.detach_disk(work.instance_id(), &connection.serial).await)
}

async fn complete(work: &Work) -> Result<Output, StepError> {
    still_mine(work).await?;
    let disk = task(work)?;
    work.context.volumes.complete(disk.volume, disk.attachment, work.meta.clone()).await?;
    Ok(Output::Nothing)
}
