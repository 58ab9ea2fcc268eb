//! The decisions of a volume. The rules are Cinder's, with exceptions. A volume whose deletion failed
//! (`error_deleting`) can be deleted again. An image can also be written to a volume in use, because the caller ensures
//! that the guest is off.

use chronova_events::ids::ProcessId;
use chronova_events::volume::{
    ExtendRequested, ImageMetadataReplaced, ReimageRequested, SnapshotStatus, StatusChanged, StatusReset, UploadEnded,
    UploadRequested, Volume, VolumeCreated, VolumeDeleteRequested, VolumeDeleted, VolumeDescribed, VolumeEvent,
    VolumeExtended, VolumeFailed, VolumeFlagged, VolumeImage, VolumeMetadata, VolumeReady, VolumeRecord,
    VolumeReimaged, VolumeStatus,
};

use super::{MAX_PAIRS, VolumeCommand, VolumeDescriptionChange, VolumeMetadataChange, VolumeReject, attach, snapshots};

pub(super) type VolumeDecision = Result<Vec<VolumeEvent>, VolumeReject>;

pub fn decide(state: &Volume, command: VolumeCommand) -> VolumeDecision {
    match (state, command) {
        (Volume::Unknown, VolumeCommand::Create(created)) => Ok(vec![sorted(*created)?.into()]),
        (Volume::Here(record), VolumeCommand::Create(created)) if record.created.process == created.process => {
            Ok(vec![])
        }
        (_, VolumeCommand::Create(created)) => Err(VolumeReject::IdTaken(created.volume)),
        (Volume::Deleted, VolumeCommand::RecordDeleted { .. } | VolumeCommand::Release { .. }) => Ok(vec![]),
        (Volume::Here(record), command) => on_volume(record, command),
        (Volume::Unknown | Volume::Deleted, _) => Err(VolumeReject::NotFound),
    }
}

fn sorted(mut created: VolumeCreated) -> Result<VolumeCreated, VolumeReject> {
    created.metadata =
        merged(&[], VolumeMetadataChange::Replace(created.metadata)).map_err(VolumeReject::TooManyPairs)?;
    Ok(created)
}

/// Applies the change to `now`. The error is the number of pairs after the change, if it exceeds the limit. Removing an
/// absent key changes nothing.
pub(super) fn merged(now: &[(String, String)], change: VolumeMetadataChange) -> Result<VolumeMetadata, usize> {
    let mut pairs: std::collections::BTreeMap<String, String> = now.iter().cloned().collect();
    match change {
        VolumeMetadataChange::Merge(more) => pairs.extend(more),
        VolumeMetadataChange::Replace(others) => pairs = others.into_iter().collect(),
        VolumeMetadataChange::Remove(key) => {
            pairs.remove(&key);
        }
    }
    match pairs.len() {
        many if many > MAX_PAIRS => Err(many),
        _ => Ok(pairs.into_iter().collect()),
    }
}

/// The texts that a user may give a volume or a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VolumeDescription {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) metadata: VolumeMetadata,
}

/// Applies the change to `now`; `None` if the change leaves everything as it is. `missing` is the refusal to remove an
/// absent key.
pub(super) fn described(
    now: &VolumeDescription,
    change: VolumeDescriptionChange,
    missing: impl FnOnce(String) -> VolumeReject,
) -> Result<Option<VolumeDescription>, VolumeReject> {
    if let Some(VolumeMetadataChange::Remove(key)) = &change.metadata
        && !has(&now.metadata, key)
    {
        return Err(missing(key.clone()));
    }
    let metadata = match change.metadata {
        Some(change) => merged(&now.metadata, change).map_err(VolumeReject::TooManyPairs)?,
        None => now.metadata.clone(),
    };
    let name = change.name.unwrap_or_else(|| now.name.clone());
    let description = change.description.unwrap_or_else(|| now.description.clone());
    let new = VolumeDescription { name, description, metadata };
    Ok((new != *now).then_some(new))
}

fn has(pairs: &[(String, String)], key: &str) -> bool {
    pairs.iter().any(|(known, _)| known == key)
}

pub(super) fn invalid(reason: impl Into<String>) -> VolumeReject {
    VolumeReject::InvalidVolume(reason.into())
}

/// Checks that the process is the volume's current process. Only that process may record a result.
fn by(record: &VolumeRecord, process: ProcessId) -> Result<(), VolumeReject> {
    if record.ongoing == Some(process) { Ok(()) } else { Err(VolumeReject::Superseded) }
}

/// The events at the end of an operation. `end` sets the status from before the operation. If an attachment gave the
/// volume another status meanwhile, a second event sets that status again. Without it, a volume that its server has
/// released would be in use for ever.
fn ended(record: &VolumeRecord, end: VolumeEvent) -> Vec<VolumeEvent> {
    let (volume, status) = (record.created.volume, record.status);
    let follows_attachments = matches!(
        status,
        VolumeStatus::Available
            | VolumeStatus::Reserved
            | VolumeStatus::Attaching
            | VolumeStatus::InUse
            | VolumeStatus::Detaching
    );
    match follows_attachments && status != record.before {
        true => vec![end, StatusChanged { volume, status }.into()],
        false => vec![end],
    }
}

fn on_volume(record: &VolumeRecord, command: VolumeCommand) -> VolumeDecision {
    let volume = record.created.volume;
    match command {
        VolumeCommand::Create(created) => Err(VolumeReject::IdTaken(created.volume)),
        // The command repeats an earlier record. Without this arm, `by` would refuse it, because the volume's process
        // has ended.
        VolumeCommand::RecordReady { process, .. } if record.created.process == process && record.place.is_some() => {
            Ok(vec![])
        }
        VolumeCommand::RecordReady { process, host, hostname, format } => {
            by(record, process)?;
            Ok(vec![VolumeReady { volume, process, host, hostname, format }.into()])
        }
        VolumeCommand::RecordFailed { process, fault } => {
            by(record, process)?;
            Ok(vec![VolumeFailed { volume, process, fault }.into()])
        }
        VolumeCommand::Describe(description) => describe(record, description),
        VolumeCommand::Flag { bootable, readonly } => {
            let now = (bootable.unwrap_or(record.bootable), readonly.unwrap_or(record.readonly));
            if readonly.is_some() && record.status != VolumeStatus::Available {
                return Err(invalid(format!(
                    "Volume {volume} status must be available to update readonly flag, but current status is: {}.",
                    record.status.as_str()
                )));
            }
            if now == (record.bootable, record.readonly) {
                return Ok(vec![]);
            }
            Ok(vec![VolumeFlagged { volume, bootable: now.0, readonly: now.1 }.into()])
        }
        VolumeCommand::ChangeImageMetadata(change) => change_image(record, change),
        VolumeCommand::Extend { process, size_gb, attached } => extend(record, process, size_gb, attached),
        VolumeCommand::RecordExtended { process, size_gb } => {
            by(record, process)?;
            Ok(ended(record, VolumeExtended { volume, process, size_gb }.into()))
        }
        VolumeCommand::Upload { process, image, force } => upload(record, process, image, force),
        VolumeCommand::RecordUploaded { process } => {
            by(record, process)?;
            Ok(ended(record, UploadEnded { volume, process }.into()))
        }
        VolumeCommand::Reimage { process, image } => reimage(record, process, *image),
        VolumeCommand::RecordReimaged { process } => {
            by(record, process)?;
            Ok(ended(record, VolumeReimaged { volume, process }.into()))
        }
        VolumeCommand::Reset { status, detached } => Ok(vec![StatusReset { volume, status, detached }.into()]),
        VolumeCommand::Delete { process, force, cascade } => delete(record, process, force, cascade),
        VolumeCommand::RecordDeleted { process } => {
            by(record, process)?;
            Ok(vec![VolumeDeleted { volume, process }.into()])
        }
        command @ (VolumeCommand::Reserve { .. }
        | VolumeCommand::ReserveAndConnect(_)
        | VolumeCommand::RecordAttached(_)
        | VolumeCommand::Connect { .. }
        | VolumeCommand::Complete { .. }
        | VolumeCommand::Release { .. }
        | VolumeCommand::Keep
        | VolumeCommand::LetGo
        | VolumeCommand::BeginDetaching
        | VolumeCommand::RollDetaching) => attach::decide(record, command),
        command => snapshots::decide(record, command),
    }
}

fn describe(record: &VolumeRecord, change: VolumeDescriptionChange) -> VolumeDecision {
    let volume = record.created.volume;
    let (name, description, metadata) = (record.name.clone(), record.description.clone(), record.metadata.clone());
    let now = VolumeDescription { name, description, metadata };
    match described(&now, change, |key| VolumeReject::NoMetadata(volume, key))? {
        Some(VolumeDescription { name, description, metadata }) => {
            Ok(vec![VolumeDescribed { volume, name, description, metadata }.into()])
        }
        None => Ok(vec![]),
    }
}

/// The most bytes in the image properties that a client may set. The limit is the same as for an image. A volume with
/// more bytes keeps them, but their number cannot grow.
const MAX_PAIR_BYTES: usize = 64 << 10;

fn bytes(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// Changes the image properties that the volume keeps. The other facts about its image stay.
fn change_image(record: &VolumeRecord, change: VolumeMetadataChange) -> VolumeDecision {
    let volume = record.created.volume;
    let now = record.image.as_ref().map(|image| image.extra.clone()).unwrap_or_default();
    if let VolumeMetadataChange::Remove(key) = &change
        && !has(&now, key)
    {
        return Err(VolumeReject::NoMetadata(volume, key.clone()));
    }
    let extra = merged(&now, change).map_err(VolumeReject::TooManyPairs)?;
    if bytes(&extra) > MAX_PAIR_BYTES.max(bytes(&now)) {
        let words = format!("the image metadata of a volume has at most {MAX_PAIR_BYTES} bytes");
        return Err(VolumeReject::InvalidInput(words));
    }
    let image = match &record.image {
        Some(image) => VolumeImage { snapshot: image.snapshot.clone(), extra },
        // The volume has no image, so the properties are the only facts.
        None => VolumeImage { snapshot: no_image(), extra },
    };
    if record.image.as_ref() == Some(&image) {
        return Ok(vec![]);
    }
    Ok(vec![ImageMetadataReplaced { volume, image: Some(image) }.into()])
}

/// A placeholder for the image of a volume that got image metadata but was not created from an image.
pub(super) fn no_image() -> chronova_events::instance::ImageSnapshot {
    chronova_events::instance::ImageSnapshot {
        id: chronova_events::ids::ImageId(uuid::Uuid::nil()),
        name: String::new(),
        checksum: String::new(),
        format: String::new(),
        size: 0,
        virtual_size: 0,
        min_memory_mib: 0,
        min_disk_gib: 0,
        properties: Vec::new(),
    }
}

fn extend(record: &VolumeRecord, process: ProcessId, size_gb: u32, attached: bool) -> VolumeDecision {
    let volume = record.created.volume;
    if record.ongoing == Some(process) {
        return Ok(vec![]);
    }
    let wanted = if attached && record.status == VolumeStatus::InUse { "in-use" } else { "available" };
    // The message is Cinder's.
    if record.status.as_str() != wanted {
        return Err(invalid(format!(
            "Volume {volume} status must be '{}' to extend, currently {}.",
            if attached { "available or in-use" } else { "available" },
            record.status.as_str()
        )));
    }
    if record.ongoing.is_some() {
        return Err(invalid(format!("Volume {volume} cannot be extended while another operation works on it.")));
    }
    if size_gb <= record.size_gb {
        return Err(VolumeReject::InvalidInput(format!(
            "New size for extend must be greater than current size. (current: {}, extended: {size_gb}).",
            record.size_gb
        )));
    }
    if record.attachments.len() > 1 {
        return Err(invalid(format!("Volume {volume} has more than one attachment.")));
    }
    Ok(vec![ExtendRequested { volume, process, size_gb }.into()])
}

fn upload(
    record: &VolumeRecord,
    process: ProcessId,
    image: chronova_events::ids::ImageId,
    force: bool,
) -> VolumeDecision {
    let volume = record.created.volume;
    if record.ongoing == Some(process) {
        return Ok(vec![]);
    }
    let fits = match record.status {
        VolumeStatus::Available => true,
        VolumeStatus::InUse => force,
        _ => false,
    };
    if !fits {
        let wanted = if force { "available or in-use" } else { "available" };
        return Err(invalid(format!("Volume {volume} status must be {wanted}")));
    }
    if record.ongoing.is_some() {
        return Err(invalid(format!("Volume {volume} cannot be uploaded while another operation works on it.")));
    }
    Ok(vec![UploadRequested { volume, process, image }.into()])
}

/// Cinder's `reimage`. It also accepts a volume in use; the caller ensures that the guest is off.
fn reimage(record: &VolumeRecord, process: ProcessId, image: VolumeImage) -> VolumeDecision {
    let volume = record.created.volume;
    if record.reimaged_by == Some(process) {
        return Ok(vec![]);
    }
    let fits = matches!(
        record.status,
        VolumeStatus::Available | VolumeStatus::Error | VolumeStatus::Reserved | VolumeStatus::InUse
    );
    if !fits {
        return Err(invalid(format!(
            "Volume {volume} status must be available or error or reserved or in-use to re-image, but the current status \
             is {}.",
            record.status.as_str()
        )));
    }
    if record.ongoing.is_some() {
        return Err(invalid(format!("Volume {volume} cannot be re-imaged while another operation works on it.")));
    }
    if record.attachments.len() > 1 {
        return Err(invalid(format!("Volume {volume} has more than one attachment.")));
    }
    let bytes = image.snapshot.virtual_size.max(image.snapshot.size);
    let least = u32::try_from(bytes.div_ceil(1 << 30)).unwrap_or(u32::MAX).max(image.snapshot.min_disk_gib);
    if least > record.size_gb {
        return Err(VolumeReject::InvalidInput(format!(
            "Volume size {}GB cannot be smaller than the image minDisk size {least}GB.",
            record.size_gb
        )));
    }
    Ok(vec![ReimageRequested { volume, process, image }.into()])
}

fn delete(record: &VolumeRecord, process: ProcessId, force: bool, cascade: bool) -> VolumeDecision {
    if record.ongoing == Some(process) || (record.status == VolumeStatus::Deleting && record.ongoing.is_some()) {
        return Ok(vec![]);
    }
    let fits = matches!(
        record.status,
        VolumeStatus::Available | VolumeStatus::Error | VolumeStatus::ErrorDeleting | VolumeStatus::ErrorExtending
    );
    let busy = |status: SnapshotStatus| matches!(status, SnapshotStatus::Creating | SnapshotStatus::Deleting);
    if cascade && record.snapshots.values().any(|snapshot| busy(snapshot.status)) {
        // The message resembles Cinder's message about one snapshot. A snapshot in `error_deleting` can be deleted,
        // too.
        let words = "Snapshot status must be available or error to be deleted with its volume.";
        return Err(invalid(words));
    }
    let held = !record.attachments.is_empty() || (!record.snapshots.is_empty() && !cascade);
    // The message is Cinder's, and clients may match it. It names conditions that no volume here has: migrations,
    // groups, transfers, and the states `error_restoring` and `error_managing`.
    if held || !(fits || force) {
        let status = match force {
            true => "must not be migrating".to_owned(),
            false => "status must be available or error or error_restoring or error_extending or error_managing and \
                      must not be migrating"
                .to_owned(),
        };
        return Err(invalid(format!(
            "Volume {status}, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from \
             snapshots after volume transfer."
        )));
    }
    Ok(vec![VolumeDeleteRequested { volume: record.created.volume, process, cancels: record.ongoing }.into()])
}
