//! Functions that processes on a server share. They check that the process still owns the server's task, and record the
//! task's stages and its end.

use chronova_events::instance::{Alive, FaultInfo, ImageSnapshot, WorkStage};
use chronova_events::process::{ProcessOutcome, StepOutput};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{StepError, StepRun, settled};
use crate::hosts::capacity;
use crate::instance::{InstanceRecord, InstanceRoot, WorkOutcome, WorkRecord};

/// The server, while this process owns its task; `None` if a delete or an administrator has overtaken it.
pub(super) async fn mine(work: &StepRun) -> Result<Option<Alive>, StepError> {
    let mine = |server: &Alive| server.ongoing.map(|ongoing| ongoing.process()) == Some(work.running.process);
    Ok(work.server().await?.filter(mine))
}

/// The server, for a step that must own the server's task. If another process has overtaken this process, the guest
/// belongs to the overtaking process. So the step fails, and this process is undone.
pub(super) async fn still_mine(work: &StepRun) -> Result<Alive, StepError> {
    let overtaken = || StepError::fatal(409, "Another operation on the server has overtaken this operation.", "");
    mine(work).await?.ok_or_else(overtaken)
}

/// Records the stage of the task.
pub(super) async fn advance(work: &StepRun, stage: WorkStage) -> Result<(), StepError> {
    send(work, WorkRecord::Advanced { process: work.running.process, stage }).await
}

/// Records the result of the task. A refusal because the process was overtaken is no error. After a failure, the
/// guest's power state is recorded first, because the guest may have been powered off.
pub(super) async fn end(work: &StepRun, end: WorkOutcome) -> Result<(), StepError> {
    if work.running.failure.is_some() {
        observe(work).await?;
    }
    send(work, WorkRecord::Ended { process: work.running.process, end }).await
}

async fn observe(work: &StepRun) -> Result<(), StepError> {
    match mine(work).await? {
        Some(server) => observe_guest(work, &server).await,
        None => Ok(()),
    }
}

/// Records the guest's power state, if the host answers.
pub(super) async fn observe_guest(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    let Some(placed) = &server.placement else { return Ok(()) };
    let Some(driver) = work.context.fleet.driver(placed.host) else { return Ok(()) };
    // If the host does not answer now, its agent compares it with the log later.
    let Ok(seen) = driver.guest(work.instance_id()).await else { return Ok(()) };
    send(work, InstanceRecord::PowerObserved { host: placed.host, power: capacity::power(seen.power) }).await
}

async fn send(work: &StepRun, record: impl Into<InstanceRecord>) -> Result<(), StepError> {
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceRoot>(&work.instance_id(), record.into(), work.meta.clone()).await)
}

/// Ends a process that only records success or failure.
pub(super) fn conclude(
    work: &StepRun,
    outcome: ProcessOutcome,
    done: WorkOutcome,
    failed: fn(FaultInfo) -> WorkOutcome,
) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let how = match outcome {
            ProcessOutcome::Succeeded => done,
            ProcessOutcome::Failed | ProcessOutcome::CalledOff => failed(fault(work)),
        };
        end(work, how).await
    }
    .boxed()
}

/// Why the process failed.
pub(super) fn fault(work: &StepRun) -> FaultInfo {
    let failure = work.running.failure.as_ref().map(|failure| failure.fault.clone());
    failure.unwrap_or_else(|| StepError::again("cancelled").fault())
}

/// Does nothing. This is the run of a step that has only an undo, because its work was done before the process began.
pub(super) fn nothing(_: &StepRun) -> BoxFuture<'_, Result<StepOutput, StepError>> {
    async { Ok(StepOutput::Nothing) }.boxed()
}

/// The image that a step of this process looked up.
pub(super) fn image(work: &StepRun) -> Option<&ImageSnapshot> {
    work.running.done.iter().rev().find_map(|record| match &record.output {
        StepOutput::Image(image) => Some(&**image),
        _ => None,
    })
}
