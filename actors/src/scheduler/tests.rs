#![allow(clippy::unwrap_used)]
//! Which hosts will do, which is best, and what is said about it.

use std::collections::BTreeMap;

use chronova_events::host::{Capabilities, Disabled, ForcedDown, HostEvent, Registered, WentDown, samples};
use chronova_events::host_aggregate::{HostAdded, HostAggregateCreated};
use chronova_events::ids::{HostAggregateId, HostId, ImageId, InstanceId, ProcessId, ProviderId};
use chronova_events::instance::{FlavorSnapshot, ImageSnapshot, Placed};
use chronova_events::ledger::{Allocation, Claimed, Inventory, InventoryReplaced, ProviderCreated, TraitsReplaced};
use chronova_events::registry::Event;
use chronova_events::server_group::Policy;
use chronova_projections::fleet::{Fleet, Slot};
use chronova_projections::placement::Placement;
use chronova_projections::server_groups::ServerGroupsView;
use chronova_projections::servers::Servers;
use uuid::Uuid;

use super::look::Group;
use super::pending::Entry;
use super::request::tests::{flavor, request};
use super::*;

/// A cell without a log.
#[derive(Default)]
struct Cell {
    fleet: Fleet,
    placement: Placement,
    groups: ServerGroupsView,
    servers: Servers,
    pending: Pending,
    options: SchedulerOptions,
    aggregates: u128,
}

fn host_id(n: u128) -> HostId {
    HostId(Uuid::from_u128(n))
}

fn server_id(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

impl Cell {
    fn take(&mut self, key: impl ToString, event: impl Into<Event>) {
        self.fleet.take(&key.to_string(), &event.into());
    }

    /// A host called `h{n}` with this much of CPUs, MiB and GiB.
    fn host(&mut self, n: u128, vcpus: u64, memory_mib: u64, disk_gib: u64) -> &mut Self {
        self.host_that(n, vcpus, memory_mib, disk_gib, |_| {})
    }

    fn host_that(
        &mut self,
        n: u128,
        vcpus: u64,
        memory_mib: u64,
        disk_gib: u64,
        with: impl FnOnce(&mut Capabilities),
    ) -> &mut Self {
        let sample = samples().into_iter().find_map(|event| match event {
            HostEvent::Registered(registered) => Some(registered),
            _ => None,
        });
        let mut registered = Registered { host: host_id(n), hostname: format!("h{n}"), ..sample.unwrap() };
        with(&mut registered.capabilities);
        let provider = ProviderId(host_id(n).0);
        self.ledger(ProviderCreated { provider, name: format!("h{n}"), parent: None });
        let line = |class: &str, total: u64| Inventory {
            class: class.to_owned(),
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        let inventories = vec![line("DISK_GB", disk_gib), line("MEMORY_MB", memory_mib), line("VCPU", vcpus)];
        self.ledger(InventoryReplaced { provider, inventories });
        self.take(host_id(n), HostEvent::from(registered));
        self
    }

    fn ledger(&mut self, event: impl Into<chronova_events::ledger::LedgerEvent>) {
        let event: chronova_events::ledger::LedgerEvent = event.into();
        self.take("cell1", event);
    }

    /// Three hosts of 8 CPUs, 4 GiB and 100 GiB.
    fn three() -> Self {
        let mut cell = Self::default();
        cell.host(1, 8, 4096, 100).host(2, 8, 4096, 100).host(3, 8, 4096, 100);
        cell
    }

    fn use_up(&mut self, host: u128, class: &str, amount: u64) {
        let allocation = Allocation { provider: ProviderId(host_id(host).0), resources: vec![(class.into(), amount)] };
        self.ledger(Claimed {
            consumer: format!("{host}-{class}").as_str().into(),
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            allocations: vec![allocation],
        });
    }

    fn traits(&mut self, host: u128, traits: &[&str]) {
        let traits = traits.iter().map(ToString::to_string).collect();
        self.ledger(TraitsReplaced { provider: ProviderId(host_id(host).0), traits });
    }

    fn aggregate(&mut self, hosts: &[u128], metadata: &[(&str, &str)]) {
        self.aggregates += 1;
        let aggregate = HostAggregateId(Uuid::from_u128(900 + self.aggregates));
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let created = HostAggregateCreated { aggregate, number: 1, name: "a".into(), metadata };
        self.take("all", chronova_events::host_aggregate::HostAggregateEvent::from(created));
        for host in hosts {
            let added = HostAdded { aggregate, host: host_id(*host), hostname: format!("h{host}") };
            self.take("all", chronova_events::host_aggregate::HostAggregateEvent::from(added));
        }
    }

    fn server(&mut self, server: u128, host: u128) {
        let placed = Placed {
            process: ProcessId(Uuid::nil()),
            host: host_id(host),
            hostname: format!("h{host}"),
            attempt: 1,
            availability_zone: "nova".into(),
        };
        self.take(server_id(server), chronova_events::instance::InstanceEvent::from(placed));
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            fleet: &self.fleet,
            groups: &self.groups,
            placement: &self.placement,
            servers: &self.servers,
            pending: &self.pending,
        }
    }

    fn decide(&self, request: &Request) -> Decision {
        choose_among(self.sources(), request, &self.options)
    }

    /// The names of the hosts that were found, best first.
    fn names(&self, request: &Request) -> Vec<String> {
        self.decide(request).ranked.into_iter().map(|chosen| chosen.hostname).collect()
    }

    /// The same in the order of their names.
    fn fitting(&self, request: &Request) -> Vec<String> {
        let mut names = self.names(request);
        names.sort();
        names
    }

    /// The hosts that one filter lets through, and what it says of the first that it does not.
    fn pass(&self, filter: &str, request: &Request) -> (Vec<String>, String) {
        self.pass_with(filter, request, None)
    }

    fn pass_with(&self, filter: &str, request: &Request, group: Option<Group>) -> (Vec<String>, String) {
        let filter = filters::named(filter).unwrap();
        let mut look = Look::new(self.sources(), request, &self.options);
        look.group = group;
        if !(filter.applies)(&look) {
            return (look.fleet.hosts().iter().map(|slot| look.fleet.row(slot).name.clone()).collect(), String::new());
        }
        let (passing, refused): (Vec<Slot>, Vec<Slot>) =
            look.fleet.hosts().iter().partition(|slot| (filter.passes)(&look.host(*slot)));
        let said = refused.first().map(|slot| (filter.says)(&look.host(*slot))).unwrap_or_default();
        assert!(passing.len() + refused.len() == look.fleet.hosts().len());
        if passing.is_empty() {
            assert!(!(filter.lacks)(&look).is_empty(), "{} says what is missing", filter.name);
        }
        (passing.iter().map(|slot| look.fleet.row(*slot).name.clone()).collect(), said)
    }
}

fn small() -> Request {
    request(flavor(2, 1024, 10))
}

fn specs(specs: &[(&str, &str)]) -> Request {
    let extra_specs = specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    request(FlavorSnapshot { extra_specs, ..flavor(2, 1024, 10) })
}

fn image(properties: &[(&str, &str)]) -> ImageSnapshot {
    ImageSnapshot {
        id: ImageId(Uuid::from_u128(3)),
        name: "cirros".into(),
        checksum: String::new(),
        format: "qcow2".into(),
        size: 1,
        virtual_size: 1,
        min_memory_mib: 0,
        min_disk_gib: 0,
        properties: properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    }
}

fn imaged(properties: &[(&str, &str)]) -> Request {
    Request { image: Some(image(properties)), ..small() }
}

fn hinted(name: &str, values: &[&str]) -> Request {
    let values = values.iter().map(ToString::to_string).collect();
    Request { hints: BTreeMap::from([(name.to_owned(), values)]), ..small() }
}

#[test]
fn capacity_is_by_placements_rules_and_refusals_show_the_numbers() {
    let mut cell = Cell::three();
    assert_eq!(cell.fitting(&small()), ["h1", "h2", "h3"]);
    cell.use_up(1, "VCPU", 7);
    cell.use_up(2, "MEMORY_MB", 3072);
    assert_eq!(cell.fitting(&small()), ["h2", "h3"], "just enough");
    cell.use_up(2, "DISK_GB", 95);
    let decision = cell.decide(&small());
    let check = decision.reasons.checks.iter().find(|check| check.name == "capacity").unwrap();
    assert_eq!(check.left, 1);
    let said: Vec<(&str, &str)> =
        check.refused.iter().map(|refused| (refused.hostname.as_str(), refused.reason.as_str())).collect();
    assert_eq!(
        said,
        [("h2", "disk: wants 10 GiB, free 5 GiB of 100 x 1.0"), ("h1", "CPUs: wants 2, free 1 of 8 x 1.0")]
    );
    let much = cell.decide(&request(flavor(2, 9_000, 10)));
    assert_eq!(
        much.reasons.message(),
        "No valid host was found. There are not enough hosts available: no host that would do has 9000 MiB of memory free."
    );
    let strange = cell.decide(&specs(&[("resources:CUSTOM_GOLD", "1")]));
    assert_eq!(strange.reasons.lacks.as_deref(), Some("no host that would do has any CUSTOM_GOLD"));
}

#[test]
fn what_is_on_its_way_to_a_host_counts() {
    let mut cell = Cell::three();
    let entry = |slot| Entry {
        slot,
        server: None,
        resources: vec![("VCPU".into(), 7)],
        group: None,
        claimed_at: None,
        placed_at: None,
    };
    cell.pending.add(entry(0));
    assert_eq!(cell.fitting(&small()), ["h2", "h3"]);
    cell.pending.add(entry(1));
    assert_eq!(cell.fitting(&small()), ["h3"]);
}

#[test]
fn only_hosts_that_answer_and_are_enabled() {
    let spoil = |event: HostEvent| {
        let mut cell = Cell::three();
        cell.take(host_id(1), event);
        (cell.fitting(&small()), cell.pass("ComputeFilter", &small()).1)
    };
    assert_eq!(
        spoil(WentDown { reason: String::new() }.into()),
        (vec!["h2".into(), "h3".into()], "it does not answer".into())
    );
    assert_eq!(spoil(ForcedDown { forced: true }.into()).1, "it is forced down");
    assert_eq!(spoil(Disabled { reason: None }.into()), (vec!["h2".into(), "h3".into()], "it is disabled".into()));
}

#[test]
fn a_forced_host_skips_the_filters_and_a_requested_one_does_not() {
    let mut cell = Cell::three();
    cell.host(4, 1, 4096, 100);
    cell.take(host_id(2), HostEvent::from(Disabled { reason: None }));
    let forced = |name: &str| Request { forced_host: Some(name.into()), ..small() };
    let wanted = |name: &str| Request { requested_host: Some(name.into()), ..small() };
    assert_eq!(cell.names(&forced("H2")), ["h2"], "in any case of its letters");
    assert_eq!(cell.names(&forced("h4")), Vec::<String>::new(), "but it needs room");
    assert_eq!(cell.names(&wanted("h1")), ["h1"]);
    assert_eq!(cell.names(&wanted("h2")), Vec::<String>::new());
    let none = cell.decide(&wanted("h9")).reasons;
    assert_eq!(none.lacks.as_deref(), Some("the requested host cannot take the server"));
    let excluded = Request { excluded: [host_id(1), host_id(2)].into(), ..small() };
    assert_eq!(cell.names(&excluded), ["h3"]);
}

#[test]
fn zones_are_aggregates_and_the_default_zone_is_the_rest() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("availability_zone", "north")]);
    let zone = |zone: &str| Request { zone: Some(zone.into()), ..small() };
    assert_eq!(cell.fitting(&zone("north")), ["h1"]);
    assert_eq!(cell.fitting(&zone("nova")), ["h2", "h3"]);
    assert_eq!(cell.fitting(&zone("south")), Vec::<String>::new());
    assert_eq!(
        cell.decide(&zone("south")).reasons.message(),
        "No valid host was found. There are not enough hosts available: no host of zone south would do."
    );
    assert_eq!(cell.decide(&zone("north")).ranked[0].zone.as_deref(), Some("north"));
    let refused = &cell.decide(&zone("north")).reasons.checks[0].refused;
    assert_eq!(refused[0].reason, "wants zone north, is in nova");
    assert_eq!(cell.pass("AvailabilityZoneFilter", &zone("north")).0, ["h1"]);
    assert_eq!(
        cell.pass("AvailabilityZoneFilter", &zone("nova")),
        (vec!["h2".into(), "h3".into()], "zone: wants nova, is in north".into())
    );
}

#[test]
fn prefilters_narrow_by_traits_aggregates_and_projects() {
    let mut cell = Cell::three();
    cell.traits(1, &["HW_CPU_X86_AVX", "COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_STORAGE_BUS_VIRTIO"]);
    cell.traits(2, &["CUSTOM_SLOW"]);
    cell.traits(3, &["COMPUTE_STATUS_DISABLED"]);
    assert_eq!(cell.fitting(&small()), ["h1", "h2"], "a disabled host is not offered");
    assert_eq!(cell.fitting(&specs(&[("trait:HW_CPU_X86_AVX", "required")])), ["h1"]);
    assert_eq!(cell.fitting(&specs(&[("trait:CUSTOM_SLOW", "forbidden")])), ["h1"]);
    let imaged_trait = imaged(&[("trait:CUSTOM_SLOW", "required"), ("hw_disk_bus", "virtio")]);
    assert_eq!(cell.fitting(&imaged_trait), ["h2"]);
    cell.options.prefilters.query_placement_for_image_type_support = true;
    assert_eq!(cell.fitting(&imaged(&[])), ["h1"]);
    assert_eq!(cell.fitting(&small()), ["h1", "h2"], "without an image there is no type");
    cell.options.prefilters = PrefilterOptions { image_metadata_prefilter: true, ..PrefilterOptions::default() };
    assert_eq!(cell.fitting(&imaged(&[("hw_disk_bus", "virtio")])), ["h1"]);
    assert_eq!(
        cell.fitting(&imaged(&[("hw_disk_bus", "floppy"), ("hw_cdrom_bus", "virtio")])).len(),
        2,
        "no such trait"
    );
    assert_eq!(cell.fitting(&specs(&[("accel:device_profile", "gpu")])), Vec::<String>::new());
}

#[test]
fn aggregates_can_be_kept_for_projects_and_traits() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("filter_tenant_id3", "p")]);
    cell.aggregate(&[2], &[("trait:HW_CPU_X86_AVX", "required")]);
    cell.traits(2, &["HW_CPU_X86_AVX"]);
    assert_eq!(cell.fitting(&small()).len(), 3, "off by default");
    cell.options.prefilters.limit_tenants_to_placement_aggregate = true;
    assert_eq!(cell.fitting(&small()), ["h1"]);
    let other = Request { project: "q".into(), ..small() };
    assert_eq!(cell.fitting(&other).len(), 3);
    cell.options.prefilters.placement_aggregate_required_for_tenants = true;
    assert_eq!(cell.decide(&other).reasons.lacks.as_deref(), Some("no hosts are available to the project"));
    cell.options.prefilters =
        PrefilterOptions { enable_isolated_aggregate_filtering: true, ..PrefilterOptions::default() };
    assert_eq!(cell.fitting(&small()), ["h1", "h3"]);
    assert_eq!(cell.fitting(&specs(&[("trait:HW_CPU_X86_AVX", "required")])), ["h2"]);
}

#[test]
fn dedicated_cpus_fall_back_to_shared_ones_unless_told_not_to() {
    let mut cell = Cell::three();
    let dedicated = specs(&[("hw:cpu_policy", "dedicated")]);
    assert_eq!(cell.fitting(&dedicated).len(), 3);
    cell.options.disable_fallback_pcpu_query = true;
    assert_eq!(cell.decide(&dedicated).reasons.lacks.as_deref(), Some("no host that would do has any PCPU"));
}

#[test]
fn a_large_fleet_is_cut_at_max_placement_results_and_the_roomiest_stay() {
    let mut cell = Cell::default();
    for n in 1..=20 {
        cell.host(n, 8, 1024 * u64::try_from(n).unwrap(), 100);
    }
    cell.options.max_placement_results = 4;
    cell.options.max_attempts = 10;
    assert_eq!(cell.fitting(&small()), ["h17", "h18", "h19", "h20"]);
    cell.options.multipliers.ram = -1.0;
    assert_eq!(cell.fitting(&small()), ["h1", "h2", "h3", "h4"], "who stacks wants the fullest");
}

#[test]
fn filters_run_in_the_order_given_and_count_what_they_leave() {
    let mut cell = Cell::three();
    cell.take(host_id(1), HostEvent::from(WentDown { reason: String::new() }));
    cell.options.enabled_filters = vec!["NumInstancesFilter", "ComputeFilter", "AllHostsFilter"];
    let checks = cell.decide(&small()).reasons.checks;
    let counts: Vec<(&str, u32)> = checks.iter().map(|check| (check.name.as_str(), check.left)).collect();
    let expected = [
        ("compute status", 3),
        ("capacity", 3),
        ("NumInstancesFilter", 3),
        ("ComputeFilter", 2),
        ("AllHostsFilter", 2),
    ];
    assert_eq!(counts, expected);
    cell.options.enabled_filters = vec![];
    assert_eq!(cell.fitting(&small()).len(), 3);
    assert_eq!(filters::DEFAULT, SchedulerOptions::default().enabled_filters);
    assert!(filters::DEFAULT.iter().all(|name| filters::named(name).is_some()));
}

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
    assert_eq!(pass(("hypervisor_type", "QEMU")).0, ["h1", "h2"], "known without a scope");
    assert_eq!(pass(("vcpus_total", ">= 9")).0, Vec::<String>::new());
    assert_eq!(pass(("no_such_thing", "1")).0, ["h1", "h2"], "unknown without a scope: somebody else's");
    assert_eq!(pass(("capabilities:no_such_thing", "1")).0, Vec::<String>::new());
    assert_eq!(pass(("hw:watchdog_action", "none")).0, ["h1", "h2"], "another scope");
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
    assert_eq!(pass(&[("architecture", "arm64")]), ["h2"], "the old name");
    assert_eq!(pass(&[("img_hv_type", "kvm")]), ["h1"]);
    assert_eq!(pass(&[("img_hv_type", "qemu"), ("hw_vm_mode", "hvm")]), ["h1", "h2"]);
    assert_eq!(pass(&[("img_hv_type", "xen")]), Vec::<String>::new());
    assert_eq!(pass(&[("hw_vm_mode", "pv")]), Vec::<String>::new());
    assert_eq!(pass(&[("img_hv_type", "qemu"), ("img_hv_requested_version", ">=8.0")]), Vec::<String>::new());
    assert_eq!(pass(&[("img_hv_requested_version", ">=8.0")]), ["h1", "h2"], "the version alone is not looked at");
    cell.options.image_properties_default_architecture = Some("aarch64".into());
    assert_eq!(cell.pass("ImagePropertiesFilter", &imaged(&[])).0, ["h2"]);
}

#[test]
fn aggregates_ask_things_of_servers() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("os_distro", "debian, ubuntu"), ("instance_type", "m1.small,m1.tiny"), ("ssd", "true")]);
    cell.aggregate(&[1, 2], &[("filter_tenant_id", "q, r"), ("instance_type", "m1.large"), ("owner", "x")]);
    let pass = |filter: &str, request: &Request| cell.pass(filter, request).0;
    let isolation = "AggregateImagePropertiesIsolation";
    assert_eq!(pass(isolation, &imaged(&[("os_distro", "debian"), ("owner", "y")])), ["h1", "h2", "h3"]);
    assert_eq!(pass(isolation, &imaged(&[("os_distro", "windows")])), ["h2", "h3"]);
    assert_eq!(pass(isolation, &imaged(&[])), ["h1", "h2", "h3"], "an image that does not say passes");
    let extra = "AggregateInstanceExtraSpecsFilter";
    assert_eq!(pass(extra, &specs(&[("aggregate_instance_extra_specs:ssd", "true")])), ["h1"]);
    assert_eq!(pass(extra, &specs(&[("ssd", "<or> true <or> yes")])), ["h1"]);
    assert_eq!(pass(extra, &specs(&[("hw:numa_nodes", "1")])), ["h1", "h2", "h3"]);
    let tenancy = "AggregateMultiTenancyIsolation";
    assert_eq!(pass(tenancy, &small()), ["h3"]);
    assert_eq!(pass(tenancy, &Request { project: "r".into(), ..small() }), ["h1", "h2", "h3"]);
    assert_eq!(pass("AggregateTypeAffinityFilter", &small()), ["h1", "h3"]);
    let refused = cell.pass("AggregateTypeAffinityFilter", &small()).1;
    assert_eq!(refused, "flavor m1.tiny: the host's aggregates admit m1.large");
}

#[test]
fn hosts_have_so_many_servers_and_no_more() {
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
    let one = server_id(1).to_string();
    assert_eq!(cell.pass("DifferentHostFilter", &hinted("different_host", &[&one])).0, ["h2"]);
    assert_eq!(cell.pass("SameHostFilter", &hinted("same_host", &[&one])).0, ["h1"]);
    assert_eq!(cell.pass("SameHostFilter", &hinted("same_host", &["nonsense"])).0, Vec::<String>::new());
    assert_eq!(cell.pass("SameHostFilter", &small()).0, ["h1", "h2"]);
    let mut near = hinted("build_near_host_ip", &["192.0.2.77"]);
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &near).0, ["h1"]);
    near.hints.insert("cidr".into(), vec!["/0".into()]);
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &near).0, ["h1", "h2"]);
    near.hints.insert("cidr".into(), vec!["/64".into()]);
    assert_eq!(cell.pass("SimpleCIDRAffinityFilter", &near).0, Vec::<String>::new(), "no such network");
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
    assert_eq!(pass(r#"["=", "$no_such_thing", 1]"#), Vec::<String>::new(), "with one argument left nothing compares");
    assert_eq!(pass("[]"), ["h1", "h2"]);
    assert_eq!(pass("nonsense"), Vec::<String>::new());
    assert_eq!(pass(r#"["explode"]"#), Vec::<String>::new());
    let deep = "[\"not\",".repeat(100) + "[]" + &"]".repeat(100);
    assert_eq!(pass(&deep), Vec::<String>::new(), "depth is bounded");
}

#[test]
fn isolated_hosts_and_images_belong_together() {
    let mut cell = Cell::three();
    let pass = |cell: &Cell, request: &Request| cell.pass("IsolatedHostsFilter", request).0;
    cell.options.isolated_hosts = vec!["h1".into()];
    assert_eq!(pass(&cell, &imaged(&[])), ["h2", "h3"], "nothing may go there");
    cell.options.isolated_images = vec![ImageId(Uuid::from_u128(3)).to_string()];
    assert_eq!(pass(&cell, &imaged(&[])), ["h1"]);
    assert_eq!(pass(&cell, &small()), ["h2", "h3"]);
    cell.options.restrict_isolated_hosts_to_isolated_images = false;
    assert_eq!(pass(&cell, &imaged(&[])), ["h1"]);
    assert_eq!(pass(&cell, &small()), ["h1", "h2", "h3"]);
}

#[test]
fn groups_keep_their_members_together_or_apart() {
    let mut cell = Cell::three();
    let group = |policy, most_per_host, members: &[(Slot, u32)]| {
        Some(Group { name: "g".into(), policy, most_per_host, members: members.iter().copied().collect() })
    };
    let pass = |cell: &Cell, filter: &str, group| cell.pass_with(filter, &small(), group).0;
    let (apart, together) = ("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter");
    assert_eq!(pass(&cell, apart, group(Policy::AntiAffinity, 1, &[(0, 1)])), ["h2", "h3"]);
    assert_eq!(pass(&cell, apart, group(Policy::AntiAffinity, 2, &[(0, 1), (1, 2)])), ["h1", "h3"]);
    assert_eq!(pass(&cell, apart, group(Policy::SoftAntiAffinity, u32::MAX, &[(0, 1)])).len(), 3);
    assert_eq!(pass(&cell, together, group(Policy::Affinity, u32::MAX, &[(1, 1)])), ["h2"]);
    assert_eq!(
        pass(&cell, together, group(Policy::Affinity, u32::MAX, &[])).len(),
        3,
        "the first member goes anywhere"
    );
    // The server that moves does not stand in its own way.
    cell.server(7, 1);
    let moving = Request { server: Some(server_id(7)), ..small() };
    assert_eq!(cell.pass_with(apart, &moving, group(Policy::AntiAffinity, 1, &[(0, 1), (1, 1)])).0, ["h1", "h3"]);
}

#[test]
fn what_hosts_do_not_tell_passes_no_filter() {
    let mut cell = Cell::three();
    assert_eq!(cell.pass("NUMATopologyFilter", &small()).0.len(), 3);
    assert_eq!(cell.pass("NUMATopologyFilter", &specs(&[("hw:numa_nodes", "2")])).0, Vec::<String>::new());
    assert_eq!(
        cell.pass("PciPassthroughFilter", &specs(&[("pci_passthrough:alias", "gpu:1")])).0,
        Vec::<String>::new()
    );
    assert_eq!(cell.pass("MetricsFilter", &small()).0.len(), 3);
    cell.options.metrics_weight_setting = BTreeMap::from([("cpu.percent".to_owned(), -1.0)]);
    assert_eq!(cell.pass("MetricsFilter", &small()).0, Vec::<String>::new());
}

#[test]
fn the_emptiest_host_is_best_and_equals_are_ordered_by_age() {
    let mut cell = Cell::default();
    cell.options.max_attempts = 10;
    cell.host(1, 2, 1024, 10).host(2, 8, 4096, 100).host(3, 4, 2048, 50);
    assert_eq!(cell.names(&request(flavor(1, 512, 1))), ["h2", "h3", "h1"]);
    let mut same = Cell::default();
    same.host(3, 8, 4096, 100).host(1, 8, 4096, 100);
    assert_eq!(same.names(&small()), ["h3", "h1"]);
    assert!(same.decide(&small()).reasons.weighed.iter().all(|host| host.weight.abs() < f64::EPSILON));
}

/// Multipliers of 0, but for those given.
fn only(ram: f64, cpu: f64, disk: f64) -> Multipliers {
    Multipliers { ram, cpu, disk, io_ops: 0.0, build_failure: 0.0, hypervisor_version: 0.0, ..Multipliers::default() }
}

#[test]
fn weights_are_normalised_from_nothing_and_a_negative_one_stacks() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host(2, 8, 3072, 1000);
    let names = |cell: &mut Cell, multipliers: Multipliers| {
        cell.options.multipliers = multipliers;
        cell.names(&small())
    };
    assert_eq!(names(&mut cell, only(1.0, 0.0, 0.0)), ["h1", "h2"]);
    assert_eq!(names(&mut cell, only(-1.0, 0.0, 0.0)), ["h2", "h1"], "the fullest first");
    assert_eq!(names(&mut cell, only(1.0, 0.0, 1.0)), ["h2", "h1"], "a quarter less memory, nine tenths less disk");
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
    let look = Look::new(cell.sources(), &asked, &cell.options);
    let seen = look.host(0);
    assert!((seen.plainly_free("MEMORY_MB") + 2.0).abs() < f64::EPSILON, "8 - 1 - 9: overcommitted");
    assert!((seen.free_cpus() - 31.0).abs() < f64::EPSILON, "8 x 4 - 1");
}

#[test]
fn aggregates_override_multipliers_and_the_least_counts() {
    let mut cell = Cell::default();
    cell.host(1, 8, 4096, 100).host(2, 8, 3072, 100);
    cell.options.multipliers = only(1.0, 0.0, 0.0);
    assert_eq!(cell.names(&small())[0], "h1");
    cell.aggregate(&[1], &[("ram_weight_multiplier", "0.9")]);
    cell.aggregate(&[1], &[("ram_weight_multiplier", "0.5")]);
    assert_eq!(cell.names(&small())[0], "h2");
    cell.aggregate(&[1], &[("ram_weight_multiplier", "much")]);
    assert_eq!(cell.names(&small())[0], "h1", "what is no number leaves the option");
}

#[test]
fn busy_hosts_and_hosts_where_builds_failed_come_last() {
    let mut cell = Cell::three();
    cell.server(1, 1);
    assert_eq!(cell.names(&small()), ["h2", "h3", "h1"]);
    let failed = chronova_events::process::StepFailed {
        step: "spawn_guest".into(),
        elsewhere: true,
        host: Some(host_id(2)),
        fault: chronova_events::instance::FaultInfo { code: 500, message: String::new(), details: String::new() },
    };
    cell.take("p", chronova_events::process::ProcessEvent::from(failed));
    assert_eq!(cell.names(&small()), ["h3", "h1", "h2"]);
    cell.options.counts_build_failures = false;
    assert_eq!(cell.names(&small()), ["h2", "h3", "h1"]);
    cell.options.weighers = vec![];
    assert_eq!(cell.names(&small()), ["h1", "h2", "h3"], "nobody weighs");
}

#[test]
fn chance_chooses_among_the_best_only() {
    let mut cell = Cell::default();
    for n in 1..=5 {
        cell.host(n, 8, 1024 * (10 - u64::try_from(n).unwrap()), 100);
    }
    cell.options.host_subset_size = 2;
    let first = |cell: &Cell, dice: u64| cell.names(&Request { dice, ..small() })[0].clone();
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
fn a_rebuild_asks_some_filters_of_one_host() {
    let views = Views::new();
    let reasons = may_rebuild(&views, host_id(1), &small(), &SchedulerOptions::default()).unwrap_err();
    assert_eq!(reasons.checks.len(), 1, "an unknown host passes nothing: {reasons:?}");
    let on_rebuild: Vec<&str> =
        filters::FILTERS.iter().filter(|filter| filter.on_rebuild).map(|filter| filter.name).collect();
    assert_eq!(on_rebuild, ["AggregateImagePropertiesIsolation", "ImagePropertiesFilter", "IsolatedHostsFilter"]);
}
