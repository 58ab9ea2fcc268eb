//! Detaches a volume from a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `begin_detaching` | marks the volume as `detaching` | marking it as `in-use` again |
//! | `pull_disk` | detaches the disk; a running guest must release it | attaching it again |
//!
//! The attachment ends only after the guest has released the volume. The end of an attachment cannot be undone, so it
//! is the last action of the process.

use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::disks::{self, host, mine, still_mine, task};
use crate::instance::InstanceVolumeRecord;
use crate::ports::PortError;

pub const DEFINITION: Definition = Definition {
    name: "detach_volume",
    steps: steps! {
        "begin_detaching" => begin, undone by disks::keep;
        "pull_disk" => pull, undone by plug;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (process, disk) = (work.running.process, task(work)?);
        let record = match outcome {
            ProcessOutcome::Succeeded => {
                let ends = match mine(work).await? {
                    // As in Nova (`_local_cleanup_bdm_volumes`), a volume with `delete_on_termination` is deleted here
                    // if its server has no host. No other process would delete it.
                    Some((server, device)) => server.placement.is_none() && device.delete_on_termination,
                    None => false,
                };
                disks::release(work, disk.volume, disk.attachment).await?;
                if ends {
                    disks::delete(work, disk.volume).await?;
                }
                InstanceVolumeRecord::Detached { process, device: disk.device }
            }
            _ => InstanceVolumeRecord::DetachFailed { process, device: disk.device, fault: disks::fault(work) },
        };
        disks::record(work, record).await.map(drop)
    }
    .boxed()
}

async fn begin(work: &StepRun) -> Result<StepOutput, StepError> {
    let (server, _) = still_mine(work).await?;
    // Without a host the volume is only reserved, so no guest has to detach it.
    if server.placement.is_none() {
        return Ok(StepOutput::Nothing);
    }
    disks::begin_detaching(work, task(work)?.volume, &server.request.project).await
}

async fn pull(work: &StepRun) -> Result<StepOutput, StepError> {
    let (server, device) = still_mine(work).await?;
    let Some(connection) = device.connection else { return Ok(StepOutput::Nothing) };
    let (host, _) = host(&server)?;
    let driver = work.driver(host)?;
    let volumes = driver.volume_attachment().needed()?;
    disks::told_or_gone(volumes.detach_disk(work.instance_id(), connection.disk_key()).await)?;
    Ok(StepOutput::Nothing)
}

async fn plug(work: &StepRun) -> Result<(), StepError> {
    let Some((server, device)) = mine(work).await? else { return Ok(()) };
    let Some(connection) = &device.connection else { return Ok(()) };
    let (host, _) = host(&server)?;
    if !work.host_answers(host)? {
        return Ok(());
    }
    let disk = match disks::volume_disk(work.context.volumes.as_ref(), &server, &device, connection, &work.meta).await {
        // No later attempt helps: for example, this process may not read the key of an encrypted volume. A guest that
        // did not release the disk still has it. Otherwise the next hard reboot attaches it, or says why not.
        Err(PortError::Invalid(reason)) => {
            let serial = connection.serial.as_str();
            tracing::warn!(server = %work.instance_id(), serial, reason, "a disk is not attached again");
            return Ok(());
        }
        found => found?,
    };
    let driver = work.driver(host)?;
    let Some(volumes) = driver.volume_attachment() else { return Ok(()) };
    disks::told_or_gone(volumes.attach_disk(work.instance_id(), &disk).await)
}
