#![allow(clippy::unwrap_used)]
//! Which hosts will do, and which is best.

use std::collections::BTreeSet;

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::host::{Host, HostEvent, KnownHost, Registered, samples};
use chronova_events::ids::{HostId, ProviderId};
use chronova_events::instance::{BuildRequested, InstanceEvent};
use chronova_events::ledger::{Inventory, InventoryLine, Provider};
use uuid::Uuid;

use super::{Candidate, Request, SchedulerOptions, filters, weighers};

/// A host called `h{n}` with this much left of CPUs, MiB and GiB.
struct Made(KnownHost, Provider);

fn host(n: u128, vcpus: u64, memory_mib: u64, disk_gib: u64) -> Made {
    let registered = samples().into_iter().find_map(|event| match event {
        HostEvent::Registered(registered) => Some(registered),
        _ => None,
    });
    let id = HostId(Uuid::from_u128(n));
    let registered = Registered { host: id, hostname: format!("h{n}"), ..registered.unwrap() };
    let mut host = Host::default();
    host.evolve(&registered.into(), Timestamp(7));
    let line = |class: &str, total: u64| {
        let inventory = Inventory {
            class: class.to_owned(),
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        (class.to_owned(), InventoryLine { inventory, used: 0 })
    };
    let inventories = [line("VCPU", vcpus), line("MEMORY_MB", memory_mib), line("DISK_GB", disk_gib)];
    let provider = Provider {
        id: ProviderId(id.0),
        name: format!("h{n}"),
        parent: None,
        generation: 0,
        created_at: Timestamp(7),
        updated_at: Timestamp(7),
        inventories: inventories.into(),
        traits: BTreeSet::new(),
        aggregates: BTreeSet::new(),
    };
    Made(*host.0.unwrap(), provider)
}

fn request() -> Request {
    Request {
        resources: vec![("DISK_GB".into(), 10), ("MEMORY_MB".into(), 1024), ("VCPU".into(), 2)],
        availability_zone: None,
        forced_host: None,
        excluded: BTreeSet::new(),
        architecture: None,
        default_zone: "nova".into(),
    }
}

fn candidates(made: &[Made]) -> Vec<Candidate<'_>> {
    made.iter().map(|Made(host, provider)| Candidate { host, provider }).collect()
}

/// The names of the hosts that pass.
fn passing(made: &[Made], request: &Request, options: &SchedulerOptions) -> Vec<String> {
    let left = filters::apply(candidates(made), request, options, &mut Vec::new());
    left.iter().map(|candidate| candidate.host.hostname.clone()).collect()
}

fn pass(made: &[Made], request: &Request) -> Vec<String> {
    passing(made, request, &SchedulerOptions::default())
}

fn best(made: &[Made], options: &SchedulerOptions) -> Vec<String> {
    weighers::best(&candidates(made), options).into_iter().map(|chosen| chosen.hostname).collect()
}

#[test]
fn capacity_is_by_placements_rules() {
    let fits = || host(1, 8, 4096, 100);
    assert_eq!(pass(&[fits()], &request()), ["h1"]);
    let spoil = |with: fn(&mut InventoryLine)| {
        let mut made = fits();
        with(made.1.inventories.get_mut("VCPU").unwrap());
        pass(&[made], &request()).is_empty()
    };
    assert!(spoil(|line| line.used = 7), "used up");
    assert!(!spoil(|line| line.used = 6), "just enough");
    assert!(spoil(|line| line.inventory.reserved = 7), "reserved");
    assert!(spoil(|line| line.inventory.max_unit = 1), "too much at once");
    assert!(spoil(|line| line.inventory.min_unit = 4), "too little at once");
    assert!(spoil(|line| line.inventory.step_size = 3), "not a multiple");
    let mut without = fits();
    without.1.inventories.remove("DISK_GB");
    assert_eq!(pass(&[without], &request()), Vec::<String>::new(), "a class that the host does not have");
}

#[test]
fn only_hosts_that_answer_and_are_enabled() {
    let spoil = |with: fn(&mut KnownHost)| {
        let mut made = host(1, 8, 4096, 100);
        with(&mut made.0);
        pass(&[made], &request()).is_empty()
    };
    assert!(spoil(|host| host.up = false));
    assert!(spoil(|host| host.enabled = false));
    assert!(spoil(|host| host.forced_down = true));
}

#[test]
fn zones_architectures_and_hosts_tried_before() {
    let made = [host(1, 8, 4096, 100), host(2, 8, 4096, 100)];
    let zone = |zone: &str| Request { availability_zone: Some(zone.into()), ..request() };
    assert_eq!(pass(&made, &zone("nova")), ["h1", "h2"]);
    assert_eq!(pass(&made, &zone("elsewhere")), Vec::<String>::new());
    let architecture = |name: &str| Request { architecture: Some(name.into()), ..request() };
    assert_eq!(pass(&made, &architecture("x86_64")), ["h1", "h2"]);
    assert_eq!(pass(&made, &architecture("aarch64")), Vec::<String>::new());
    let excluded = Request { excluded: [HostId(Uuid::from_u128(1))].into(), ..request() };
    assert_eq!(pass(&made, &excluded), ["h2"]);
}

#[test]
fn a_host_asked_for_by_name_needs_room_only() {
    let mut made = [host(1, 8, 4096, 100), host(2, 8, 4096, 100), host(3, 1, 4096, 100)];
    made[1].0.enabled = false;
    let forced = |name: &str| Request { forced_host: Some(name.into()), ..request() };
    assert_eq!(pass(&made, &forced("h2")), ["h2"], "Nova ignores the filters for it");
    assert_eq!(pass(&made, &forced("h3")), Vec::<String>::new(), "but not Placement");
    assert_eq!(pass(&made, &forced("h9")), Vec::<String>::new());
}

#[test]
fn a_filter_can_be_switched_off_and_each_check_says_how_many_it_left() {
    let mut made = [host(1, 8, 4096, 100), host(2, 8, 4096, 100), host(3, 1, 4096, 100)];
    made[0].0.up = false;
    let options = SchedulerOptions { enabled_filters: vec![], ..SchedulerOptions::default() };
    assert_eq!(passing(&made, &request(), &options), ["h1", "h2"]);
    let mut left = Vec::new();
    filters::apply(candidates(&made), &request(), &SchedulerOptions::default(), &mut left);
    let expected = [
        ("forced host", 3),
        ("not tried before", 3),
        ("capacity", 2),
        ("ComputeFilter", 1),
        ("AvailabilityZoneFilter", 1),
        ("ImagePropertiesFilter", 1),
    ];
    assert_eq!(left, expected);
}

#[test]
fn the_emptiest_host_is_best_and_equals_are_ordered_by_name() {
    let options = SchedulerOptions::default();
    assert_eq!(
        best(&[host(1, 2, 1024, 10), host(2, 8, 4096, 100), host(3, 4, 2048, 50)], &options),
        ["h2", "h3", "h1"]
    );
    assert_eq!(best(&[host(3, 8, 4096, 100), host(1, 8, 4096, 100)], &options), ["h1", "h3"]);
    assert_eq!(best(&[], &options), Vec::<String>::new());
}

#[test]
fn multipliers_weigh_and_a_negative_one_stacks() {
    // Normalised over the candidates: 100 GiB more disk is as much as 1 GiB more memory.
    let made = [host(1, 8, 4096, 10), host(2, 8, 3072, 1000)];
    let only = |ram: f64, disk: f64| SchedulerOptions {
        ram_weight_multiplier: ram,
        cpu_weight_multiplier: 0.0,
        disk_weight_multiplier: disk,
        ..SchedulerOptions::default()
    };
    assert_eq!(best(&made, &only(1.0, 0.0)), ["h1", "h2"]);
    assert_eq!(best(&made, &only(0.0, 1.0)), ["h2", "h1"]);
    assert_eq!(best(&made, &only(1.0, 1.0)), ["h1", "h2"], "equal, so by name");
    assert_eq!(best(&made, &only(2.0, 1.0)), ["h1", "h2"]);
    assert_eq!(best(&made, &only(-1.0, 0.0)), ["h2", "h1"], "the fullest first");
}

#[test]
fn no_more_candidates_than_asked_for_and_they_are_the_best() {
    let made: Vec<Made> = (1..=20).map(|n| host(n, 8, 1024 * u64::try_from(n).unwrap(), 100)).collect();
    let options = SchedulerOptions { candidates: 3, ..SchedulerOptions::default() };
    assert_eq!(best(&made, &options), ["h20", "h19", "h18"]);
}

#[test]
fn a_flavor_becomes_resources_as_in_nova() {
    let build = chronova_events::instance::samples().into_iter().find_map(|event| match event {
        InstanceEvent::BuildRequested(request) => Some(request),
        _ => None,
    });
    let resources = |root: u32, ephemeral: u32, swap: u32| {
        let mut build: BuildRequested = build.clone().unwrap();
        let flavor = &mut build.flavor;
        (flavor.vcpus, flavor.memory_mib) = (2, 512);
        (flavor.root_gib, flavor.ephemeral_gib, flavor.swap_mib) = (root, ephemeral, swap);
        let request = Request::of_build(&build, &BTreeSet::new(), "nova");
        request.resources.iter().map(|(class, amount)| format!("{class}={amount}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(resources(10, 5, 1), "DISK_GB=16 MEMORY_MB=512 VCPU=2", "a MiB of swap is a GiB of disk");
    assert_eq!(resources(10, 0, 1024), "DISK_GB=11 MEMORY_MB=512 VCPU=2");
    assert_eq!(resources(0, 0, 0), "MEMORY_MB=512 VCPU=2", "no disk is no claim");
}
