//! The decisions of an evacuation: a server leaves a host that is down.

use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    Alive, Evacuated, EvacuationRequested, FlavorSnapshot, InstanceEvent, OngoingTask, Phase, status,
};

use super::actions::{ServerAction, admit};
use super::decision::{CallerRights, InstanceReject};

#[derive(Debug, Clone)]
pub enum EvacuationCommand {
    /// The caller has seen that the host is down.
    Begin {
        process: ProcessId,
        host: Option<String>,
        forced: bool,
        on_shared_storage: Option<bool>,
        stop: bool,
        asker: CallerRights,
    },
    /// The server is at its destination. `renewed`: with newly created disks.
    Arrive { process: ProcessId, renewed: bool },
}

pub(super) fn decide(server: &Alive, command: EvacuationCommand) -> Result<Vec<InstanceEvent>, InstanceReject> {
    match command {
        EvacuationCommand::Begin { process, host, forced, on_shared_storage, stop, asker } => {
            admit(server, ServerAction::Evacuate, asker)?;
            make_evacuable(server)?;
            let source = server.placement.clone().ok_or(InstanceReject::NotReady)?;
            let flavor = FlavorSnapshot::clone(&server.request.flavor);
            Ok(vec![EvacuationRequested { process, source, flavor, host, forced, on_shared_storage, stop }.into()])
        }
        EvacuationCommand::Arrive { process, renewed } => {
            let mine = server.ongoing.map(|ongoing| ongoing.process()) == Some(process);
            let target = server.moving.as_ref().and_then(|moving| moving.target.clone());
            // Done before, or a delete owns the server now.
            Ok(target
                .filter(|_| mine)
                .map(|placed| Evacuated { process, placed, renewed }.into())
                .into_iter()
                .collect())
        }
    }
}

/// Nova evacuates a server during any task, because a host that is down completes none. Chronova does so during tasks
/// that leave nothing behind. Any other task must end first.
fn make_evacuable(server: &Alive) -> Result<(), InstanceReject> {
    let harmless = match server.ongoing {
        None => true,
        Some(ongoing) => {
            matches!(
                ongoing,
                OngoingTask::Power { .. } | OngoingTask::Snapshot { .. } | OngoingTask::ChangePassword { .. }
            )
        }
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
