//! Tests of the form: given these events, a command leads to these events or this refusal.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{
    AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, UserId, VolumeId,
};
use chronova_events::instance::FaultInfo;
use chronova_events::volume::{
    AttachMode, Volume, VolumeCreated, VolumeEvent, VolumeImage, VolumeRecord, VolumeSnapshotRequested, VolumeSource,
    VolumeStatus,
};
use chronova_events::volume_type::DEFAULT_TYPE;
use uuid::Uuid;

use super::decide::{decide, no_image};
use super::{NewAttachment, VolumeCommand, VolumeDescriptionChange, VolumeMetadataChange, VolumeReject};

const ID: VolumeId = VolumeId(Uuid::from_u128(1));
const MAKER: ProcessId = ProcessId(Uuid::from_u128(2));
const OTHER: ProcessId = ProcessId(Uuid::from_u128(3));
const HOST: HostId = HostId(Uuid::from_u128(4));
const FIRST: AttachmentId = AttachmentId(Uuid::from_u128(5));
const SECOND: AttachmentId = AttachmentId(Uuid::from_u128(6));
const SNAPSHOT: SnapshotId = SnapshotId(Uuid::from_u128(7));

fn created(multiattach: bool) -> VolumeCommand {
    VolumeCommand::Create(Box::new(VolumeCreated {
        volume: ID,
        process: MAKER,
        project: ProjectId::new("p"),
        user: UserId::new("u"),
        name: "v".into(),
        description: None,
        size_gb: 2,
        source: VolumeSource::Blank,
        volume_type: DEFAULT_TYPE,
        multiattach,
        availability_zone: "nova".into(),
        metadata: vec![("b".into(), "2".into()), ("a".into(), "1".into())],
        bootable: false,
        image: None,
        host: None,
    }))
}

fn ready() -> VolumeCommand {
    VolumeCommand::RecordReady { process: MAKER, host: HOST, hostname: "h1".into(), format: "raw".into() }
}

fn reserve(attachment: AttachmentId, server: u128) -> VolumeCommand {
    let instance = Some(InstanceId(Uuid::from_u128(server)));
    VolumeCommand::Reserve { attachment, instance, mode: AttachMode::ReadWrite }
}

fn connect(attachment: AttachmentId, host: &str) -> VolumeCommand {
    let (host, device) = (host.to_owned(), Some("/dev/vdb".to_owned()));
    VolumeCommand::Connect { attachment, host, device, mode: AttachMode::ReadWrite, shared: false }
}

fn snapshot(force: bool) -> VolumeCommand {
    let asked = VolumeSnapshotRequested {
        volume: ID,
        snapshot: SNAPSHOT,
        process: OTHER,
        project: ProjectId::new("p"),
        user: UserId::new("u"),
        name: "s".into(),
        description: None,
        metadata: vec![],
    };
    VolumeCommand::Snapshot { asked, force, is_admin: false }
}

fn given(commands: impl IntoIterator<Item = VolumeCommand>) -> Volume {
    let mut state = Volume::default();
    for command in commands {
        for event in decide(&state, command).expect("given") {
            state.evolve(&event, Timestamp(1));
        }
    }
    state
}

fn available(more: impl IntoIterator<Item = VolumeCommand>) -> Volume {
    given([created(false), ready()].into_iter().chain(more))
}

fn in_use() -> Volume {
    available([reserve(FIRST, 1), connect(FIRST, "h1"), VolumeCommand::Complete { attachment: FIRST }])
}

fn record(state: &Volume) -> &VolumeRecord {
    state.here().unwrap()
}

fn refused(result: Result<Vec<VolumeEvent>, VolumeReject>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn attachments_of_a_volume_are_limited() {
    let attachment = |number: u128| AttachmentId(Uuid::from_u128(0x1000 + number));
    let full = available((0..128).map(|number| reserve(attachment(number), 1)));
    assert_eq!(record(&full).attachments.len(), 128);
    assert!(refused(decide(&full, reserve(attachment(128), 1))).contains("has 128 attachments"));
}

#[test]
fn the_names_in_an_attachment_are_short() {
    let state = available([reserve(FIRST, 1)]);
    let at = |host: usize, device: usize| VolumeCommand::Connect {
        attachment: FIRST,
        host: "h".repeat(host),
        device: Some("d".repeat(device)),
        mode: AttachMode::ReadWrite,
        shared: true,
    };
    assert!(decide(&state, at(255, 255)).is_ok());
    assert!(refused(decide(&state, at(256, 1))).contains("the host has more than 255 characters"));
    assert!(refused(decide(&state, at(1, 256))).contains("the mountpoint has more than 255 characters"));
    let new = NewAttachment {
        attachment: SECOND,
        instance: None,
        reserved_mode: AttachMode::ReadWrite,
        host: String::new(),
        device: Some("d".repeat(256)),
        mode: AttachMode::ReadWrite,
        shared: true,
    };
    assert!(refused(decide(&available([]), VolumeCommand::RecordAttached(Box::new(new)))).contains("mountpoint"));
}

#[test]
fn image_metadata_is_bounded_in_bytes() {
    let set = |key: &str, length: usize| {
        let pairs = vec![(key.to_owned(), "v".repeat(length))];
        VolumeCommand::ChangeImageMetadata(VolumeMetadataChange::Merge(pairs))
    };
    let state = available([set("a", 40_000)]);
    assert!(refused(decide(&state, set("b", 40_000))).contains("at most 65536 bytes"));
    assert!(decide(&state, set("b", 20_000)).is_ok());
    assert!(decide(&state, set("a", 1)).is_ok());
}

#[test]
fn a_volume_is_attached_and_detached() {
    let states = [
        (available([]), VolumeStatus::Available),
        (available([reserve(FIRST, 1)]), VolumeStatus::Reserved),
        (available([reserve(FIRST, 1), connect(FIRST, "h1")]), VolumeStatus::Attaching),
        (in_use(), VolumeStatus::InUse),
    ];
    for (state, wanted) in states {
        assert_eq!(record(&state).status, wanted);
    }
    let mut state = in_use();
    for (command, wanted) in [
        (VolumeCommand::BeginDetaching, VolumeStatus::Detaching),
        (VolumeCommand::RollDetaching, VolumeStatus::InUse),
        (VolumeCommand::BeginDetaching, VolumeStatus::Detaching),
        (VolumeCommand::Release { attachment: FIRST }, VolumeStatus::Available),
    ] {
        for event in decide(&state, command).unwrap() {
            state.evolve(&event, Timestamp(2));
        }
        assert_eq!(record(&state).status, wanted);
    }
    assert_eq!(
        decide(&state, VolumeCommand::Release { attachment: FIRST }),
        Ok(vec![]),
        "a second release records nothing"
    );
}

#[test]
fn the_steps_that_attach_may_be_repeated() {
    let state = in_use();
    for command in [reserve(FIRST, 1), connect(FIRST, "h1"), VolumeCommand::Complete { attachment: FIRST }] {
        assert_eq!(decide(&state, command.clone()), Ok(vec![]), "{command:?}");
    }
}

#[test]
fn only_a_multiattach_volume_has_several_servers() {
    let words = format!("Invalid volume: Volume {ID} status must be available or downloading");
    assert_eq!(refused(decide(&in_use(), reserve(SECOND, 2))), words);
    assert!(decide(&in_use(), reserve(SECOND, 1)).is_ok(), "a server may get a second attachment");
    let shared = given([
        created(true),
        ready(),
        reserve(FIRST, 1),
        connect(FIRST, "h1"),
        VolumeCommand::Complete { attachment: FIRST },
        reserve(SECOND, 2),
        connect(SECOND, "h1"),
        VolumeCommand::Complete { attachment: SECOND },
        VolumeCommand::Release { attachment: FIRST },
    ]);
    assert_eq!(record(&shared).status, VolumeStatus::InUse, "a volume with one attachment left is in use");
}

#[test]
fn only_the_volumes_own_host_reaches_it() {
    let state = available([reserve(FIRST, 1)]);
    let reject = decide(&state, connect(FIRST, "h2")).unwrap_err();
    assert!(matches!(reject, VolumeReject::OutOfReach { .. }), "{reject}");
    let VolumeCommand::Connect { attachment, host, device, mode, .. } = connect(FIRST, "h2") else { unreachable!() };
    assert!(decide(&state, VolumeCommand::Connect { attachment, host, device, mode, shared: true }).is_ok());
}

#[test]
fn a_volume_is_reserved_and_connected_in_one_append_or_not_at_all() {
    let attach = |host: &str| {
        let VolumeCommand::Reserve { attachment, instance, mode } = reserve(FIRST, 1) else { unreachable!() };
        let (reserved_mode, host) = (mode, host.to_owned());
        let new = NewAttachment { attachment, instance, reserved_mode, host, device: None, mode, shared: false };
        VolumeCommand::ReserveAndConnect(Box::new(new))
    };
    let both = decide(&available([]), attach("h1")).unwrap();
    assert!(matches!(both[..], [VolumeEvent::AttachmentReserved(_), VolumeEvent::AttachmentConnected(_)]), "{both:?}");
    assert_eq!(record(&available([attach("h1")])).status, VolumeStatus::Attaching);
    let reject = decide(&available([]), attach("h2")).unwrap_err();
    assert!(matches!(reject, VolumeReject::OutOfReach { .. }), "{reject}");
}

#[test]
fn a_client_s_attachment_is_recorded_in_one_append_or_not_at_all() {
    let VolumeCommand::Reserve { attachment, instance, mode } = reserve(SECOND, 2) else { unreachable!() };
    let attached = || {
        let (reserved_mode, host) = (mode, "h2".to_owned());
        let new = NewAttachment { attachment, instance, reserved_mode, host, device: None, mode, shared: true };
        VolumeCommand::RecordAttached(Box::new(new))
    };
    let kept = available([VolumeCommand::Keep]);
    assert_eq!(record(&kept).status, VolumeStatus::Reserved);
    let all = decide(&kept, attached()).unwrap();
    assert!(
        matches!(
            all[..],
            [
                VolumeEvent::StatusChanged(_),
                VolumeEvent::AttachmentReserved(_),
                VolumeEvent::AttachmentConnected(_),
                VolumeEvent::AttachmentCompleted(_)
            ]
        ),
        "{all:?}"
    );
    assert_eq!(record(&available([VolumeCommand::Keep, attached()])).status, VolumeStatus::InUse);
    // A reservation for another server does not change.
    let taken = available([reserve(FIRST, 1)]);
    assert!(refused(decide(&taken, attached())).contains("status must be available"));
}

#[test]
fn a_volume_in_use_is_not_deleted() {
    let delete = |force, cascade| VolumeCommand::Delete { process: OTHER, force, cascade };
    for state in [in_use(), available([snapshot(false)]), given([created(false)])] {
        assert!(refused(decide(&state, delete(false, false))).starts_with("Invalid volume: Volume status must be"));
    }
    assert!(decide(&available([]), delete(false, false)).is_ok());
    let making = decide(&given([created(false)]), delete(true, false)).unwrap();
    assert!(matches!(&making[..], [VolumeEvent::VolumeDeleteRequested(asked)] if asked.cancels == Some(MAKER)));
    let ready = VolumeCommand::RecordSnapshotReady { snapshot: SNAPSHOT, process: OTHER };
    let state = available([snapshot(false), ready]);
    assert!(decide(&state, delete(true, false)).is_err(), "force deletes no snapshots");
    assert!(decide(&state, delete(false, true)).is_ok(), "a cascade deletes the snapshots");
}

#[test]
fn snapshots_of_a_volume_in_use_need_force() {
    let words = format!("Invalid volume: Volume {ID} status must be available, but current status is: in-use.");
    assert_eq!(refused(decide(&in_use(), snapshot(false))), words);
    assert!(decide(&in_use(), snapshot(true)).is_ok());
}

#[test]
fn another_projects_volume_cannot_be_copied() {
    let VolumeCommand::Snapshot { mut asked, force, .. } = snapshot(true) else { unreachable!() };
    asked.project = ProjectId::new("another");
    let by = |is_admin| VolumeCommand::Snapshot { asked: asked.clone(), force, is_admin };
    assert_eq!(decide(&available([]), by(false)), Err(VolumeReject::NotFound));
    assert!(decide(&available([]), by(true)).is_ok());
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let extend = |size_gb, attached| VolumeCommand::Extend { process: OTHER, size_gb, attached };
    assert_eq!(
        refused(decide(&available([]), extend(2, false))),
        "Invalid input received: New size for extend must be greater than current size. (current: 2, extended: 2)."
    );
    assert!(decide(&in_use(), extend(3, false)).is_err());
    let mut state = in_use();
    for command in [extend(3, true), VolumeCommand::RecordExtended { process: OTHER, size_gb: 3 }] {
        for event in decide(&state, command).unwrap() {
            state.evolve(&event, Timestamp(2));
        }
    }
    assert_eq!((record(&state).size_gb, record(&state).status), (3, VolumeStatus::InUse));
}

/// A volume whose server released it during an upload has the status `available`, but the upload still reads it.
#[test]
fn an_operation_under_way_refuses_another_one_in_its_own_words() {
    let upload = |process| VolumeCommand::Upload { process, image: ImageId(Uuid::from_u128(8)), force: true };
    let mut state = in_use();
    for command in [upload(OTHER), VolumeCommand::Release { attachment: FIRST }] {
        for event in decide(&state, command).unwrap() {
            state.evolve(&event, Timestamp(2));
        }
    }
    assert_eq!((record(&state).status, record(&state).ongoing), (VolumeStatus::Available, Some(OTHER)));
    let process = ProcessId(Uuid::from_u128(9));
    let image = Box::new(VolumeImage { snapshot: no_image(), extra: vec![] });
    for (command, done) in [
        (VolumeCommand::Extend { process, size_gb: 3, attached: false }, "extended"),
        (upload(process), "uploaded"),
        (VolumeCommand::Reimage { process, image }, "re-imaged"),
    ] {
        let words = format!("Invalid volume: Volume {ID} cannot be {done} while another operation works on it.");
        assert_eq!(refused(decide(&state, command)), words);
    }
}

#[test]
fn a_volume_with_several_attachments_is_neither_extended_nor_re_imaged() {
    let complete = |attachment| VolumeCommand::Complete { attachment };
    let first = [created(true), ready(), reserve(FIRST, 1), connect(FIRST, "h1"), complete(FIRST)];
    let second = [reserve(SECOND, 2), connect(SECOND, "h1"), complete(SECOND)];
    let state = given(first.into_iter().chain(second));
    assert_eq!((record(&state).status, record(&state).attachments.len()), (VolumeStatus::InUse, 2));
    let image = Box::new(VolumeImage { snapshot: no_image(), extra: vec![] });
    let words = format!("Invalid volume: Volume {ID} has more than one attachment.");
    for command in [
        VolumeCommand::Extend { process: OTHER, size_gb: 3, attached: true },
        VolumeCommand::Reimage { process: OTHER, image },
    ] {
        assert_eq!(refused(decide(&state, command)), words);
    }
}

#[test]
fn a_repeated_record_of_readiness_is_harmless() {
    assert_eq!(decide(&in_use(), ready()), Ok(vec![]), "a refusal would make the process delete the content");
}

#[test]
fn another_process_cannot_record_that_a_volume_is_ready() {
    let late = VolumeCommand::RecordReady { process: OTHER, host: HOST, hostname: "h2".into(), format: "raw".into() };
    assert_eq!(decide(&given([created(false)]), late), Err(VolumeReject::Superseded));
}

#[test]
fn a_failed_reimage_is_not_repeated_by_its_process() {
    let image = VolumeImage { snapshot: no_image(), extra: vec![] };
    let write = || VolumeCommand::Reimage { process: OTHER, image: Box::new(image.clone()) };
    let fault = FaultInfo { code: 500, message: "torn".into(), details: String::new() };
    for ended in
        [VolumeCommand::RecordFailed { process: OTHER, fault }, VolumeCommand::RecordReimaged { process: OTHER }]
    {
        let state = available([write(), ended]);
        assert_eq!(record(&state).ongoing, None);
        assert_eq!(decide(&state, write()), Ok(vec![]), "the process has ended and cannot run again");
    }
}

/// A server may be deleted while its volume is extended, uploaded or written.
#[test]
fn a_volume_that_is_released_during_an_operation_is_available_afterwards() {
    let image = VolumeImage { snapshot: no_image(), extra: vec![] };
    let operations = [
        (
            VolumeCommand::Extend { process: OTHER, size_gb: 3, attached: true },
            VolumeCommand::RecordExtended { process: OTHER, size_gb: 3 },
        ),
        (
            VolumeCommand::Upload { process: OTHER, image: ImageId(Uuid::from_u128(8)), force: true },
            VolumeCommand::RecordUploaded { process: OTHER },
        ),
        (
            VolumeCommand::Reimage { process: OTHER, image: Box::new(image) },
            VolumeCommand::RecordReimaged { process: OTHER },
        ),
    ];
    for (request, end) in operations {
        let mut state = in_use();
        for command in [request, VolumeCommand::Release { attachment: FIRST }] {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(2));
            }
        }
        assert!(
            refused(decide(&state, reserve(SECOND, 2))).contains("status must be available"),
            "another server got a volume whose content still changes"
        );
        for event in decide(&state, end.clone()).unwrap() {
            state.evolve(&event, Timestamp(3));
        }
        assert_eq!((record(&state).status, record(&state).ongoing), (VolumeStatus::Available, None), "{end:?}");
        assert!(decide(&state, reserve(SECOND, 2)).is_ok());
    }
}

#[test]
fn a_volume_in_error_can_move_with_its_server() {
    let failed = VolumeCommand::RecordFailed {
        process: OTHER,
        fault: FaultInfo { code: 500, message: "torn".into(), details: String::new() },
    };
    let image = Box::new(VolumeImage { snapshot: no_image(), extra: vec![] });
    let mut state = in_use();
    let write = VolumeCommand::Reimage { process: OTHER, image };
    for command in [
        write,
        failed,
        reserve(SECOND, 1),
        connect(SECOND, "h1"),
        VolumeCommand::Complete { attachment: SECOND },
        VolumeCommand::Release { attachment: FIRST },
    ] {
        for event in decide(&state, command).unwrap() {
            state.evolve(&event, Timestamp(2));
        }
    }
    assert_eq!((record(&state).status, record(&state).attachments.len()), (VolumeStatus::Error, 1));
    let other = decide(&state, reserve(FIRST, 2));
    assert_eq!(
        refused(other),
        "Invalid volume: Volume 00000000-0000-0000-0000-000000000001 status must be available or downloading"
    );
}

#[test]
fn metadata_is_merged_sorted_and_bounded() {
    let state = available([]);
    assert_eq!(record(&state).metadata[0].0, "a");
    let change = |change| {
        VolumeCommand::Describe(VolumeDescriptionChange {
            metadata: Some(change),
            ..VolumeDescriptionChange::default()
        })
    };
    let missing = decide(&state, change(VolumeMetadataChange::Remove("c".into())));
    assert_eq!(missing, Err(VolumeReject::NoMetadata(ID, "c".into())));
    let many = (0..200).map(|n| (n.to_string(), String::new())).collect();
    assert!(matches!(decide(&state, change(VolumeMetadataChange::Merge(many))), Err(VolumeReject::TooManyPairs(202))));
    assert_eq!(decide(&state, change(VolumeMetadataChange::Merge(vec![("a".into(), "1".into())]))), Ok(vec![]));
}
