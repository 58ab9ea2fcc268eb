//! The decisions on a volume's attachments.

use std::borrow::Cow;

use chronova_events::ids::{AttachmentId, InstanceId};
use chronova_events::volume::{
    AttachMode, Attachment, AttachmentCompleted, AttachmentConnected, AttachmentReleased, AttachmentReserved,
    StatusChanged, VolumeEvent, VolumeRecord, VolumeStatus,
};

use super::decide::{VolumeDecision, invalid};
use super::{NewAttachment, VolumeCommand, VolumeReject};

pub(super) fn decide(record: &VolumeRecord, command: VolumeCommand) -> VolumeDecision {
    let volume = record.created.volume;
    let known = |id: AttachmentId| record.attachments.get(&id).ok_or(VolumeReject::NoAttachment(id));
    let goes = |status| Ok(vec![StatusChanged { volume, status }.into()]);
    match command {
        VolumeCommand::Reserve { attachment, instance, mode } => reserve(record, attachment, instance, mode),
        VolumeCommand::ReserveAndConnect(new) => reserve_and_connect(record, *new),
        VolumeCommand::RecordAttached(new) => {
            let attachment = new.attachment;
            let (mut events, record) = let_go(record);
            events.extend(reserve_and_connect(&record, *new)?);
            events.push(AttachmentCompleted { volume, attachment }.into());
            Ok(events)
        }
        VolumeCommand::Connect { attachment, host, device, mode, shared } => {
            let now = known(attachment)?;
            reachable(record, &host, shared)?;
            check_lengths(&host, device.as_deref())?;
            if is_connected(now, &host, device.as_ref(), mode) {
                return Ok(vec![]);
            }
            Ok(vec![AttachmentConnected { volume, attachment, host, device, mode }.into()])
        }
        VolumeCommand::Complete { attachment } => match known(attachment)? {
            // An attachment that was completed while its server had no host can be completed again after a host is
            // connected.
            now if now.complete && record.status != VolumeStatus::Attaching => Ok(vec![]),
            _ => Ok(vec![AttachmentCompleted { volume, attachment }.into()]),
        },
        // The command succeeds if the attachment is already gone.
        VolumeCommand::Release { attachment } if !record.attachments.contains_key(&attachment) => Ok(vec![]),
        VolumeCommand::Release { attachment } => Ok(vec![AttachmentReleased { volume, attachment }.into()]),
        VolumeCommand::Keep => match record.status {
            VolumeStatus::Available => goes(VolumeStatus::Reserved),
            VolumeStatus::InUse if record.created.multiattach => goes(VolumeStatus::Reserved),
            now => Err(invalid(format!(
                "Volume {volume} status must be available to reserve, but the current status is {}.",
                now.as_str()
            ))),
        },
        VolumeCommand::LetGo => Ok(let_go(record).0),
        VolumeCommand::BeginDetaching => match record.status {
            VolumeStatus::InUse => goes(VolumeStatus::Detaching),
            _ => Err(invalid(
                "Unable to detach volume. Volume status must be 'in-use' and attach_status must be 'attached' to detach.",
            )),
        },
        VolumeCommand::RollDetaching => match record.status {
            VolumeStatus::Detaching => goes(VolumeStatus::InUse),
            _ => Ok(vec![]),
        },
        _ => Ok(vec![]),
    }
}

/// Ends a reservation that has no attachment. Returns the event, if there was such a reservation, and the volume
/// afterwards.
fn let_go(record: &VolumeRecord) -> (Vec<VolumeEvent>, Cow<'_, VolumeRecord>) {
    if record.status != VolumeStatus::Reserved {
        return (vec![], Cow::Borrowed(record));
    }
    let (volume, status) = (record.created.volume, record.status_of_attachments());
    (vec![StatusChanged { volume, status }.into()], Cow::Owned(VolumeRecord { status, ..record.clone() }))
}

fn reserve_and_connect(record: &VolumeRecord, new: NewAttachment) -> VolumeDecision {
    let volume = record.created.volume;
    let NewAttachment { attachment, instance, reserved_mode, host, device, mode, shared } = new;
    let mut events = reserve(record, attachment, instance, reserved_mode)?;
    reachable(record, &host, shared)?;
    check_lengths(&host, device.as_deref())?;
    events.push(AttachmentConnected { volume, attachment, host, device, mode }.into());
    Ok(events)
}

/// The most attachments of a volume. Each takes memory in the volume's state, its state snapshots and the read models.
const MAX_ATTACHMENTS: usize = 128;

/// Reserves the volume for a server. A multiattach volume can be reserved while it is in use. If only one server has
/// the volume, that server can get a second attachment, because it may be about to move.
fn reserve(
    record: &VolumeRecord,
    attachment: AttachmentId,
    instance: Option<InstanceId>,
    mode: AttachMode,
) -> VolumeDecision {
    let volume = record.created.volume;
    if record.attachments.contains_key(&attachment) {
        return Ok(vec![]);
    }
    let (fits, words) = match record.created.multiattach {
        true => (
            matches!(record.status, VolumeStatus::Available | VolumeStatus::InUse),
            "available or in-use or downloading",
        ),
        false => (record.status == VolumeStatus::Available, "available or downloading"),
    };
    // A volume whose server released it during an operation has the status `available`, but the operation still reads
    // or changes the content.
    let fits = fits && record.ongoing.is_none();
    let states = [VolumeStatus::Reserved, VolumeStatus::Attaching, VolumeStatus::InUse];
    // A volume in error can be reserved again by its own server, so that the server can leave its host.
    let in_error = record.status == VolumeStatus::Error && !record.attachments.is_empty();
    let same = instance.is_some()
        && (in_error || states.contains(&record.status))
        && record.attachments.values().all(|other| other.instance == instance);
    if !(fits || same) {
        return Err(invalid(format!("Volume {volume} status must be {words}")));
    }
    if record.attachments.len() >= MAX_ATTACHMENTS {
        return Err(invalid(format!("Volume {volume} has {MAX_ATTACHMENTS} attachments: delete one of them first")));
    }
    Ok(vec![AttachmentReserved { volume, attachment, instance, mode }.into()])
}

/// The longest names of a host and of a device, as in Cinder. The volume's state keeps them.
const LONGEST_NAME: usize = 255;

fn check_lengths(host: &str, device: Option<&str>) -> Result<(), VolumeReject> {
    let too_long = |text: &str| text.chars().count() > LONGEST_NAME;
    let sent = [("host", Some(host)), ("mountpoint", device)];
    match sent.into_iter().find(|(_, text)| text.is_some_and(too_long)) {
        Some((what, _)) => {
            Err(VolumeReject::InvalidInput(format!("the {what} has more than {LONGEST_NAME} characters")))
        }
        None => Ok(()),
    }
}

fn reachable(record: &VolumeRecord, host: &str, shared: bool) -> Result<(), VolumeReject> {
    match &record.place {
        Some((_, on)) if !shared && on != host && !host.is_empty() => {
            Err(VolumeReject::OutOfReach { volume: record.created.volume, on: on.clone(), from: host.to_owned() })
        }
        _ => Ok(()),
    }
}

fn is_connected(now: &Attachment, host: &str, device: Option<&String>, mode: AttachMode) -> bool {
    now.host.as_deref() == Some(host) && now.device.as_ref() == device && now.mode == mode
}
