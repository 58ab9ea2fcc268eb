//! The records of a process that are not in the log yet.
//!
//! A record that only notes normal progress may wait in memory for later records, and go into their append; see
//! [`RecordWait`]. Each record keeps the time of its own step. A crash loses the waiting records, and the next run
//! repeats their steps.

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold as _;
use chronova_events::process::{Process, ProcessOutcome, Task};

use super::commands::{ProcessCommand, ProcessReject, TimedRecord};
use super::decide::decide;

/// Which records wait in memory, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordWait {
    /// The beginning waits for the first outcome of a step.
    Beginning,
    /// All records wait for the end of the process; see [`Task::records_at_end`].
    UntilEnd,
    /// No record is written while the process goes well; see [`Task::records_only_failure`].
    UntilFailure {
        /// Whether the end is written in any case, because the log has the beginning.
        writes_end: bool,
    },
    /// No record waits: a step failed, or another process asks for the records.
    Nothing,
}

impl RecordWait {
    pub(super) fn of(task: &Task) -> Self {
        if task.records_only_failure() {
            Self::UntilFailure { writes_end: task.asks_for_itself() }
        } else if task.records_at_end() {
            Self::UntilEnd
        } else {
            Self::Beginning
        }
    }

    pub(super) fn admits(self, command: &ProcessCommand) -> bool {
        match self {
            Self::Nothing => false,
            Self::Beginning => matches!(command, ProcessCommand::Start { .. }),
            Self::UntilEnd => matches!(command, ProcessCommand::Start { .. } | ProcessCommand::RecordDone { .. }),
            Self::UntilFailure { writes_end } => goes_well(command) && !(writes_end && is_end(command)),
        }
    }

    /// Whether the waiting records are dropped at this command, because the process has gone well.
    pub(super) fn drops_at(self, command: &ProcessCommand) -> bool {
        matches!(self, Self::UntilFailure { .. }) && goes_well(command) && is_end(command)
    }
}

fn is_end(command: &ProcessCommand) -> bool {
    matches!(command, ProcessCommand::Finish { .. })
}

/// Whether the command only records normal progress.
pub(super) fn goes_well(command: &ProcessCommand) -> bool {
    match command {
        ProcessCommand::Start { .. } | ProcessCommand::RecordDone { .. } => true,
        ProcessCommand::Finish { outcome } => *outcome == ProcessOutcome::Succeeded,
        ProcessCommand::RecordFailed { .. }
        | ProcessCommand::RecordUndone { .. }
        | ProcessCommand::RecordStuck { .. }
        | ProcessCommand::Restart { .. }
        | ProcessCommand::CallOff { .. }
        | ProcessCommand::Several(_) => false,
    }
}

/// Records that the log does not have yet, and the state after them.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) state: Process,
    pub(super) records: Vec<TimedRecord>,
    /// The number of their events.
    pub(super) events: u64,
}

impl Unwritten {
    /// Nothing is unwritten: `state` is the state in the log.
    pub(super) fn after(state: Process) -> Self {
        Self { state, records: Vec::new(), events: 0 }
    }

    pub(super) fn note(&mut self, command: ProcessCommand, at: Timestamp) -> Result<(), ProcessReject> {
        for event in decide(&self.state, command.clone())? {
            self.state.evolve(&event, at);
            self.events += 1;
        }
        self.records.push(TimedRecord { at, command });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use chronova_events::ids::{InstanceId, ProcessId, ProjectId};
    use chronova_events::instance::{FaultInfo, PowerAction};
    use chronova_events::process::{RequestNeed, StepOutput};
    use uuid::Uuid;

    use super::*;

    const SERVER: InstanceId = InstanceId(Uuid::nil());

    fn start(task: &Task) -> ProcessCommand {
        ProcessCommand::Start { process: ProcessId(Uuid::nil()), task: task.clone() }
    }

    /// For each of five records, whether it waits: the beginning, a step, a failure, the end after success, the end
    /// after a failure.
    fn waiting(task: &Task) -> [bool; 5] {
        let fault = FaultInfo { code: 500, message: String::new(), details: String::new() };
        let step = || "a".to_owned();
        let commands = [
            start(task),
            ProcessCommand::RecordDone { step: step(), output: StepOutput::Nothing },
            ProcessCommand::RecordFailed { step: step(), elsewhere: false, host: None, fault },
            ProcessCommand::Finish { outcome: ProcessOutcome::Succeeded },
            ProcessCommand::Finish { outcome: ProcessOutcome::Failed },
        ];
        commands.map(|command| RecordWait::of(task).admits(&command))
    }

    #[test]
    fn each_kind_of_process_writes_at_its_time() {
        let asking = |needs| Task::AskServer { instance: SERVER, asks_for: ProcessId(Uuid::nil()), needs };
        let (quota, image) =
            (RequestNeed::Quota(ProjectId::new("p")), RequestNeed::Image(chronova_events::ids::ImageId(Uuid::nil())));
        let cases = [
            (Task::LiveMigrate { instance: SERVER }, [true, false, false, false, false]),
            (Task::BuildInstance { instance: SERVER }, [true, true, false, false, false]),
            (Task::Power { instance: SERVER, action: PowerAction::Stop }, [true, true, false, false, false]),
            (asking(quota), [true, true, false, true, false]),
            (asking(image), [true, true, false, false, false]),
        ];
        for (task, expected) in cases {
            assert_eq!(waiting(&task), expected, "{}", task.name());
        }
    }
}
