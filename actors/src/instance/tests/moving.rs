//! Tests when a move may be requested, its stages, and that it ends exactly once.

use super::*;
use crate::instance::unsupported::{HostBoundHardware, tied_by_devices};
use crate::instance::{EvacuationRequest, LiveRequest, MoveRecord, MoveRequest, WorkOutcome, WorkRecord, WorkRequest};
use crate::mdev::MdevOptions;
use chronova_events::ids::ImageId;
use chronova_events::instance::{FlavorSnapshot, ImageSnapshot, MoveStage, RebuildRequested, Scheduled, WorkStage};

const MOVE: ProcessId = ProcessId(Uuid::from_u128(20));
const END: ProcessId = ProcessId(Uuid::from_u128(21));

fn moving(request: impl Into<Request>) -> Command {
    request.into().into()
}

fn told(record: MoveRecord) -> Command {
    Record::from(record).into()
}

fn larger() -> FlavorSnapshot {
    let flavor = FlavorSnapshot::clone(&request().flavor);
    FlavorSnapshot { id: "9".into(), vcpus: flavor.vcpus + 1, ..flavor }
}

fn resize() -> Command {
    moving(MoveRequest::Resize { process: MOVE, flavor: Box::new(larger()), disk_config: None, asker: USER })
}

fn migrate() -> Command {
    moving(MoveRequest::Migrate { process: MOVE, host: None, asker: USER })
}

fn aim() -> Command {
    let target = Placed { process: MOVE, host: ELSEWHERE, hostname: "h2".into(), ..placed() };
    let scheduled = samples().into_iter().find_map(|event| match event {
        InstanceEvent::Scheduled(scheduled) => Some(scheduled),
        _ => None,
    });
    let scheduled = scheduled.unwrap_or_else(|| Scheduled {
        process: MOVE,
        attempt: 1,
        wanted: vec![],
        required: vec![],
        hosts: 1,
        checks: vec![],
        weighed: vec![],
        chosen: Some(ELSEWHERE),
        alternates: vec![],
        lost: vec![],
    });
    told(MoveRecord::Targeted { process: MOVE, target: Some(target), scheduled: Box::new(scheduled) })
}

fn placed_active() -> Given {
    building().and(Record::Placed(placed())).and(Record::Built { process: BUILD })
}

fn moved() -> Given {
    placed_active().and(resize()).and(aim()).and(told(MoveRecord::Arrived { process: MOVE }))
}

fn shown(given: &Given) -> (&'static str, &'static str, Option<&'static str>) {
    let shown = status::of(&given.0).unwrap();
    (shown.status, shown.vm_state, shown.task_state)
}

#[test]
fn each_stage_of_a_resize_shows_and_the_last_has_the_new_flavor() {
    let given = placed_active().and(resize());
    assert_eq!(shown(&given), ("RESIZE", "active", Some("resize_prep")));
    assert_eq!(given.0.alive().unwrap().request.flavor, request().flavor);
    let at = |stage| told(MoveRecord::Advanced { process: MOVE, stage });
    assert_eq!(shown(&given.clone().and(at(MoveStage::Migrating))).2, Some("resize_migrating"));
    assert_eq!(shown(&given.clone().and(at(MoveStage::Migrated))).2, Some("resize_migrated"));
    assert_eq!(shown(&given.and(at(MoveStage::Finishing))).2, Some("resize_finish"));
    let given = moved();
    assert_eq!(shown(&given), ("VERIFY_RESIZE", "resized", None));
    let server = given.0.alive().unwrap();
    assert_eq!(
        (FlavorSnapshot::clone(&server.request.flavor), server.placement.as_ref().unwrap().host),
        (larger(), ELSEWHERE)
    );
    assert!(server.concerns(HOST), "the server still concerns its source");
}

#[test]
fn a_move_is_confirmed_or_reverted_and_never_both() {
    let confirm = moving(MoveRequest::Confirm { process: END, asker: USER });
    let revert = moving(MoveRequest::Revert { process: END, asker: USER });
    let refused = |attribute, value| Err(Reject::NotInState { action: "confirmResize", attribute, value });
    assert_eq!(placed_active().when(confirm.clone()), refused("vm_state", "active"));
    let confirming = moved().and(confirm.clone());
    assert_eq!(shown(&confirming).2, Some("resize_confirming"));
    assert_eq!(confirming.when(confirm.clone()), refused("task_state", "resize_confirming"));
    assert!(confirming.when(revert.clone()).is_err());
    let confirmed = confirming.and(told(MoveRecord::Confirmed { process: END }));
    assert_eq!(shown(&confirmed), ("ACTIVE", "active", None));
    assert!(!confirmed.0.alive().unwrap().concerns(HOST));

    let reverting = moved().and(revert);
    assert_eq!(shown(&reverting), ("REVERT_RESIZE", "resized", Some("resize_reverting")));
    assert!(reverting.when(confirm).is_err());
    let reverted = reverting.and(told(MoveRecord::Reverted { process: END }));
    assert_eq!(shown(&reverted), ("ACTIVE", "active", None));
    let server = reverted.0.alive().unwrap();
    assert_eq!((server.request.flavor.clone(), server.placement.as_ref().unwrap().host), (request().flavor, HOST));
}

#[test]
fn a_failed_move_leaves_the_server_unchanged() {
    for (given, status) in [(placed_active(), "ACTIVE"), (placed_active().and(seen(Power::Shutdown)), "SHUTOFF")] {
        let failing = given.and(migrate()).and(aim()).and(seen(Power::Shutdown));
        let failed = failing.and(told(MoveRecord::Failed { process: MOVE, fault: fault() }));
        assert_eq!(shown(&failed).0, status);
        let server = failed.0.alive().unwrap();
        assert_eq!(server.fault.as_ref().unwrap().0, fault());
        assert_eq!(server.placement.as_ref().unwrap().host, HOST);
    }
}

#[test]
fn a_stopped_server_stays_stopped() {
    let given = placed_active().and(seen(Power::Shutdown)).and(migrate()).and(aim());
    let given = given.and(told(MoveRecord::Arrived { process: MOVE }));
    assert_eq!(given.0.alive().unwrap().power(), Power::Shutdown);
    let given = given.and(moving(MoveRequest::Confirm { process: END, asker: USER }));
    assert_eq!(shown(&given.and(told(MoveRecord::Confirmed { process: END }))).0, "SHUTOFF");
}

#[test]
fn a_delete_cancels_a_move() {
    let given = placed_active().and(resize()).and(aim()).and(delete());
    let Some(OngoingTask::Delete { cancels, .. }) = given.0.alive().unwrap().ongoing else { panic!() };
    assert_eq!(cancels, Some(MOVE));
    assert_eq!(given.when(told(MoveRecord::Arrived { process: MOVE })), Ok(vec![]), "the move no longer owns the task");
    let advance = told(MoveRecord::Advanced { process: MOVE, stage: MoveStage::Migrating });
    assert_eq!(given.when(advance), Err(Reject::Superseded));
}

#[test]
fn after_a_reset_of_the_state_an_unconfirmed_move_is_confirmed() {
    let given = placed_active().and(resize()).and(declare(DeclaredState::Error));
    assert!(given.0.alive().unwrap().ongoing.is_some());
    let given = moved().and(declare(DeclaredState::Active));
    let due = moving(MoveRequest::ConfirmDue { process: END, moved_by: Timestamp(i64::MIN) });
    assert_eq!(given.when(due.clone()), Ok(vec!["instance.confirm_requested"]));
    assert_eq!(moved().when(due), Ok(vec![]), "the move is not due yet");
    assert_eq!(given.when(migrate()), Err(Reject::Superseded), "an unconfirmed move forbids another one");
}

fn evacuate() -> Command {
    moving(EvacuationRequest::Begin {
        process: MOVE,
        host: None,
        forced: false,
        on_shared_storage: None,
        stop: false,
        asker: USER,
    })
}

#[test]
fn an_evacuation_overtakes_tasks_on_the_host_that_is_down() {
    let arrive = || told(MoveRecord::Evacuated { process: MOVE, renewed: true });
    let at = |stage| told(MoveRecord::Advanced { process: MOVE, stage });
    let stopped = || placed_active().and(seen(Power::Shutdown));
    let error = || placed_active().and(declare(DeclaredState::Error));
    let rebooting = || placed_active().and(power(PowerAction::RebootHard));
    let stopping = || placed_active().and(power(PowerAction::Stop));
    assert_eq!(shown(&stopping()).2, Some("powering-off"));
    // The undo of a rescue needs the rescued guest's host, which is down here. The evacuation does not wait for it.
    let image = request().image.as_deref().cloned().unwrap();
    let rescue = || moving(WorkRequest::Rescue { process: POWER, image: image.clone(), asker: USER });
    let rescuing = || placed_active().and(rescue());
    for (given, ends) in [
        (placed_active(), "ACTIVE"),
        (placed_active().and(lock(true)), "ACTIVE"),
        (stopped(), "SHUTOFF"),
        (error(), "ACTIVE"),
        (rebooting(), "ACTIVE"),
        (stopping(), "ACTIVE"),
        (rescuing(), "ACTIVE"),
    ] {
        let given = given.and(evacuate());
        assert_eq!(shown(&given).0, "REBUILD");
        assert_eq!(given.when(done(POWER, PowerAction::RebootHard)), Ok(vec![]), "the overtaken record has no effect");
        let given = given.and(aim()).and(at(MoveStage::Migrating));
        assert_eq!(shown(&given).2, Some("rebuild_block_device_mapping"));
        let given = given.and(at(MoveStage::Finishing));
        assert_eq!(shown(&given).2, Some("rebuild_spawning"));
        let failed = given.clone().and(told(MoveRecord::Failed { process: MOVE, fault: fault() }));
        assert_eq!((shown(&failed).0, shown(&failed).2), ("ERROR", None));
        assert_eq!(failed.0.alive().unwrap().placement.as_ref().unwrap().host, HOST);
        let given = given.and(arrive());
        assert_eq!((shown(&given).0, shown(&given).2), (ends, None));
        let server = given.0.alive().unwrap();
        assert_eq!(server.placement.as_ref().unwrap().host, ELSEWHERE);
        assert!(!server.concerns(HOST), "the server no longer concerns its old host");
        assert_eq!(given.when(arrive()), Ok(vec![]), "repeated");
    }
    let stage = |stage| Record::from(WorkRecord::Advanced { process: POWER, stage });
    let changing = placed_active().and(rebuild()).and(stage(WorkStage::Spawning));
    let leaving = placed_active().and(shelve(None));
    for given in
        [deleting(placed_active()), placed_active().and(resize()), placed_active().and(evacuate()), changing, leaving]
    {
        let task = shown(&given).2.unwrap();
        let refused = Reject::NotInState { action: "evacuate", attribute: "task_state", value: task };
        assert_eq!(given.when(evacuate()), Err(refused));
    }
    assert_eq!(moved().and(declare(DeclaredState::Active)).when(evacuate()), Err(Reject::Superseded));
    assert!(placed_active().and(evacuate()).when(resize()).is_err());
}

fn rebuild() -> Command {
    let sample = samples().into_iter().find_map(|event| match event {
        InstanceEvent::RebuildRequested(request) => Some(request),
        _ => None,
    });
    let sample = sample.unwrap();
    let image = ImageSnapshot { name: "another".into(), ..sample.image.clone() };
    let request = Box::new(RebuildRequested { process: POWER, image, ..sample });
    moving(WorkRequest::Rebuild { request, files: None, asker: USER })
}

fn shelve(image: Option<ImageId>) -> Command {
    moving(WorkRequest::Shelve { process: POWER, image, asker: USER })
}

#[test]
fn an_evacuation_gives_up_a_rebuild_that_changed_no_disk_and_a_shelve() {
    let before = placed_active();
    let image = |given: &Given| given.0.alive().unwrap().request.image.clone();
    let begun = before.clone().and(rebuild());
    assert_ne!(image(&begun), image(&before), "the rebuild chooses another image");
    let at_work = begun.clone().and(Record::from(WorkRecord::Advanced { process: POWER, stage: WorkStage::AtWork }));
    for given in [begun, at_work] {
        let given = given.and(evacuate());
        assert_eq!(image(&given), image(&before));
        let late = WorkRecord::Ended { process: POWER, end: WorkOutcome::RebuildFailed(fault()) };
        assert_eq!(given.when(Record::from(late)), Ok(vec![]), "the failure of the overtaken rebuild has no effect");
    }
    let kept = ImageId(Uuid::from_u128(22));
    let shelving = before.and(shelve(Some(kept)));
    assert_eq!(shelving.0.alive().unwrap().shelved, Some(kept));
    let given = shelving.and(evacuate());
    assert_eq!(given.0.alive().unwrap().shelved, None);
    let late = WorkRecord::Ended { process: POWER, end: WorkOutcome::Shelved { image: kept } };
    assert_eq!(given.when(Record::from(late)), Ok(vec![]), "the end of the overtaken shelve has no effect");
}

/// Operations that Nova's documents rule out for a server with a TPM, encrypted memory or accelerators. The hardware is
/// checked before the server's lock and state.
#[test]
fn some_hardware_forbids_moves() {
    let with = |spec: &str, value: &str| {
        let mut request = request();
        let mut flavor = FlavorSnapshot::clone(&request.flavor);
        flavor.extra_specs.push((spec.to_owned(), value.to_owned()));
        request.flavor = std::sync::Arc::new(flavor);
        let built = absent().and(build_of(request)).and(Record::Placed(placed()));
        built.and(Record::Built { process: BUILD }).and(lock(true))
    };
    let live = || moving(LiveRequest::Begin { process: MOVE, host: None, forced: false, block: None, asker: ADMIN });
    let refused = |operation, hardware| Err(Reject::NotSupported { operation, hardware });
    let vtpm = with("hw:tpm_version", "2.0");
    assert_eq!(vtpm.when(live()), refused("live-migration", HostBoundHardware::Vtpm));
    assert_eq!(vtpm.when(evacuate()), refused("evacuate", HostBoundHardware::Vtpm));
    assert_eq!(vtpm.when(resize()), Err(Reject::Locked), "a resize is possible, so the lock is checked");
    let sev = with("hw:mem_encryption", "true");
    assert_eq!(sev.when(live()), refused("live-migration", HostBoundHardware::Sev));
    assert_eq!(sev.when(power(PowerAction::Suspend)), refused("suspend", HostBoundHardware::Sev));
    assert_eq!(sev.when(evacuate()), Ok(vec!["instance.evacuation_requested"]));
    let accelerated = with("accel:device_profile", "fpga");
    for (command, operation) in [
        (live(), "live-migration"),
        (resize(), "resize"),
        (migrate(), "migrate"),
        (power(PowerAction::Suspend), "suspend"),
    ] {
        assert_eq!(accelerated.when(command), refused(operation, HostBoundHardware::Accelerators));
    }
    let without = with("hw:mem_encryption", "false");
    assert_eq!(without.when(live()), Ok(vec!["instance.live_move_requested"]), "administrators pass a lock");
    let device = with("pci_passthrough:alias", "gpu:1");
    let tied = |given: &Given| tied_by_devices(given.0.alive().unwrap(), &MdevOptions::default());
    assert!(tied(&device).is_some() && tied(&with("resources:VGPU", "1")).is_some());
    assert!(tied(&with("hw:pmem", "6GB")).is_some() && tied(&with("hw:pmem", "")).is_none());
    assert!(tied(&with("resources_gpu:VGPU", "1")).is_some(), "a group with a suffix");
    assert!(tied(&without).is_none() && tied(&with("resources:VGPU", "0")).is_none());
    // All parts of the program read these values in the same way.
    let none = with("pci_passthrough:alias", "gpu:0");
    let suspend = || power(PowerAction::Suspend);
    assert!(tied(&none).is_none());
    assert_ne!(none.when(suspend()), refused("suspend", HostBoundHardware::PciDevices));
    assert_eq!(device.when(suspend()), refused("suspend", HostBoundHardware::PciDevices));
    assert_eq!(with("hw:mem_encryption", "t").when(suspend()), refused("suspend", HostBoundHardware::Sev));
    assert_ne!(with("hw:mem_encryption", "n").when(suspend()), refused("suspend", HostBoundHardware::Sev));
}
