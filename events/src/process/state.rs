//! The state of a process, folded from its events.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{ProcessEvent, ProcessOutcome, StepOutput, Task};
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{HostId, ProcessId};
use crate::instance::FaultInfo;

/// A process: not begun, at work, or ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Process {
    #[default]
    Absent,
    Running(Box<RunningProcess>),
    Finished {
        process: ProcessId,
        task: Task,
        outcome: ProcessOutcome,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningProcess {
    pub process: ProcessId,
    pub task: Task,
    pub started_at: Timestamp,
    /// The steps that are done and not undone, in the order of their completion.
    pub done: Vec<StepRecord>,
    /// The failure that makes the process undo its steps.
    pub failure: Option<StepFailure>,
    pub called_off: bool,
    /// Whether the next step was undone. A cancellation undoes the next step, because that step may have begun without
    /// a record.
    pub due_undone: bool,
    /// The number of the present run through the steps, from 1.
    pub attempt: u32,
    /// Hosts to exclude from further attempts.
    pub excluded: BTreeSet<HostId>,
    /// How often the next step was recorded as stuck.
    pub stuck: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    pub step: String,
    pub output: StepOutput,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFailure {
    pub step: String,
    pub elsewhere: bool,
    pub host: Option<HostId>,
    pub fault: FaultInfo,
    /// Whether the failed step was undone. It may have done part of its work, so it is undone first.
    pub undone: bool,
}

impl RunningProcess {
    pub fn is_done(&self, step: &str) -> bool {
        self.done.iter().any(|record| record.step == step)
    }

    /// The host that a step of this attempt selected.
    pub fn host(&self) -> Option<(HostId, &str)> {
        self.done.iter().rev().find_map(|record| match &record.output {
            StepOutput::Host { host, hostname } => Some((*host, hostname.as_str())),
            _ => None,
        })
    }
}

impl Fold for Process {
    type Event = ProcessEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &ProcessEvent, at: Timestamp) {
        match (&mut *self, event) {
            (_, ProcessEvent::Started(started)) => {
                *self = Self::Running(Box::new(RunningProcess {
                    process: started.process,
                    task: started.task.clone(),
                    started_at: at,
                    done: Vec::new(),
                    failure: None,
                    called_off: false,
                    due_undone: false,
                    attempt: 1,
                    excluded: BTreeSet::new(),
                    stuck: 0,
                }));
            }
            (Self::Running(running), ProcessEvent::Finished(finished)) => {
                *self =
                    Self::Finished { process: running.process, task: running.task.clone(), outcome: finished.outcome };
            }
            (Self::Running(running), event) => running.evolve(event),
            (Self::Absent | Self::Finished { .. }, _) => {}
        }
    }
}

impl RunningProcess {
    fn evolve(&mut self, event: &ProcessEvent) {
        match event {
            ProcessEvent::StepDone(done) => {
                self.stuck = 0;
                self.done.push(StepRecord { step: done.step.clone(), output: done.output.clone() });
            }
            ProcessEvent::StepFailed(failed) => {
                self.failure = Some(StepFailure {
                    step: failed.step.clone(),
                    elsewhere: failed.elsewhere,
                    host: failed.host,
                    fault: failed.fault.clone(),
                    undone: false,
                });
            }
            ProcessEvent::StepUndone(undone) => {
                self.stuck = 0;
                let was_done = self.is_done(&undone.step);
                match &mut self.failure {
                    Some(failure) if !failure.undone && failure.step == undone.step => failure.undone = true,
                    _ if was_done => self.done.retain(|record| record.step != undone.step),
                    _ => self.due_undone = true,
                }
            }
            ProcessEvent::StepStuck(_) => self.stuck += 1,
            ProcessEvent::Restarted(restarted) => {
                self.excluded.extend(restarted.excluded);
                self.failure = None;
                self.attempt += 1;
            }
            ProcessEvent::CalledOff(_) => self.called_off = true,
            ProcessEvent::Started(_) | ProcessEvent::Finished(_) => {}
        }
    }
}
