//! Tests weighers, multipliers, and the random choice among the best hosts.

use super::*;

#[test]
fn the_emptiest_host_is_best_and_ties_are_ordered_by_age() {
    let mut cell = Cell::default();
    cell.options.max_attempts = 10;
    cell.host(1, 2, 1024, 10).host(2, 8, 4096, 100).host(3, 4, 2048, 50);
    assert_eq!(cell.names(&request(flavor(1, 512, 1))), ["h2", "h3", "h1"]);
    let mut same = Cell::default();
    same.host(3, 8, 4096, 100).host(1, 8, 4096, 100);
    assert_eq!(same.names(&small()), ["h3", "h1"]);
    assert!(same.decide(&small()).reasons.weighed.iter().all(|host| host.weight.abs() < f64::EPSILON));
}

/// The given multipliers; all others are 0.
fn only(ram: f64, cpu: f64, disk: f64) -> Multipliers {
    Multipliers { ram, cpu, disk, io_ops: 0.0, build_failure: 0.0, hypervisor_version: 0.0, ..Multipliers::default() }
}

#[test]
fn weights_are_normalised_and_a_negative_multiplier_packs() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host(2, 8, 3072, 1000);
    let names = |cell: &mut Cell, multipliers: Multipliers| {
        cell.options.multipliers = multipliers;
        cell.names(&small())
    };
    assert_eq!(names(&mut cell, only(1.0, 0.0, 0.0)), ["h1", "h2"]);
    assert_eq!(names(&mut cell, only(-1.0, 0.0, 0.0)), ["h2", "h1"], "the fullest host is first");
    assert_eq!(
        names(&mut cell, only(1.0, 0.0, 1.0)),
        ["h2", "h1"],
        "h2 has a quarter less memory, h1 nine tenths less disk"
    );
    let weighed = cell.decide(&small()).reasons.weighed;
    let parts: Vec<(&str, f64, f64)> =
        weighed[0].parts.iter().map(|part| (part.weigher.as_str(), part.value, part.weight)).collect();
    assert_eq!(parts, [("RAMWeigher", 3072.0, 0.75), ("DiskWeigher", 1_024_000.0, 1.0)]);
}

#[test]
fn weights_take_plain_amounts_of_memory_and_ratios_for_cpus() {
    let mut cell = Cell::three();
    let line = |class: &str, ratio: f64| Inventory {
        class: class.into(),
        total: 8,
        reserved: 1,
        min_unit: 1,
        max_unit: 8,
        step_size: 1,
        allocation_ratio: ratio,
    };
    let inventories = vec![line("MEMORY_MB", 4.0), line("VCPU", 4.0)];
    cell.ledger(InventoryReplaced { provider: ProviderId(host_id(1).0), inventories });
    cell.use_up(1, "MEMORY_MB", 9);
    let asked = small();
    let context = SchedulingContext::new(cell.sources(), &asked, &cell.options);
    let host = context.host(0);
    assert!((host.plainly_free("MEMORY_MB") + 2.0).abs() < f64::EPSILON, "8 - 1 - 9: overcommitted");
    assert!((host.free_cpus() - 31.0).abs() < f64::EPSILON, "8 x 4 - 1");
}

#[test]
fn aggregates_override_multipliers_and_the_smallest_counts() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host(2, 8, 3072, 100);
    cell.options.multipliers = only(1.0, 0.0, 0.0);
    assert_eq!(cell.names(&small())[0], "h1");
    cell.aggregate(&[1], &[("ram_weight_multiplier", "0.9")]);
    cell.aggregate(&[1], &[("ram_weight_multiplier", "0.5")]);
    assert_eq!(cell.names(&small())[0], "h2");
    cell.aggregate(&[1], &[("ram_weight_multiplier", "much")]);
    assert_eq!(
        cell.names(&small())[0],
        "h1",
        "if one aggregate's value is no number, no aggregate overrides the option"
    );
}

#[test]
fn soft_affinity_counts_members() {
    let cell = Cell::three();
    let asked = small();
    let mut context = SchedulingContext::new(cell.sources(), &asked, &cell.options);
    for (policy, expected) in [
        (ServerGroupPolicy::SoftAffinity, [(1.0, 0.5), (2.0, 1.0), (0.0, 0.0)]),
        (ServerGroupPolicy::SoftAntiAffinity, [(-1.0, 0.5), (-2.0, 0.0), (0.0, 1.0)]),
    ] {
        let members = BTreeMap::from([(0, 1), (1, 2)]);
        context.group = Some(InstanceGroup { name: "g".to_owned(), policy, most_per_host: 0, members });
        let weighed = weighers::weigh(&context, vec![0, 1, 2]);
        let parts = [0, 1, 2].map(|place| weighed.record(&context, place).parts);
        let by_group = parts.map(|parts| {
            let mut of_policies = parts.into_iter().filter(|part| part.weigher.starts_with("ServerGroupSoft"));
            let one = of_policies.next().unwrap();
            assert!(of_policies.next().is_none(), "the other policy has no weight");
            (one.value, one.weight)
        });
        assert_eq!(by_group, expected, "{policy:?}");
    }
}

/// Records that a build failed on the host. The server has the host's number.
fn failed_build(cell: &mut Cell, host: u128) {
    let failed = chronova_events::process::StepFailed {
        step: "spawn_guest".into(),
        elsewhere: true,
        host: Some(host_id(host)),
        fault: chronova_events::instance::FaultInfo { code: 500, message: String::new(), details: String::new() },
    };
    let process = ProcessId(uuid::Uuid::from_u128(1));
    let task = chronova_events::process::Task::BuildInstance { instance: server_id(host) };
    let started = chronova_events::process::Started { process, task };
    cell.take(process.to_string(), chronova_events::process::ProcessEvent::from(started));
    cell.take(process.to_string(), chronova_events::process::ProcessEvent::from(failed));
}

/// Each weigher has a key of its own. The smallest value in a host's aggregates overrides the option. The weigher of
/// images is tested through the API. The weigher of metrics is tested in `reported_metrics_are_demanded_and_weighed`.
#[test]
fn aggregates_override_the_multiplier_of_each_weigher() {
    let weights = |cell: &Cell, weigher: &str, policy: ServerGroupPolicy| -> Vec<f64> {
        let asked = small();
        let mut context = SchedulingContext::new(cell.sources(), &asked, &cell.options);
        let members = BTreeMap::from([(0, 1), (1, 2)]);
        context.group = Some(InstanceGroup { name: "g".to_owned(), policy, most_per_host: 0, members });
        let weighed = weighers::weigh(&context, vec![0, 1, 2]);
        let of = |place| {
            let parts = weighed.record(&context, place).parts;
            parts.into_iter().find(|part| part.weigher == weigher).map_or(0.0, |part| part.weight)
        };
        (0..3).map(of).collect()
    };
    let option = Multipliers {
        ram: 4.0,
        cpu: 4.0,
        disk: 4.0,
        hypervisor_version: 4.0,
        num_instances: 4.0,
        io_ops: 4.0,
        pci: 4.0,
        soft_affinity: 4.0,
        soft_anti_affinity: 4.0,
        build_failure: 4.0,
        ..Multipliers::default()
    };
    for (weigher, key) in [
        ("RAMWeigher", "ram_weight_multiplier"),
        ("CPUWeigher", "cpu_weight_multiplier"),
        ("DiskWeigher", "disk_weight_multiplier"),
        ("HypervisorVersionWeigher", "hypervisor_version_weight_multiplier"),
        ("NumInstancesWeigher", "num_instances_weight_multiplier"),
        ("IoOpsWeigher", "io_ops_weight_multiplier"),
        ("PCIWeigher", "pci_weight_multiplier"),
        ("ServerGroupSoftAffinityWeigher", "soft_affinity_weight_multiplier"),
        ("ServerGroupSoftAntiAffinityWeigher", "soft_anti_affinity_weight_multiplier"),
        ("BuildFailureWeigher", "build_failure_weight_multiplier"),
    ] {
        let policy = match weigher {
            "ServerGroupSoftAntiAffinityWeigher" => ServerGroupPolicy::SoftAntiAffinity,
            _ => ServerGroupPolicy::SoftAffinity,
        };
        let mut cell = Cell::default();
        cell.options.multipliers = option.clone();
        cell.host(1, 8, 4096, 100)
            .host_that(2, 16, 8192, 200, |host| host.hypervisor_version += 1)
            .host(3, 8, 4096, 100);
        each_filter::with_devices(&mut cell, [2, 1]);
        cell.server(1, 1);
        failed_build(&mut cell, 2);
        let scaled = |weights: &[f64], factor: f64| weights.iter().map(|weight| weight * factor).collect::<Vec<_>>();
        let by_option = weights(&cell, weigher, policy);
        assert!(by_option.iter().any(|weight| *weight != 0.0), "{weigher} has no effect: {by_option:?}");
        // An aggregate of the other two hosts leaves the first host its option.
        cell.aggregate(&[2, 3], &[(key, "2")]);
        let mut expected = scaled(&by_option, 0.5);
        expected[0] = by_option[0];
        assert_eq!(weights(&cell, weigher, policy), expected, "{weigher}");
        cell.aggregate(&[1, 2, 3], &[(key, "-8")]);
        assert_eq!(weights(&cell, weigher, policy), scaled(&by_option, -2.0), "{weigher}");
    }
}

#[test]
fn busy_hosts_and_hosts_where_builds_failed_come_last() {
    let mut cell = Cell::three();
    cell.server(1, 1);
    assert_eq!(cell.names(&small()), ["h2", "h3", "h1"]);
    failed_build(&mut cell, 2);
    assert_eq!(cell.names(&small()), ["h3", "h1", "h2"]);
    cell.options.counts_build_failures = false;
    assert_eq!(cell.names(&small()), ["h2", "h3", "h1"]);
    cell.options.weighers = vec![];
    assert_eq!(cell.names(&small()), ["h1", "h2", "h3"], "nobody weighs");
}

#[test]
fn the_random_choice_is_among_the_best_hosts() {
    let mut cell = Cell::default();
    for n in 1..=5 {
        cell.host(n, 8, 1024 * (10 - u64::try_from(n).unwrap()), 100);
    }
    cell.options.host_subset_size = 2;
    let first = |cell: &Cell, dice: u64| cell.names(&RequestSpec { dice, ..small() })[0].clone();
    assert_eq!([first(&cell, 0), first(&cell, 1), first(&cell, 2)], ["h1", "h2", "h1"]);
    cell.options.host_subset_size = 1;
    assert_eq!(first(&cell, 1), "h1");
    let mut same = Cell::three();
    same.host(4, 8, 2048, 100);
    same.options.shuffle_best_same_weighed_hosts = true;
    let chosen: std::collections::BTreeSet<String> = (0..8).map(|dice| first(&same, dice)).collect();
    assert_eq!(chosen.into_iter().collect::<Vec<_>>(), ["h1", "h2", "h3"]);
}

#[test]
fn hosts_with_few_free_pci_devices_are_best() {
    let mut cell = Cell::three();
    each_filter::with_devices(&mut cell, [2, 1]);
    assert_eq!(cell.names(&small()), ["h3", "h2", "h1"], "a server without devices avoids hosts that have devices");
    let wanted = specs(&[("pci_passthrough:alias", "gpu:1")]);
    assert_eq!(cell.names(&wanted), ["h2", "h1"]);
    let weighed = cell.decide(&wanted).reasons.weighed;
    let part = weighed[0].parts.iter().find(|part| part.weigher == "PCIWeigher").unwrap();
    assert!((part.value - 99.0).abs() < f64::EPSILON && (part.weight - 1.0).abs() < f64::EPSILON);
    cell.options.multipliers.pci = 0.0;
    assert_eq!(cell.names(&small()), ["h1", "h2", "h3"]);
    // From 99 free devices on, hosts do not differ.
    let mut cell = Cell::three();
    each_filter::with_devices(&mut cell, [120, 99]);
    let weighed = cell.decide(&wanted).reasons.weighed;
    assert!(weighed.len() == 2 && weighed.iter().all(|host| host.parts.is_empty()), "{weighed:?}");
}
