//! Work on a server: images of it, rebuild, rescue, shelve, its password.
//!
//! One command requests each, and a process executes it, which records its stages and its end.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{ImageId, ProcessId};
use chronova_events::instance::{
    Alive, FaultInfo, FilesGiven, ImageSnapshot, InstanceEvent, OffloadRequested, Offloaded, PasswordChangeFailed,
    PasswordChangeRequested, PasswordChanged, Phase, RebuildFailed, RebuildRequested, Rebuilt, RescueFailed,
    RescueRequested, Rescued, Rotation, ShelveFailed, ShelveRequested, Shelved, SnapshotFailed, SnapshotRequested,
    SnapshotTaken, UnrescueFailed, UnrescueRequested, Unrescued, UnshelveFailed, UnshelveRequested, Unshelved,
    WorkAdvanced, WorkStage,
};

use super::actions::{ServerAction, admit};
use super::decision::{CallerRights, InstanceDecision};

#[derive(Debug, Clone)]
pub enum WorkCommand {
    /// An image, or a backup, of the disk. The image exists, without bytes.
    Snapshot {
        process: ProcessId,
        image: ImageId,
        backup: Option<Rotation>,
        asker: CallerRights,
    },
    Rebuild {
        request: Box<RebuildRequested>,
        /// For the new guest to find.
        files: Option<FilesGiven>,
        asker: CallerRights,
    },
    Rescue {
        process: ProcessId,
        image: ImageSnapshot,
        asker: CallerRights,
    },
    Unrescue {
        process: ProcessId,
        asker: CallerRights,
    },
    /// The image for the disk exists, without bytes. `None` for a disk that is a volume.
    Shelve {
        process: ProcessId,
        image: Option<ImageId>,
        asker: CallerRights,
    },
    Offload {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Offloads a server from its host if it was shelved by then and has no task.
    OffloadDue {
        process: ProcessId,
        shelved_by: Option<Timestamp>,
    },
    Unshelve {
        request: UnshelveRequested,
        asker: CallerRights,
    },
    ChangePassword {
        process: ProcessId,
        asker: CallerRights,
    },
    Advance {
        process: ProcessId,
        stage: WorkStage,
    },
    End {
        process: ProcessId,
        end: WorkOutcome,
    },
}

/// The end of a piece of work.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkOutcome {
    SnapshotTaken { image: ImageId },
    SnapshotFailed { image: ImageId, fault: FaultInfo },
    Rebuilt,
    RebuildFailed(FaultInfo),
    Rescued,
    RescueFailed(FaultInfo),
    Unrescued,
    UnrescueFailed(FaultInfo),
    Shelved { image: ImageId },
    ShelveFailed(FaultInfo),
    Offloaded,
    Unshelved { root: Option<ImageSnapshot> },
    UnshelveFailed(FaultInfo),
    PasswordChanged,
    PasswordChangeFailed(FaultInfo),
}

impl WorkOutcome {
    fn event(self, process: ProcessId) -> InstanceEvent {
        match self {
            Self::SnapshotTaken { image } => SnapshotTaken { process, image }.into(),
            Self::SnapshotFailed { image, fault } => SnapshotFailed { process, image, fault }.into(),
            Self::Rebuilt => Rebuilt { process }.into(),
            Self::RebuildFailed(fault) => RebuildFailed { process, fault }.into(),
            Self::Rescued => Rescued { process }.into(),
            Self::RescueFailed(fault) => RescueFailed { process, fault }.into(),
            Self::Unrescued => Unrescued { process }.into(),
            Self::UnrescueFailed(fault) => UnrescueFailed { process, fault }.into(),
            Self::Shelved { image } => Shelved { process, image }.into(),
            Self::ShelveFailed(fault) => ShelveFailed { process, fault }.into(),
            Self::Offloaded => Offloaded { process }.into(),
            Self::Unshelved { root } => Unshelved { process, root }.into(),
            Self::UnshelveFailed(fault) => UnshelveFailed { process, fault }.into(),
            Self::PasswordChanged => PasswordChanged { process }.into(),
            Self::PasswordChangeFailed(fault) => PasswordChangeFailed { process, fault }.into(),
        }
    }
}

pub(super) fn decide(server: &Alive, command: WorkCommand) -> InstanceDecision {
    let asked = |action, asker, event: InstanceEvent| admit(server, action, asker).map(|()| vec![event]);
    match command {
        WorkCommand::Snapshot { process, image, backup, asker } => {
            let action = if backup.is_some() { ServerAction::CreateBackup } else { ServerAction::CreateImage };
            asked(action, asker, SnapshotRequested { process, image, backup }.into())
        }
        WorkCommand::Rebuild { request, files, asker } => {
            let other_image = server.hardware_image().is_none_or(|image| image.id != request.image.id);
            let mut events = asked(ServerAction::Rebuild, asker, RebuildRequested { other_image, ..*request }.into())?;
            events.extend(files.map(InstanceEvent::from));
            Ok(events)
        }
        WorkCommand::Rescue { process, image, asker } => {
            asked(ServerAction::Rescue, asker, RescueRequested { process, image }.into())
        }
        WorkCommand::Unrescue { process, asker } => {
            asked(ServerAction::Unrescue, asker, UnrescueRequested { process }.into())
        }
        WorkCommand::Shelve { process, image, asker } => {
            asked(ServerAction::Shelve, asker, ShelveRequested { process, image }.into())
        }
        WorkCommand::Offload { process, asker } => {
            asked(ServerAction::ShelveOffload, asker, OffloadRequested { process }.into())
        }
        WorkCommand::OffloadDue { process, shelved_by } => match (server.phase, server.ongoing) {
            (Phase::Shelved { since, .. }, None) if shelved_by.is_none_or(|by| since <= by) => {
                Ok(vec![OffloadRequested { process }.into()])
            }
            _ => Ok(vec![]),
        },
        WorkCommand::Unshelve { request, asker } => asked(ServerAction::Unshelve, asker, request.into()),
        WorkCommand::ChangePassword { process, asker } => {
            asked(ServerAction::ChangePassword, asker, PasswordChangeRequested { process }.into())
        }
        WorkCommand::Advance { process, stage } => match server.ongoing {
            Some(now) if now.process() == process && now.stage().is_some_and(|now| now != stage) => {
                Ok(vec![WorkAdvanced { process, stage }.into()])
            }
            _ => Ok(vec![]),
        },
        // Done before, or overtaken: the record has no effect.
        WorkCommand::End { process, end } => match server.ongoing.map(|ongoing| ongoing.process()) == Some(process) {
            true => Ok(vec![end.event(process)]),
            false => Ok(vec![]),
        },
    }
}
