#![allow(clippy::unwrap_used)]
//! Tests which hosts fit, which is best, and the reasons in the decision.

mod each_filter;
mod each_weigher;
mod edges;
mod hook;
mod ports;

use std::collections::BTreeMap;

use chronova_events::envelope::{Meta, Position, Recorded, Revision, StreamId, Timestamp};
use chronova_events::host::{Capabilities, Disabled, ForcedDown, HostEvent, Registered, WentDown, samples};
use chronova_events::host_aggregate::{HostAdded, HostAggregateCreated};
use chronova_events::ids::{EventId, HostAggregateId, HostId, InstanceId, ProcessId, ProviderId};
use chronova_events::instance::{BuildRequested, FlavorSnapshot, ImageSnapshot, InstanceEvent, Placed};
use chronova_events::ledger::{
    Allocation, Claimed, FittedNumaCell, Inventory, InventoryReplaced, ProviderCreated, TraitsReplaced,
};
use chronova_events::registry::Event;
use chronova_events::server_group::ServerGroupPolicy;
use chronova_projections::Projection as _;
use chronova_projections::fleet::{FleetView, Slot};
use chronova_projections::placement::Placement;
use chronova_projections::server_groups::ServerGroupsView;
use chronova_projections::servers::Servers;
use chronova_projections::views::Views;
use uuid::Uuid;

use super::context::InstanceGroup;
use super::request::tests::{flavor, request};
use super::*;
use crate::coordination::pending_claims::{PendingClaim, PendingClaims};
use crate::hosts::metrics::HostMetrics;
use crate::instance::sample_image::image_with;

/// A cell without a log.
#[derive(Default)]
struct Cell {
    fleet: FleetView,
    placement: Placement,
    groups: ServerGroupsView,
    servers: Servers,
    pending: PendingClaims,
    metrics: HostMetrics,
    options: SchedulerOptions,
    aggregates: u128,
}

fn host_id(n: u128) -> HostId {
    HostId(Uuid::from_u128(n))
}

fn server_id(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

/// An inventory that may be allocated whole.
fn line(class: &str, total: u64) -> Inventory {
    Inventory {
        class: class.to_owned(),
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: total,
        step_size: 1,
        allocation_ratio: 1.0,
    }
}

/// A claim on the cells of the first host.
fn pending(fitted: Vec<FittedNumaCell>) -> PendingClaim {
    PendingClaim {
        slot: 0,
        server: None,
        resources: vec![],
        elsewhere: vec![],
        fitted,
        devices: vec![],
        group: None,
        claimed_at: None,
        placed_at: None,
    }
}

impl Cell {
    fn take(&mut self, key: impl AsRef<str>, event: impl Into<Event>) {
        self.fleet.take(key.as_ref(), &event.into());
    }

    /// Adds a host `h{n}` with these CPUs, MiB and GiB.
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
        let inventories = vec![line("DISK_GB", disk_gib), line("MEMORY_MB", memory_mib), line("VCPU", vcpus)];
        self.ledger(InventoryReplaced { provider, inventories });
        self.take(host_id(n).to_string(), HostEvent::from(registered));
        self
    }

    fn ledger(&mut self, event: impl Into<chronova_events::ledger::LedgerEvent>) {
        let event: chronova_events::ledger::LedgerEvent = event.into();
        self.placement.take_in(&event, Timestamp(0));
        self.take("cell1", event);
    }

    /// A cell with three hosts of 8 CPUs, 4 GiB of memory and 100 GiB of disk.
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
        self.take(server_id(server).to_string(), chronova_events::instance::InstanceEvent::from(placed));
    }

    /// Records that a project requested the server.
    fn owned(&mut self, server: u128, project: &str) {
        let sample = chronova_events::instance::samples().into_iter().find_map(|event| match event {
            InstanceEvent::BuildRequested(request) => Some(request),
            _ => None,
        });
        let event = Event::from(InstanceEvent::from(BuildRequested { project: project.into(), ..sample.unwrap() }));
        let recorded = Recorded {
            position: Position(1),
            stream: StreamId::new("instance", server_id(server)),
            revision: Revision(1),
            id: EventId::random(),
            kind: event.kind().into(),
            version: event.version(),
            codec: chronova_events::codec::BINCODE_2,
            recorded_at: Timestamp(1),
            meta: Meta::system("test"),
            data: event.encode().unwrap().into(),
            hash: None,
            keys: None,
            decoded: std::sync::OnceLock::new(),
        };
        self.servers.apply(&recorded, &event);
    }

    fn sources(&self) -> SchedulerViews<'_> {
        SchedulerViews {
            fleet: &self.fleet,
            groups: &self.groups,
            placement: &self.placement,
            servers: &self.servers,
            pending: &self.pending,
            metrics: &self.metrics,
        }
    }

    fn decide(&self, request: &RequestSpec) -> SchedulingDecision {
        choose_among(self.sources(), request, &self.options)
    }

    /// The names of the hosts that were found, best first.
    fn names(&self, request: &RequestSpec) -> Vec<String> {
        self.decide(request).ranked.into_iter().map(|chosen| chosen.hostname).collect()
    }

    /// The names of the hosts that were found, sorted.
    fn fitting(&self, request: &RequestSpec) -> Vec<String> {
        let mut names = self.names(request);
        names.sort();
        names
    }

    /// The hosts that pass one filter, and the filter's reason for the first host that does not.
    fn pass(&self, filter: &str, request: &RequestSpec) -> (Vec<String>, String) {
        self.pass_with(filter, request, None)
    }

    fn pass_with(&self, filter: &str, request: &RequestSpec, group: Option<InstanceGroup>) -> (Vec<String>, String) {
        let filter = filters::named(filter).unwrap();
        let mut context = SchedulingContext::new(self.sources(), request, &self.options);
        context.group = group;
        if !(filter.applies)(&context) {
            return (
                context.fleet.hosts().iter().map(|slot| context.fleet.row(slot).name.clone()).collect(),
                String::new(),
            );
        }
        let (passing, refused): (Vec<Slot>, Vec<Slot>) =
            context.fleet.hosts().iter().partition(|slot| (filter.passes)(&context.host(*slot)));
        let said = refused.first().map(|slot| (filter.says)(&context.host(*slot))).unwrap_or_default();
        assert!(passing.len() + refused.len() == context.fleet.hosts().len());
        if passing.is_empty() {
            assert!(!(filter.lacks)(&context).is_empty(), "{} says what is missing", filter.name);
        }
        (passing.iter().map(|slot| context.fleet.row(*slot).name.clone()).collect(), said)
    }
}

fn small() -> RequestSpec {
    request(flavor(2, 1024, 10))
}

fn specs(specs: &[(&str, &str)]) -> RequestSpec {
    let extra_specs = specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    request(FlavorSnapshot { extra_specs, ..flavor(2, 1024, 10) })
}

fn imaged(properties: &[(&str, &str)]) -> RequestSpec {
    RequestSpec { image: Some(image_with(properties).into()), ..small() }
}

/// The lines that are logged meanwhile.
fn logged(act: impl FnOnce()) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = std::sync::Arc::new(file.reopen().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    tracing::subscriber::with_default(subscriber, act);
    std::fs::read_to_string(file.path()).unwrap()
}

fn hinted(name: &str, values: &[&str]) -> RequestSpec {
    let values = values.iter().map(ToString::to_string).collect();
    RequestSpec { hints: BTreeMap::from([(name.to_owned(), values)]), ..small() }
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
        "No valid host was found. There are not enough hosts available: no suitable host has 9000 MiB of memory free."
    );
    let strange = cell.decide(&specs(&[("resources:CUSTOM_GOLD", "1")]));
    assert_eq!(strange.reasons.lacks.as_deref(), Some("no suitable host has any CUSTOM_GOLD"));
}

#[test]
fn pending_claims_count() {
    let mut cell = Cell::three();
    let entry = |slot| PendingClaim { slot, resources: vec![("VCPU".into(), 7)], ..pending(vec![]) };
    cell.pending.add(entry(0));
    assert_eq!(cell.fitting(&small()), ["h2", "h3"]);
    cell.pending.add(entry(1));
    assert_eq!(cell.fitting(&small()), ["h3"]);
}

#[test]
fn a_pick_takes_memory_and_disk_and_makes_its_host_busy() {
    for (class, amount) in [("MEMORY_MB", 3_584), ("DISK_GB", 95)] {
        let mut cell = Cell::three();
        cell.pending.add(PendingClaim { resources: vec![(class.into(), amount)], ..pending(vec![]) });
        assert_eq!(cell.fitting(&small()), ["h2", "h3"], "{class}");
        let request = small();
        let context = SchedulingContext::new(cell.sources(), &request, &cell.options);
        let counts = |slot| (context.host(slot).num_instances(), context.host(slot).num_io_ops());
        assert_eq!((counts(0), counts(1)), ((1, 1), (0, 0)), "{class}");
        assert!(context.host(0).plainly_free(class) < context.host(1).plainly_free(class), "weighers see less {class}");
    }
}

#[test]
fn only_enabled_hosts_that_answer_are_chosen() {
    let after = |event: HostEvent| {
        let mut cell = Cell::three();
        cell.take(host_id(1).to_string(), event);
        (cell.fitting(&small()), cell.pass("ComputeFilter", &small()).1)
    };
    assert_eq!(
        after(WentDown { reason: String::new() }.into()),
        (vec!["h2".into(), "h3".into()], "it does not answer".into())
    );
    assert_eq!(after(ForcedDown { forced: true }.into()).1, "it is forced down");
    assert_eq!(after(Disabled { reason: None }.into()), (vec!["h2".into(), "h3".into()], "it is disabled".into()));
}

#[test]
fn a_forced_host_skips_the_filters_and_a_requested_one_does_not() {
    let mut cell = Cell::three();
    cell.host(4, 1, 4096, 100);
    cell.take(host_id(2).to_string(), HostEvent::from(Disabled { reason: None }));
    let forced = |name: &str| RequestSpec { forced_host: Some(name.into()), ..small() };
    let wanted = |name: &str| RequestSpec { requested_host: Some(name.into()), ..small() };
    assert_eq!(cell.names(&forced("H2")), ["h2"], "the case of the name does not matter");
    assert_eq!(cell.names(&forced("h4")), Vec::<String>::new(), "a forced host still needs capacity");
    assert_eq!(cell.names(&wanted("h1")), ["h1"]);
    assert_eq!(cell.names(&wanted("H1")), ["h1"], "the case of a requested host's name does not matter either");
    assert_eq!(cell.names(&wanted("h2")), Vec::<String>::new());
    let none = cell.decide(&wanted("h9")).reasons;
    assert_eq!(none.lacks.as_deref(), Some("the requested host cannot take the server"));
    let excluded = RequestSpec { excluded: [host_id(1), host_id(2)].into(), ..small() };
    assert_eq!(cell.names(&excluded), ["h3"]);
}

/// As in Nova, with the option off the filter alone heeds zones.
#[test]
fn without_the_prefilter_a_filter_heeds_zones_or_nobody_does() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("availability_zone", "north")]);
    let north = RequestSpec { zone: Some("north".into()), ..small() };
    assert_eq!(cell.fitting(&north), ["h1"]);
    cell.options.prefilters.query_placement_for_availability_zone = false;
    assert_eq!(cell.fitting(&north), ["h1", "h2", "h3"]);
    cell.options.enabled_filters.push("AvailabilityZoneFilter");
    assert_eq!(cell.fitting(&north), ["h1"]);
    let check = cell.decide(&north).reasons.checks.pop().unwrap();
    assert_eq!(
        (check.name.as_str(), check.refused[0].reason.as_str()),
        ("AvailabilityZoneFilter", "zone: wants north, is in nova")
    );
}

#[test]
fn zones_are_aggregates_and_the_default_zone_is_the_rest() {
    let mut cell = Cell::three();
    cell.aggregate(&[1], &[("availability_zone", "north")]);
    let zone = |zone: &str| RequestSpec { zone: Some(zone.into()), ..small() };
    assert_eq!(cell.fitting(&zone("north")), ["h1"]);
    assert_eq!(cell.fitting(&zone("nova")), ["h2", "h3"]);
    assert_eq!(cell.fitting(&zone("south")), Vec::<String>::new());
    assert_eq!(
        cell.decide(&zone("south")).reasons.message(),
        "No valid host was found. There are not enough hosts available: no host of zone south is suitable."
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
    let on_volume = RequestSpec { volume_backed: true, ..imaged(&[]) };
    assert_eq!(cell.fitting(&on_volume), ["h1", "h2"], "the host does not read the image of a root volume");
    let unheard = ImageSnapshot { format: "unheard".into(), ..image_with(&[]) };
    let unheard = RequestSpec { image: Some(unheard.into()), ..small() };
    let log = logged(|| assert_eq!(cell.fitting(&unheard), ["h1", "h2"], "a format without a trait is skipped"));
    assert!(log.contains("COMPUTE_IMAGE_TYPE_UNHEARD"), "{log}");
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
    cell.aggregate(&[1], &[("filter_tenant_id3", "p"), ("filter_tenant_id", "r")]);
    cell.aggregate(&[2], &[("trait:HW_CPU_X86_AVX", "required")]);
    cell.traits(2, &["HW_CPU_X86_AVX"]);
    assert_eq!(cell.fitting(&small()).len(), 3, "the option is on by default");
    cell.options.prefilters.limit_tenants_to_placement_aggregate = true;
    assert_eq!(cell.fitting(&small()), ["h1"]);
    assert_eq!(
        cell.fitting(&RequestSpec { project: "r".into(), ..small() }),
        ["h1"],
        "one aggregate, several projects"
    );
    let other = RequestSpec { project: "q".into(), ..small() };
    assert_eq!(cell.fitting(&other).len(), 3);
    cell.options.prefilters.placement_aggregate_required_for_tenants = true;
    assert_eq!(cell.decide(&other).reasons.lacks.as_deref(), Some("no hosts are available to the project"));
    cell.options.prefilters =
        PrefilterOptions { enable_isolated_aggregate_filtering: true, ..PrefilterOptions::default() };
    assert_eq!(cell.fitting(&small()), ["h1", "h3"]);
    let (avx, licence) = (("trait:HW_CPU_X86_AVX", "required"), ("trait:CUSTOM_LICENCE", "required"));
    assert_eq!(cell.fitting(&specs(&[avx])), ["h2"]);
    // The traits of flavor and image count together, and must include all of the aggregates' traits.
    cell.aggregate(&[2], &[licence]);
    cell.traits(2, &["HW_CPU_X86_AVX", "CUSTOM_LICENCE"]);
    assert!(cell.fitting(&specs(&[avx])).is_empty(), "one of two traits is enough");
    assert_eq!(cell.fitting(&imaged(&[avx, licence])), ["h2"]);
    let both = RequestSpec { image: Some(image_with(&[licence]).into()), ..specs(&[avx]) };
    assert_eq!(cell.fitting(&both), ["h2"]);
}

#[test]
fn dedicated_cpus_fall_back_to_shared_ones_unless_the_option_forbids_it() {
    let mut cell = Cell::three();
    let dedicated = specs(&[("hw:cpu_policy", "dedicated")]);
    let lacks = |cell: &Cell| cell.decide(&dedicated).reasons.lacks;
    let pins = "no host reports its NUMA topology, which the flavor or the image asks for";
    assert_eq!(lacks(&cell).as_deref(), Some(pins), "there are CPUs, but no dedicated ones");
    cell.options.disable_fallback_pcpu_query = true;
    assert_eq!(lacks(&cell).as_deref(), Some("no suitable host has any PCPU"));
}

/// Placement refuses a request with several groups and no `group_policy`, so Nova finds no host.
#[test]
fn several_groups_without_a_policy_find_no_host() {
    let mut cell = Cell::three();
    cell.traits(1, &["CUSTOM_LEFT", "CUSTOM_RIGHT"]);
    let groups = [("trait1:CUSTOM_LEFT", "required"), ("trait2:CUSTOM_RIGHT", "required")];
    let of = |policy: &[(&str, &str)]| specs(&groups.iter().chain(policy).copied().collect::<Vec<_>>());
    let message = cell.decide(&of(&[])).reasons.message();
    assert!(
        message.ends_with("several groups of resources, but no group_policy: set it to none or isolate."),
        "{message}"
    );
    assert_eq!(cell.fitting(&of(&[("group_policy", "none")])), ["h1"]);
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
    assert_eq!(cell.fitting(&small()), ["h1", "h2", "h3", "h4"], "packing selects the fullest hosts");
}

#[test]
fn filters_run_in_the_order_given_and_count_what_they_leave() {
    let mut cell = Cell::three();
    cell.take(host_id(1).to_string(), HostEvent::from(WentDown { reason: String::new() }));
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
    // A filter runs only on the hosts that the filters before it left. If no host is left, no further filter runs.
    cell.options.isolated_hosts = vec!["h1".into()];
    cell.options.enabled_filters = vec!["ComputeFilter", "IsolatedHostsFilter"];
    let last = cell.decide(&small()).reasons.checks.pop().unwrap();
    assert_eq!((last.name.as_str(), last.left, last.refused.len()), ("IsolatedHostsFilter", 2, 0), "it saw h1");
    cell.options.isolated_hosts = vec!["h2".into(), "h3".into()];
    cell.options.enabled_filters.push("AllHostsFilter");
    let last = cell.decide(&small()).reasons.checks.pop().unwrap();
    assert_eq!((last.name.as_str(), last.left), ("IsolatedHostsFilter", 0), "a filter ran without hosts");
    cell.options.enabled_filters = vec![];
    assert_eq!(cell.fitting(&small()).len(), 3);
    // Nova's default list.
    let expected = [
        "ComputeFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
    ];
    assert_eq!(SchedulerOptions::default().enabled_filters, expected);
    assert!(filters::DEFAULT.iter().all(|name| filters::named(name).is_some()));
}

/// In Nova, the compute service claims NUMA cells and PCI devices itself, whichever filters are enabled.
#[test]
fn unavailable_hardware_is_refused_whichever_filters_are_enabled() {
    let mut cell = Cell::three();
    for enabled in [filters::DEFAULT.to_vec(), vec![], vec!["NUMATopologyFilter", "PciPassthroughFilter"]] {
        cell.options.enabled_filters = enabled;
        assert_eq!(cell.fitting(&small()).len(), 3);
        for extra_spec in [("hw:numa_nodes", "1"), ("hw:mem_page_size", "large"), ("pci_passthrough:alias", "gpu:1")] {
            let decision = cell.decide(&specs(&[extra_spec]));
            assert!(decision.ranked.is_empty(), "{extra_spec:?}");
            assert!(
                decision.reasons.message().contains("which the flavor") || decision.reasons.message().contains("PCI")
            );
            let forced = RequestSpec { forced_host: Some("h1".to_owned()), ..specs(&[extra_spec]) };
            assert!(cell.decide(&forced).ranked.is_empty(), "{extra_spec:?} on a forced host");
        }
    }
    let forced = RequestSpec { forced_host: Some("h1".to_owned()), ..small() };
    assert_eq!(cell.decide(&forced).ranked.len(), 1);
}

#[test]
fn a_rebuild_runs_some_filters_on_one_host() {
    let views = Views::new();
    let reasons = may_rebuild(&views, host_id(1), &small(), &SchedulerOptions::default()).unwrap_err();
    assert_eq!(reasons.checks.len(), 1, "an unknown host passes nothing: {reasons:?}");
    let on_rebuild: Vec<&str> =
        filters::FILTERS.iter().filter(|filter| filter.on_rebuild).map(|filter| filter.name).collect();
    assert_eq!(on_rebuild, ["AggregateImagePropertiesIsolation", "ImagePropertiesFilter", "IsolatedHostsFilter"]);
}
