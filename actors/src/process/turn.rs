//! What processes that change a server have in common: whether it is still their turn, how far they have come, how they
//! end.

use chronova_events::instance::{Alive, FaultInfo, ImageSnapshot, WorkStage};
use chronova_events::process::{Outcome, Output};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{StepError, Work, settled};
use crate::hosts::capacity;
use crate::instance::work::{End, WorkCommand};
use crate::instance::{InstanceAggregate, InstanceCommand};

/// The server, as long as it is this process's turn: a delete or an administrator may have overtaken it.
pub(super) async fn mine(work: &Work) -> Result<Option<Alive>, StepError> {
    let mine = |server: &Alive| server.ongoing.map(|ongoing| ongoing.process()) == Some(work.running.process);
    Ok(work.server().await?.filter(mine))
}

/// The server, for a step that has no sense without its turn: whoever overtook the process has the guest now, so what was
/// done is undone.
pub(super) async fn still_mine(work: &Work) -> Result<Alive, StepError> {
    let overtaken = || StepError::fatal(409, "The operation was overtaken by another one.", "");
    mine(work).await?.ok_or_else(overtaken)
}

/// Tells how far it has come.
pub(super) async fn advance(work: &Work, stage: WorkStage) -> Result<(), StepError> {
    let command = WorkCommand::Advance { process: work.running.process, stage };
    send(work, command).await
}

/// Tells how it ended; nobody may be interested any more. Where it failed, what the guest is now is told first: it may
/// have been off in between.
pub(super) async fn end(work: &Work, end: End) -> Result<(), StepError> {
    if work.running.failure.is_some() {
        observe(work).await?;
    }
    send(work, WorkCommand::End { process: work.running.process, end }).await
}

async fn observe(work: &Work) -> Result<(), StepError> {
    let Some(placed) = mine(work).await?.and_then(|server| server.placement) else { return Ok(()) };
    let Some(driver) = work.context.fleet.driver(placed.host) else { return Ok(()) };
    // Who does not answer now is compared with the log when it does.
    let Ok(seen) = driver.guest(work.instance_id()).await else { return Ok(()) };
    let command = InstanceCommand::Observe { host: placed.host, power: capacity::power(seen.power) };
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceAggregate>(&work.instance_id(), command, work.meta.clone()).await)
}

async fn send(work: &Work, command: WorkCommand) -> Result<(), StepError> {
    let command = InstanceCommand::Work(Box::new(command));
    let gateway = &work.context.gateway;
    settled(gateway.send::<InstanceAggregate>(&work.instance_id(), command, work.meta.clone()).await)
}

/// Ends a process whose success or failure says everything.
pub(super) fn conclude(
    work: &Work,
    outcome: Outcome,
    done: End,
    failed: fn(FaultInfo) -> End,
) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let how = match outcome {
            Outcome::Succeeded => done,
            Outcome::Failed | Outcome::CalledOff => failed(fault(work)),
        };
        end(work, how).await
    }
    .boxed()
}

/// Why the process failed.
pub(super) fn fault(work: &Work) -> FaultInfo {
    let failure = work.running.failure.as_ref().map(|failure| failure.fault.clone());
    failure.unwrap_or_else(|| StepError::Again("called off".to_owned()).fault())
}

/// A step that does nothing: what it stands for was done before the process began, and it is there for its undo.
pub(super) fn nothing(_: &Work) -> BoxFuture<'_, Result<Output, StepError>> {
    async { Ok(Output::Nothing) }.boxed()
}

/// The image that a step of this process looked up.
pub(super) fn image(work: &Work) -> Option<&ImageSnapshot> {
    work.running.done.iter().rev().find_map(|record| match &record.output {
        Output::Image(image) => Some(&**image),
        _ => None,
    })
}
