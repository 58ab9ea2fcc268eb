//! A server that leaves a host that is down.

use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    Alive, Evacuated, EvacuationRequested, FlavorSnapshot, InstanceEvent, Ongoing, Phase, status,
};

use super::actions::{Action, admit};
use super::{Asker, InstanceReject};

#[derive(Debug, Clone)]
pub enum EvacuationCommand {
    /// The caller has seen that the host is down.
    Begin {
        process: ProcessId,
        host: Option<String>,
        forced: bool,
        on_shared_storage: Option<bool>,
        stop: bool,
        asker: Asker,
    },
    /// The server is at its destination. `renewed`: with disks that were made anew.
    Arrive { process: ProcessId, renewed: bool },
}

pub(super) fn decide(server: &Alive, command: EvacuationCommand) -> Result<Vec<InstanceEvent>, InstanceReject> {
    match command {
        EvacuationCommand::Begin { process, host, forced, on_shared_storage, stop, asker } => {
            admit(server, Action::Evacuate, asker)?;
            free(server)?;
            let source = server.placement.clone().ok_or(InstanceReject::NotReady)?;
            let flavor = FlavorSnapshot::clone(&server.request.flavor);
            Ok(vec![EvacuationRequested { process, source, flavor, host, forced, on_shared_storage, stop }.into()])
        }
        EvacuationCommand::Arrive { process, renewed } => {
            let mine = server.ongoing.map(|ongoing| ongoing.process()) == Some(process);
            let target = server.moving.as_ref().and_then(|moving| moving.target.clone());
            // Done before, or a delete has the server now.
            Ok(target
                .filter(|_| mine)
                .map(|placed| Evacuated { process, placed, renewed }.into())
                .into_iter()
                .collect())
        }
    }
}

/// Nova evacuates whatever is under way: what was asked of a host that is down comes to nothing. Here that is so for what
/// leaves nothing behind; other work has to come to its own end first.
fn free(server: &Alive) -> Result<(), InstanceReject> {
    let harmless = match server.ongoing {
        None => true,
        Some(ongoing) => {
            matches!(ongoing, Ongoing::Power { .. } | Ongoing::Snapshot { .. } | Ongoing::ChangePassword { .. })
        }
    };
    let shown = status::of_alive(server);
    match (harmless, shown.task_state) {
        (false, Some(task)) => {
            Err(InstanceReject::NotInState { action: "evacuate", attribute: "task_state", value: task })
        }
        // What was moved before and declared to be in another state since is confirmed first.
        _ if server.moving.is_some() || matches!(server.phase, Phase::Resized { .. }) => {
            Err(InstanceReject::Superseded)
        }
        _ => Ok(()),
    }
}
