#![allow(clippy::needless_pass_by_value, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! Tests commands in the states of a server, and the states that commands lead to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{HostId, InstanceId, ProcessId};
use chronova_events::instance::{
    BuildRequested, DeclaredState, DiskConfig, FaultInfo, Instance, InstanceEvent, Locked, NetworkAllocated,
    OngoingTask, Phase, Placed, Power, PowerAction, SortedPairs, samples, status,
};
use chronova_events::registry::NounEvent;
use uuid::Uuid;

use super::decide::decide;
use super::{
    CallerRights, InstanceChange, InstanceCommand as Command, InstanceRecord as Record, InstanceReject as Reject,
    InstanceRequest as Request, MetadataChange, TagChange,
};

mod diagram;
mod labels;
mod machine;
mod moving;
mod operators;
mod work;

const USER: CallerRights = CallerRights { overrides_lock: false };
const ADMIN: CallerRights = CallerRights { overrides_lock: true };
const BUILD: ProcessId = ProcessId(Uuid::from_u128(2));
const DELETE: ProcessId = ProcessId(Uuid::from_u128(3));
const POWER: ProcessId = ProcessId(Uuid::from_u128(4));
const OVERTAKING: ProcessId = ProcessId(Uuid::from_u128(5));
const STRANGER: ProcessId = ProcessId(Uuid::from_u128(6));
const SOFT_DELETE: ProcessId = ProcessId(Uuid::from_u128(9));
const RESTORE: ProcessId = ProcessId(Uuid::from_u128(10));
const HOST: HostId = HostId(Uuid::from_u128(7));
const ELSEWHERE: HostId = HostId(Uuid::from_u128(8));

const ACTIONS: [PowerAction; 8] = [
    PowerAction::Start,
    PowerAction::Stop,
    PowerAction::RebootSoft,
    PowerAction::RebootHard,
    PowerAction::Pause,
    PowerAction::Unpause,
    PowerAction::Suspend,
    PowerAction::Resume,
];

fn request() -> BuildRequested {
    let sample = samples().into_iter().find_map(|event| match event {
        InstanceEvent::BuildRequested(request) => Some(request),
        _ => None,
    });
    BuildRequested { instance: InstanceId(Uuid::from_u128(1)), process: BUILD, ..sample.unwrap() }
}

fn build_of(request: BuildRequested) -> Command {
    Request::Build { request: Box::new(request), mapped: None, files: None }.into()
}

fn build() -> Command {
    build_of(request())
}

fn placed() -> Placed {
    Placed { process: BUILD, host: HOST, hostname: "h1".into(), attempt: 1, availability_zone: "nova".into() }
}

fn fault() -> FaultInfo {
    FaultInfo { code: 500, message: "no".into(), details: String::new() }
}

fn power(action: PowerAction) -> Command {
    Request::Power { process: POWER, action, asker: USER }.into()
}

fn done(process: ProcessId, action: PowerAction) -> Command {
    Record::PowerDone { process, action }.into()
}

fn failed(process: ProcessId, action: PowerAction) -> Command {
    Record::PowerFailed { process, action, fault: fault() }.into()
}

fn delete() -> Command {
    Request::Delete { process: DELETE, force: false, asker: USER }.into()
}

fn seen(power: Power) -> Command {
    Record::PowerObserved { host: HOST, power }.into()
}

fn lock(by_admin: bool) -> Command {
    Request::Lock { lock: Locked { by_admin, reason: None, request_id: None } }.into()
}

/// Builds the state of a server by commands. Every command must be accepted.
#[derive(Clone, Default)]
struct Given(Instance);

impl Given {
    fn and(mut self, command: impl Into<Command>) -> Self {
        let command = command.into();
        let events = decide(&self.0, command.clone()).unwrap_or_else(|reject| panic!("{command:?}: {reject}"));
        for event in events {
            self.0.evolve(&event, Timestamp(7));
        }
        self
    }

    /// The kinds of the events, or the refusal.
    fn when(&self, command: impl Into<Command>) -> Result<Vec<&'static str>, Reject> {
        let kinds = |events: Vec<InstanceEvent>| events.iter().map(NounEvent::kind).collect();
        decide(&self.0, command.into()).map(kinds)
    }
}

fn absent() -> Given {
    Given::default()
}

fn building() -> Given {
    absent().and(build())
}

fn active() -> Given {
    building().and(Record::Placed(placed())).and(Record::Built { process: BUILD })
}

fn stopped() -> Given {
    active().and(power(PowerAction::Stop)).and(done(POWER, PowerAction::Stop))
}

fn paused() -> Given {
    active().and(power(PowerAction::Pause)).and(done(POWER, PowerAction::Pause))
}

fn suspended() -> Given {
    active().and(power(PowerAction::Suspend)).and(done(POWER, PowerAction::Suspend))
}

fn never_built() -> Given {
    building().and(Record::BuildFailed { process: BUILD, fault: fault() })
}

fn deleting(given: Given) -> Given {
    given.and(delete())
}

fn deleted() -> Given {
    deleting(active()).and(Record::Deleted { process: DELETE })
}

fn cannot(action: &'static str, attribute: &'static str, value: &'static str) -> Result<Vec<&'static str>, Reject> {
    Err(Reject::NotInState { action, attribute, value })
}

fn verb(action: PowerAction) -> &'static str {
    match action {
        PowerAction::Start => "start",
        PowerAction::Stop => "stop",
        PowerAction::RebootSoft | PowerAction::RebootHard => "reboot",
        PowerAction::Pause => "pause",
        PowerAction::Unpause => "unpause",
        PowerAction::Suspend => "suspend",
        PowerAction::Resume => "resume",
    }
}

#[test]
fn a_server_is_built_once() {
    assert_eq!(absent().when(build()), Ok(vec!["instance.build_requested"]));
    for given in [building(), active(), stopped(), never_built(), deleting(active())] {
        assert_eq!(given.when(build()), Ok(vec![]), "the request is a repetition");
        let other = BuildRequested { process: STRANGER, ..request() };
        assert_eq!(given.when(build_of(other)), Err(Reject::Exists));
    }
    assert_eq!(deleted().when(build()), Err(Reject::NotFound), "an id is never reused");
}

#[test]
fn commands_to_an_absent_or_deleted_server_are_not_found() {
    let change = Request::Change { changes: vec![], asker: ADMIN };
    for given in [absent(), deleted()] {
        for command in [power(PowerAction::Stop), delete(), change.clone().into(), lock(true), seen(Power::Running)] {
            assert_eq!(given.when(command), Err(Reject::NotFound));
        }
    }
    let again = Record::Deleted { process: DELETE };
    assert_eq!(deleted().when(again), Ok(vec![]), "the record of the delete is a repetition");
}

/// Nova: `check_instance_state` of `API.start`, `stop`, `_soft_reboot_instance` and `_hard_reboot_instance`.
#[test]
fn power_actions_are_allowed_where_nova_allows_them() {
    use PowerAction::{Pause, RebootHard, RebootSoft, Resume, Start, Stop, Suspend, Unpause};
    let allowed = |given: &Given| ACTIONS.into_iter().filter(|action| given.when(power(*action)).is_ok()).collect();
    let table: [(&str, Given, Vec<PowerAction>); 6] = [
        ("building", building(), vec![]),
        ("active", active(), vec![Stop, RebootSoft, RebootHard, Pause, Suspend]),
        ("stopped", stopped(), vec![Start, RebootHard]),
        ("paused", paused(), vec![RebootHard, Unpause]),
        ("suspended", suspended(), vec![RebootHard, Resume]),
        ("error", never_built(), vec![]),
    ];
    for (name, given, expected) in table {
        let found: Vec<PowerAction> = allowed(&given);
        assert_eq!(found, expected, "{name}");
    }
    let underway = building().and(Record::Placed(placed()));
    assert_eq!(underway.when(power(Stop)), cannot("stop", "vm_state", "building"));
    assert_eq!(building().when(power(Stop)), Err(Reject::NotReady), "the missing host is checked before the state");
    assert_eq!(building().when(power(Suspend)), cannot("suspend", "vm_state", "building"));
    assert_eq!(active().when(power(Start)), cannot("start", "vm_state", "active"));
    assert_eq!(stopped().when(power(Stop)), cannot("stop", "vm_state", "stopped"));
    assert_eq!(stopped().when(power(RebootSoft)), cannot("reboot", "vm_state", "stopped"));
    assert_eq!(never_built().when(power(Start)), Err(Reject::NotReady));
    // The state allows a reboot, but `must_have_launched` does not.
    assert_eq!(never_built().when(power(RebootHard)), Err(Reject::NeverLaunched { action: "reboot" }));
}

/// Nova allows an action only at `task_state` None. A hard reboot may overtake some tasks (`task_states.ALLOW_REBOOT`);
/// a start and a stop are not among them.
#[test]
fn during_a_task_only_a_hard_reboot_is_allowed_and_not_always() {
    let task = |action| match action {
        PowerAction::Start => "powering-on",
        PowerAction::Stop => "powering-off",
        PowerAction::RebootSoft => "rebooting",
        PowerAction::RebootHard => "rebooting_hard",
        PowerAction::Pause => "pausing",
        PowerAction::Unpause => "unpausing",
        PowerAction::Suspend => "suspending",
        PowerAction::Resume => "resuming",
    };
    for ongoing in ACTIONS {
        let before = match ongoing {
            PowerAction::Start => stopped(),
            PowerAction::Unpause => paused(),
            PowerAction::Resume => suspended(),
            _ => active(),
        };
        let given = before.clone().and(power(ongoing));
        for wanted in ACTIONS.into_iter().filter(|wanted| before.when(power(*wanted)).is_ok()) {
            let overtakes =
                wanted == PowerAction::RebootHard && !matches!(ongoing, PowerAction::Start | PowerAction::Stop);
            let expected = match overtakes {
                true => Ok(vec!["instance.power_requested"]),
                false => cannot(verb(wanted), "task_state", task(ongoing)),
            };
            let command = Request::Power { process: OVERTAKING, action: wanted, asker: USER };
            assert_eq!(given.when(command), expected, "{wanted:?} during {ongoing:?}");
        }
        assert_eq!(given.when(delete()), Ok(vec!["instance.delete_requested"]), "a delete overtakes everything");
    }
    for wanted in [PowerAction::Stop, PowerAction::RebootSoft, PowerAction::RebootHard] {
        assert_eq!(deleting(active()).when(power(wanted)), cannot(verb(wanted), "task_state", "deleting"));
    }
}

fn declare(state: DeclaredState) -> Command {
    Request::DeclareState { state }.into()
}

#[test]
fn an_administrator_resets_any_state() {
    let shown = |given: &Given| {
        let status = status::of(&given.0).unwrap();
        (status.vm_state, status.task_state)
    };
    let locked_and_busy =
        active().and(lock(true)).and(Request::Power { process: POWER, action: PowerAction::Pause, asker: ADMIN });
    for given in [building(), active(), stopped(), paused(), suspended(), never_built(), locked_and_busy.clone()] {
        assert_eq!(shown(&given.clone().and(declare(DeclaredState::Error))), ("error", None));
        assert_eq!(shown(&given.and(declare(DeclaredState::Active))), ("active", None));
    }
    // A task from before the reset does not come back.
    let given = locked_and_busy.and(declare(DeclaredState::Error));
    assert_eq!(given.when(done(POWER, PowerAction::Pause)), Ok(vec![]));
    // A reset of the state does not stop a build or a delete.
    let given = building().and(declare(DeclaredState::Error)).and(Record::Placed(placed()));
    assert_eq!(shown(&given.clone().and(Record::Built { process: BUILD })), ("active", None));
    let deleting_it = given.and(delete());
    let cancels = deleting_it.0.alive().unwrap().ongoing;
    assert_eq!(cancels, Some(OngoingTask::Delete { process: DELETE, cancels: Some(BUILD) }));
    let given = deleting(active()).and(declare(DeclaredState::Active));
    assert_eq!(shown(&given), ("active", Some("deleting")));
    assert_eq!(given.when(Record::Deleted { process: DELETE }), Ok(vec!["instance.deleted"]));
}

fn soft_delete() -> Command {
    Request::SoftDelete { process: SOFT_DELETE, asker: USER }.into()
}

fn restore() -> Command {
    Request::Restore { process: RESTORE, asker: USER }.into()
}

fn soft_deleted() -> Given {
    active().and(soft_delete()).and(Record::SoftDeleted { process: SOFT_DELETE })
}

#[test]
fn a_soft_deleted_server_is_restored_or_reclaimed() {
    for given in [active(), stopped(), paused(), suspended(), active().and(power(PowerAction::Stop))] {
        assert_eq!(given.when(soft_delete()), Ok(vec!["instance.soft_delete_requested"]));
        assert_eq!(given.and(soft_delete()).when(soft_delete()), Ok(vec![]), "a repeated request changes nothing");
    }
    for given in [building(), never_built()] {
        assert_eq!(
            given.when(soft_delete()),
            Ok(vec!["instance.delete_requested"]),
            "a server without a guest is deleted for good"
        );
    }
    assert_eq!(deleting(active()).when(soft_delete()), Ok(vec![]));
    assert_eq!(soft_deleted().when(soft_delete()), Ok(vec![]));
    assert_eq!(active().and(lock(false)).when(soft_delete()), Err(Reject::Locked));
    assert_eq!(active().when(restore()), cannot("restore", "vm_state", "active"));
    assert_eq!(soft_deleted().when(power(PowerAction::Start)), cannot("start", "vm_state", "soft-delete"));
    assert_eq!(soft_deleted().when(restore()), Ok(vec!["instance.restore_requested"]));
    assert_eq!(soft_deleted().when(delete()), Ok(vec!["instance.delete_requested"]));
    let restoring = soft_deleted().and(restore());
    assert_eq!(restoring.when(restore()), cannot("restore", "task_state", "restoring"));
    let vm_state = |given: Given| status::of(&given.0).unwrap().vm_state;
    assert_eq!(vm_state(restoring.clone().and(Record::Restored { process: RESTORE })), "active");
    let failed = Record::RestoreFailed { process: RESTORE, fault: fault() };
    assert_eq!(vm_state(restoring.clone().and(failed)), "soft-delete");
    // The server is reclaimed when it is due, and only if no process is restoring it.
    let reclaim = |at| Request::Reclaim { process: STRANGER, deleted_by: Timestamp(at) };
    assert_eq!(soft_deleted().when(reclaim(6)), Ok(vec![]));
    assert_eq!(soft_deleted().when(reclaim(7)), Ok(vec!["instance.delete_requested"]));
    assert_eq!(restoring.when(reclaim(7)), Ok(vec![]));
    assert_eq!(active().when(reclaim(7)), Ok(vec![]));
}

#[test]
fn a_crash_dump_needs_a_guest_that_may_be_in_memory() {
    let dump = || Request::TriggerCrashDump { process: STRANGER, asker: USER };
    for given in [active(), paused(), active().and(declare(DeclaredState::Error))] {
        assert_eq!(given.when(dump()), Ok(vec!["instance.crash_dump_requested"]));
    }
    assert_eq!(stopped().when(dump()), cannot("trigger_crash_dump", "vm_state", "stopped"));
    assert_eq!(suspended().when(dump()), cannot("trigger_crash_dump", "vm_state", "suspended"));
    assert_eq!(never_built().when(dump()), Err(Reject::NotReady));
    let pausing = active().and(power(PowerAction::Pause));
    assert_eq!(pausing.when(dump()), cannot("trigger_crash_dump", "task_state", "pausing"));
    assert_eq!(active().and(lock(false)).when(dump()), Err(Reject::Locked));
    let inject = || Request::InjectNetworkInfo { asker: USER };
    assert_eq!(never_built().when(inject()), Ok(vec![]));
    assert_eq!(active().and(lock(false)).when(inject()), Err(Reject::Locked));
}

#[test]
fn records_of_an_overtaken_process_have_no_effect() {
    let soft = PowerAction::RebootSoft;
    let overtaking = Request::Power { process: OVERTAKING, action: PowerAction::RebootHard, asker: USER };
    for given in [active().and(power(soft)).and(overtaking), deleting(active().and(power(soft)))] {
        assert_eq!(given.when(done(POWER, soft)), Ok(vec![]));
        assert_eq!(given.when(failed(POWER, soft)), Ok(vec![]));
    }
    assert_eq!(active().when(done(POWER, soft)), Ok(vec![]));
    assert_eq!(active().and(power(soft)).when(done(POWER, soft)), Ok(vec!["instance.power_completed"]));
    assert_eq!(active().and(power(soft)).when(failed(POWER, soft)), Ok(vec!["instance.power_failed"]));
}

#[test]
fn a_delete_is_possible_in_every_state_and_only_once() {
    for given in [building(), active(), stopped(), never_built()] {
        assert_eq!(given.when(delete()), Ok(vec!["instance.delete_requested"]));
        let again = Request::Delete { process: STRANGER, force: true, asker: USER };
        assert_eq!(deleting(given.clone()).when(again), Ok(vec![]), "a repeated request changes nothing");
        let by_another = Record::Deleted { process: STRANGER };
        assert_eq!(deleting(given.clone()).when(by_another.clone()), Err(Reject::Superseded));
        assert_eq!(given.when(by_another), Err(Reject::Superseded));
    }
    let ongoing = |given: Given| given.0.alive().unwrap().ongoing;
    assert_eq!(ongoing(deleting(building())), Some(OngoingTask::Delete { process: DELETE, cancels: Some(BUILD) }));
    assert_eq!(ongoing(deleting(active())), Some(OngoingTask::Delete { process: DELETE, cancels: None }));
}

#[test]
fn only_the_build_process_records_its_progress() {
    let unplaced = |process| Record::Unplaced { process, host: HOST, reason: String::new() };
    let nics = samples().into_iter().find_map(|event| match event {
        InstanceEvent::NetworkAllocated(allocated) => Some(allocated.nics),
        _ => None,
    });
    let network = |process| Record::Network(NetworkAllocated { process, nics: nics.clone().unwrap() });
    let records = |process| {
        [
            Record::Placed(Placed { process, ..placed() }),
            network(process),
            Record::Built { process },
            Record::BuildFailed { process, fault: fault() },
        ]
    };
    for (mine, strange) in records(BUILD).into_iter().zip(records(STRANGER)) {
        assert_eq!(building().when(mine.clone()).unwrap().len(), 1, "{mine:?}");
        assert_eq!(building().when(strange), Err(Reject::Superseded));
        assert_eq!(building().and(mine.clone()).when(mine), Ok(vec![]), "a repeated record is harmless");
    }
    let given = building().and(Record::Placed(placed()));
    assert_eq!(given.when(unplaced(STRANGER)), Err(Reject::Superseded));
    assert_eq!(given.when(unplaced(BUILD)), Ok(vec!["instance.unplaced"]));
    assert_eq!(given.clone().and(unplaced(BUILD)).when(unplaced(BUILD)), Ok(vec![]));
    assert_eq!(active().when(unplaced(BUILD)), Err(Reject::Superseded), "a built server keeps its host");
    assert_eq!(
        deleting(given).when(unplaced(BUILD)),
        Ok(vec!["instance.unplaced"]),
        "a cancelled build releases its host"
    );
}

#[test]
fn a_power_report_counts_only_from_the_servers_host_and_if_it_differs() {
    assert_eq!(active().when(seen(Power::Running)), Ok(vec![]));
    assert_eq!(active().when(seen(Power::Shutdown)), Ok(vec!["instance.power_observed"]));
    assert_eq!(active().when(Record::PowerObserved { host: ELSEWHERE, power: Power::Shutdown }), Ok(vec![]));
    assert_eq!(building().and(Record::Placed(placed())).when(seen(Power::Running)), Ok(vec![]));
    assert_eq!(never_built().when(seen(Power::Running)), Ok(vec![]), "a server without a host ignores reports");
    let shown = |given: Given| status::of(&given.0).unwrap().status;
    assert_eq!(shown(active().and(seen(Power::Shutdown))), "SHUTOFF");
    assert_eq!(shown(active().and(seen(Power::Crashed))), "SHUTOFF");
    assert_eq!(shown(stopped().and(seen(Power::Running))), "ACTIVE");
    assert_eq!(shown(active().and(seen(Power::Paused))), "ACTIVE", "a report of `Paused` changes only the power state");
    assert_eq!(shown(paused().and(seen(Power::Running))), "PAUSED", "a report does not unpause the server");
    assert_eq!(shown(suspended().and(seen(Power::Running))), "SUSPENDED");
    assert_eq!(shown(paused().and(seen(Power::Shutdown))), "SHUTOFF", "a paused server whose guest is off is stopped");
    let suspending = active().and(power(PowerAction::Suspend)).and(seen(Power::Shutdown));
    assert_eq!(
        shown(suspending.and(failed(POWER, PowerAction::Suspend))),
        "SHUTOFF",
        "a failed suspend shows that the guest is off"
    );
    let stopping = active().and(power(PowerAction::Stop)).and(seen(Power::Shutdown));
    assert_eq!(shown(stopping), "ACTIVE", "reports do not override the process at work");
}

/// Nova: `check_instance_lock`, `API.lock`, `API.unlock`.
#[test]
fn a_lock_refuses_actions_of_users_without_the_right_to_unlock() {
    let rename = |asker| Request::Change { changes: vec![InstanceChange::Name("new".into())], asker };
    for by_admin in [false, true] {
        let given = active().and(lock(by_admin));
        for action in ACTIONS {
            assert_eq!(given.when(power(action)), Err(Reject::Locked), "the lock is checked before the state");
        }
        assert_eq!(given.when(delete()), Err(Reject::Locked));
        assert_eq!(given.when(rename(USER)), Err(Reject::Locked));
        assert_eq!(given.when(rename(ADMIN)), Ok(vec!["instance.renamed"]));
        let by_override = Request::Delete { process: DELETE, force: false, asker: ADMIN };
        assert_eq!(given.when(by_override), Ok(vec!["instance.delete_requested"]));
        assert_eq!(given.when(Request::Unlock { by_admin: true }), Ok(vec!["instance.unlocked"]));
        assert_eq!(given.when(lock(false)), Ok(vec![]), "an owner's lock on top of a lock changes nothing");
        assert_eq!(given.when(lock(true)), Ok(vec!["instance.locked"]), "an administrator's lock replaces the owner's");
    }
    assert_eq!(active().and(lock(false)).when(Request::Unlock { by_admin: false }), Ok(vec!["instance.unlocked"]));
    assert_eq!(active().and(lock(true)).when(Request::Unlock { by_admin: false }), Err(Reject::Locked));
    assert_eq!(active().when(Request::Unlock { by_admin: false }), Ok(vec![]));
}

fn replaced(pairs: SortedPairs) -> InstanceChange {
    InstanceChange::Metadata(MetadataChange::Replace { pairs, limit: None })
}

#[test]
fn a_change_without_effect_records_no_event() {
    let now = request();
    let addresses =
        |v4: Option<&str>| InstanceChange::AccessAddresses { v4: v4.map(Into::into), v6: now.access_ip_v6.clone() };
    let other_disk = if now.disk_config == DiskConfig::Auto { DiskConfig::Manual } else { DiskConfig::Auto };
    let same = vec![
        InstanceChange::Name(now.name.clone()),
        InstanceChange::Description(now.description.clone()),
        InstanceChange::Hostname(now.hostname.clone()),
        InstanceChange::DiskConfig(now.disk_config),
        addresses(now.access_ip_v4.as_deref()),
        replaced(now.metadata.clone()),
        InstanceChange::Tags(TagChange::Replace(now.tags.clone())),
    ];
    assert_eq!(active().when(Request::Change { changes: same, asker: USER }), Ok(vec![]));
    let other = vec![
        InstanceChange::Name("x".into()),
        InstanceChange::Description(None),
        InstanceChange::Hostname("x".into()),
        InstanceChange::DiskConfig(other_disk),
        addresses(Some("192.0.2.99")),
        replaced(vec![("x".into(), "y".into())]),
        InstanceChange::Tags(TagChange::Replace(vec!["x".into()])),
    ];
    let events = active().when(Request::Change { changes: other, asker: USER }).unwrap();
    let expected = [
        "instance.renamed",
        "instance.description_changed",
        "instance.hostname_changed",
        "instance.disk_config_changed",
        "instance.access_addresses_changed",
        "instance.metadata_replaced",
        "instance.tags_replaced",
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_failed_detachment_of_an_interface_is_recorded_once() {
    let nic = samples().into_iter().find_map(|event| match event {
        InstanceEvent::NicAttached(attached) => Some(attached.nic),
        _ => None,
    });
    let nic = nic.unwrap();
    let port = nic.port;
    let ask = |process| Request::DetachNic { process, port, asker: USER };
    let fails = |process| Record::NicDetachFailed { process, port, fault: fault() };
    let given = active().and(Record::NicAttached { process: POWER, nic }).and(ask(SOFT_DELETE)).and(ask(RESTORE));
    for process in [SOFT_DELETE, RESTORE] {
        assert_eq!(given.when(fails(process)), Ok(vec!["instance.nic_detach_failed"]));
    }
    let once = given.and(fails(SOFT_DELETE));
    assert_eq!(once.when(fails(SOFT_DELETE)), Ok(vec![]), "the record is a repetition");
    assert_eq!(
        once.when(fails(RESTORE)),
        Ok(vec!["instance.nic_detach_failed"]),
        "the failure of another process is recorded"
    );
    let gone = once.and(Record::NicDetached { process: RESTORE, port });
    assert_eq!(gone.when(fails(RESTORE)), Ok(vec![]), "the record comes too late");
}
