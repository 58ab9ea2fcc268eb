//! The decisions on a server's moves: resize, cold migration, confirm and revert.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::{
    Alive, ConfirmRequested, DiskConfig, FaultInfo, FlavorSnapshot, MoveAdvanced, MoveFailed, MoveKind, MoveRequested,
    MoveStage, MoveTargeted, MoveUntargeted, Phase, Placed, ResizeConfirmed, ResizeReverted, Resized, RevertFailed,
    RevertRequested, Scheduled,
};

use super::actions::{ServerAction, admit};
use super::decision::{CallerRights, InstanceDecision, InstanceReject, one};
use super::evacuation::{self, EvacuationCommand};
use super::live::{self, LiveCommand};

#[derive(Debug, Clone)]
pub enum MoveCommand {
    Resize {
        process: ProcessId,
        flavor: Box<FlavorSnapshot>,
        disk_config: Option<DiskConfig>,
        asker: CallerRights,
    },
    Migrate {
        process: ProcessId,
        host: Option<String>,
        asker: CallerRights,
    },
    Confirm {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Confirms a move that ended by then, or was left over by a reset of the state, if no task is under way.
    ConfirmDue {
        process: ProcessId,
        moved_by: Timestamp,
    },
    Revert {
        process: ProcessId,
        asker: CallerRights,
    },

    /// Commands of live migrations only.
    Live(LiveCommand),
    /// Commands of evacuations only.
    Evacuate(EvacuationCommand),

    /// The scheduler's decision and its reasons; with the destination, if it found one.
    Aim {
        process: ProcessId,
        target: Option<Placed>,
        scheduled: Box<Scheduled>,
    },
    GiveUp {
        process: ProcessId,
        host: HostId,
        reason: String,
    },
    Advance {
        process: ProcessId,
        stage: MoveStage,
    },
    Arrive {
        process: ProcessId,
    },
    Fail {
        process: ProcessId,
        fault: FaultInfo,
    },
    RecordConfirmed {
        process: ProcessId,
    },
    RecordReverted {
        process: ProcessId,
    },
    RecordRevertFailed {
        process: ProcessId,
        fault: FaultInfo,
    },
}

pub(super) fn decide(server: &Alive, command: MoveCommand) -> InstanceDecision {
    match command {
        MoveCommand::Resize { process, flavor, disk_config, asker } => {
            admit(server, ServerAction::Resize, asker)?;
            begin(server, process, MoveKind::Resize, *flavor, None, disk_config)
        }
        MoveCommand::Migrate { process, host, asker } => {
            admit(server, ServerAction::Migrate, asker)?;
            begin(server, process, MoveKind::Migrate, FlavorSnapshot::clone(&server.request.flavor), host, None)
        }
        MoveCommand::Confirm { process, asker } => {
            admit(server, ServerAction::ConfirmResize, asker)?;
            let migration = moved(server)?;
            one(ConfirmRequested { process, migration })
        }
        MoveCommand::ConfirmDue { process, moved_by } => match (&server.moving, server.phase, server.ongoing) {
            (Some(moving), Phase::Resized { since, .. }, None) if since <= moved_by => {
                one(ConfirmRequested { process, migration: moving.migration })
            }
            (Some(moving), phase, None) if !matches!(phase, Phase::Resized { .. }) => {
                one(ConfirmRequested { process, migration: moving.migration })
            }
            _ => Ok(vec![]),
        },
        MoveCommand::Revert { process, asker } => {
            admit(server, ServerAction::RevertResize, asker)?;
            let migration = moved(server)?;
            one(RevertRequested { process, migration })
        }
        MoveCommand::Live(command) => live::decide(server, command),
        MoveCommand::Evacuate(command) => evacuation::decide(server, command),
        record => record_of(server, record),
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
    // An earlier move whose server was reset to active since is confirmed first.
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

fn record_of(server: &Alive, command: MoveCommand) -> InstanceDecision {
    let at_work = server.ongoing.map(|ongoing| ongoing.process());
    let Some(moving) = &server.moving else { return Ok(vec![]) };
    let turn = |process| match at_work == Some(process) {
        true => Ok(()),
        false => Err(InstanceReject::Superseded),
    };
    match command {
        MoveCommand::Aim { process, target, scheduled } => {
            turn(process)?;
            match target {
                Some(target) if moving.target.as_ref() == Some(&target) => Ok(vec![]),
                Some(target) => Ok(vec![(*scheduled).into(), MoveTargeted { process, target }.into()]),
                None => one(*scheduled),
            }
        }
        MoveCommand::GiveUp { process, host, reason } => {
            match moving.migration == process && moving.target.as_ref().is_some_and(|target| target.host == host) {
                true => one(MoveUntargeted { process, host, reason }),
                false => Ok(vec![]),
            }
        }
        MoveCommand::Advance { process, stage } => {
            turn(process)?;
            if moving.stage == stage { Ok(vec![]) } else { one(MoveAdvanced { process, stage }) }
        }
        MoveCommand::Arrive { process } => match (&moving.target, server.phase) {
            // Done before, or a delete owns the server now.
            (Some(placed), phase) if at_work == Some(process) && !matches!(phase, Phase::Resized { .. }) => {
                one(Resized { process, placed: placed.clone() })
            }
            _ => Ok(vec![]),
        },
        MoveCommand::Fail { process, fault } => match moving.migration == process {
            true => one(MoveFailed { process, fault }),
            false => Ok(vec![]),
        },
        MoveCommand::RecordConfirmed { process } => match at_work == Some(process) {
            true => one(ResizeConfirmed { process, migration: moving.migration }),
            false => Ok(vec![]),
        },
        MoveCommand::RecordReverted { process } => match at_work == Some(process) {
            true => one(ResizeReverted { process, migration: moving.migration, placed: moving.source.clone() }),
            false => Ok(vec![]),
        },
        MoveCommand::RecordRevertFailed { process, fault } => match at_work == Some(process) {
            true => one(RevertFailed { process, migration: moving.migration, fault }),
            false => Ok(vec![]),
        },
        MoveCommand::Live(_)
        | MoveCommand::Evacuate(_)
        | MoveCommand::Resize { .. }
        | MoveCommand::Migrate { .. }
        | MoveCommand::Confirm { .. }
        | MoveCommand::ConfirmDue { .. }
        | MoveCommand::Revert { .. } => Ok(vec![]),
    }
}
