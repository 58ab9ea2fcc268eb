//! Tests the machine type of a server. It is recorded with the first host and then kept, and an operator can change it.

use chronova_events::instance::Scheduled;

use super::*;

fn scheduled() -> Box<Scheduled> {
    let sample = samples().into_iter().find_map(|event| match event {
        InstanceEvent::Scheduled(scheduled) => Some(scheduled),
        _ => None,
    });
    Box::new(Scheduled { process: BUILD, ..sample.unwrap() })
}

fn on(host: HostId, machine_type: &str) -> Command {
    let placed = Some(Placed { host, ..placed() });
    Record::Scheduled { placed, scheduled: scheduled(), network: None, machine_type: Some(machine_type.into()) }.into()
}

fn change(to: &str, force: bool) -> Command {
    Request::ChangeMachineType { machine_type: to.into(), force }.into()
}

fn of(given: &Given) -> (Option<&str>, bool) {
    let server = given.0.alive().unwrap();
    (server.machine_type(), server.outdated_definition)
}

#[test]
fn a_machine_type_is_recorded_with_the_first_host_and_kept() {
    let first = building().and(on(HOST, "pc"));
    assert_eq!(of(&first), (Some("pc"), false));
    // The build fails there, and the next host has another architecture.
    let next =
        first.and(Record::Unplaced { process: BUILD, host: HOST, reason: "no".into() }).and(on(ELSEWHERE, "virt"));
    assert_eq!(of(&next), (Some("virt"), false));
    let built = next.and(Record::Built { process: BUILD });
    assert_eq!(
        built.when(Record::MachineType { machine_type: "q35".into() }),
        Ok(vec![]),
        "a second record changes nothing"
    );
    let older = active();
    assert_eq!(of(&older), (None, false));
    let record = || Record::MachineType { machine_type: "q35".into() };
    assert_eq!(older.when(record()), Ok(vec!["instance.machine_type_recorded"]), "a server without a record gets one");
    assert_eq!(of(&older.and(record())), (Some("q35"), false));
}

#[test]
fn an_operator_changes_the_machine_type_of_a_guest_that_is_off() {
    let off = stopped().and(Record::MachineType { machine_type: "pc".into() });
    let refused = |to: &str| Err(Reject::MachineType { from: "pc".into(), to: to.into() });
    assert_eq!(off.when(change("pc", false)), Ok(vec![]));
    assert_eq!(off.when(change("pc-i440fx-7.2", false)), refused("pc-i440fx-7.2"), "an alias stays an alias");
    assert_eq!(off.when(change("pc-i440fx-7.2", true)), Ok(vec!["instance.machine_type_changed"]));
    let versioned = stopped().and(Record::MachineType { machine_type: "pc-i440fx-7.2".into() });
    assert_eq!(versioned.when(change("pc-i440fx-8.0", false)), Ok(vec!["instance.machine_type_changed"]));
    assert_eq!(off.when(change("q35", false)), refused("q35"));
    let state =
        |action| Err(Reject::NotInState { action: "update machine type", attribute: "vm_state", value: action });
    assert_eq!(active().when(change("q35", false)), state("active"));
    let running = active().and(Record::MachineType { machine_type: "pc".into() });
    assert_eq!(running.when(change("pc", false)), Ok(vec![]), "the type that it has is always accepted");
    let changed = off.and(change("q35", true));
    assert_eq!(of(&changed), (Some("q35"), true), "the change marks the definition as outdated");
    let started = changed.and(power(PowerAction::Start)).and(done(POWER, PowerAction::Start));
    assert_eq!(of(&started), (Some("q35"), false), "the start removes the mark");
}

/// `force` skips the rules for states, boards and versions, as in Nova.
#[test]
fn a_forced_machine_type_waits_for_the_next_start() {
    let running = active().and(Record::MachineType { machine_type: "pc".into() });
    let changed = running.and(change("q35", true));
    assert_eq!(of(&changed), (Some("q35"), true), "the guest still runs with the former board");
    let off = changed.and(power(PowerAction::Stop)).and(done(POWER, PowerAction::Stop));
    assert_eq!(of(&off), (Some("q35"), true));
    assert_eq!(off.when(change("wonder", true)), Ok(vec!["instance.machine_type_changed"]), "an unknown board");
    for text in ["", "<os/>", "a b"] {
        let refused = Err(Reject::MachineType { from: "q35".into(), to: text.into() });
        assert_eq!(off.when(change(text, true)), refused, "{text} is no name");
    }
    let busy = off.and(power(PowerAction::Start));
    let reject = Reject::NotInState { action: "update machine type", attribute: "task_state", value: "powering-on" };
    assert_eq!(busy.when(change("pc", true)), Err(reject));
}

/// No start records the type of a server that is on no host, so an operator sets it.
#[test]
fn a_shelved_server_without_a_machine_type_gets_one_from_an_operator() {
    let away = super::work::offloaded();
    assert_eq!(of(&away).0, None, "an older version recorded no type");
    assert_eq!(
        away.when(change("wonder", false)),
        Err(Reject::MachineType { from: String::new(), to: "wonder".into() })
    );
    assert_eq!(
        away.when(change("q35", false)),
        Ok(vec!["instance.machine_type_changed"]),
        "there is nothing to compare"
    );
    assert_eq!(of(&away.and(change("q35", false))).0, Some("q35"));
    // A server that is shelved and still on its host may be changed, too.
    let kept = super::work::shelved();
    assert_eq!(kept.when(change("q35", false)), Ok(vec!["instance.machine_type_changed"]));
}
