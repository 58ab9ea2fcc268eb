#![allow(clippy::unwrap_used)]
//! Tests of folding the events of hosts into the fleet.

use chronova_events::host::{self, Registered};
use chronova_events::instance::{self, Placed};
use chronova_events::ledger::{Inventory, InventoryReplaced, ProviderCreated, Released, TraitsReplaced};
use chronova_events::process::{Finished, ProcessOutcome, Started, StepFailed};
use uuid::Uuid;

use super::*;

fn host_id(n: u128) -> HostId {
    HostId(Uuid::from_u128(n))
}

fn registered(n: u128) -> Registered {
    let sample = host::samples().into_iter().find_map(|event| match event {
        HostEvent::Registered(registered) => Some(registered),
        _ => None,
    });
    Registered { host: host_id(n), hostname: format!("H{n}"), ..sample.unwrap() }
}

fn inventory(class: &str, total: u64) -> Inventory {
    let class = class.to_owned();
    Inventory { class, total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 }
}

/// Hosts `H1`, `H2`...: 8 CPUs each; every second one has a trait.
fn fleet(hosts: u128) -> FleetView {
    let mut fleet = FleetView::default();
    for n in 1..=hosts {
        let provider = ProviderId(host_id(n).0);
        let traits = if n % 2 == 0 { vec!["HW_CPU_X86_AVX".to_owned()] } else { vec![] };
        fleet.apply_ledger(&ProviderCreated { provider, name: format!("H{n}"), parent: None }.into());
        fleet.apply_ledger(&InventoryReplaced { provider, inventories: vec![inventory("VCPU", 8)] }.into());
        fleet.apply_ledger(&TraitsReplaced { provider, traits }.into());
        fleet.apply_host(host_id(n), &registered(n).into());
    }
    fleet
}

fn claimed(server: u128, host: u128, amount: u64) -> LedgerEvent {
    let provider = ProviderId(host_id(host).0);
    Claimed {
        consumer: ConsumerId::new(Uuid::from_u128(server).to_string()),
        project: "p".into(),
        user: "u".into(),
        consumer_type: None,
        allocations: vec![Allocation { provider, resources: vec![("VCPU".into(), amount)] }],
    }
    .into()
}

fn slots(set: &Slots) -> Vec<Slot> {
    set.iter().collect()
}

#[test]
fn indexes_follow_the_ledger_and_the_hosts() {
    let mut fleet = fleet(4);
    assert_eq!(slots(fleet.hosts()), [0, 1, 2, 3]);
    assert_eq!(slots(fleet.with_trait("HW_CPU_X86_AVX").unwrap()), [1, 3]);
    assert_eq!(slots(&fleet.named("h3")), [2], "the case of a host's name must not matter");
    fleet.apply_host(host_id(2), &chronova_events::host::Disabled { reason: None }.into());
    fleet.apply_host(host_id(3), &chronova_events::host::WentDown { reason: String::new() }.into());
    assert_eq!((slots(fleet.enabled()), slots(fleet.answering())), (vec![0, 2, 3], vec![0, 1, 3]));
    fleet.apply_ledger(&claimed(9, 1, 6));
    fleet.apply_ledger(&claimed(9, 1, 5));
    assert_eq!(fleet.line("VCPU", 0).unwrap().free(), 3, "a second claim must replace the consumer's first");
    assert_eq!(fleet.column("VCPU").unwrap().roomiest(4).collect::<Vec<_>>(), [3, 2, 1]);
    fleet.apply_ledger(&Released { consumer: ConsumerId::new(Uuid::from_u128(9).to_string()) }.into());
    assert_eq!(fleet.line("VCPU", 0).unwrap().free(), 8);
    let provider = ProviderId(host_id(2).0);
    fleet.apply_ledger(&TraitsReplaced { provider, traits: vec![] }.into());
    assert_eq!(slots(fleet.with_trait("HW_CPU_X86_AVX").unwrap()), [3]);
    fleet.apply_ledger(&chronova_events::ledger::ProviderDeleted { provider }.into());
    assert_eq!(slots(fleet.hosts()), [0, 2, 3]);
}

#[test]
fn servers_count_on_their_hosts_and_as_io_while_they_are_built() {
    let mut fleet = fleet(2);
    let server = InstanceId(Uuid::from_u128(5));
    let process = chronova_events::ids::ProcessId(Uuid::from_u128(6));
    let placed =
        Placed { process, host: host_id(1), hostname: "H1".into(), attempt: 1, availability_zone: "nova".into() };
    fleet.apply_instance(server, &placed.into());
    let count = |fleet: &FleetView| (fleet.row(0).servers.len(), fleet.row(0).io_ops);
    assert_eq!((count(&fleet), fleet.whereabouts(server)), ((1, 1), Some(0)));
    fleet.rows[0].failed_builds = 2;
    fleet.apply_instance(server, &instance::BuildSucceeded { process }.into());
    assert_eq!((count(&fleet), fleet.row(0).failed_builds), ((1, 0), 0));
    fleet.apply_instance(server, &instance::Deleted { process }.into());
    assert_eq!((count(&fleet), fleet.whereabouts(server)), ((0, 0), None));
}

/// The states that Nova's `io_workload` counts.
#[test]
fn work_on_a_server_counts_as_io_of_its_host() {
    let mut fleet = fleet(1);
    let server = InstanceId(Uuid::from_u128(5));
    let process = ProcessId(Uuid::from_u128(6));
    let (hostname, availability_zone) = ("H1".to_owned(), "nova".to_owned());
    let placed = Placed { process, host: host_id(1), hostname, attempt: 1, availability_zone };
    fleet.apply_instance(server, &placed.into());
    fleet.apply_instance(server, &instance::BuildSucceeded { process }.into());
    let of = |kind: &str| {
        let kind = format!("instance.{kind}");
        instance::samples().into_iter().map(Event::from).find(|event| event.kind() == kind).unwrap()
    };
    let work = |stage| Event::from(InstanceEvent::from(instance::WorkAdvanced { process, stage }));
    let moves = |stage| Event::from(InstanceEvent::from(instance::MoveAdvanced { process, stage }));
    let backup = Some(instance::Rotation { kind: "daily".to_owned(), keep: 7 });
    let image = chronova_events::ids::ImageId(Uuid::from_u128(7));
    let backup = Event::from(InstanceEvent::from(instance::SnapshotRequested { process, image, backup }));
    let steps = [
        (of("rebuild_requested"), 1),
        (work(WorkStage::AtWork), 1),
        (work(WorkStage::Disks), 0),
        (work(WorkStage::Spawning), 0),
        (of("rebuilt"), 0),
        (of("rescue_requested"), 1),
        (of("rescued"), 0),
        (of("snapshot_requested"), 0),
        (work(WorkStage::AtWork), 1),
        (work(WorkStage::PendingUpload), 0),
        (of("snapshot_taken"), 0),
        (backup, 1),
        (of("snapshot_failed"), 0),
        (of("move_requested"), 1),
        (moves(MoveStage::Migrating), 1),
        (moves(MoveStage::Migrated), 0),
        (of("move_failed"), 0),
        (of("shelve_requested"), 0),
        (of("rebuild_requested"), 1),
        (of("state_declared"), 0),
    ];
    for (step, count) in steps {
        fleet.take(&server.to_string(), &step);
        assert_eq!((fleet.row(0).io_ops, fleet.row(0).servers.len()), (count, 1), "{}", step.kind());
    }
}

#[test]
fn only_builds_count_as_failed_builds() {
    let mut fleet = fleet(1);
    let instance = InstanceId(Uuid::from_u128(5));
    let fault = instance::FaultInfo { code: 500, message: String::new(), details: String::new() };
    let failed = StepFailed { step: "spawn_guest".into(), elsewhere: true, host: Some(host_id(1)), fault };
    let tasks = [
        Task::MoveInstance { instance },
        Task::Unshelve { instance },
        Task::Evacuate { instance },
        Task::LiveMigrate { instance },
        Task::BuildInstance { instance },
    ];
    let mut counts = Vec::new();
    for (n, task) in (10..).zip(tasks) {
        let process = ProcessId(Uuid::from_u128(n));
        let take = |fleet: &mut FleetView, event: ProcessEvent| fleet.take(&process.to_string(), &event.into());
        take(&mut fleet, Started { process, task }.into());
        take(&mut fleet, failed.clone().into());
        take(&mut fleet, Finished { outcome: ProcessOutcome::Failed }.into());
        counts.push(fleet.row(0).failed_builds);
    }
    assert_eq!(counts, [0, 0, 0, 0, 1]);
    assert!(fleet.builds.is_empty(), "a process is counted as a build after it finished");
    // A build that would fail on every host counts as well, although its user may have caused the failure.
    let process = ProcessId(Uuid::from_u128(19));
    let failed = StepFailed { elsewhere: false, ..failed };
    let started = Started { process, task: Task::BuildInstance { instance } };
    for event in [ProcessEvent::from(started), failed.into()] {
        fleet.take(&process.to_string(), &event.into());
    }
    assert_eq!(fleet.row(0).failed_builds, 2);
    let process = ProcessId(Uuid::from_u128(20));
    let (hostname, availability_zone) = ("H1".to_owned(), "nova".to_owned());
    let placed = Placed { process, host: host_id(1), hostname, attempt: 1, availability_zone };
    fleet.apply_instance(instance, &placed.into());
    fleet.apply_instance(instance, &instance::Unshelved { process, root: None }.into());
    assert_eq!(fleet.row(0).failed_builds, 2, "an unshelve must not count as a successful build");
    fleet.apply_instance(instance, &instance::BuildSucceeded { process }.into());
    assert_eq!(fleet.row(0).failed_builds, 0);
}

#[test]
fn provider_trees_and_sharing_providers_are_noticed() {
    let mut fleet = fleet(1);
    assert!(fleet.is_flat());
    let child = ProviderId(Uuid::from_u128(50));
    let parent = Some(ProviderId(host_id(1).0));
    fleet.apply_ledger(&ProviderCreated { provider: child, name: "numa0".into(), parent }.into());
    assert!(!fleet.is_flat());
    for traits in [vec![SHARES.to_owned()], vec![]] {
        fleet.apply_ledger(&TraitsReplaced { provider: child, traits }.into());
        assert!(!fleet.is_flat(), "a child that stopped sharing must still count as a child");
    }
    fleet.apply_ledger(&chronova_events::ledger::ProviderDeleted { provider: child }.into());
    assert!(fleet.is_flat());
    let share = TraitsReplaced { provider: ProviderId(host_id(1).0), traits: vec![SHARES.to_owned()] };
    fleet.apply_ledger(&share.into());
    assert!(!fleet.is_flat());
    assert_eq!(slots(fleet.hosts()), [0], "a provider without a host must not be listed");
}

#[test]
fn it_survives_a_checkpoint() {
    let mut fleet = fleet(3);
    fleet.apply_ledger(&claimed(9, 1, 6));
    let saved = serde_json::to_value(&fleet).unwrap();
    let mut back: FleetView = serde_json::from_value(saved.clone()).unwrap();
    assert_eq!(serde_json::to_value(&back).unwrap(), saved);
    back.apply_ledger(&Released { consumer: ConsumerId::new(Uuid::from_u128(9).to_string()) }.into());
    assert_eq!(back.line("VCPU", 0).unwrap().free(), 8);
}
