//! Multi-step operations.
//!
//! | file | what |
//! |---|---|
//! | [`decide`] | which records a process's stream admits |
//! | [`plan`] | plans the next step from the record alone; pure |
//! | [`definition`] | what a process is made of |
//! | [`registry`] | the table of processes |
//! | [`context`] | what a step has at hand |
//! | [`perform`] | does what the plan says and records it |
//! | [`interference`] | how the proofs make steps fail and repeat |
//! | [`supervisor`] | starts requested processes, and continues them after a crash |
//! | `turn`, `guest`, `imaging` | steps that several processes share |
//! | `create_servers` | the servers of one request |
//! | `build_instance`, `delete_instance`, `power`, `crash_dump`, `soft_delete`, `restore` | the processes |
//! | `attach_interface`, `detach_interface` | and these |
//! | `attach_volume`, `detach_volume`, `swap_volume` | a server's volumes; steps in `disks`, `build_volumes` |
//! | `away`, `snapshot_volumes` | the volumes of a server without a host, and images of volumes |
//! | `snapshot`, `rebuild`, `rescue`, `unrescue`, `shelve`, `offload`, `unshelve`, `change_password` | and these |
//! | `destination` | selects a host for a server, and records the decision |
//! | `move_instance`, `confirm_resize`, `revert_resize`, `evacuate` | moves; [`moving`] has their shared steps |
//! | `drain_host` | drains a host by moves of its servers; [`departing`] plans the next action for each |
//! | `live_migrate` | live migration; [`crossing`] decides where the guest is, [`on_the_way`] watches it |

pub mod attach_interface;
pub mod attach_volume;
mod away;
pub mod build_instance;
mod build_volumes;
pub mod change_password;
pub mod confirm_resize;
pub mod context;
pub mod crash_dump;
pub mod create_servers;
pub mod crossing;
pub mod decide;
pub mod definition;
pub mod delete_instance;
pub mod departing;
mod destination;
pub mod detach_interface;
pub mod detach_volume;
pub(crate) mod disks;
pub mod drain_host;
pub mod evacuate;
pub(crate) mod guest;
mod imaging;
pub mod interference;
pub mod live_migrate;
pub mod move_instance;
mod moved_volumes;
pub(crate) mod moving;
mod needs;
pub mod offload;
pub(crate) mod on_the_way;
pub mod options;
pub mod perform;
mod pinned;
pub mod plan;
pub mod power;
pub mod rebuild;
pub mod registry;
pub mod rescue;
pub mod restore;
pub mod revert_resize;
pub mod shelve;
pub mod snapshot;
pub mod snapshot_volumes;
pub mod soft_delete;
pub mod supervisor;
pub mod swap_volume;
mod turn;
pub mod unrescue;
pub mod unshelve;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::FaultInfo;
use chronova_events::process::{Process, ProcessEvent, ProcessOutcome, StepOutput, Task};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum ProcessRoot {}

#[derive(Debug, Clone)]
pub enum ProcessCommand {
    /// Starts the process; started already is success.
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
    /// Ended already is success.
    CallOff {
        by: ProcessId,
    },
    Finish {
        outcome: ProcessOutcome,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProcessReject {
    #[error("the process has not begun")]
    NotStarted,
    #[error("the process has ended")]
    Ended,
    #[error("the process is another one")]
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
        decide::decide(state, command)
    }

    fn begins(command: &ProcessCommand) -> bool {
        matches!(command, ProcessCommand::Start { .. })
    }

    fn is_over(state: &Process) -> bool {
        matches!(state, Process::Finished { .. })
    }
}
