//! The decisions on a server's interfaces. As in Nova, these changes set no task of the server, so several interfaces
//! may be attached and detached at the same time. A delete does not wait for these changes. If a change finds its
//! server being deleted, it fails and is undone.

use chronova_events::ids::{PortId, ProcessId};
use chronova_events::instance::{
    Alive, NicAttachRequested, NicAttached, NicDetachRequested, NicDetached, NicInfo, NicsRefreshed, OngoingTask,
    RequestedNic,
};

use super::actions::{ServerAction, admit};
use super::decision::{CallerRights, InstanceDecision, InstanceReject};

pub(super) fn attach(
    server: &Alive,
    process: ProcessId,
    wanted: RequestedNic,
    asker: CallerRights,
) -> InstanceDecision {
    admit(server, ServerAction::AttachInterface, asker)?;
    Ok(vec![NicAttachRequested { process, wanted }.into()])
}

pub(super) fn detach(server: &Alive, process: ProcessId, port: PortId, asker: CallerRights) -> InstanceDecision {
    admit(server, ServerAction::DetachInterface, asker)?;
    match has(server, port) {
        true => Ok(vec![NicDetachRequested { process, port }.into()]),
        false => Err(InstanceReject::NoSuchPort(port)),
    }
}

/// Requests the detachment of a port that no longer exists. Neither a lock nor another task refuses it. A server that
/// is being built or deleted keeps the port; a delete releases all interfaces anyway.
pub(super) fn lose(server: &Alive, process: ProcessId, port: PortId) -> InstanceDecision {
    let leaving = matches!(server.ongoing, Some(OngoingTask::Delete { .. }));
    match has(server, port) && !leaving && server.building().is_none() {
        true => Ok(vec![NicDetachRequested { process, port }.into()]),
        false => Ok(vec![]),
    }
}

/// Updates the interfaces that the server has. `nics` is an earlier answer of the network service. An interface that
/// was attached or detached since then stays as its process recorded it.
pub(super) fn refresh(server: &Alive, nics: &[NicInfo]) -> InstanceDecision {
    let now: Vec<NicInfo> = server
        .nics
        .iter()
        .map(|known| nics.iter().find(|nic| nic.port == known.port).unwrap_or(known).clone())
        .collect();
    match now == server.nics {
        true => Ok(vec![]),
        false => Ok(vec![NicsRefreshed { nics: now }.into()]),
    }
}

pub(super) fn attached(server: &Alive, process: ProcessId, nic: NicInfo) -> InstanceDecision {
    match has(server, nic.port) {
        true => Ok(vec![]),
        false => Ok(vec![NicAttached { process, nic }.into()]),
    }
}

pub(super) fn detached(server: &Alive, process: ProcessId, port: PortId) -> InstanceDecision {
    match has(server, port) {
        true => Ok(vec![NicDetached { process, port }.into()]),
        false => Ok(vec![]),
    }
}

fn has(server: &Alive, port: PortId) -> bool {
    server.nics.iter().any(|nic| nic.port == port)
}
