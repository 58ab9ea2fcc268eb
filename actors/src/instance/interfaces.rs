//! Interfaces that come and go. Nothing is "under way" about the server meanwhile, as in Nova: several interfaces may come and
//! go at the same time, and a delete overtakes them all.

use chronova_events::ids::{PortId, ProcessId};
use chronova_events::instance::{
    Alive, InstanceEvent, NicAttachRequested, NicAttached, NicDetachRequested, NicDetached, NicInfo, NicsRefreshed,
    Ongoing, RequestedNic,
};

use super::actions::{Action, admit};
use super::{Asker, InstanceReject};

type Decision = Result<Vec<InstanceEvent>, InstanceReject>;

pub(super) fn attach(server: &Alive, process: ProcessId, wanted: RequestedNic, asker: Asker) -> Decision {
    admit(server, Action::AttachInterface, asker)?;
    Ok(vec![NicAttachRequested { process, wanted }.into()])
}

pub(super) fn detach(server: &Alive, process: ProcessId, port: PortId, asker: Asker) -> Decision {
    admit(server, Action::DetachInterface, asker)?;
    match has(server, port) {
        true => Ok(vec![NicDetachRequested { process, port }.into()]),
        false => Err(InstanceReject::NoSuchPort(port)),
    }
}

/// A server that is being deleted loses all its interfaces anyway.
pub(super) fn lose(server: &Alive, process: ProcessId, port: PortId) -> Decision {
    let leaving = matches!(server.ongoing, Some(Ongoing::Delete { .. }));
    match has(server, port) && !leaving && server.building().is_none() {
        true => Ok(vec![NicDetachRequested { process, port }.into()]),
        false => Ok(vec![]),
    }
}

/// Only what the server has: what came or went meanwhile stays as its own process left it.
pub(super) fn refresh(server: &Alive, nics: &[NicInfo]) -> Decision {
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

pub(super) fn attached(server: &Alive, process: ProcessId, nic: NicInfo) -> Decision {
    match has(server, nic.port) {
        true => Ok(vec![]),
        false => Ok(vec![NicAttached { process, nic }.into()]),
    }
}

pub(super) fn detached(server: &Alive, process: ProcessId, port: PortId) -> Decision {
    match has(server, port) {
        true => Ok(vec![NicDetached { process, port }.into()]),
        false => Ok(vec![]),
    }
}

fn has(server: &Alive, port: PortId) -> bool {
    server.nics.iter().any(|nic| nic.port == port)
}
