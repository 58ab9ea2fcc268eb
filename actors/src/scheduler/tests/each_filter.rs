//! Tests each filter on a table of hosts.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::PortId;
use chronova_events::ledger::{
    FittedNumaCell, HeldPciDevice, HostCellsReplaced, HostNumaCell, HostPciDevice, HostPciReplaced, PciDeviceType,
    PciDevicesClaimed,
};
use chronova_events::pci::PciAddress;

use super::*;
use crate::pci::alias::PciAliases;
use crate::pci::ports::{DevicePort, DeviceVnic};

#[test]
fn capabilities_are_compared_with_extra_specs() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host_that(2, 8, 4096, 100, |host| {
        host.hypervisor_version = 9_000_000;
        host.cpu_features = vec!["aes".into(), "mmx".into()];
        host.cpu_cores = 16;
    });
    let pass = |spec: (&str, &str)| cell.pass("ComputeCapabilitiesFilter", &specs(&[spec]));
    assert_eq!(
        pass(("capabilities:hypervisor_version", ">= 8000000")),
        (vec!["h2".into()], "capabilities:hypervisor_version: wants >= 8000000, is 7002000".into())
    );
    assert_eq!(pass(("capabilities:cpu_info:features", "<all-in> aes mmx")).0, ["h2"]);
    assert_eq!(pass(("capabilities:cpu_info:topology:cores", "== 4")).0, ["h1"]);
    assert_eq!(pass(("hypervisor_type", "QEMU")).0, ["h1", "h2"], "a known key needs no scope");
    assert_eq!(pass(("vcpus_total", ">= 9")).0, Vec::<String>::new());
    assert_eq!(pass(("no_such_thing", "1")).0, ["h1", "h2"], "an unknown key without a scope is for another filter");
    assert_eq!(pass(("capabilities:no_such_thing", "1")).0, Vec::<String>::new());
    let both = specs(&[("hypervisor_type", "QEMU"), ("capabilities:hypervisor_version", ">= 8000000")]);
    assert_eq!(cell.pass("ComputeCapabilitiesFilter", &both).0, ["h2"], "each of several extra specs must match");
    assert_eq!(pass(("hw:watchdog_action", "none")).0, ["h1", "h2"], "an extra spec of another scope refuses no host");
}

#[test]
fn image_properties_name_what_hosts_run() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host_that(2, 8, 4096, 100, |host| {
        host.cpu_arch = "aarch64".into();
        host.kvm = false;
    });
    let pass = |properties: &[(&str, &str)]| cell.pass("ImagePropertiesFilter", &imaged(properties)).0;
    assert_eq!(pass(&[]), ["h1", "h2"]);
    assert_eq!(pass(&[("hw_architecture", "AMD64")]), ["h1"]);
    assert_eq!(pass(&[("architecture", "arm64")]), ["h2"], "the property's old name counts");
    assert_eq!(pass(&[("img_hv_type", "kvm")]), ["h1"]);
    assert_eq!(pass(&[("img_hv_type", "qemu"), ("hw_vm_mode", "hvm")]), ["h1", "h2"]);
    assert_eq!(pass(&[("img_hv_type", "xen")]), Vec::<String>::new());
    // The property's older name. Hosts with KVM also match QEMU. These hosts run no other hypervisor.
    assert_eq!(pass(&[("hypervisor_type", "qemu")]), ["h1", "h2"]);
    assert_eq!(pass(&[("hypervisor_type", "QEMU")]), ["h1", "h2"]);
    assert_eq!(pass(&[("hypervisor_type", "kvm")]), ["h1"]);
    for other in ["vmware", "hyperv", "ironic", "lxc"] {
        assert_eq!(pass(&[("hypervisor_type", other)]), Vec::<String>::new(), "{other}");
    }
    assert_eq!(pass(&[("hw_vm_mode", "pv")]), Vec::<String>::new());
    assert_eq!(pass(&[("img_hv_type", "qemu"), ("img_hv_requested_version", ">=8.0")]), Vec::<String>::new());
    assert_eq!(pass(&[("img_hv_requested_version", ">=8.0")]), ["h1", "h2"], "the version alone is not checked");
    assert_eq!(pass(&[("img_hv_type", "qemu"), ("img_hv_requested_version", ">=7.0,<7.3")]), ["h1", "h2"]);
    cell.options.image_properties_default_architecture = Some("aarch64".into());
    assert_eq!(cell.pass("ImagePropertiesFilter", &imaged(&[])).0, ["h2"]);
    cell.options = SchedulerOptions::default();
    cell.host_that(3, 8, 4096, 100, |host| host.hypervisor_version = 0);
    let newer = imaged(&[("img_hv_type", "qemu"), ("img_hv_requested_version", ">=8.0")]);
    assert_eq!(cell.pass("ImagePropertiesFilter", &newer).0, ["h3"], "a host without a version is not checked");
    // A processor of 64 bits runs images of 32 bits, too.
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host_that(2, 8, 4096, 100, |host| host.cpu_arch = "i686".into());
    let pass = |name: &str| cell.pass("ImagePropertiesFilter", &imaged(&[("hw_architecture", name)]));
    assert_eq!(pass("i386").0, ["h1", "h2"]);
    let (names, reason) = pass("x86_64");
    assert_eq!((names, reason.contains("wants x86_64, is i686")), (vec!["h1".to_owned()], true), "{reason}");
}

#[test]
fn aggregates_restrict_servers_by_their_metadata() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("os_distro", "debian, ubuntu"), ("instance_type", "m1.small,m1.tiny"), ("ssd", "true")]);
    cell.aggregate(&[1, 2], &[("filter_tenant_id", "q, r"), ("instance_type", "m1.large"), ("owner", "x")]);
    let pass = |filter: &str, request: &RequestSpec| cell.pass(filter, request).0;
    let isolation = "AggregateImagePropertiesIsolation";
    assert_eq!(pass(isolation, &imaged(&[("os_distro", "debian"), ("owner", "y")])), ["h1", "h2", "h3"]);
    assert_eq!(pass(isolation, &imaged(&[("os_distro", "windows")])), ["h2", "h3"]);
    assert_eq!(pass(isolation, &imaged(&[])), ["h1", "h2", "h3"], "an image without the property passes");
    let extra = "AggregateInstanceExtraSpecsFilter";
    assert_eq!(pass(extra, &specs(&[("aggregate_instance_extra_specs:ssd", "true")])), ["h1"]);
    assert_eq!(pass(extra, &specs(&[("ssd", "<or> true <or> yes")])), ["h1"]);
    assert_eq!(pass(extra, &specs(&[("hw:numa_nodes", "1")])), ["h1", "h2", "h3"]);
    assert_eq!(pass(extra, &small()), ["h1", "h2", "h3"], "a flavor without extra specs passes");
    assert_eq!(pass(extra, &specs(&[("owner", "x")])), ["h1", "h2"]);
    assert_eq!(pass(extra, &specs(&[("owner", "x"), ("ssd", "true")])), ["h1"], "all extra specs count");
    assert_eq!(pass(extra, &specs(&[("instance_type", "m1.tiny")])), ["h1"], "one word of a list is enough");
    assert_eq!(pass(extra, &specs(&[("instance_type", "m1.large")])), ["h1", "h2"], "all aggregates count");
    assert_eq!(pass(extra, &specs(&[("instance_type", "<in> tiny")])), ["h1"]);
    // The filter must be in the list, and it is not in the default list.
    let on_ssd = specs(&[("aggregate_instance_extra_specs:ssd", "true")]);
    assert_eq!(cell.fitting(&on_ssd), ["h1", "h2", "h3"]);
    cell.options.enabled_filters = vec![extra];
    assert_eq!(cell.fitting(&on_ssd), ["h1"]);
    cell.options = SchedulerOptions::default();
    cell.aggregate(&[3], &[("ssd", "true")]);
    assert_eq!(cell.pass(extra, &on_ssd).0, ["h1", "h3"], "two aggregates have the same pair");
    let pass = |filter: &str, request: &RequestSpec| cell.pass(filter, request).0;
    let tenancy = "AggregateMultiTenancyIsolation";
    assert_eq!(pass(tenancy, &small()), ["h3"]);
    assert_eq!(pass(tenancy, &RequestSpec { project: "r".into(), ..small() }), ["h1", "h2", "h3"]);
    cell.aggregate(&[3], &[("filter_tenant_id", "s"), ("filter_tenant_id2", "t"), ("filter_tenant_idea", "u")]);
    let kept = |project: &str| cell.pass(tenancy, &RequestSpec { project: project.into(), ..small() }).0;
    assert_eq!(kept("p"), Vec::<String>::new());
    for project in ["s", "t", "u"] {
        assert_eq!(kept(project), ["h3"], "a key with any suffix adds a project");
    }
    cell.aggregate(&[1], &[("filter_tenant_id", "v"), ("os_distro", "fedora")]);
    let distro = |name: &str| cell.pass(isolation, &imaged(&[("os_distro", name)])).0;
    assert_eq!(distro("fedora"), ["h1", "h2", "h3"], "all aggregates of a host count");
    assert_eq!((distro("ubuntu").len(), distro("windows").len()), (3, 2));
    let kept = |project: &str| cell.pass(tenancy, &RequestSpec { project: project.into(), ..small() }).0;
    assert_eq!((kept("v"), kept("q")), (vec!["h1".to_owned()], vec!["h1".into(), "h2".into()]), "all aggregates count");
    let pass = |filter: &str, request: &RequestSpec| cell.pass(filter, request).0;
    assert_eq!(pass("AggregateTypeAffinityFilter", &small()), ["h1", "h3"]);
    let mut large = flavor(1, 512, 1);
    large.name = "m1.large".into();
    assert_eq!(pass("AggregateTypeAffinityFilter", &request(large)), ["h1", "h2", "h3"]);
    let refused = cell.pass("AggregateTypeAffinityFilter", &small()).1;
    assert_eq!(refused, "flavor m1.tiny: the host's aggregates admit m1.large");
}

/// `aggregate_image_properties_isolation_namespace` and `..._separator`: only keys that begin with the namespace and
/// the separator are compared.
#[test]
fn isolation_by_image_properties_can_be_limited_to_a_namespace() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("hw_vm_mode", "xen")]);
    cell.aggregate(&[2], &[("hw_disk_bus", "scsi")]);
    cell.aggregate(&[3], &[("hw_disk.bus", "scsi")]);
    let pass = |cell: &Cell| {
        let properties = [("hw_vm_mode", "hvm"), ("hw_disk_bus", "virtio"), ("hw_disk.bus", "virtio")];
        cell.pass("AggregateImagePropertiesIsolation", &imaged(&properties)).0
    };
    assert_eq!(pass(&cell), Vec::<String>::new(), "without a namespace all keys count");
    cell.options.aggregate_image_properties_isolation_namespace = Some("hw_disk".to_owned());
    assert_eq!(pass(&cell), ["h1", "h2"], "the separator is a dot unless it is set");
    cell.options.aggregate_image_properties_isolation_separator = "_".to_owned();
    assert_eq!(pass(&cell), ["h1", "h3"]);
}

#[test]
fn hosts_have_a_limit_of_servers_and_of_tasks() {
    let mut cell = Cell::three();
    for n in 1..=3 {
        cell.server(n, 1);
    }
    cell.server(4, 2);
    cell.options.max_instances_per_host = 3;
    cell.options.max_io_ops_per_host = 1;
    assert_eq!(
        cell.pass("NumInstancesFilter", &small()),
        (vec!["h2".into(), "h3".into()], "servers: 3 of at most 3".into())
    );
    assert_eq!(cell.pass("IoOpsFilter", &small()).0, ["h3"]);
    cell.aggregate(&[1], &[("max_instances_per_host", "5"), ("max_io_ops_per_host", "many")]);
    cell.aggregate(&[1, 2], &[("max_instances_per_host", "4"), ("max_io_ops_per_host", "2")]);
    assert_eq!(cell.pass("AggregateNumInstancesFilter", &small()).0, ["h1", "h2", "h3"]);
    let refused = cell.pass("AggregateIoOpsFilter", &small());
    assert_eq!(refused, (vec!["h2".into(), "h3".into()], "servers being built or moved: 3 of at most 1".into()));
}

#[test]
fn hints_name_servers_and_addresses() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host_that(2, 8, 4096, 100, |host| host.host_ip = "198.51.100.7".into());
    cell.server(1, 1);
    cell.owned(1, "p");
    let one = server_id(1).to_string();
    assert_eq!(cell.pass("DifferentHostFilter", &hinted("different_host", &[&one])).0, ["h2"]);
    assert_eq!(cell.pass("SameHostFilter", &hinted("same_host", &[&one])).0, ["h1"]);
    assert_eq!(cell.pass("SameHostFilter", &hinted("same_host", &["nonsense"])).0, Vec::<String>::new());
    assert_eq!(cell.pass("SameHostFilter", &small()).0, ["h1", "h2"]);
    assert_eq!(cell.pass("SameHostFilter", &hinted("same_host", &[])).0, ["h1", "h2"], "the hint names nothing");
    let mut near = hinted("build_near_host_ip", &["192.0.2.77"]);
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &near).0, ["h1"]);
    near.hints.insert("cidr".into(), vec!["/0".into()]);
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &near).0, ["h1", "h2"]);
    near.hints.insert("cidr".into(), vec!["/64".into()]);
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &near).0, Vec::<String>::new(), "no such network");
    // Without `cidr`, the length of the network is 24.
    let mut cell = Cell::default();
    for (n, address) in [(1, "192.0.2.200"), (2, "192.0.3.7")] {
        cell.host_that(n, 8, 4096, 100, |host| host.host_ip = address.into());
    }
    let near = hinted("build_near_host_ip", &["192.0.2.77"]);
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &near).0, ["h1"]);
}

/// A user must not learn where the servers of other projects are.
#[test]
fn hints_on_servers_of_other_projects_are_like_hints_on_no_servers() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host(2, 8, 4096, 100);
    cell.server(1, 1);
    cell.owned(1, "another");
    for id in [server_id(1), server_id(99)] {
        let hint = |name: &str| {
            cell.pass(
                if name == "same_host" { "SameHostFilter" } else { "DifferentHostFilter" },
                &hinted(name, &[&id.to_string()]),
            )
        };
        assert_eq!(hint("different_host").0, ["h1", "h2"], "{id}");
        assert_eq!(hint("same_host"), (vec![], "no server of the hint same_host is on it".to_owned()), "{id}");
    }
}

#[test]
fn queries_are_conditions_in_json() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host(2, 16, 8192, 200);
    let pass = |query: &str| cell.pass("JsonFilter", &hinted("query", &[query])).0;
    assert_eq!(pass(r#"[">=", "$free_ram_mb", 5000]"#), ["h2"]);
    assert_eq!(pass(r#"["and", [">", "$vcpus_total", 4], ["<", "$free_disk_mb", 150000]]"#), ["h1"]);
    assert_eq!(pass(r#"["or", ["=", "$hypervisor_hostname", "h1"], ["=", "$hypervisor_hostname", "h9"]]"#), ["h1"]);
    assert_eq!(pass(r#"["not", ["=", "$hypervisor_hostname", "h1"]]"#), ["h2"]);
    assert_eq!(pass(r#"["in", "$hypervisor_hostname", "h2", "h3"]"#), ["h2"]);
    assert_eq!(pass(r#"["=", "$no_such_thing", 1]"#), Vec::<String>::new(), "a comparison of a single value fails");
    assert_eq!(pass("[]"), ["h1", "h2"]);
    assert_eq!(pass("nonsense"), Vec::<String>::new());
    assert_eq!(pass(r#"["explode"]"#), Vec::<String>::new());
    let deep = "[\"not\",".repeat(100) + "[]" + &"]".repeat(100);
    assert_eq!(pass(&deep), Vec::<String>::new(), "depth is bounded");
    assert_eq!(crate::scheduler::filters::query::depth(&deep), 101);
    assert_eq!(
        crate::scheduler::filters::query::depth(r#"["or", {"a": [1]}, "[[\"[[", []]"#),
        3,
        "a text nests nothing"
    );
}

#[test]
fn isolated_hosts_and_images_belong_together() {
    let mut cell = Cell::three();
    let pass = |cell: &Cell, request: &RequestSpec| cell.pass("IsolatedHostsFilter", request).0;
    cell.options.isolated_hosts = vec!["h1".into()];
    assert_eq!(pass(&cell, &imaged(&[])), ["h2", "h3"], "an isolated host takes only isolated images");
    cell.options.isolated_images = vec![chronova_events::ids::ImageId(Uuid::from_u128(3)).to_string()];
    assert_eq!(pass(&cell, &imaged(&[])), ["h1"]);
    assert_eq!(pass(&cell, &small()), ["h2", "h3"]);
    cell.options.restrict_isolated_hosts_to_isolated_images = false;
    assert_eq!(pass(&cell, &imaged(&[])), ["h1"]);
    assert_eq!(pass(&cell, &small()), ["h1", "h2", "h3"]);
    // An image that is not in the list.
    cell.options.isolated_images = vec![chronova_events::ids::ImageId(Uuid::from_u128(4)).to_string()];
    assert_eq!(pass(&cell, &imaged(&[])), ["h1", "h2", "h3"]);
    cell.options.restrict_isolated_hosts_to_isolated_images = true;
    assert_eq!(pass(&cell, &imaged(&[])), ["h2", "h3"]);
}

#[test]
fn groups_keep_their_members_together_or_apart() {
    let mut cell = Cell::three();
    let group = |policy, most_per_host, members: &[(Slot, u32)]| {
        Some(InstanceGroup { name: "g".into(), policy, most_per_host, members: members.iter().copied().collect() })
    };
    let pass = |cell: &Cell, filter: &str, group| cell.pass_with(filter, &small(), group).0;
    let (apart, together) = ("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter");
    assert_eq!(pass(&cell, apart, group(ServerGroupPolicy::AntiAffinity, 1, &[(0, 1)])), ["h2", "h3"]);
    assert_eq!(pass(&cell, apart, group(ServerGroupPolicy::AntiAffinity, 2, &[(0, 1), (1, 2)])), ["h1", "h3"]);
    assert_eq!(pass(&cell, apart, group(ServerGroupPolicy::SoftAntiAffinity, u32::MAX, &[(0, 1)])).len(), 3);
    assert_eq!(pass(&cell, together, group(ServerGroupPolicy::Affinity, u32::MAX, &[(1, 1)])), ["h2"]);
    assert_eq!(
        pass(&cell, together, group(ServerGroupPolicy::Affinity, u32::MAX, &[])).len(),
        3,
        "the first member goes anywhere"
    );
    // The moving server is a group member on its present host, but the host still passes.
    cell.server(7, 1);
    let moving = RequestSpec { server: Some(server_id(7)), ..small() };
    assert_eq!(
        cell.pass_with(apart, &moving, group(ServerGroupPolicy::AntiAffinity, 1, &[(0, 1), (1, 1)])).0,
        ["h1", "h3"]
    );
}

#[test]
fn a_host_that_does_not_report_a_fact_does_not_pass() {
    let mut cell = Cell::three();
    assert_eq!(cell.pass("NUMATopologyFilter", &small()).0.len(), 3);
    assert_eq!(cell.pass("NUMATopologyFilter", &specs(&[("hw:numa_nodes", "2")])).0, Vec::<String>::new());
    let (passing, said) = cell.pass("PciPassthroughFilter", &specs(&[("pci_passthrough:alias", "gpu:1")]));
    assert_eq!((passing, said.as_str()), (vec![], "PCI alias gpu is not defined"));
    assert_eq!(cell.pass("MetricsFilter", &small()).0.len(), 3);
    cell.options.metrics_weight_setting = BTreeMap::from([("cpu.percent".to_owned(), -1.0)]);
    assert_eq!(cell.pass("MetricsFilter", &small()).0, Vec::<String>::new());
}

/// Nova's weigher raises an error if a required metric is missing. With only one host, the weigher does not run.
#[test]
fn required_metrics_that_no_host_reports_leave_no_host() {
    let mut cell = Cell::three();
    cell.options.metrics_weight_setting = BTreeMap::from([("cpu.percent".to_owned(), -1.0)]);
    let decision = cell.decide(&small());
    assert!(decision.ranked.is_empty());
    assert!(decision.reasons.message().contains("no host reports the metrics"), "{}", decision.reasons.message());
    let forced = RequestSpec { forced_host: Some("h1".to_owned()), ..small() };
    assert_eq!(cell.decide(&forced).ranked.len(), 1);
    cell.options.metrics_required = false;
    assert_eq!(cell.fitting(&small()).len(), 3);
    cell.options.metrics_required = true;
    cell.options.weighers = vec!["RAMWeigher"];
    assert_eq!(cell.fitting(&small()).len(), 3, "nothing weighs metrics");
}

/// Hosts `h1` and `h2` have these numbers of free devices, each on cell 0.
pub(super) fn with_devices(cell: &mut Cell, counts: [u8; 2]) {
    let alias = r#"{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}"#;
    cell.options.pci_aliases = PciAliases::read(&[alias.to_owned()], false).unwrap();
    for (host, count) in (1..).zip(counts) {
        let provider = ProviderId(host_id(host).0);
        let devices = (0..count).map(device).collect();
        let told = HostPciReplaced { provider, sockets: vec![], devices };
        cell.placement.take_in(&told.into(), Timestamp(0));
    }
}

fn device(slot: u8) -> HostPciDevice {
    HostPciDevice {
        address: PciAddress { domain: 0, bus: 0x81, slot, function: 0 },
        vendor: "10de".into(),
        product: "1eb8".into(),
        kind: PciDeviceType::Pci,
        parent: None,
        cell: Some(0),
        class: "CUSTOM_PCI_10DE_1EB8".into(),
        traits: vec![],
        provider: None,
        network: None,
        remote_managed: false,
        managed: true,
        offered: true,
    }
}

fn held(slot: u8) -> HeldPciDevice {
    let address = PciAddress { domain: 0, bus: 0x81, slot, function: 0 };
    HeldPciDevice { address, alias: "gpu".into(), tracked: None }
}

#[test]
fn a_host_needs_free_pci_devices_beside_pending_claims() {
    let mut cell = Cell::three();
    with_devices(&mut cell, [1, 2]);
    let gpus = |count: u32| specs(&[("pci_passthrough:alias", &format!("gpu:{count}"))]);
    assert_eq!(cell.pass("PciPassthroughFilter", &small()).0.len(), 3);
    assert_eq!(cell.pass("PciPassthroughFilter", &gpus(1)).0, ["h1", "h2"]);
    let (passing, said) = cell.pass("PciPassthroughFilter", &gpus(2));
    assert_eq!((passing, said.as_str()), (vec!["h2".to_owned()], "PCI devices: wants 2 of alias gpu, free 1"));
    cell.pending.add(PendingClaim { slot: 1, devices: vec![held(0)], ..pending(vec![]) });
    assert_eq!(cell.pass("PciPassthroughFilter", &gpus(2)).0, Vec::<String>::new());
    let provider = ProviderId(host_id(1).0);
    let claimed = PciDevicesClaimed { consumer: "other".into(), provider, devices: vec![held(0)] };
    cell.placement.take_in(&claimed.into(), Timestamp(0));
    assert_eq!(cell.pass("PciPassthroughFilter", &gpus(1)).0, ["h2"]);
    let decided = cell.decide(&gpus(3));
    let lacks = "no suitable host has free PCI devices of the kind that the flavor asks for";
    assert_eq!(decided.reasons.lacks.as_deref(), Some(lacks), "the filter always runs");
}

/// A guest's node is on the cell with the device, whether the guest is packed or spread.
#[test]
fn a_guests_node_is_near_its_device() {
    let mut cell = Cell::three();
    with_devices(&mut cell, [1, 1]);
    for (host, order) in [(1, [0, 1]), (2, [1, 2])] {
        let own = |id| HostNumaCell {
            id,
            shared: vec![4 * id, 4 * id + 1, 4 * id + 2, 4 * id + 3],
            dedicated: vec![],
            siblings: vec![],
            memory_mib: 8192,
            pages: vec![],
        };
        let provider = ProviderId(host_id(host).0);
        let told = HostCellsReplaced { provider, confines: true, cells: order.map(own).to_vec() };
        cell.placement.take_in(&told.into(), Timestamp(0));
    }
    // The cell without devices is fuller. By CPUs and memory alone, packing would prefer it, and spreading would not.
    let fitted = vec![FittedNumaCell {
        cell: 1,
        floating: vec![0],
        pinned: vec![],
        emulator: vec![],
        memory_mib: 64,
        page_kib: None,
    }];
    cell.pending.add(pending(fitted));
    let node = [("hw:numa_nodes", "1"), ("pci_passthrough:alias", "gpu:1")];
    let anywhere = [node[0], node[1], ("hw:pci_numa_affinity_policy", "preferred")];
    for packs in [true, false] {
        cell.options.packs_cells = packs;
        assert_eq!(cell.pass("NUMATopologyFilter", &specs(&node)).0, ["h1"], "h2 has no cell 0");
        let chosen = |wanted: &[(&str, &str)]| {
            let request = specs(wanted);
            let context = SchedulingContext::new(cell.sources(), &request, &cell.options);
            context.host(0).fitting().unwrap().unwrap()[0].cell
        };
        assert_eq!((chosen(&node), chosen(&node[..1])), (0, 1), "a guest without devices avoids the devices' cell");
        assert_eq!(chosen(&anywhere), 0, "the devices matter more than the use of the cells");
    }
    assert_eq!(cell.pass("NUMATopologyFilter", &specs(&anywhere)).0, ["h1", "h2"]);
    // Both cells have devices. The cell with more of them is for guests with devices, the other for guests without.
    let on = |slot, id| HostPciDevice { cell: Some(id), ..device(slot) };
    for (more, less) in [(0, 1), (1, 0)] {
        let provider = ProviderId(host_id(1).0);
        let devices = vec![on(0, less), on(1, more), on(2, more)];
        cell.placement.take_in(&HostPciReplaced { provider, sockets: vec![], devices }.into(), Timestamp(0));
        for packs in [true, false] {
            cell.options.packs_cells = packs;
            let chosen = [&node[..], &node[..1]].map(|wanted| {
                let request = specs(wanted);
                let context = SchedulingContext::new(cell.sources(), &request, &cell.options);
                context.host(0).fitting().unwrap().unwrap()[0].cell
            });
            assert_eq!(chosen, [more, less], "packs: {packs}");
        }
    }
}

/// Two hosts have one cell each. One has free dedicated processors, the other has none.
#[test]
fn a_topology_must_fit_on_the_cells_beside_pending_claims() {
    let mut cell = Cell::three();
    for (host, dedicated) in [(1, vec![2, 3]), (2, vec![])] {
        let shared = vec![0, 1];
        let own = HostNumaCell { id: 0, shared, dedicated, siblings: vec![], memory_mib: 8192, pages: vec![] };
        let told = HostCellsReplaced { provider: ProviderId(host_id(host).0), confines: true, cells: vec![own] };
        cell.placement.take_in(&told.into(), Timestamp(0));
    }
    let pass = |cell: &Cell, wanted: &[(&str, &str)]| cell.pass("NUMATopologyFilter", &specs(wanted));
    assert_eq!(pass(&cell, &[]).0.len(), 3, "a request without a topology passes");
    assert_eq!(pass(&cell, &[("hw:numa_nodes", "1")]).0, ["h1", "h2"]);
    let (pinned, reason) = pass(&cell, &[("hw:cpu_policy", "dedicated")]);
    assert_eq!(
        (pinned, reason.as_str()),
        (vec!["h1".to_owned()], "NUMA: cell 0: dedicated CPUs: wants 2, free 0 of 0")
    );
    assert!(pass(&cell, &[("hw:cpu_policy", "dedicated"), ("hw:cpu_thread_policy", "require")]).0.is_empty());
    let coming = |taken: u32| {
        let pinned = vec![(0, taken)];
        FittedNumaCell { cell: 0, floating: vec![], pinned, emulator: vec![], memory_mib: 64, page_kib: None }
    };
    for taken in [2, 3] {
        cell.pending.add(pending(vec![coming(taken)]));
    }
    assert!(pass(&cell, &[("hw:cpu_policy", "dedicated")]).0.is_empty(), "pending claims have both processors");
    assert_eq!(pass(&cell, &[("hw:numa_nodes", "two")]).0, Vec::<String>::new(), "an impossible topology fits no host");
}

/// As in Nova, hosts that report dedicated CPUs in Placement and hosts that do not are candidates together.
#[test]
fn hosts_with_and_without_pcpus_are_candidates_together() {
    let mut cell = Cell::three();
    for host in [1, 2] {
        let (shared, dedicated) = (vec![0, 1], vec![2, 3]);
        let own = HostNumaCell { id: 0, shared, dedicated, siblings: vec![], memory_mib: 8192, pages: vec![] };
        let told = HostCellsReplaced { provider: ProviderId(host_id(host).0), confines: true, cells: vec![own] };
        cell.placement.take_in(&told.into(), Timestamp(0));
    }
    let inventories = vec![line("DISK_GB", 100), line("MEMORY_MB", 4096), line("PCPU", 2)];
    cell.ledger(InventoryReplaced { provider: ProviderId(host_id(1).0), inventories });
    let dedicated = specs(&[("hw:cpu_policy", "dedicated")]);
    let chosen = |cell: &Cell| {
        let classes = |allocations: &[Allocation]| -> Vec<String> {
            let resources = allocations.iter().flat_map(|allocation| &allocation.resources);
            resources.map(|(class, _)| class.clone()).filter(|class| class.ends_with("CPU")).collect()
        };
        let ranked = cell.decide(&dedicated).ranked;
        ranked.into_iter().map(|host| (host.hostname, classes(&host.allocations))).collect::<BTreeMap<_, _>>()
    };
    let gives = |host: &str, class: &str| (host.to_owned(), vec![class.to_owned()]);
    assert_eq!(chosen(&cell), BTreeMap::from([gives("h1", "PCPU"), gives("h2", "VCPU")]));
    cell.options.disable_fallback_pcpu_query = true;
    assert_eq!(chosen(&cell), BTreeMap::from([gives("h1", "PCPU")]));
}

/// A port finds a device by the device's physical network, and the message says that ports ask, too.
#[test]
fn a_host_needs_a_free_device_for_each_port() {
    let mut cell = Cell::three();
    with_devices(&mut cell, [1, 2]);
    let tagged = HostPciDevice { network: Some(Some("physnet1".into())), ..device(0) };
    let told = HostPciReplaced { provider: ProviderId(host_id(1).0), sockets: vec![], devices: vec![tagged] };
    cell.placement.take_in(&told.into(), Timestamp(0));
    let port = |number: u128, network: &str| DevicePort {
        port: PortId(uuid::Uuid::from_u128(number)),
        vnic: DeviceVnic::Direct,
        network: Some(network.to_owned()),
        policy: None,
        trusted: false,
    };
    let wanting = |device_ports: Vec<DevicePort>| RequestSpec { device_ports, ..small() };
    assert_eq!(cell.pass("PciPassthroughFilter", &wanting(vec![port(1, "physnet1")])).0, ["h1"]);
    let both = wanting(vec![port(1, "physnet1"), port(2, "physnet1")]);
    assert_eq!(cell.pass("PciPassthroughFilter", &both).0, Vec::<String>::new());
    let decided = cell.decide(&wanting(vec![port(1, "physnet2")]));
    let lacks = "no suitable host has free PCI devices of the kind that flavor and ports ask for";
    assert_eq!(decided.reasons.lacks.as_deref(), Some(lacks));
}
