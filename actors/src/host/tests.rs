#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Tests of the form: given these events, a command leads to these events or this refusal.

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::host::{Departure, Host, HostEvent, Registered, samples};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::registry::NounEvent;

use super::decide::decide;
use super::{DrainCommand as Drain, DrainRecord, HostCommand as Command, HostReject as Reject};

fn report() -> Registered {
    let sample = samples().into_iter().find_map(|event| match event {
        HostEvent::Registered(registered) => Some(registered),
        _ => None,
    });
    sample.unwrap()
}

fn told(report: Registered) -> Command {
    Command::Report { report, admitted: true }
}

fn down() -> Command {
    Command::ReportDown { reason: "no answer".into() }
}

fn disable(reason: Option<&str>) -> Command {
    Command::Disable { reason: reason.map(Into::into) }
}

#[derive(Clone, Default)]
struct Given(Host);

impl Given {
    fn and(mut self, command: Command) -> Self {
        for event in decide(&self.0, command).expect("accepted") {
            self.0.evolve(&event, Timestamp(7));
        }
        self
    }

    fn when(&self, command: Command) -> Result<Vec<&'static str>, Reject> {
        decide(&self.0, command).map(|events| events.iter().map(NounEvent::kind).collect())
    }

    fn drain(&self) -> &chronova_events::host::Drain {
        self.0.0.as_ref().unwrap().drain.as_ref().unwrap()
    }

    fn answers(&self) -> bool {
        self.0.0.as_ref().unwrap().answers()
    }
}

fn up() -> Given {
    Given::default().and(told(report()))
}

#[test]
fn a_host_that_was_never_seen_can_only_be_reported() {
    for command in [down(), Command::Enable, disable(None), Command::ForceDown { forced: true }] {
        assert_eq!(Given::default().when(command), Err(Reject::NotFound));
    }
    assert_eq!(Given::default().when(told(report())), Ok(vec!["host.registered"]));
    let shut = Command::Report { report: report(), admitted: false };
    assert_eq!(Given::default().when(shut.clone()), Ok(vec!["host.registered", "host.disabled"]));
    assert_eq!(up().when(shut), Ok(vec![]), "a report disables no known host");
}

#[test]
fn only_changes_are_recorded() {
    assert_eq!(up().when(told(report())), Ok(vec![]));
    let renumbered = Registered { number: 99, ..report() };
    assert_eq!(up().when(told(renumbered)), Ok(vec![]), "the number of a host never changes");
    let mut grown = report();
    grown.capabilities.vcpus += 1;
    assert_eq!(up().when(told(grown.clone())), Ok(vec!["host.capabilities_changed"]));
    let back = ["host.capabilities_changed", "host.came_up"];
    assert_eq!(up().and(down()).when(told(grown)), Ok(back.to_vec()));
    assert_eq!(up().when(down()), Ok(vec!["host.went_down"]));
    assert_eq!(up().and(down()).when(down()), Ok(vec![]));
    assert_eq!(up().and(down()).when(told(report())), Ok(vec!["host.came_up"]));
}

#[test]
fn administrators_disable_and_enable_hosts() {
    assert_eq!(up().when(Command::Enable), Ok(vec![]));
    assert_eq!(up().when(disable(None)), Ok(vec!["host.disabled"]));
    let given = up().and(disable(Some("repair")));
    assert_eq!(given.when(disable(Some("repair"))), Ok(vec![]));
    assert_eq!(given.when(disable(Some("moving"))), Ok(vec!["host.disabled"]), "another reason is a change");
    assert_eq!(given.when(Command::Enable), Ok(vec!["host.enabled"]));
    assert!(
        given.and(down()).and(told(report())).0.0.unwrap().disabled_reason.is_some(),
        "a report enables no host that an administrator has disabled"
    );
}

#[test]
fn a_host_that_is_forced_down_stays_down_although_it_answers() {
    let forced = up().and(Command::ForceDown { forced: true });
    assert!(!forced.answers());
    assert_eq!(forced.when(Command::ForceDown { forced: true }), Ok(vec![]));
    assert!(!forced.clone().and(told(report())).answers());
    assert!(forced.and(Command::ForceDown { forced: false }).answers());
}

fn process(n: u128) -> ProcessId {
    ProcessId(uuid::Uuid::from_u128(n))
}

fn drain(n: u128) -> Command {
    Command::Drain(Drain::Begin { process: process(n), parallel: 2, reason: Some("drained".into()) })
}

fn maintenance(n: u128) -> Command {
    Command::Drain(Drain::BeginMaintenance { process: process(n), parallel: 2, reason: Some("fans".into()) })
}

fn ended(n: u128) -> Command {
    Command::DrainRecord(DrainRecord::Ended { process: process(n) })
}

#[test]
fn a_drain_closes_its_host_and_is_joined() {
    assert_eq!(Given::default().when(drain(1)), Err(Reject::NotFound));
    assert_eq!(up().when(drain(1)), Ok(vec!["host.disabled", "host.drain_requested"]));
    let closed = up().and(disable(Some("repair")));
    assert_eq!(
        closed.when(drain(1)),
        Ok(vec!["host.drain_requested"]),
        "the host is already disabled for another reason"
    );
    let draining = up().and(drain(1));
    assert_eq!(draining.when(drain(2)), Ok(vec![]), "joined");
    assert_eq!(draining.clone().and(ended(1)).when(drain(1)), Ok(vec![]), "a repetition records nothing");
    assert_eq!(draining.clone().and(ended(2)).when(drain(2)), Ok(vec![]), "the end of another drain has no effect");
    assert_eq!(draining.and(ended(1)).when(drain(2)), Ok(vec!["host.drain_requested"]));
}

#[test]
fn cancelling_a_drain_or_enabling_its_host_ends_the_drain() {
    let cancel = || Command::Drain(Drain::Cancel);
    assert_eq!(up().when(cancel()), Err(Reject::NotDraining));
    let draining = up().and(drain(1));
    assert_eq!(draining.when(cancel()), Ok(vec!["host.drain_cancelled"]));
    assert_eq!(draining.when(Command::Enable), Ok(vec!["host.drain_cancelled", "host.enabled"]));
    let ending = draining.and(cancel());
    assert_eq!(ending.when(cancel()), Ok(vec![]));
    assert_eq!(ending.when(drain(2)), Err(Reject::DrainEnding));
    assert_eq!(ending.and(ended(1)).when(cancel()), Err(Reject::NotDraining));
}

#[test]
fn maintenance_marks_and_drains_the_host() {
    let all = ["host.maintenance_begun", "host.disabled", "host.drain_requested"];
    assert_eq!(up().when(maintenance(1)), Ok(all.to_vec()));
    let given = up().and(maintenance(1));
    assert_eq!(given.when(maintenance(2)), Ok(vec![]));
    assert_eq!(given.clone().and(ended(1)).when(maintenance(2)), Ok(vec!["host.drain_requested"]));
    let back = || Command::Drain(Drain::EndMaintenance);
    assert_eq!(given.when(back()), Ok(vec!["host.drain_cancelled", "host.maintenance_ended", "host.enabled"]));
    let idle = given.and(ended(1));
    assert_eq!(idle.when(Command::Enable), Ok(vec!["host.maintenance_ended", "host.enabled"]));
    assert_eq!(idle.and(back()).when(back()), Err(Reject::NotInMaintenance));
}

#[test]
fn records_of_a_drain_count_once_and_only_for_that_drain() {
    let server = InstanceId(uuid::Uuid::from_u128(7));
    let departs = |n, migration| {
        let how = Departure::Live;
        Command::DrainRecord(DrainRecord::Departure { process: process(n), server, how, migration: process(migration) })
    };
    let left = || Command::DrainRecord(DrainRecord::Left { process: process(1), server, to: Some("h2".into()) });
    let stays = || Command::DrainRecord(DrainRecord::Stayed { process: process(1), server, reason: "no".into() });
    let given = up().and(drain(1));
    assert_eq!(given.when(departs(2, 9)), Ok(vec![]));
    assert_eq!(given.when(departs(1, 9)), Ok(vec!["host.departure_begun"]));
    let given = given.and(departs(1, 9));
    assert_eq!(given.when(departs(1, 9)), Ok(vec![]));
    let again = given.clone().and(departs(1, 10));
    assert_eq!(again.drain().leaving[&server].attempt, 2);
    for settled in [left(), stays()] {
        let after = given.clone().and(settled.clone());
        assert_eq!((after.when(settled), after.drain().leaving.len()), (Ok(vec![]), 0));
    }
    assert_eq!(given.and(ended(1)).when(left()), Ok(vec![]), "records after the end have no effect");
}

#[test]
fn a_removed_host_registers_again() {
    let gone = up().and(Command::Deregister);
    assert_eq!(gone.0.0, None);
    assert_eq!(gone.when(Command::Deregister), Ok(vec![]), "a second removal records nothing");
    assert_eq!(gone.when(Command::Enable), Err(Reject::NotFound));
    assert_eq!(gone.when(told(report())), Ok(vec!["host.registered"]));
}
