//! The commands on a process's stream, and its refusals.

use chronova_events::envelope::{StreamId, Timestamp};
use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::FaultInfo;
use chronova_events::process::{Process, ProcessEvent, ProcessOutcome, StepOutput, Task};
use thiserror::Error;

use super::decide::{decide, decide_several};
use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum ProcessRoot {}

#[derive(Debug, Clone)]
pub enum ProcessCommand {
    /// Starts the process. A repetition changes nothing.
    Start {
        process: ProcessId,
        task: Task,
    },
    RecordDone {
        step: String,
        output: StepOutput,
    },
    RecordFailed {
        step: String,
        elsewhere: bool,
        host: Option<HostId>,
        fault: FaultInfo,
    },
    RecordUndone {
        step: String,
    },
    RecordStuck {
        step: String,
        reason: String,
    },
    Restart {
        excluded: Option<HostId>,
    },
    /// Cancels the process, because the process `by` overtakes it. Also succeeds if the process has already ended.
    CallOff {
        by: ProcessId,
    },
    Finish {
        outcome: ProcessOutcome,
    },
    /// Records that waited in memory, in one append. All are accepted, or all are refused.
    Several(Vec<TimedRecord>),
}

/// A record, and the time of the fact that it records.
#[derive(Debug, Clone)]
pub struct TimedRecord {
    pub at: Timestamp,
    pub command: ProcessCommand,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProcessReject {
    #[error("the process has not begun")]
    NotStarted,
    #[error("the process has ended")]
    Ended,
    #[error("the record is of another kind of process")]
    OtherTask,
    #[error("a record does not fit the order of the process: {0}")]
    OutOfOrder(&'static str),
}

impl AggregateRoot for ProcessRoot {
    type Id = ProcessId;
    type State = Process;
    type Command = ProcessCommand;
    type Reject = ProcessReject;

    fn stream(process: &ProcessId) -> StreamId {
        StreamId::new("process", process)
    }

    fn decide(state: &Process, command: ProcessCommand) -> Result<Vec<ProcessEvent>, ProcessReject> {
        decide(state, command)
    }

    fn decide_at(
        state: &Process,
        command: ProcessCommand,
        now: Timestamp,
    ) -> Result<Vec<(Timestamp, ProcessEvent)>, ProcessReject> {
        match command {
            ProcessCommand::Several(records) => decide_several(state, records),
            command => Ok(decide(state, command)?.into_iter().map(|event| (now, event)).collect()),
        }
    }

    fn begins(command: &ProcessCommand) -> bool {
        match command {
            ProcessCommand::Several(records) => records.first().is_some_and(|first| Self::begins(&first.command)),
            command => matches!(command, ProcessCommand::Start { .. }),
        }
    }

    fn is_over(state: &Process) -> bool {
        matches!(state, Process::Finished { .. })
    }
}
