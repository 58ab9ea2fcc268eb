#![allow(clippy::unwrap_used)]
//! Tests the action on each difference between a host and the log, and the periods of an agent's work.

use std::collections::BTreeSet;
use std::time::Duration;

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{HostId, InstanceId, ProcessId};
use chronova_events::instance::{
    Alive, BuildRequested, Instance, InstanceEvent, OngoingTask, Phase, Placed, Power, PowerAction, Stage, samples,
};
use chronova_hypervisor::sim::{SimFleet, SimUri};
use uuid::Uuid;

use super::fleet::ConnectedHosts;
use super::options::HostOptions;
use super::plan::{ResyncAction, doubted, found, is_expected, missing, orphaned, spared};
use crate::coordination::host_turns::ConcurrencyLimits;

const HERE: HostId = HostId(Uuid::from_u128(1));
const ELSEWHERE: HostId = HostId(Uuid::from_u128(2));
const PROCESS: ProcessId = ProcessId(Uuid::from_u128(3));
const SERVER: InstanceId = InstanceId(Uuid::from_u128(4));

const PHASES: [Phase; 11] = [
    Phase::Building { process: PROCESS, stage: Stage::Spawning },
    Phase::Active { power: Power::Running },
    Phase::Stopped { power: Power::Shutdown },
    Phase::Error { power: Power::NoState },
    Phase::Paused { power: Power::Paused },
    Phase::Suspended { power: Power::Shutdown },
    Phase::SoftDeleted { power: Power::Shutdown, since: Timestamp(7) },
    Phase::Rescued { power: Power::Running },
    Phase::Shelved { power: Power::Shutdown, since: Timestamp(7) },
    Phase::Offloaded { power: Power::Shutdown },
    Phase::Resized { power: Power::Running, since: Timestamp(7) },
];

fn server(phase: Phase, host: Option<HostId>) -> Alive {
    let request = samples().into_iter().find_map(|event| match event {
        InstanceEvent::BuildRequested(request) => Some(BuildRequested { instance: SERVER, ..request }),
        _ => None,
    });
    let mut state = Instance::Absent;
    state.evolve(&request.unwrap().into(), Timestamp(7));
    let placement = host.map(|host| Placed {
        process: PROCESS,
        host,
        hostname: "h".into(),
        attempt: 1,
        availability_zone: "nova".into(),
    });
    Alive { phase, placement, ..state.alive().unwrap().clone() }
}

fn alive(phase: Phase, host: Option<HostId>) -> Instance {
    Instance::Alive(Box::new(server(phase, host)))
}

fn deleted() -> Instance {
    Instance::Deleted(Box::new(server(PHASES[1], Some(HERE))))
}

#[test]
fn a_process_reports_the_state_that_it_reaches_itself() {
    let at_work =
        |ongoing| Instance::Alive(Box::new(Alive { ongoing: Some(ongoing), ..server(PHASES[1], Some(HERE)) }));
    let power = |action| at_work(OngoingTask::Power { process: PROCESS, action });
    let (stopping, starting) = (power(PowerAction::Stop), power(PowerAction::Start));
    assert!(is_expected(&stopping, Power::Shutdown) && is_expected(&starting, Power::Running));
    assert!(!is_expected(&stopping, Power::Crashed) && !is_expected(&starting, Power::Shutdown));
    assert!(is_expected(&at_work(OngoingTask::Delete { process: PROCESS, cancels: None }), Power::Shutdown));
    assert!(!is_expected(&alive(PHASES[1], Some(HERE)), Power::Shutdown));
}

#[test]
fn an_unknown_guest_is_reported_and_never_touched() {
    assert_eq!(found(HERE, &Instance::Absent, Power::Running), ResyncAction::Report);
    assert_eq!(orphaned(HERE, &Instance::Absent), ResyncAction::Report);
}

#[test]
fn guests_of_other_hosts_and_deleted_servers_are_removed() {
    let gone = deleted();
    assert_eq!(found(HERE, &gone, Power::Running), ResyncAction::Reap);
    assert_eq!(orphaned(HERE, &gone), ResyncAction::Destroy);
    for phase in PHASES {
        for host in [None, Some(ELSEWHERE)] {
            let server = alive(phase, host);
            assert_eq!(found(HERE, &server, Power::Running), ResyncAction::Destroy, "{phase:?}");
            assert_eq!(orphaned(HERE, &server), ResyncAction::Destroy, "{phase:?}");
        }
    }
}

#[test]
fn a_guest_is_read_again_if_its_power_state_differs_from_the_log() {
    for phase in PHASES {
        let server = alive(phase, Some(HERE));
        let recorded = server.alive().unwrap().power();
        for seen in [Power::NoState, Power::Running, Power::Paused, Power::Shutdown, Power::Crashed, Power::Suspended] {
            let expected = match phase {
                Phase::Building { .. } | Phase::Offloaded { .. } => ResyncAction::Nothing,
                _ if seen == recorded => ResyncAction::Nothing,
                _ => ResyncAction::Look,
            };
            assert_eq!(found(HERE, &server, seen), expected, "{phase:?} {seen:?}");
        }
        assert_eq!(orphaned(HERE, &server), ResyncAction::Nothing, "the server's process removes the files");
    }
}

/// On shared storage, one host sees the disks of the other host's servers.
#[test]
fn on_shared_storage_the_disks_of_other_hosts_servers_stay() {
    let shares = |other| other == ELSEWHERE;
    for phase in PHASES {
        let server = alive(phase, Some(ELSEWHERE));
        let believed = &server;
        assert_eq!(spared(believed, ResyncAction::Destroy, true, shares), ResyncAction::Forget);
        assert_eq!(spared(believed, ResyncAction::Destroy, false, shares), ResyncAction::Nothing);
        assert_eq!(spared(believed, ResyncAction::Destroy, false, |_| false), ResyncAction::Destroy);
        assert_eq!(spared(believed, ResyncAction::Look, true, shares), ResyncAction::Look);
    }
    assert_eq!(spared(&deleted(), ResyncAction::Destroy, false, shares), ResyncAction::Destroy);
}

#[test]
fn a_missing_guest_stops_its_server_if_no_process_works_on_it() {
    for phase in PHASES {
        let expected = match phase {
            Phase::Active { .. } | Phase::Paused { .. } => ResyncAction::Look,
            _ => ResyncAction::Nothing,
        };
        assert_eq!(missing(&alive(phase, Some(HERE))), expected, "{phase:?}");
        let power = OngoingTask::Power { process: PROCESS, action: PowerAction::RebootHard };
        for ongoing in [power, OngoingTask::Delete { process: PROCESS, cancels: None }] {
            let busy = Alive { ongoing: Some(ongoing), ..server(phase, Some(HERE)) };
            assert_eq!(missing(&Instance::Alive(Box::new(busy))), ResyncAction::Nothing, "{phase:?} {ongoing:?}");
        }
    }
    assert_eq!(missing(&deleted()), ResyncAction::Nothing);
    assert_eq!(missing(&Instance::Absent), ResyncAction::Nothing);
}

#[test]
fn a_restored_log_removes_no_guest_of_a_server_that_it_has_elsewhere() {
    let believed = alive(Phase::Active { power: Power::Running }, Some(ELSEWHERE));
    let remedy = found(HERE, &believed, Power::Running);
    assert_eq!(doubted(remedy, || false), ResyncAction::Doubt);
    assert_eq!(doubted(remedy, || true), ResyncAction::Destroy, "this log moved the server since");
    assert_eq!(doubted(orphaned(HERE, &believed), || false), ResyncAction::Doubt, "the disks stay");
    let gone = found(HERE, &deleted(), Power::Running);
    assert_eq!(doubted(gone, || false), ResyncAction::Reap, "the original has deleted the server as well");
}

/// A guest that moves between hosts with a common directory opens its disks as the account of the emulators.
#[test]
fn hosts_with_a_common_directory_and_other_accounts_are_named() {
    let drivers = SimFleet::new(SimUri::new(2)).drivers();
    let fleet = ConnectedHosts::new(0, drivers.clone());
    for (host, name, driver) in [(HERE, "h1", &drivers[0]), (ELSEWHERE, "h2", &drivers[1])] {
        fleet.join(host, name, driver, ConcurrencyLimits { builds: 0, snapshots: 0 });
    }
    let (one, other) = (Some("+112:+119"), Some("+64055:+994"));
    assert_eq!(fleet.note_account(HERE, one), []);
    assert_eq!(fleet.note_account(ELSEWHERE, other), [], "the hosts have directories of their own");
    // A mark of the first host is in the directory of the second.
    fleet.note_sharers(ELSEWHERE, BTreeSet::from([HERE, ELSEWHERE]));
    assert_eq!(fleet.note_account(ELSEWHERE, other), [("h1".to_owned(), "+112:+119".to_owned())]);
    assert_eq!(fleet.note_account(HERE, one), [("h2".to_owned(), "+64055:+994".to_owned())]);
    assert_eq!(fleet.note_account(HERE, None), [], "a host that tells no account was named");
    assert_eq!(fleet.note_account(ELSEWHERE, one), [], "nothing is known of the other host");
    assert_eq!(fleet.note_account(HERE, one), [], "both hosts have the same account");
}

/// A short `update_resources_interval` does not make the comparisons with the log more frequent.
#[test]
fn the_reports_of_a_host_have_a_clock_of_their_own() {
    let seconds = Duration::from_secs;
    for (poll, period) in [(Some(1), Some(1)), (Some(0), Some(60)), (None, None)] {
        let options = HostOptions { resources_poll: poll.map(seconds), ..HostOptions::default() };
        assert_eq!(options.resync_period(), seconds(60), "{poll:?}");
        assert_eq!(options.resources_period(), period.map(seconds), "{poll:?}");
    }
    let often = HostOptions { power_sync: Some(seconds(5)), ..HostOptions::default() };
    assert_eq!(often.resync_period(), seconds(5));
}
