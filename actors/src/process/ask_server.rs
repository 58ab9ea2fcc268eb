//! Claims the quota or creates the image that a request needs. Then asks the server to start another process, which
//! takes over the quota or the image.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `take` | creates an image without bytes; quota is already claimed | giving image or quota back, unless accepted |
//! | `ask` | sends the server the request | (the server's own process continues) |
//!
//! The first event of the request also requests this process. If the request needs quota, this event is the claim;
//! otherwise it is the beginning of the process. So a crash between the two steps leaves nothing behind. The next
//! leader finds the process but not its request, which was in memory with the client's connection
//! ([`ServerRequests`](crate::coordination::ServerRequests)). Then the process gives back the quota or deletes the
//! image. Once the server has accepted, the requested process owns the quota or the image, and gives it back if it
//! fails.
//!
//! The process records its steps only if one fails ([`Task::records_only_failure`]). After a claim of quota, the
//! server's event means success. For an image, the end of the process is recorded, too.

use chronova_events::ids::ProcessId;
use chronova_events::instance::Alive;
use chronova_events::process::{Process, ProcessOutcome, RequestNeed, StepOutput, Task};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{ProcessRoot, imaging};
use crate::aggregate::CommandError;
use crate::instance::InstanceRoot;
use crate::instance::asking::{AskServerReject, ServerRequest, TakenFirst};
use crate::quota::{QuotaCommand, QuotaRoot};

pub const DEFINITION: Definition = Definition {
    name: "ask_server",
    steps: steps! {
        "take" => take, undone by give_back;
        "ask" => ask;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        work.context.server_requests.settle(work.running.process, outcome == ProcessOutcome::Succeeded);
        Ok(())
    }
    .boxed()
}

/// The process that the server is asked to start, and the resource that this process needs. Only
/// this task runs these steps.
fn asked(work: &StepRun) -> Result<(ProcessId, &RequestNeed), StepError> {
    match &work.running.task {
        Task::AskServer { asks_for, needs, .. } => Ok((*asks_for, needs)),
        other => Err(StepError::fatal(500, "This process sends no request to a server.", other.name())),
    }
}

/// The request; `None` after a crash, or after a step failed.
fn request(work: &StepRun) -> Option<ServerRequest> {
    work.context.server_requests.order(work.running.process)
}

/// Notes that the request cannot succeed, and the reason for its client.
fn refuse(work: &StepRun, reject: AskServerReject) -> StepError {
    let fault = StepError::fatal(500, "The request was refused.", reject.clone());
    work.context.server_requests.refuse(work.running.process, reject);
    fault
}

async fn take(work: &StepRun) -> Result<StepOutput, StepError> {
    // If a crash lost the request, `ask` finds out whether the server has accepted it.
    let Some(ServerRequest { first: TakenFirst::Image { draft, .. }, meta, .. }) = request(work) else {
        return Ok(StepOutput::Nothing);
    };
    let created = work.context.images.create(*draft, meta).await;
    created.map_err(|error| refuse(work, AskServerReject::Images(error)))?;
    Ok(StepOutput::Nothing)
}

async fn ask(work: &StepRun) -> Result<StepOutput, StepError> {
    // A server on which the requested process has already ended would accept the request a second time.
    if is_accepted(work).await? {
        return Ok(StepOutput::Nothing);
    }
    let Some(ServerRequest { request, meta, .. }) = request(work) else {
        return Err(StepError::fatal(500, "The control plane restarted before it sent the request to the server.", ""));
    };
    match work.context.gateway.send::<InstanceRoot>(&work.instance_id(), request, meta).await {
        Ok(committed) => work.context.server_requests.reached(work.running.process, committed.position),
        Err(CommandError::Rejected(reject)) => return Err(refuse(work, AskServerReject::Server(reject))),
        Err(CommandError::Unavailable(error)) => return Err(refuse(work, AskServerReject::Unavailable(error))),
    }
    Ok(StepOutput::Nothing)
}

/// Whether the server has accepted the request. If so, the requested process works on the server, waits for its turn,
/// or has a record.
async fn is_accepted(work: &StepRun) -> Result<bool, StepError> {
    let (asks_for, _) = asked(work)?;
    let is_at_work = |server: &Alive| {
        server.ongoing.is_some_and(|ongoing| ongoing.process() == asks_for)
            || server.moving.as_ref().is_some_and(|moving| moving.migration == asks_for)
    };
    if work.known_server().await?.is_some_and(|server| is_at_work(&server)) {
        return Ok(true);
    }
    // A process that waits for its turn, or has done no step yet, has no record. This check comes before the search for
    // a record, because a process that ends between the two has a record by then.
    if work.context.views.processes.read(|view| view.is_pending(asks_for)) {
        return Ok(true);
    }
    let record = work.context.gateway.look::<ProcessRoot>(&asks_for).await?;
    Ok(!matches!(record, Process::Absent))
}

async fn give_back(work: &StepRun) -> Result<(), StepError> {
    if is_accepted(work).await? {
        return Ok(());
    }
    match asked(work)?.1 {
        RequestNeed::Quota(project) => {
            let (process, instance) = (work.running.process, work.instance_id());
            let withdraw = QuotaCommand::Withdraw { project: project.clone(), process, instance };
            work.context.gateway.send::<QuotaRoot>(project, withdraw, work.meta.clone()).await?;
            Ok(())
        }
        RequestNeed::Image(image) => imaging::drop_image(work, *image).await,
    }
}
