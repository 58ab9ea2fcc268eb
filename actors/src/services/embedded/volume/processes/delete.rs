//! Deletes a volume. The process only goes forward, and retries each step until the step succeeds.
//!
//! | step | does |
//! |---|---|
//! | `call_off` | cancels the volume's running process, and waits until that process is undone |
//! | `remove_content` | removes snapshots and volume from the pool; the agent of a host that is down does it later |
//! | `release_quota` | releases the project's quota |

use chronova_events::process::{ProcessOutcome, StepOutput, Task, VolumeWork};
use chronova_hypervisor::volumes;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::process::definition::{Definition, StepError, StepRun, steps};
use crate::process::delete_instance;
use crate::services::embedded::volume::VolumeCommand;
use crate::services::embedded::volume::quota::VolumeQuotaCommand;

pub const DEFINITION: Definition = Definition {
    name: "delete_volume",
    steps: steps! {
        "call_off" => call_off;
        "remove_content" => remove_content;
        "release_quota" => release_quota;
    },
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    work.tell_volume(VolumeCommand::RecordDeleted { process: work.running.process }).boxed()
}

async fn call_off(work: &StepRun) -> Result<StepOutput, StepError> {
    match work.running.task {
        Task::Volume { work: VolumeWork::Delete { cancels: Some(other) }, .. } => {
            delete_instance::call_off(work, other).await
        }
        _ => Ok(StepOutput::Nothing),
    }
}

async fn remove_content(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(volume) = work.volume().await? else { return Ok(StepOutput::Nothing) };
    // A volume without a host was never created, or its creation has been undone.
    let Some((host, _)) = &volume.place else { return Ok(StepOutput::Nothing) };
    let Some(driver) = work.reach(*host)? else { return Ok(StepOutput::Nothing) };
    let Some(store) = driver.volume_store() else { return Ok(StepOutput::Nothing) };
    let snapshots = volume.snapshots.keys().map(|snapshot| volumes::snapshot(*snapshot));
    for name in snapshots.chain([volumes::volume(work.volume_id())]) {
        store.delete_volume(&name).await.map_err(StepError::again)?;
    }
    Ok(StepOutput::Nothing)
}

async fn release_quota(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(volume) = work.volume().await? else { return Ok(StepOutput::Nothing) };
    for snapshot in volume.snapshots.values() {
        let project = snapshot.requested.project.clone();
        let snapshot = snapshot.requested.snapshot;
        work.volume_quota(&project, VolumeQuotaCommand::ReleaseSnapshot { project: project.clone(), snapshot }).await?;
    }
    let project = volume.created.project.clone();
    let release = VolumeQuotaCommand::ReleaseVolume { project: project.clone(), volume: work.volume_id() };
    work.volume_quota(&project, release).await?;
    Ok(StepOutput::Nothing)
}
