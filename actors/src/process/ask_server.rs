//! Takes what a request needs, and asks its server for a process, which takes over what was taken.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `take` | claims quota, or creates an image without bytes | giving it back, unless the server was asked |
//! | `ask` | sends the server the request | |
//!
//! The first record of the process is the first effect of the request. So a crash between the two effects leaves nothing:
//! the next leader finds the process, and not its request, which was in memory with the client's connection. It gives back
//! what was taken. Once the server has accepted, the process that it was asked for owns the quota or the image, and gives
//! it back if it fails.

use chronova_events::ids::ProcessId;
use chronova_events::instance::Alive;
use chronova_events::process::{Process, ProcessOutcome, RequestNeed, StepOutput, Task};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::ProcessRoot;
use super::definition::{Definition, Step, StepError, StepRun};
use crate::aggregate::CommandError;
use crate::instance::InstanceRoot;
use crate::instance::asking::{AskServerReject, ServerRequest, TakenFirst};
use crate::ports::PortError;
use crate::quota::{QuotaCommand, QuotaRoot};

pub const DEFINITION: Definition = Definition {
    name: "ask_server",
    steps: &[
        Step { name: "take", run: |work| take(work).boxed(), undo: Some(|work| give_back(work).boxed()) },
        Step { name: "ask", run: |work| ask(work).boxed(), undo: None },
    ],
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

/// The process that the server is asked for, and what is taken for it. The table of processes runs these steps for this
/// task only.
fn asked(work: &StepRun) -> Result<(ProcessId, &RequestNeed), StepError> {
    match &work.running.task {
        Task::AskServer { process, needs, .. } => Ok((*process, needs)),
        other => Err(StepError::fatal(500, "The process asks no server.", other.name())),
    }
}

/// The request; `None` after a crash, or after a step failed.
fn request(work: &StepRun) -> Option<ServerRequest> {
    work.context.server_requests.order(work.running.process)
}

/// The request cannot succeed; its client will know why.
fn refuse(work: &StepRun, reject: AskServerReject) -> StepError {
    let fault = StepError::fatal(500, "The request was refused.", &reject.to_string());
    work.context.server_requests.refuse(work.running.process, reject);
    fault
}

fn refused<R>(error: CommandError<R>, reject: impl FnOnce(R) -> AskServerReject) -> AskServerReject {
    match error {
        CommandError::Rejected(rejected) => reject(rejected),
        CommandError::Unavailable(error) => AskServerReject::Unavailable(error),
    }
}

fn lost() -> StepError {
    StepError::fatal(500, "The control plane restarted before it had asked the server.", "")
}

async fn take(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(ServerRequest { first, meta, .. }) = request(work) else { return Err(lost()) };
    match first {
        TakenFirst::Quota(claim) => {
            let project = claim.project.clone();
            let claimed =
                work.context.gateway.send::<QuotaRoot>(&project, QuotaCommand::ClaimForServer(claim), meta).await;
            claimed.map_err(|error| refuse(work, refused(error, AskServerReject::Quota)))?;
        }
        TakenFirst::Image(draft) => {
            let created = work.context.images.create(*draft, meta).await;
            created.map_err(|error| refuse(work, AskServerReject::Images(error)))?;
        }
    }
    Ok(StepOutput::Nothing)
}

async fn ask(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(ServerRequest { command, meta, .. }) = request(work) else {
        return if is_accepted(work).await? { Ok(StepOutput::Nothing) } else { Err(lost()) };
    };
    let sent = work.context.gateway.send::<InstanceRoot>(&work.instance_id(), command, meta).await;
    let error = match sent {
        Ok(committed) => {
            work.context.server_requests.reached(work.running.process, committed.position);
            return Ok(StepOutput::Nothing);
        }
        Err(error) => error,
    };
    // The step is repeated.
    if error.rejection().is_some() && is_accepted(work).await? {
        return Ok(StepOutput::Nothing);
    }
    Err(refuse(work, refused(error, AskServerReject::Server)))
}

/// Whether the server has accepted the request: it works on it, or its process has a record. The order matters, because a
/// process that has ended has a record.
async fn is_accepted(work: &StepRun) -> Result<bool, StepError> {
    let (process, _) = asked(work)?;
    let is_at_work = |server: &Alive| {
        server.ongoing.is_some_and(|ongoing| ongoing.process() == process)
            || server.moving.as_ref().is_some_and(|moving| moving.migration == process)
    };
    if work.known_server().await?.is_some_and(|server| is_at_work(&server)) {
        return Ok(true);
    }
    let record = work.context.gateway.look::<ProcessRoot>(&process).await?;
    // One that waits for its turn has no record yet.
    Ok(!matches!(record, Process::Absent) || work.context.views.processes.read(|view| view.is_pending(process)))
}

async fn give_back(work: &StepRun) -> Result<(), StepError> {
    if is_accepted(work).await? {
        return Ok(());
    }
    match asked(work)? {
        (process, RequestNeed::Quota(project)) => {
            let instance = work.instance_id();
            let withdraw = QuotaCommand::Withdraw { project: project.clone(), process, instance };
            work.context.gateway.send::<QuotaRoot>(project, withdraw, work.meta.clone()).await?;
            Ok(())
        }
        (_, RequestNeed::Image(image)) => match work.context.images.delete(*image, work.meta.clone()).await {
            Ok(()) | Err(PortError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        },
    }
}
