//! Waits for the processes that operations have requested.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Revision};
use chronova_events::ids::ProcessId;
use chronova_events::instance::FaultInfo;
use chronova_events::process::{ProcessEvent, ProcessOutcome, StepOutput};
use chronova_events::registry::Event;
use chronova_events::store::StoreError;

use super::Operations;
use crate::aggregate::{AggregateRoot as _, CommandError, Committed};
use crate::gateway::Reachable;
use crate::process::ProcessRoot;

/// The longest wait for the read models to show a command. They lag by microseconds.
const LAG: Duration = Duration::from_secs(5);
/// The longest pause between two polls of a process.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// More events than the stream of any process has.
const MOST_EVENTS: usize = 10_000;

/// How a process ended.
#[derive(Debug)]
pub(super) enum ProcessEnd {
    /// The process succeeded. The outputs of its steps are in their order.
    Succeeded(Vec<StepOutput>),
    Failed(FaultInfo),
    /// The process continues, but the operation has stopped waiting for it.
    NotYet,
}

impl Operations {
    /// Like [`send`](Self::send), but returns when the read models show the events, or after [`LAG`].
    pub(super) async fn send_shown<A: Reachable>(
        &self,
        id: &A::Id,
        command: impl Into<A::Command>,
        meta: Arc<Meta>,
    ) -> Result<Committed, CommandError<A::Reject>> {
        let committed = self.send::<A>(id, command, meta).await?;
        if !self.queries.views.wait_for(committed.position, LAG).await {
            tracing::warn!(position = %committed.position, "the read models lag behind");
        }
        Ok(committed)
    }

    /// Waits until `process`, which an earlier command requested, has ended.
    pub(super) async fn process_end(&self, process: ProcessId, patience: Duration) -> Result<ProcessEnd, StoreError> {
        let waiting = async {
            let mut pause = Duration::from_millis(1);
            while self.queries.views.processes.read(|processes| processes.is_pending(process)) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        if tokio::time::timeout(patience, waiting).await.is_err() {
            return Ok(ProcessEnd::NotYet);
        }
        let stream = ProcessRoot::stream(&process);
        let (mut outputs, mut fault, mut ended) = (Vec::new(), None, false);
        for recorded in self.queries.log.read_stream(&stream, Revision::NONE, MOST_EVENTS).await? {
            match recorded.event().map(AsRef::as_ref) {
                Ok(Event::ProcessEvent(ProcessEvent::StepDone(done))) => outputs.push(done.output.clone()),
                Ok(Event::ProcessEvent(ProcessEvent::StepFailed(failed))) => fault = Some(failed.fault.clone()),
                Ok(Event::ProcessEvent(ProcessEvent::Finished(finished)))
                    if finished.outcome == ProcessOutcome::Succeeded =>
                {
                    return Ok(ProcessEnd::Succeeded(outputs));
                }
                Ok(Event::ProcessEvent(ProcessEvent::Finished(_))) => ended = true,
                _ => {}
            }
        }
        // A read model that lags may not show the process as pending yet, although the process continues.
        if !ended {
            return Ok(ProcessEnd::NotYet);
        }
        let called_off = "The operation was cancelled.";
        let unknown = || FaultInfo { code: 500, message: called_off.to_owned(), details: String::new() };
        Ok(ProcessEnd::Failed(fault.unwrap_or_else(unknown)))
    }
}
