//! Tests the edges of filters and weighers: several limits, lists, absent hints, old names, and hosts without a choice.

use super::*;

#[test]
fn the_smallest_limit_of_a_hosts_aggregates_counts() {
    for (filter, key, words) in [
        ("AggregateNumInstancesFilter", "max_instances_per_host", "servers: 3 of at most 3"),
        ("AggregateIoOpsFilter", "max_io_ops_per_host", "servers being built or moved: 3 of at most 3"),
    ] {
        let with = |global: u32, limits: &[&str]| {
            let mut cell = Cell::three();
            for server in 1..=3 {
                cell.server(server, 1);
            }
            (cell.options.max_instances_per_host, cell.options.max_io_ops_per_host) = (global, global);
            for limit in limits {
                cell.aggregate(&[1], &[(key, *limit)]);
            }
            cell.pass(filter, &small())
        };
        let (all, others) = (["h1", "h2", "h3"], ["h2", "h3"]);
        assert_eq!(with(1, &["9", "4"]).0, all, "{key}: both limits are above the number of servers");
        let refused = with(9, &["9", "3"]);
        assert_eq!((refused.0, refused.1.as_str()), (others.map(str::to_owned).to_vec(), words));
        assert_eq!(with(9, &["3", "9"]).0, others, "{key}: the order does not matter");
        assert_eq!(with(3, &["many"]).0, others, "{key}: without a number, the global limit counts");
        assert_eq!(with(9, &["many"]).0, all, "{key}: without a number, the global limit counts");
        assert_eq!(with(3, &[]).0, others, "{key}: without an aggregate, the global limit counts");
    }
}

#[test]
fn the_filter_of_zones_reads_lists_and_passes_requests_without_a_zone() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("availability_zone", "north, south")]);
    cell.aggregate(&[2], &[("availability_zone", "east")]);
    let zone = |zone: &str| RequestSpec { zone: Some(zone.into()), ..small() };
    let pass = |request: &RequestSpec| cell.pass("AvailabilityZoneFilter", request).0;
    assert_eq!(pass(&small()), ["h1", "h2", "h3"], "the request names no zone");
    for (name, host) in [("north", "h1"), ("south", "h1"), ("east", "h2"), ("nova", "h3")] {
        assert_eq!(pass(&zone(name)), [host], "{name}");
    }
}

#[test]
fn hints_name_several_servers_or_none() {
    let mut cell = Cell::three();
    cell.server(1, 1);
    cell.server(2, 2);
    let [one, two] = [1, 2].map(|n| server_id(n).to_string());
    let both = [one.as_str(), two.as_str()];
    assert_eq!(cell.pass("DifferentHostFilter", &hinted("different_host", &both)).0, ["h3"]);
    assert_eq!(cell.pass("SameHostFilter", &hinted("same_host", &both)).0, ["h1", "h2"], "one of them is enough");
    for filter in ["DifferentHostFilter", "SameHostFilter", "SimpleCIDRAffinityFilter", "JsonFilter"] {
        assert_eq!(cell.pass(filter, &small()).0, ["h1", "h2", "h3"], "{filter}: a request without its hint passes");
    }
    // The length of the network alone is no hint.
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &hinted("cidr", &["/30"])).0, ["h1", "h2", "h3"]);
}

#[test]
fn queries_compare_every_amount_that_nova_documents() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host_that(2, 16, 8192, 200, |host| host.cpu_cores = 16);
    cell.use_up(1, "VCPU", 3);
    let pass = |query: &str| cell.pass("JsonFilter", &hinted("query", &[query])).0;
    assert_eq!(pass(r#"["<=", "$total_usable_ram_mb", 4096]"#), ["h1"]);
    assert_eq!(pass(r#"["<=", "$free_disk_mb", 204800]"#), ["h1", "h2"]);
    assert_eq!(pass(r#"["=", "$vcpus_used", 3]"#), ["h1"]);
    assert_eq!(pass(r#"["<", "$vcpus_used", 3]"#), ["h2"]);
    assert_eq!(pass(r#"["=", "$cpu_info.topology.cores", 16]"#), ["h2"], "a dot reaches into a dictionary");
    assert_eq!(pass(r#"["=", "$cpu_info.topology.planes", 16]"#), Vec::<String>::new());
    assert_eq!(pass(r#"["in", "$vcpus_total", 4, 16]"#), ["h2"]);
    // As in Nova, `or` drops an attribute that no host has.
    assert_eq!(pass(r#"["or", "$no_such_thing", [">", "$vcpus_total", 8]]"#), ["h2"]);
}

#[test]
fn old_names_of_image_properties_count() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host_that(2, 8, 4096, 100, |host| {
        host.cpu_arch = "aarch64".into();
        host.kvm = false;
        host.hypervisor_version = 8_001_000;
    });
    let pass = |properties: &[(&str, &str)]| cell.pass("ImagePropertiesFilter", &imaged(properties)).0;
    assert_eq!(pass(&[("architecture", "aarch64")]), ["h2"]);
    assert_eq!(pass(&[("hypervisor_type", "kvm")]), ["h1"]);
    assert_eq!(pass(&[("hypervisor_type", "qemu"), ("hypervisor_version_requires", ">=8.0")]), ["h2"]);
    assert_eq!(pass(&[("vm_mode", "hvm")]), ["h1", "h2"]);
    assert_eq!(pass(&[("vm_mode", "xen")]), Vec::<String>::new());
    assert_eq!(pass(&[("hypervisor_type", "kvm"), ("img_hv_type", "qemu")]), ["h1", "h2"], "the new name precedes");
}

#[test]
fn without_isolated_images_only_the_strict_setting_keeps_hosts_free() {
    let mut cell = Cell::three();
    cell.options.isolated_hosts = vec!["h1".into()];
    for (restrict, hosts) in [(true, vec!["h2", "h3"]), (false, vec!["h1", "h2", "h3"])] {
        cell.options.restrict_isolated_hosts_to_isolated_images = restrict;
        for request in [imaged(&[]), small()] {
            assert_eq!(cell.pass("IsolatedHostsFilter", &request).0, hosts, "{restrict}");
        }
    }
}

#[test]
fn a_single_host_is_not_weighed_and_negative_amounts_count_as_nothing() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100);
    let alone = cell.decide(&small()).reasons.weighed;
    assert_eq!(alone.len(), 1);
    assert!(alone[0].parts.is_empty() && alone[0].weight.abs() < f64::EPSILON, "{alone:?}");

    // The first host is overcommitted: 904 MiB more than it has are in use.
    cell.host(2, 8, 4096, 100);
    let twice = Inventory { allocation_ratio: 4.0, max_unit: 16_384, ..line("MEMORY_MB", 4096) };
    let inventories = vec![line("DISK_GB", 100), twice, line("VCPU", 8)];
    cell.ledger(InventoryReplaced { provider: ProviderId(host_id(1).0), inventories });
    cell.use_up(1, "MEMORY_MB", 5000);
    cell.options.weighers = vec!["RAMWeigher"];
    let weighed = cell.decide(&small()).reasons.weighed;
    let parts = |name: &str| {
        let host = weighed.iter().find(|host| host.hostname == name).unwrap();
        (host.parts[0].weigher.as_str(), host.parts[0].value, host.parts[0].weight)
    };
    assert_eq!(parts("h1"), ("RAMWeigher", 0.0, 0.0));
    assert_eq!(parts("h2"), ("RAMWeigher", 4096.0, 1.0));
}

#[test]
fn a_positive_multiplier_of_tasks_prefers_busy_hosts() {
    let mut cell = Cell::three();
    cell.server(1, 2);
    cell.options.weighers = vec!["IoOpsWeigher"];
    assert_eq!(cell.names(&small()), ["h1", "h3", "h2"], "by default, light hosts are preferred");
    cell.options.multipliers.io_ops = 1.0;
    assert_eq!(cell.names(&small()), ["h2", "h1", "h3"]);
}

#[test]
fn reported_metrics_are_demanded_and_weighed() {
    let mut cell = Cell::three();
    let metrics = |busy: f64| BTreeMap::from([("cpu.percent", busy), ("cpu.frequency", 2_000.0)]);
    cell.metrics = HostMetrics(BTreeMap::from([(host_id(1), metrics(0.75)), (host_id(2), metrics(0.25))]));
    cell.options.weighers = vec!["MetricsWeigher"];
    cell.options.metrics_weight_setting =
        BTreeMap::from([("cpu.percent".to_owned(), -100.0), ("cpu.frequency".to_owned(), 0.01)]);
    let (passing, reason) = cell.pass("MetricsFilter", &small());
    assert_eq!(passing, ["h1", "h2"]);
    assert_eq!(reason, "metrics: the host does not report cpu.frequency, cpu.percent");
    // With `[metrics] required`, a host without metrics is left out.
    assert_eq!(cell.names(&small()), ["h2", "h1"]);
    let values = |cell: &Cell| -> BTreeMap<String, f64> {
        let weighed = cell.decide(&small()).reasons.weighed;
        weighed.into_iter().map(|host| (host.hostname, host.parts[0].value)).collect()
    };
    assert_eq!(values(&cell), BTreeMap::from([("h1".to_owned(), -55.0), ("h2".to_owned(), -5.0)]));
    cell.options.metrics_required = false;
    assert_eq!(cell.names(&small()), ["h2", "h1", "h3"], "a host without metrics comes last");
    assert!((values(&cell)["h3"] + 10_000.0).abs() < f64::EPSILON);
    cell.options.metrics_weight_of_unavailable = -50.0;
    assert_eq!(cell.names(&small()), ["h2", "h3", "h1"]);
    cell.options.multipliers.metrics = -1.0;
    assert_eq!(cell.names(&small()), ["h1", "h3", "h2"]);
    cell.options.multipliers.metrics = 0.0;
    assert_eq!(cell.names(&small()), ["h1", "h2", "h3"], "nothing weighs metrics");
}
