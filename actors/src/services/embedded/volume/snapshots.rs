//! The decisions on a volume's snapshots.

use chronova_events::ids::{ProcessId, SnapshotId};
use chronova_events::volume::{
    SnapshotDeleteRequested, SnapshotDeleted, SnapshotDescribed, SnapshotReady, SnapshotReset, SnapshotStatus,
    VolumeRecord, VolumeSnapshot, VolumeSnapshotFailed, VolumeSnapshotRequested, VolumeStatus,
};

use super::decide::{VolumeDecision, VolumeDescription, described, invalid, merged};
use super::{VolumeCommand, VolumeDescriptionChange, VolumeMetadataChange, VolumeReject};

pub(super) fn decide(record: &VolumeRecord, command: VolumeCommand) -> VolumeDecision {
    let volume = record.created.volume;
    let known = |id: SnapshotId| record.snapshots.get(&id).ok_or(VolumeReject::NoSnapshot(id));
    match command {
        VolumeCommand::Snapshot { asked, is_admin: false, .. } if asked.project != record.created.project => {
            Err(VolumeReject::NotFound)
        }
        VolumeCommand::Snapshot { asked, force, .. } => request(record, asked, force),
        VolumeCommand::RecordSnapshotReady { snapshot, process } => {
            by(known(snapshot)?, process)?;
            Ok(vec![SnapshotReady { volume, snapshot, process }.into()])
        }
        VolumeCommand::RecordSnapshotFailed { snapshot, process, fault } => {
            by(known(snapshot)?, process)?;
            Ok(vec![VolumeSnapshotFailed { volume, snapshot, process, fault }.into()])
        }
        VolumeCommand::DescribeSnapshot { snapshot, description } => describe(record, known(snapshot)?, description),
        VolumeCommand::ResetSnapshot { snapshot, status } => {
            known(snapshot)?;
            Ok(vec![SnapshotReset { volume, snapshot, status }.into()])
        }
        VolumeCommand::DeleteSnapshot { snapshot, process, force } => {
            let now = known(snapshot)?;
            if now.process == Some(process) || (now.status == SnapshotStatus::Deleting && now.process.is_some()) {
                return Ok(vec![]);
            }
            let fits = matches!(now.status, SnapshotStatus::Available | SnapshotStatus::Error);
            // A snapshot is not deleted while a process creates it.
            if now.process.is_some() || !(fits || force) {
                return Err(VolumeReject::InvalidSnapshot(
                    "Snapshot status must be available or error and must not be part of a group.".to_owned(),
                ));
            }
            Ok(vec![SnapshotDeleteRequested { volume, snapshot, process }.into()])
        }
        // The command succeeds if the snapshot is already gone.
        VolumeCommand::RecordSnapshotDeleted { snapshot, .. } if !record.snapshots.contains_key(&snapshot) => {
            Ok(vec![])
        }
        VolumeCommand::RecordSnapshotDeleted { snapshot, process } => {
            by(known(snapshot)?, process)?;
            Ok(vec![SnapshotDeleted { volume, snapshot, process }.into()])
        }
        _ => Ok(vec![]),
    }
}

fn by(snapshot: &VolumeSnapshot, process: ProcessId) -> Result<(), VolumeReject> {
    if snapshot.process == Some(process) { Ok(()) } else { Err(VolumeReject::Superseded) }
}

fn request(record: &VolumeRecord, mut asked: VolumeSnapshotRequested, force: bool) -> VolumeDecision {
    if record.snapshots.contains_key(&asked.snapshot) {
        return Ok(vec![]);
    }
    let fits = match record.status {
        VolumeStatus::Available => true,
        VolumeStatus::InUse => force,
        _ => false,
    };
    if !fits {
        return Err(invalid(format!(
            "Volume {} status must be {}, but current status is: {}.",
            asked.volume,
            if force { "available or in-use" } else { "available" },
            record.status.as_str()
        )));
    }
    asked.metadata = merged(&[], VolumeMetadataChange::Replace(asked.metadata)).map_err(VolumeReject::TooManyPairs)?;
    Ok(vec![asked.into()])
}

fn describe(record: &VolumeRecord, now: &VolumeSnapshot, change: VolumeDescriptionChange) -> VolumeDecision {
    let (volume, snapshot) = (record.created.volume, now.requested.snapshot);
    let (name, description, metadata) = (now.name.clone(), now.description.clone(), now.metadata.clone());
    let known = VolumeDescription { name, description, metadata };
    match described(&known, change, |key| VolumeReject::NoSnapshotMetadata(snapshot, key))? {
        Some(VolumeDescription { name, description, metadata }) => {
            Ok(vec![SnapshotDescribed { volume, snapshot, name, description, metadata }.into()])
        }
        None => Ok(vec![]),
    }
}
