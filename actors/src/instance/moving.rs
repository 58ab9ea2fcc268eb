//! Moves of a server: to another flavor, to another host; confirmed or reverted.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{HostId, ProcessId};
use chronova_events::instance::{
    Alive, ConfirmRequested, DiskConfig, FaultInfo, FlavorSnapshot, InstanceEvent, MoveAdvanced, MoveFailed, MoveKind,
    MoveRequested, MoveStage, MoveTargeted, MoveUntargeted, Phase, Placed, ResizeConfirmed, ResizeReverted, Resized,
    RevertFailed, RevertRequested, Scheduled,
};

use super::actions::{Action, admit};
use super::evacuation::{self, EvacuationCommand};
use super::live::{self, LiveCommand};
use super::{Asker, InstanceReject};

#[derive(Debug, Clone)]
pub enum MoveCommand {
    Resize {
        process: ProcessId,
        flavor: Box<FlavorSnapshot>,
        disk_config: Option<DiskConfig>,
        asker: Asker,
    },
    Migrate {
        process: ProcessId,
        host: Option<String>,
        asker: Asker,
    },
    Confirm {
        process: ProcessId,
        asker: Asker,
    },
    /// Confirms what was moved by then, or was declared to be in another state since, and nobody works on.
    ConfirmDue {
        process: ProcessId,
        moved_by: Timestamp,
    },
    Revert {
        process: ProcessId,
        asker: Asker,
    },

    /// What only those are asked whose guest runs meanwhile.
    Live(LiveCommand),
    /// What only those are asked whose host is down.
    Evacuate(EvacuationCommand),

    /// What the scheduler decided and why; with the destination, where it found one.
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

type Decision = Result<Vec<InstanceEvent>, InstanceReject>;

fn one(event: impl Into<InstanceEvent>) -> Decision {
    Ok(vec![event.into()])
}

pub(super) fn decide(server: &Alive, command: MoveCommand) -> Decision {
    match command {
        MoveCommand::Resize { process, flavor, disk_config, asker } => {
            admit(server, Action::Resize, asker)?;
            begin(server, process, MoveKind::Resize, *flavor, None, disk_config)
        }
        MoveCommand::Migrate { process, host, asker } => {
            admit(server, Action::Migrate, asker)?;
            begin(server, process, MoveKind::Migrate, FlavorSnapshot::clone(&server.request.flavor), host, None)
        }
        MoveCommand::Confirm { process, asker } => {
            admit(server, Action::ConfirmResize, asker)?;
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
            admit(server, Action::RevertResize, asker)?;
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
) -> Decision {
    // What was moved before and declared active since is confirmed first.
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

fn record_of(server: &Alive, command: MoveCommand) -> Decision {
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
            // Done before; a delete has the server now, or nothing is to be done any more.
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
