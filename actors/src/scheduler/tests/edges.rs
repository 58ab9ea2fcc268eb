//! Tests of filters, weighers and prefilters with unusual input: several limits, lists, absent hints, old property
//! names, negative amounts, single hosts. Also metrics, required traits, and counted servers and tasks.

use std::sync::Arc;

use chronova_events::envelope::{Meta, NewEvent, Position, Timestamp};
use chronova_events::instance::{
    self, BuildSucceeded, InstanceEvent, MoveAdvanced, MoveStage, Rotation, SnapshotRequested, WorkAdvanced, WorkStage,
};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore as _, Expected};

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
    for server in [1, 2] {
        cell.owned(server, "p");
    }
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

    // The weighers of CPUs, disks and tasks also normalize from 0, not from the smallest amount of a host.
    let mut cell = Cell::three();
    cell.use_up(1, "VCPU", 4);
    cell.use_up(1, "DISK_GB", 50);
    for (server, host) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
        cell.server(server, host);
    }
    for (weigher, weight) in [("CPUWeigher", 0.5), ("DiskWeigher", 0.5), ("IoOpsWeigher", -0.5)] {
        cell.options.weighers = vec![weigher];
        let weighed = cell.decide(&small()).reasons.weighed;
        let first = weighed.iter().find(|host| host.hostname == "h1").unwrap();
        assert!((first.weight - weight).abs() < f64::EPSILON, "{weigher}: {weighed:?}");
    }
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
    let metrics = |busy: f64| Arc::new(BTreeMap::from([("cpu.percent", busy), ("cpu.frequency", 2_000.0)]));
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
    assert!((cell.options.multipliers.metrics - 1.0).abs() < f64::EPSILON, "the default is not Nova's");
    cell.options.multipliers.metrics = -1.0;
    assert_eq!(cell.names(&small()), ["h1", "h3", "h2"]);
    cell.options.multipliers.metrics = 0.0;
    assert_eq!(cell.names(&small()), ["h1", "h2", "h3"], "nothing weighs metrics");
    cell.aggregate(&[1, 2, 3], &[("metrics_weight_multiplier", "1")]);
    assert_eq!(cell.names(&small()), ["h2", "h3", "h1"], "the aggregate overrides the option");
}

/// `[scheduler] image_metadata_prefilter`: property, value and required trait. The last two properties require their
/// traits even without the option, because a guest with them starts on no other host.
#[test]
fn each_hardware_property_of_an_image_requires_its_trait() {
    for (key, value, name, always) in [
        ("hw_cdrom_bus", "sata", "COMPUTE_STORAGE_BUS_SATA", false),
        ("hw_disk_bus", "scsi", "COMPUTE_STORAGE_BUS_SCSI", false),
        ("hw_video_model", "qxl", "COMPUTE_GRAPHICS_MODEL_QXL", false),
        ("hw_vif_model", "spapr-vlan", "COMPUTE_NET_VIF_MODEL_SPAPR_VLAN", false),
        ("hw_architecture", "x86_64", "HW_ARCH_X86_64", false),
        ("hw_emulation_architecture", "aarch64", "COMPUTE_ARCH_AARCH64", true),
        ("hw_viommu_model", "intel", "COMPUTE_VIOMMU_MODEL_INTEL", true),
    ] {
        let mut cell = Cell::three();
        cell.traits(2, &[name]);
        let request = imaged(&[(key, value)]);
        let without = cell.fitting(&request);
        assert_eq!(without.len(), if always { 1 } else { 3 }, "{key}: the option is off by default");
        cell.options.prefilters.image_metadata_prefilter = true;
        assert_eq!(cell.fitting(&request), ["h2"], "{key}");
        let refused = cell.decide(&request).reasons.checks;
        let words = format!("lacks trait {name}");
        assert!(refused.iter().flat_map(|check| &check.refused).any(|host| host.reason == words), "{key}: {refused:?}");
        // A host needs the traits of all properties.
        let both = imaged(&[(key, value), ("hw_disk_bus", "usb")]);
        if key != "hw_disk_bus" {
            assert_eq!(cell.fitting(&both), Vec::<String>::new(), "{key} and hw_disk_bus");
            cell.traits(2, &[name, "COMPUTE_STORAGE_BUS_USB"]);
            assert_eq!(cell.fitting(&both), ["h2"], "{key} and hw_disk_bus");
        }
    }
}

#[test]
fn a_host_that_does_not_report_what_it_runs_takes_no_image_that_asks_for_it() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host_that(2, 8, 4096, 100, |host| host.cpu_arch = String::new());
    let pass = |properties: &[(&str, &str)]| cell.pass("ImagePropertiesFilter", &imaged(properties));
    for asked in [("hw_architecture", "x86_64"), ("img_hv_type", "qemu"), ("hw_vm_mode", "hvm")] {
        let (passing, said) = pass(&[asked]);
        let words = format!("wants {}, the host does not report what it runs", asked.1);
        assert_eq!((passing, said), (vec!["h1".to_owned()], words));
    }
    assert_eq!(pass(&[]).0, ["h1", "h2"], "an image that asks for nothing passes");
    assert_eq!(pass(&[("os_type", "linux")]).0, ["h1", "h2"]);
}

/// All three properties must be those of the host.
#[test]
fn all_properties_of_an_image_must_be_those_of_one_host() {
    let mut cell = Cell::default();
    cell.host_that(1, 8, 4096, 100, |host| host.kvm = true).host_that(2, 8, 4096, 100, |host| {
        host.cpu_arch = "aarch64".into();
        host.kvm = false;
    });
    let pass = |architecture: &str, hypervisor: &str| {
        let properties = [("hw_architecture", architecture), ("img_hv_type", hypervisor), ("hw_vm_mode", "hvm")];
        cell.pass("ImagePropertiesFilter", &imaged(&properties)).0
    };
    assert_eq!(pass("x86_64", "kvm"), ["h1"]);
    assert_eq!(pass("x86_64", "qemu"), ["h1"], "a host with KVM runs guests for QEMU");
    assert_eq!(pass("aarch64", "qemu"), ["h2"]);
    assert_eq!(pass("aarch64", "kvm"), Vec::<String>::new(), "each host has one of the two");
}

/// Nova's `io_workload` counts each of these kinds of work until it ends.
#[test]
fn each_kind_of_work_counts_towards_the_limit_of_a_host() {
    let mut cell = Cell::three();
    assert_eq!((cell.options.max_io_ops_per_host, filters::DEFAULT.contains(&"IoOpsFilter")), (8, false));
    cell.options.max_io_ops_per_host = 1;
    let (server, process) = (server_id(1).to_string(), ProcessId(Uuid::from_u128(6)));
    let of = |kind: &str| {
        let kind = format!("instance.{kind}");
        instance::samples().into_iter().map(Event::from).find(|event| event.kind() == kind).unwrap()
    };
    let work = |stage| Event::from(InstanceEvent::from(WorkAdvanced { process, stage }));
    let moves = |stage| Event::from(InstanceEvent::from(MoveAdvanced { process, stage }));
    let backup = Some(Rotation { kind: "daily".to_owned(), keep: 7 });
    let image = chronova_events::ids::ImageId(Uuid::from_u128(7));
    let backup = Event::from(InstanceEvent::from(SnapshotRequested { process, image, backup }));
    cell.server(1, 1);
    let all = ["h1", "h2", "h3"];
    assert_eq!(cell.pass("IoOpsFilter", &small()).0, all[1..], "a build");
    cell.take(&server, InstanceEvent::from(BuildSucceeded { process }));
    assert_eq!(cell.pass("IoOpsFilter", &small()).0, all, "the build has ended");
    let works = [
        ("resize_prep", vec![of("move_requested")], of("move_failed")),
        ("resize_migrating", vec![of("move_requested"), moves(MoveStage::Migrating)], moves(MoveStage::Migrated)),
        ("rebuilding", vec![of("rebuild_requested")], of("rebuilt")),
        ("image_snapshot", vec![of("snapshot_requested"), work(WorkStage::AtWork)], work(WorkStage::PendingUpload)),
        ("image_backup", vec![backup], of("snapshot_failed")),
        ("rescuing", vec![of("rescue_requested")], of("rescued")),
        ("unshelving", vec![of("unshelve_requested")], of("unshelved")),
    ];
    for (task, begins, end) in works {
        for event in begins {
            cell.take(&server, event);
        }
        let (passing, said) = cell.pass("IoOpsFilter", &small());
        assert_eq!(passing, all[1..], "{task}");
        assert_eq!(said, "servers being built or moved: 1 of at most 1", "{task}");
        cell.options.max_io_ops_per_host = 2;
        assert_eq!(cell.pass("IoOpsFilter", &small()).0, all, "{task}: one is less than two");
        cell.options.max_io_ops_per_host = 1;
        cell.take(&server, end);
        assert_eq!(cell.pass("IoOpsFilter", &small()).0, all, "{task} has ended");
    }
}

/// Folds events of a server into the read model of servers and into the fleet.
async fn with_server(cell: &mut Cell, events: Vec<InstanceEvent>) {
    use chronova_projections::Projection as _;
    let log = MemoryStore::new();
    let stream = chronova_events::envelope::StreamId::new("instance", server_id(1));
    for event in events {
        cell.take(server_id(1).to_string(), event.clone());
        let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        log.append(&stream, Expected::Any, vec![new]).await.unwrap();
    }
    for recorded in log.read_all(Position::START, 100).await.unwrap() {
        cell.servers.apply(&recorded, recorded.event().unwrap());
    }
}

#[tokio::test]
async fn capabilities_include_the_numbers_of_servers_and_tasks() {
    let mut cell = Cell::three();
    cell.use_up(2, "VCPU", 3);
    let request = instance::samples().into_iter().find_map(|event| match event {
        InstanceEvent::BuildRequested(request) => Some(request),
        _ => None,
    });
    let mut request = request.unwrap();
    (request.instance, request.project) = (server_id(1), "tenant".into());
    request.image = Some(image_with(&[("os_type", "linux")]).into());
    let process = request.process;
    let placed =
        Placed { process, host: host_id(1), hostname: "h1".into(), attempt: 1, availability_zone: "nova".into() };
    with_server(&mut cell, vec![request.into(), placed.into()]).await;
    let pass = |cell: &Cell, key: &str, value: &str| {
        let key = format!("capabilities:{key}");
        cell.pass("ComputeCapabilitiesFilter", &specs(&[(key.as_str(), value)])).0
    };
    for (key, of_h1) in [
        ("num_instances", "== 1"),
        ("num_io_ops", "== 1"),
        ("io_workload", "== 1"),
        ("num_vm_building", ">= 1"),
        ("num_proj_tenant", "== 1"),
        ("num_os_type_linux", "== 1"),
        ("host", "h1"),
    ] {
        assert_eq!(pass(&cell, key, of_h1), ["h1"], "{key}");
    }
    assert_eq!(pass(&cell, "num_instances", "<= 0"), ["h2", "h3"]);
    assert_eq!(pass(&cell, "num_proj_other", "== 0"), ["h1", "h2", "h3"]);
    assert_eq!(pass(&cell, "vcpus_used", "== 3"), ["h2"]);
    assert_eq!(pass(&cell, "vcpus_total", "== 8"), ["h1", "h2", "h3"]);
    assert_eq!(pass(&cell, "free_ram_mb", ">= 4097"), Vec::<String>::new());
    assert_eq!(pass(&cell, "free_disk_mb", "== 102400"), ["h1", "h2", "h3"]);
    // The statistics of tasks: the server is being built, and then has no task.
    let task = cell.servers.get(server_id(1)).unwrap().server().map(instance::status::of_alive).unwrap().task_state;
    assert_eq!(pass(&cell, &format!("num_task_{}", task.unwrap()), "== 1"), ["h1"]);
    with_server(&mut cell, vec![BuildSucceeded { process }.into()]).await;
    assert_eq!(pass(&cell, "num_task_None", "== 1"), ["h1"]);
    assert_eq!(pass(&cell, "num_vm_active", "== 1"), ["h1"]);
    assert_eq!(pass(&cell, "num_io_ops", "== 0"), ["h1", "h2", "h3"]);
}
