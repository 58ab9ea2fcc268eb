//! The decisions on tasks: snapshots, rebuild, rescue, shelving, and changes of the password of a server.
//!
//! Each task begins with a request. A process executes the task and records its stages and its result.

use chronova_events::instance::{
    Alive, InstanceEvent, OffloadRequested, PasswordChangeRequested, Phase, RebuildRequested, RescueRequested,
    ShelveRequested, SnapshotRequested, UnrescueRequested, WorkAdvanced,
};

use super::actions::{ServerAction, admit};
use super::decision::InstanceDecision;
use super::records::WorkRecord;
use super::requests::WorkRequest;
use super::volumes::check_connected;

pub(super) fn decide(server: &Alive, request: WorkRequest) -> InstanceDecision {
    let asked = |action, asker, event: InstanceEvent| -> InstanceDecision {
        admit(server, action, asker)?;
        check_connected(server, action)?;
        Ok(vec![event])
    };
    match request {
        WorkRequest::Snapshot { process, image, backup, asker } => {
            let action = if backup.is_some() { ServerAction::CreateBackup } else { ServerAction::CreateImage };
            asked(action, asker, SnapshotRequested { process, image, backup }.into())
        }
        WorkRequest::Rebuild { request, files, asker } => {
            let other_image = server.hardware_image().is_none_or(|image| image.id != request.image.id);
            let mut events = asked(ServerAction::Rebuild, asker, RebuildRequested { other_image, ..*request }.into())?;
            events.extend(files.map(InstanceEvent::from));
            Ok(events)
        }
        WorkRequest::Rescue { process, image, asker } => {
            asked(ServerAction::Rescue, asker, RescueRequested { process, image }.into())
        }
        WorkRequest::Unrescue { process, asker } => {
            asked(ServerAction::Unrescue, asker, UnrescueRequested { process }.into())
        }
        WorkRequest::UnrescueDue { process, unchanged_since } => {
            let rescued = matches!(server.phase, Phase::Rescued { .. }) && server.ongoing.is_none();
            match rescued && server.updated_at <= unchanged_since {
                true => Ok(vec![UnrescueRequested { process }.into()]),
                false => Ok(vec![]),
            }
        }
        WorkRequest::Shelve { process, image, asker } => {
            asked(ServerAction::Shelve, asker, ShelveRequested { process, image }.into())
        }
        WorkRequest::Offload { process, asker } => {
            asked(ServerAction::ShelveOffload, asker, OffloadRequested { process }.into())
        }
        WorkRequest::OffloadDue { process, shelved_by } => match (server.phase, server.ongoing) {
            (Phase::Shelved { since, .. }, None) if shelved_by.is_none_or(|by| since <= by) => {
                Ok(vec![OffloadRequested { process }.into()])
            }
            _ => Ok(vec![]),
        },
        WorkRequest::Unshelve { request, asker } => asked(ServerAction::Unshelve, asker, request.into()),
        WorkRequest::ChangePassword { process, asker } => {
            asked(ServerAction::ChangePassword, asker, PasswordChangeRequested { process }.into())
        }
    }
}

pub(super) fn record(server: &Alive, record: WorkRecord) -> InstanceDecision {
    match record {
        WorkRecord::Advanced { process, stage } => match server.ongoing {
            Some(now) if now.process() == process && now.stage().is_some_and(|now| now != stage) => {
                Ok(vec![WorkAdvanced { process, stage }.into()])
            }
            _ => Ok(vec![]),
        },
        // A record of a process that is no longer at work has no effect. Such a record is a repetition, or another
        // request has overtaken the task.
        WorkRecord::Ended { process, end } => match server.ongoing.map(|ongoing| ongoing.process()) == Some(process) {
            true => Ok(vec![end.event(process)]),
            false => Ok(vec![]),
        },
    }
}
