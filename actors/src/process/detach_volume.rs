//! Takes a volume from a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `begin_detaching` | tells the volume service that the guest is about to lose it | telling it that the guest keeps it |
//! | `pull_disk` | takes it from the guest, which has to let go of it if it runs | plugging it in again |
//!
//! Only when the guest has let go is the attachment ended: then nothing is undone any more, so that is how the process
//! concludes.

use chronova_events::process::{Outcome, Output};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work};
use super::disks::{self, host, mine, still_mine, task};
use crate::instance::VolumeCommand;

pub const DEFINITION: Definition = Definition {
    name: "detach_volume",
    steps: &[
        Step { name: "begin_detaching", run: |work| begin(work).boxed(), undo: Some(|work| disks::keep(work).boxed()) },
        Step { name: "pull_disk", run: |work| pull(work).boxed(), undo: Some(|work| plug(work).boxed()) },
    ],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (process, disk) = (work.running.process, task(work)?);
        let record = match outcome {
            Outcome::Succeeded => {
                let ends = match mine(work).await? {
                    // Nova's local clean-up: nobody else would see to it.
                    Some((server, device)) => server.placement.is_none() && device.delete_on_termination,
                    None => false,
                };
                disks::release(work, disk.volume, disk.attachment).await?;
                if ends {
                    disks::delete(work, disk.volume).await?;
                }
                VolumeCommand::RecordDetached { process, device: disk.device }
            }
            _ => VolumeCommand::RecordDetachFailed { process, device: disk.device, fault: disks::fault(work) },
        };
        disks::record(work, record).await.map(drop)
    }
    .boxed()
}

async fn begin(work: &Work) -> Result<Output, StepError> {
    let (server, _) = still_mine(work).await?;
    // On no host its volume is only kept for it, which is nothing to be detached from.
    if server.placement.is_none() {
        return Ok(Output::Nothing);
    }
    disks::begin_detaching(work, task(work)?.volume, &server.request.project).await
}

async fn pull(work: &Work) -> Result<Output, StepError> {
    let (server, device) = still_mine(work).await?;
    let Some(connection) = device.connection else { return Ok(Output::Nothing) };
    let (host, _) = host(&server)?;
    let driver = work.driver(host)?;
    let volumes = driver.volume_attachment().needed()?;
    disks::told_or_gone(volumes.detach_disk(work.instance_id(), &connection.serial).await)?;
    Ok(Output::Nothing)
}

async fn plug(work: &Work) -> Result<(), StepError> {
    let Some((server, device)) = mine(work).await? else { return Ok(()) };
    let Some(connection) = &device.connection else { return Ok(()) };
    let (host, _) = host(&server)?;
    if !work.host_answers(host)? {
        return Ok(());
    }
    let disk = disks::volume_disk(&server, &device, connection);
    let driver = work.driver(host)?;
    let Some(volumes) = driver.volume_attachment() else { return Ok(()) };
    disks::told_or_gone(volumes.attach_disk(work.instance_id(), &disk).await)
}
