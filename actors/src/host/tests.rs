#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Given events, when a command, then events or a refusal.

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::host::{Host, HostEvent, Registered, samples};
use chronova_events::registry::NounEvent;

use super::decide::decide;
use super::{HostCommand as Command, HostReject as Reject};

fn report() -> Registered {
    let sample = samples().into_iter().find_map(|event| match event {
        HostEvent::Registered(registered) => Some(registered),
        _ => None,
    });
    sample.unwrap()
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

    fn answers(&self) -> bool {
        self.0.0.as_ref().unwrap().answers()
    }
}

fn up() -> Given {
    Given::default().and(Command::Report(report()))
}

#[test]
fn a_host_that_was_never_seen_can_only_be_reported() {
    for command in [down(), Command::Enable, disable(None), Command::ForceDown { forced: true }] {
        assert_eq!(Given::default().when(command), Err(Reject::NotFound));
    }
    assert_eq!(Given::default().when(Command::Report(report())), Ok(vec!["host.registered"]));
}

#[test]
fn only_changes_are_recorded() {
    assert_eq!(up().when(Command::Report(report())), Ok(vec![]));
    let renumbered = Registered { number: 99, ..report() };
    assert_eq!(up().when(Command::Report(renumbered)), Ok(vec![]), "a number is given once");
    let mut grown = report();
    grown.capabilities.vcpus += 1;
    assert_eq!(up().when(Command::Report(grown.clone())), Ok(vec!["host.capabilities_changed"]));
    let back = ["host.capabilities_changed", "host.came_up"];
    assert_eq!(up().and(down()).when(Command::Report(grown)), Ok(back.to_vec()));
    assert_eq!(up().when(down()), Ok(vec!["host.went_down"]));
    assert_eq!(up().and(down()).when(down()), Ok(vec![]));
    assert_eq!(up().and(down()).when(Command::Report(report())), Ok(vec!["host.came_up"]));
}

#[test]
fn administrators_forbid_and_allow() {
    assert_eq!(up().when(Command::Enable), Ok(vec![]));
    assert_eq!(up().when(disable(None)), Ok(vec!["host.disabled"]));
    let given = up().and(disable(Some("repair")));
    assert_eq!(given.when(disable(Some("repair"))), Ok(vec![]));
    assert_eq!(given.when(disable(Some("moving"))), Ok(vec!["host.disabled"]), "another reason is news");
    assert_eq!(given.when(Command::Enable), Ok(vec!["host.enabled"]));
    assert!(given.and(down()).and(Command::Report(report())).0.0.unwrap().disabled_reason.is_some(), "it stays so");
}

#[test]
fn a_host_forced_down_is_down_whatever_it_answers() {
    let forced = up().and(Command::ForceDown { forced: true });
    assert!(!forced.answers());
    assert_eq!(forced.when(Command::ForceDown { forced: true }), Ok(vec![]));
    assert!(!forced.clone().and(Command::Report(report())).answers());
    assert!(forced.and(Command::ForceDown { forced: false }).answers());
}

#[test]
fn a_host_that_was_removed_is_registered_anew() {
    let gone = up().and(Command::Deregister);
    assert_eq!(gone.0.0, None);
    assert_eq!(gone.when(Command::Deregister), Ok(vec![]), "removed already");
    assert_eq!(gone.when(Command::Enable), Err(Reject::NotFound));
    assert_eq!(gone.when(Command::Report(report())), Ok(vec!["host.registered"]));
}
