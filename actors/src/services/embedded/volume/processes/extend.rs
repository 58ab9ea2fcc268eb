//! Extends a volume.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `resize` | enlarges the volume in its pool, or through the guest that has it | (a disk never gets smaller) |
//!
//! The quota for the new size was already reserved. After a failure, the volume keeps its size, and the process
//! releases the additional quota.

use chronova_events::process::{ProcessOutcome, StepOutput, Task, VolumeWork};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::volumes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{GIB, here, user};
use crate::process::definition::{Definition, StepError, StepRun, steps};
use crate::services::embedded::volume::VolumeCommand;
use crate::services::embedded::volume::quota::VolumeQuotaCommand;

pub const DEFINITION: Definition = Definition {
    name: "extend_volume",
    steps: steps! {
        "resize" => resize;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn wanted(work: &StepRun) -> Option<u32> {
    match work.running.task {
        Task::Volume { work: VolumeWork::Extend { size_gb }, .. } => Some(size_gb),
        _ => None,
    }
}

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        match (outcome, wanted(work), &work.running.failure) {
            (ProcessOutcome::Succeeded, Some(size_gb), _) => {
                work.tell_volume(VolumeCommand::RecordExtended { process, size_gb }).await
            }
            (ProcessOutcome::Failed, _, Some(failure)) => {
                give_back(work).await?;
                work.tell_volume(VolumeCommand::RecordFailed { process, fault: failure.fault.clone() }).await
            }
            // The process that cancelled this process deletes the volume.
            _ => Ok(()),
        }
    }
    .boxed()
}

async fn give_back(work: &StepRun) -> Result<(), StepError> {
    let Some(volume) = work.volume().await? else { return Ok(()) };
    // A repeated conclusion must not give back the quota of a later extension.
    if volume.ongoing != Some(work.running.process) {
        return Ok(());
    }
    let (project, size_gb) = (volume.created.project.clone(), volume.size_gb);
    let shrink = VolumeQuotaCommand::ShrinkVolume { project: project.clone(), volume: work.volume_id(), size_gb };
    work.volume_quota(&project, shrink).await
}

async fn resize(work: &StepRun) -> Result<StepOutput, StepError> {
    let volume = work.present_volume().await?;
    let (Some((host, _)), Some(size_gb)) = (&volume.place, wanted(work)) else {
        return Err(StepError::fatal(409, "The volume has no content.", ""));
    };
    let driver = work.must_reach(*host)?;
    let name = volumes::volume(work.volume_id());
    let store = driver.volume_store().needed().map_err(here)?;
    store.resize_volume(&name, u64::from(size_gb) * GIB, user(&volume)).await.map_err(here)?;
    Ok(StepOutput::Nothing)
}
