//! Waits for what an operation has begun.

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

/// How long an operation waits until the read models show its command. They lag by microseconds.
const LAG: Duration = Duration::from_secs(5);
/// Longest pause between two looks at a process that somebody waits for.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// More than the record of any process is long.
const MOST_EVENTS: usize = 10_000;

/// How a process ended.
#[derive(Debug)]
pub(super) enum ProcessEnd {
    /// With the outputs of its steps, in their order.
    Succeeded(Vec<StepOutput>),
    Failed(FaultInfo),
    /// It goes on, and nobody waits for it any more.
    NotYet,
}

impl Operations {
    /// As [`send`](Self::send); ends when the read models show the events.
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

    /// Waits until a process has ended that a command of before asked for.
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
        let (mut outputs, mut fault) = (Vec::new(), None);
        for recorded in self.queries.log.read_stream(&stream, Revision::NONE, MOST_EVENTS).await? {
            match recorded.event().map(AsRef::as_ref) {
                Ok(Event::ProcessEvent(ProcessEvent::StepDone(done))) => outputs.push(done.output.clone()),
                Ok(Event::ProcessEvent(ProcessEvent::StepFailed(failed))) => fault = Some(failed.fault.clone()),
                Ok(Event::ProcessEvent(ProcessEvent::Finished(finished)))
                    if finished.outcome == ProcessOutcome::Succeeded =>
                {
                    return Ok(ProcessEnd::Succeeded(outputs));
                }
                _ => {}
            }
        }
        let called_off = "The operation was called off.";
        let unknown = || FaultInfo { code: 500, message: called_off.to_owned(), details: String::new() };
        Ok(ProcessEnd::Failed(fault.unwrap_or_else(unknown)))
    }
}
