//! Creates and deletes snapshots: full copies in the volume's pool.
//!
//! | process | step | does | undone by |
//! |---|---|---|---|
//! | `create_snapshot` | `copy` | copies the volume at one moment; if a guest uses it, through the guest | deleting the copy |
//! | `delete_snapshot` | `remove_copy` | deletes the copy; a down host's agent does it later | (only goes forward) |
//! | | `release_quota` | releases the project's quota | |

use chronova_events::ids::SnapshotId;
use chronova_events::process::{ProcessOutcome, StepOutput, Task, VolumeWork};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::volume_store::VolumeContent;
use chronova_hypervisor::volumes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{GIB, here, user};
use crate::process::definition::{Definition, StepError, StepRun, steps};
use crate::services::embedded::volume::VolumeCommand;
use crate::services::embedded::volume::quota::VolumeQuotaCommand;

pub const CREATE: Definition = Definition {
    name: "create_snapshot",
    steps: steps! {
        "copy" => copy, undone by remove;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude: conclude_create,
};

pub const DELETE: Definition = Definition {
    name: "delete_snapshot",
    steps: steps! {
        "remove_copy" => remove_copy;
        "release_quota" => release_quota;
    },
    undoes: false,
    max_attempts: |_| 1,
    conclude: conclude_delete,
};

fn id(work: &StepRun) -> Result<SnapshotId, StepError> {
    match work.running.task {
        Task::Volume {
            work: VolumeWork::CreateSnapshot { snapshot } | VolumeWork::DeleteSnapshot { snapshot },
            ..
        } => Ok(snapshot),
        _ => Err(StepError::fatal(500, "The process is not about a snapshot.", "")),
    }
}

fn conclude_create(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (snapshot, process) = (id(work)?, work.running.process);
        let record = match (outcome, &work.running.failure) {
            (ProcessOutcome::Succeeded, _) => VolumeCommand::RecordSnapshotReady { snapshot, process },
            (_, Some(failure)) => {
                VolumeCommand::RecordSnapshotFailed { snapshot, process, fault: failure.fault.clone() }
            }
            _ => return Ok(()),
        };
        work.tell_volume(record).await
    }
    .boxed()
}

fn conclude_delete(work: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (snapshot, process) = (id(work)?, work.running.process);
        work.tell_volume(VolumeCommand::RecordSnapshotDeleted { snapshot, process }).await
    }
    .boxed()
}

async fn copy(work: &StepRun) -> Result<StepOutput, StepError> {
    let (volume, snapshot) = work.present_snapshot(id(work)?).await?;
    let Some((host, _)) = &volume.place else {
        return Err(StepError::fatal(409, "The volume has no content.", ""));
    };
    let content = VolumeContent::Copy { of: volumes::volume(work.volume_id()), user: user(&volume) };
    let name = volumes::snapshot(snapshot.requested.snapshot);
    let size = u64::from(snapshot.size_gb) * GIB;
    let driver = work.must_reach(*host)?;
    driver.volume_store().needed().map_err(here)?.create_volume(&name, size, &content).await.map_err(here)?;
    Ok(StepOutput::Nothing)
}

async fn remove(work: &StepRun) -> Result<(), StepError> {
    let Some(volume) = work.volume().await? else { return Ok(()) };
    let Some((host, _)) = &volume.place else { return Ok(()) };
    let Some(driver) = work.reach(*host)? else { return Ok(()) };
    let name = volumes::snapshot(id(work)?);
    let Some(store) = driver.volume_store() else { return Ok(()) };
    store.delete_volume(&name).await.map_err(StepError::again)
}

async fn remove_copy(work: &StepRun) -> Result<StepOutput, StepError> {
    remove(work).await.map(|()| StepOutput::Nothing)
}

async fn release_quota(work: &StepRun) -> Result<StepOutput, StepError> {
    let snapshot = id(work)?;
    let Some(volume) = work.volume().await? else { return Ok(StepOutput::Nothing) };
    if let Some(known) = volume.snapshots.get(&snapshot) {
        let project = known.requested.project.clone();
        let release = VolumeQuotaCommand::ReleaseSnapshot { project: project.clone(), snapshot };
        work.volume_quota(&project, release).await?;
    }
    Ok(StepOutput::Nothing)
}
