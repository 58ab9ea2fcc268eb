//! Tests images of servers, rebuild, rescue, shelve, and changes of passwords.

use chronova_events::ids::ImageId;
use chronova_events::instance::{Alive, RebuildRequested, Rotation, UnshelveRequested, WorkStage};

use super::*;
use crate::instance::{WorkOutcome, WorkRecord, WorkRequest};

const WORK: ProcessId = ProcessId(Uuid::from_u128(11));
const IMAGE: ImageId = ImageId(Uuid::from_u128(12));

fn command(request: WorkRequest) -> Command {
    Request::from(request).into()
}

fn told(record: WorkRecord) -> Command {
    Record::from(record).into()
}

fn rebuild_request() -> RebuildRequested {
    let sample = samples().into_iter().find_map(|event| match event {
        InstanceEvent::RebuildRequested(request) => Some(request),
        _ => None,
    });
    RebuildRequested { process: WORK, ..sample.unwrap() }
}

fn asks(asker: CallerRights) -> Vec<(&'static str, Command)> {
    let (process, image) = (WORK, IMAGE);
    let rescue = request().image.as_deref().cloned().unwrap();
    let backup = Some(Rotation { kind: "daily".into(), keep: 1 });
    let unshelve = UnshelveRequested { process, availability_zone: None, host: None };
    vec![
        ("createImage", command(WorkRequest::Snapshot { process, image, backup: None, asker })),
        ("createBackup", command(WorkRequest::Snapshot { process, image, backup, asker })),
        ("rebuild", command(WorkRequest::Rebuild { request: Box::new(rebuild_request()), files: None, asker })),
        ("rescue", command(WorkRequest::Rescue { process, image: rescue, asker })),
        ("unrescue", command(WorkRequest::Unrescue { process, asker })),
        ("shelve", command(WorkRequest::Shelve { process, image: Some(image), asker })),
        ("shelveOffload", command(WorkRequest::Offload { process, asker })),
        ("unshelve", command(WorkRequest::Unshelve { request: unshelve, asker })),
        ("changePassword", command(WorkRequest::ChangePassword { process, asker })),
    ]
}

/// The results that the process at work may record.
fn ends(server: &Alive) -> Vec<WorkOutcome> {
    let fault = fault();
    match server.ongoing {
        Some(OngoingTask::Snapshot { image, .. }) => {
            vec![WorkOutcome::SnapshotTaken { image }, WorkOutcome::SnapshotFailed { image, fault }]
        }
        Some(OngoingTask::Rebuild { .. }) => vec![WorkOutcome::Rebuilt, WorkOutcome::RebuildFailed(fault)],
        Some(OngoingTask::Rescue { .. }) => vec![WorkOutcome::Rescued, WorkOutcome::RescueFailed(fault)],
        Some(OngoingTask::Unrescue { .. }) => vec![WorkOutcome::Unrescued, WorkOutcome::UnrescueFailed(fault)],
        Some(OngoingTask::Shelve { .. }) => {
            vec![WorkOutcome::Shelved { image: IMAGE }, WorkOutcome::ShelveFailed(fault)]
        }
        Some(OngoingTask::Offload { .. }) => vec![WorkOutcome::Offloaded],
        Some(OngoingTask::Unshelve { .. }) => {
            vec![WorkOutcome::Unshelved { root: None }, WorkOutcome::UnshelveFailed(fault)]
        }
        Some(OngoingTask::ChangePassword { .. }) => {
            vec![WorkOutcome::PasswordChanged, WorkOutcome::PasswordChangeFailed(fault)]
        }
        _ => vec![],
    }
}

/// All requests, and all results of the tasks under way.
pub(super) fn commands(state: &Instance) -> Vec<Command> {
    let mut all: Vec<Command> = asks(USER).into_iter().map(|(_, command)| command).collect();
    let ends = state.alive().map(ends).unwrap_or_default();
    all.extend(ends.into_iter().map(|end| told(WorkRecord::Ended { process: WORK, end })));
    all
}

fn asked(name: &str) -> Command {
    asks(USER).into_iter().find(|(known, _)| *known == name).unwrap().1
}

fn ended(end: WorkOutcome) -> Command {
    told(WorkRecord::Ended { process: WORK, end })
}

pub(super) fn shelved() -> Given {
    active().and(asked("shelve")).and(ended(WorkOutcome::Shelved { image: IMAGE }))
}

pub(super) fn offloaded() -> Given {
    shelved().and(asked("shelveOffload")).and(ended(WorkOutcome::Offloaded))
}

fn shown(given: &Given) -> (&'static str, Option<&'static str>) {
    let status = status::of(&given.0).unwrap();
    (status.vm_state, status.task_state)
}

#[test]
fn a_locked_server_allows_only_images_and_backups() {
    let given = active().and(lock(true));
    for (name, command) in asks(USER) {
        match name {
            "createImage" | "createBackup" => assert!(given.when(command).is_ok(), "{name}"),
            _ => assert_eq!(given.when(command), Err(Reject::Locked), "{name}"),
        }
    }
    for (name, command) in asks(ADMIN) {
        let locked = given.when(command) == Err(Reject::Locked);
        assert!(!locked, "{name}");
    }
}

#[test]
fn a_task_records_its_stages_and_ends_once() {
    let given = active().and(asked("createImage"));
    assert_eq!(shown(&given), ("active", Some("image_snapshot_pending")));
    let advance = |stage| told(WorkRecord::Advanced { process: WORK, stage });
    let given = given.and(advance(WorkStage::PendingUpload));
    assert_eq!(shown(&given), ("active", Some("image_pending_upload")));
    assert_eq!(given.when(advance(WorkStage::PendingUpload)), Ok(vec![]), "a repeated record is harmless");
    let given = given.and(advance(WorkStage::Uploading));
    assert_eq!(shown(&given), ("active", Some("image_uploading")));
    let stranger = told(WorkRecord::Ended { process: STRANGER, end: WorkOutcome::SnapshotTaken { image: IMAGE } });
    assert_eq!(given.when(stranger), Ok(vec![]));
    let taken = ended(WorkOutcome::SnapshotTaken { image: IMAGE });
    let given = given.and(taken.clone());
    assert_eq!(shown(&given), ("active", None));
    assert_eq!(given.when(taken), Ok(vec![]));
}

#[test]
fn a_rebuild_keeps_the_power_state() {
    let given = stopped().and(asked("rebuild"));
    let wanted = rebuild_request();
    let server = given.0.alive().unwrap().clone();
    assert_eq!((&server.request.name, &server.request.metadata), (&wanted.name, &wanted.metadata));
    assert_eq!(status::of(&given.0).unwrap().status, "REBUILD");
    assert_eq!(shown(&given.clone().and(ended(WorkOutcome::Rebuilt))), ("stopped", None));
    assert_eq!(shown(&given.and(ended(WorkOutcome::RebuildFailed(fault())))), ("error", None));
    assert_eq!(shown(&active().and(asked("rebuild")).and(ended(WorkOutcome::Rebuilt))), ("active", None));
}

#[test]
fn a_failed_rescue_leaves_the_server_unchanged() {
    let given = active().and(asked("rescue"));
    assert!(given.0.alive().unwrap().rescue.is_some());
    let failed = given.clone().and(ended(WorkOutcome::RescueFailed(fault())));
    assert_eq!(shown(&failed), ("active", None));
    assert!(failed.0.alive().unwrap().rescue.is_none());
    let rescued = given.and(ended(WorkOutcome::Rescued));
    assert_eq!(status::of(&rescued.0).unwrap().status, "RESCUE");
    assert_eq!(shown(&rescued.and(asked("unrescue")).and(ended(WorkOutcome::Unrescued))), ("active", None));
}

#[test]
fn a_shelved_server_leaves_its_host_and_finds_another() {
    let given = shelved();
    assert_eq!(shown(&given), ("shelved", None));
    let due = |by| command(WorkRequest::OffloadDue { process: WORK, shelved_by: by });
    assert_eq!(given.when(due(Some(Timestamp(6)))), Ok(vec![]), "the server is not due yet");
    assert_eq!(given.when(due(Some(Timestamp(7)))), Ok(vec!["instance.offload_requested"]));
    assert_eq!(active().when(due(None)), Ok(vec![]), "only a shelved server is offloaded");
    let given = offloaded();
    let server = given.0.alive().unwrap();
    assert!(server.placement.is_none() && server.shelved == Some(IMAGE));
    assert_eq!(shown(&given), ("shelved_offloaded", None));
    // Only the process that unshelves the server may choose a host.
    let there = |process| Record::Placed(chronova_events::instance::Placed { process, ..placed() });
    assert_eq!(given.when(there(WORK)), Err(Reject::Superseded));
    let given = given.and(asked("unshelve"));
    assert_eq!(given.when(there(STRANGER)), Err(Reject::Superseded));
    let given = given.and(there(WORK));
    assert_eq!(given.when(seen(Power::Running)), Ok(vec![]), "reports do not override the process at work");
    let unplaced = Record::Unplaced { process: WORK, host: HOST, reason: String::new() };
    let back = given.clone().and(unplaced).and(ended(WorkOutcome::UnshelveFailed(fault())));
    assert_eq!(shown(&back), ("shelved_offloaded", None));
    let image = request().image.as_deref().cloned();
    let given = given.and(ended(WorkOutcome::Unshelved { root: image.clone() }));
    let server = given.0.alive().unwrap();
    assert_eq!((server.root.as_deref().cloned(), server.shelved), (image, None));
    assert_eq!(shown(&given), ("active", None));
}

#[test]
fn a_server_without_a_host_is_deleted_for_good() {
    assert_eq!(offloaded().when(soft_delete()), Ok(vec!["instance.delete_requested"]));
    assert_eq!(shelved().when(soft_delete()), Ok(vec!["instance.soft_delete_requested"]));
}
