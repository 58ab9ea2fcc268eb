//! The decisions on the evacuation of a server from a host that is down.

use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    Alive, Evacuated, EvacuationRequested, FlavorSnapshot, OngoingTask, Phase, WorkStage, status,
};

use super::actions::{ServerAction, admit};
use super::decision::{InstanceDecision, InstanceReject, one};
use super::requests::EvacuationRequest;

pub(super) fn decide(server: &Alive, request: EvacuationRequest) -> InstanceDecision {
    let EvacuationRequest::Begin { process, host, forced, on_shared_storage, stop, asker } = request;
    admit(server, ServerAction::Evacuate, asker)?;
    make_evacuable(server)?;
    let source = server.placement.clone().ok_or(InstanceReject::NotReady)?;
    let flavor = FlavorSnapshot::clone(&server.request.flavor);
    one(EvacuationRequested { process, source, flavor, host, forced, on_shared_storage, stop })
}

/// Decides on the record that the server is at its destination.
pub(super) fn arrived(server: &Alive, process: ProcessId, renewed: bool) -> InstanceDecision {
    let mine = server.ongoing.map(|ongoing| ongoing.process()) == Some(process);
    let target = server.moving.as_ref().and_then(|moving| moving.target.clone());
    match target.filter(|_| mine) {
        Some(placed) => one(Evacuated { process, placed, renewed }),
        // The record is a repetition, or a delete owns the server now. Either way, it has no effect.
        None => Ok(vec![]),
    }
}

/// Refuses an evacuation during some tasks. Nova evacuates a server during any task, because a host that is down
/// completes none. In Chronova, a move must end first, because it has a claim on another host. A rebuild can be
/// overtaken until it begins to change disks, because after that nobody knows what the disks hold. The rebuild records
/// that stage before the first change. A shelve that makes an image can be overtaken. A shelve without an image takes
/// the server off its host by itself.
fn make_evacuable(server: &Alive) -> Result<(), InstanceReject> {
    let harmless = match server.ongoing {
        None => true,
        Some(ongoing) => match ongoing {
            OngoingTask::Power { .. }
            | OngoingTask::Snapshot { .. }
            | OngoingTask::ChangePassword { .. }
            | OngoingTask::Rescue { .. } => true,
            OngoingTask::Rebuild { stage, .. } => matches!(stage, WorkStage::Begun | WorkStage::AtWork),
            OngoingTask::Shelve { .. } => server.shelved.is_some(),
            OngoingTask::Delete { .. }
            | OngoingTask::SoftDelete { .. }
            | OngoingTask::Restore { .. }
            | OngoingTask::Unrescue { .. }
            | OngoingTask::Offload { .. }
            | OngoingTask::Unshelve { .. }
            | OngoingTask::Move { .. }
            | OngoingTask::Confirm { .. }
            | OngoingTask::Revert { .. } => false,
        },
    };
    let shown = status::of_alive(server);
    match (harmless, shown.task_state) {
        (false, Some(task)) => {
            Err(InstanceReject::NotInState { action: "evacuate", attribute: "task_state", value: task })
        }
        // After a reset of the state, an earlier move may be unconfirmed. It must be confirmed first.
        _ if server.moving.is_some() || matches!(server.phase, Phase::Resized { .. }) => {
            Err(InstanceReject::Superseded)
        }
        _ => Ok(()),
    }
}
