//! The decisions on a server's moves: resize, cold migration, confirm and revert.

use chronova_events::ids::ProcessId;
use chronova_events::instance::{
    Alive, ConfirmRequested, DiskConfig, FlavorSnapshot, MoveAdvanced, MoveFailed, MoveKind, MoveRequested,
    MoveTargeted, MoveUntargeted, Phase, ResizeConfirmed, ResizeReverted, Resized, RevertFailed, RevertRequested,
};

use super::actions::{ServerAction, admit};
use super::decision::{InstanceDecision, InstanceReject, one};
use super::records::MoveRecord;
use super::requests::MoveRequest;
use super::{evacuation, live};

pub(super) fn decide(server: &Alive, request: MoveRequest) -> InstanceDecision {
    match request {
        MoveRequest::Resize { process, flavor, disk_config, asker } => {
            admit(server, ServerAction::Resize, asker)?;
            begin(server, process, MoveKind::Resize, *flavor, None, disk_config)
        }
        MoveRequest::Migrate { process, host, asker } => {
            admit(server, ServerAction::Migrate, asker)?;
            begin(server, process, MoveKind::Migrate, FlavorSnapshot::clone(&server.request.flavor), host, None)
        }
        MoveRequest::Confirm { process, asker } => {
            admit(server, ServerAction::ConfirmResize, asker)?;
            let migration = moved(server)?;
            one(ConfirmRequested { process, migration })
        }
        MoveRequest::ConfirmDue { process, moved_by } => match (&server.moving, server.phase, server.ongoing) {
            (Some(moving), Phase::Resized { since, .. }, None) if since <= moved_by => {
                one(ConfirmRequested { process, migration: moving.migration })
            }
            (Some(moving), phase, None) if !matches!(phase, Phase::Resized { .. }) => {
                one(ConfirmRequested { process, migration: moving.migration })
            }
            _ => Ok(vec![]),
        },
        MoveRequest::Revert { process, asker } => {
            admit(server, ServerAction::RevertResize, asker)?;
            let migration = moved(server)?;
            one(RevertRequested { process, migration })
        }
        MoveRequest::Live(request) => live::decide(server, request),
        MoveRequest::Evacuate(request) => evacuation::decide(server, request),
    }
}

fn begin(
    server: &Alive,
    process: ProcessId,
    kind: MoveKind,
    new_flavor: FlavorSnapshot,
    host: Option<String>,
    disk_config: Option<DiskConfig>,
) -> InstanceDecision {
    // After a reset of the state, an earlier move may be unconfirmed. It must be confirmed first.
    if server.moving.is_some() {
        return Err(InstanceReject::Superseded);
    }
    let source = server.placement.clone().ok_or(InstanceReject::NotReady)?;
    let old_flavor = FlavorSnapshot::clone(&server.request.flavor);
    one(MoveRequested { process, kind, source, old_flavor, new_flavor, host, disk_config })
}

fn moved(server: &Alive) -> Result<ProcessId, InstanceReject> {
    server.moving.as_ref().map(|moving| moving.migration).ok_or(InstanceReject::NotMoved)
}

pub(super) fn record(server: &Alive, record: MoveRecord) -> InstanceDecision {
    let at_work = server.ongoing.map(|ongoing| ongoing.process());
    let Some(moving) = &server.moving else { return Ok(vec![]) };
    let turn = |process| match at_work == Some(process) {
        true => Ok(()),
        false => Err(InstanceReject::Superseded),
    };
    match record {
        MoveRecord::Targeted { process, target, scheduled } => {
            turn(process)?;
            match target {
                Some(target) if moving.target.as_ref() == Some(&target) => Ok(vec![]),
                Some(target) => Ok(vec![(*scheduled).into(), MoveTargeted { process, target }.into()]),
                None => one(*scheduled),
            }
        }
        MoveRecord::Untargeted { process, host, reason } => {
            match moving.migration == process && moving.target.as_ref().is_some_and(|target| target.host == host) {
                true => one(MoveUntargeted { process, host, reason }),
                false => Ok(vec![]),
            }
        }
        MoveRecord::Advanced { process, stage } => {
            turn(process)?;
            if moving.stage == stage { Ok(vec![]) } else { one(MoveAdvanced { process, stage }) }
        }
        MoveRecord::Arrived { process } => match (&moving.target, server.phase) {
            // Any other record is a repetition, or a delete owns the server now. Either way, the record has no effect.
            (Some(placed), phase) if at_work == Some(process) && !matches!(phase, Phase::Resized { .. }) => {
                one(Resized { process, placed: placed.clone() })
            }
            _ => Ok(vec![]),
        },
        MoveRecord::Failed { process, fault } => match moving.migration == process {
            true => one(MoveFailed { process, fault }),
            false => Ok(vec![]),
        },
        MoveRecord::Confirmed { process } => match at_work == Some(process) {
            true => one(ResizeConfirmed { process, migration: moving.migration }),
            false => Ok(vec![]),
        },
        MoveRecord::Reverted { process } => match at_work == Some(process) {
            true => one(ResizeReverted { process, migration: moving.migration, placed: moving.source.clone() }),
            false => Ok(vec![]),
        },
        MoveRecord::RevertFailed { process, fault } => match at_work == Some(process) {
            true => one(RevertFailed { process, migration: moving.migration, fault }),
            false => Ok(vec![]),
        },
        MoveRecord::Live(record) => live::record(server, record),
        MoveRecord::Evacuated { process, renewed } => evacuation::arrived(server, process, renewed),
    }
}
