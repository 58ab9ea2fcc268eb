#![allow(clippy::unwrap_used)]

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold as _;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Alive, Instance, InstanceEvent, samples};
use serde_json::json;

use super::operations::ChaosOperation;
use super::*;

fn settings(seed: u64, operations: u32) -> Settings {
    Settings { seed, operations, hosts: 12, shared_storage: false, plant: None, log_file: None, trace: false }
}

#[test]
fn hundreds_of_operations_leave_nothing_stuck_and_nothing_behind() {
    let settings = settings(24, 300);
    let found = once(&settings).unwrap();
    let text = report::text(&settings, &found);
    assert!(found.wrong.is_empty(), "{text}");
    assert!(found.lives > 1, "the control plane was never killed\n{text}");
    assert!(found.struck.iter().map(|(_, times)| times).sum::<u64>() > 20, "too few faults struck\n{text}");
    assert!(found.tally.of.values().map(|one| one.accepted).sum::<u64>() > 150, "too many refusals\n{text}");
}

#[test]
fn equal_seeds_give_equal_logs_and_others_do_not() {
    let head = |seed| {
        let found = once(&settings(seed, 120)).unwrap();
        (found.events, found.head.to_string())
    };
    let first = head(7);
    assert_eq!(head(7), first);
    assert_ne!(head(8), first);
}

#[test]
fn a_planted_defect_is_found_in_each_run_of_its_seed() {
    // After a crash between a step and its record, the process repeats the step. So not every planted defect leaves
    // something behind.
    let planted = (1..10).map(|n| format!("delete_instance.release_claim@{n}"));
    let runs = planted.map(|plant| {
        let settings = Settings { plant: plant.parse().ok(), ..settings(4, 120) };
        let found = once(&settings).unwrap();
        (plant, settings, found)
    });
    let mut found = runs.filter(|(.., found)| found.wrong.iter().any(|one| one.what.contains("holds")));
    let (plant, settings, found) = found.next().unwrap();
    let text = report::text(&settings, &found);
    assert!(text.contains(&format!("--seed 4 --operations 120 --hosts 12 --plant {plant}")), "{text}");
    let again = once(&settings).unwrap();
    assert_eq!((again.wrong, again.stories), (found.wrong, found.stories));
}

#[test]
fn planted_defects_are_parsed() {
    for text in ["a.b@1", "build_instance.spawn_guest@12"] {
        assert_eq!(text.parse::<PlantedDefect>().unwrap().to_string(), text);
    }
    for text in ["", "a.b", "a@1", "a.b@0", "a.b@x"] {
        assert!(text.parse::<PlantedDefect>().is_err(), "{text}");
    }
}

/// A server after the sample events that `wanted` selects.
fn server(wanted: fn(&InstanceEvent) -> bool) -> Alive {
    let mut state = Instance::default();
    for event in samples().into_iter().filter(wanted) {
        state.evolve(&event, Timestamp(7));
    }
    state.alive().unwrap().clone()
}

/// A hard reboot creates a vanished guest again. A rescued server refuses a hard reboot, so the run ends the rescue
/// instead.
#[test]
fn a_rescued_server_without_its_guest_is_unrescued_at_the_end() {
    use InstanceEvent as E;
    let active = server(|event| matches!(event, E::BuildRequested(_) | E::BuildSucceeded(_)));
    let rescued = server(|event| {
        matches!(event, E::BuildRequested(_) | E::BuildSucceeded(_) | E::RescueRequested(_) | E::Rescued(_))
    });
    let asked = |server: &Alive, vanished| final_checks::finishing(server, vanished, &mut Dice::new(1));
    assert_eq!(asked(&active, true), Some(ChaosOperation::RebootHard));
    assert_eq!(asked(&rescued, true), Some(ChaosOperation::Unrescue));
    assert_eq!((asked(&active, false), asked(&rescued, false)), (None, None));
    let request = operations::plain(ChaosOperation::Unrescue, InstanceId::random());
    assert_eq!((request.method, request.body), ("POST", Some(json!({"unrescue": null}))));
}

/// Several seeds with thousands of operations each. Runs only if `CHRONOVA_SOAK` is set.
#[test]
fn thousands_of_operations_over_several_seeds() {
    if std::env::var_os("CHRONOVA_SOAK").is_none() {
        return eprintln!("skipped: only with CHRONOVA_SOAK");
    }
    for seed in 100..106 {
        let settings = Settings { hosts: 40, ..settings(seed, 3_000) };
        let found = once(&settings).unwrap();
        assert!(found.wrong.is_empty(), "{}", report::text(&settings, &found));
    }
}
