//! The decisions of a process. They refuse a record that cannot follow the earlier records. A process that follows
//! `plan` never sends such a record.
//!
//! They do not know the names of the process's steps, so they accept any name in a record of a step that is done,
//! failed or stuck. If `plan` has to undo a step whose name it does not know, the process is stuck.

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold as _;
use chronova_events::process::{
    CalledOff, Finished, Process, ProcessEvent, ProcessOutcome, Restarted, RunningProcess, Started, StepDone,
    StepFailed, StepStuck, StepUndone,
};

use super::commands::{ProcessCommand, ProcessReject, TimedRecord};

pub fn decide(state: &Process, command: ProcessCommand) -> Result<Vec<ProcessEvent>, ProcessReject> {
    if let ProcessCommand::Several(records) = command {
        return Ok(decide_several(state, records)?.into_iter().map(|(_, event)| event).collect());
    }
    let running = match (state, &command) {
        (Process::Absent, ProcessCommand::Start { process, task }) => {
            return Ok(vec![Started { process: *process, task: task.clone() }.into()]);
        }
        (Process::Absent, _) => return Err(ProcessReject::NotStarted),
        (Process::Finished { .. }, ProcessCommand::Start { .. } | ProcessCommand::CallOff { .. }) => return Ok(vec![]),
        (Process::Finished { .. }, _) => return Err(ProcessReject::Ended),
        (Process::Running(running), _) => running,
    };
    record(running, command).map(|event| event.into_iter().collect())
}

/// Decides each record on the state that the earlier records lead to.
pub fn decide_several(
    state: &Process,
    records: Vec<TimedRecord>,
) -> Result<Vec<(Timestamp, ProcessEvent)>, ProcessReject> {
    let mut state = state.clone();
    let mut events = Vec::with_capacity(records.len());
    for TimedRecord { at, command } in records {
        for event in decide(&state, command)? {
            state.evolve(&event, at);
            events.push((at, event));
        }
    }
    Ok(events)
}

fn record(running: &RunningProcess, command: ProcessCommand) -> Result<Option<ProcessEvent>, ProcessReject> {
    let forward = running.failure.is_none();
    Ok(Some(match command {
        ProcessCommand::Start { task, .. } if task == running.task => return Ok(None),
        ProcessCommand::Start { .. } => return Err(ProcessReject::OtherTask),
        ProcessCommand::RecordDone { step, .. } if running.is_done(&step) => return Ok(None),
        ProcessCommand::RecordDone { step, output } if forward => StepDone { step, output }.into(),
        ProcessCommand::RecordFailed { step, elsewhere, host, fault } if forward => {
            StepFailed { step, elsewhere, host, fault }.into()
        }
        ProcessCommand::RecordDone { .. } | ProcessCommand::RecordFailed { .. } => {
            return Err(ProcessReject::OutOfOrder("a step after a failure"));
        }
        ProcessCommand::RecordUndone { .. } if forward && !running.called_off => {
            return Err(ProcessReject::OutOfOrder("an undo without a reason"));
        }
        ProcessCommand::RecordUndone { step } if !may_be_undone(running, &step) => {
            return Err(ProcessReject::OutOfOrder("an undo of a step that was not done"));
        }
        ProcessCommand::RecordUndone { step } => StepUndone { step }.into(),
        ProcessCommand::RecordStuck { step, reason } => StepStuck { step, reason }.into(),
        ProcessCommand::Restart { excluded } => match (&running.failure, running.done.is_empty()) {
            (Some(failure), true) if failure.undone => Restarted { excluded }.into(),
            _ => return Err(ProcessReject::OutOfOrder("a restart before everything is undone")),
        },
        ProcessCommand::CallOff { .. } if running.called_off => return Ok(None),
        ProcessCommand::CallOff { by } => CalledOff { by }.into(),
        ProcessCommand::Finish { outcome } if !is_reached(running, outcome) => {
            return Err(ProcessReject::OutOfOrder("an end that the process has not reached"));
        }
        ProcessCommand::Finish { outcome } => Finished { outcome }.into(),
        // `decide` has already split `Several` into single records.
        ProcessCommand::Several(_) => return Err(ProcessReject::OutOfOrder("records within records")),
    }))
}

/// Whether the step's undo may be recorded: if the step is done or failed. After a cancellation without a failure, any
/// step's undo may be recorded, because the next step may have begun without a record.
fn may_be_undone(running: &RunningProcess, step: &str) -> bool {
    let failed = running.failure.as_ref().map(|failure| failure.step == step);
    running.is_done(step) || failed.unwrap_or(running.called_off)
}

/// Whether the process can end in this way. A process can succeed although it was cancelled, because the cancellation
/// may come while the process records its end. A success is accepted even if the log has no record of some steps.
fn is_reached(running: &RunningProcess, outcome: ProcessOutcome) -> bool {
    match (outcome, &running.failure) {
        (ProcessOutcome::Succeeded, failure) => failure.is_none(),
        (ProcessOutcome::Failed, failure) => {
            running.done.is_empty() && failure.as_ref().is_some_and(|failure| failure.undone)
        }
        (ProcessOutcome::CalledOff, _) => running.done.is_empty() && running.called_off,
    }
}
