//! Choosing hosts: `[scheduler]`, `[filter_scheduler]`.

use chronova_actors::scheduler::filters::NAMES;
use chronova_actors::scheduler::weighers::CLASSES;

use super::super::option::{Default::Text, Multi};

section! {
    /// Nova's `[scheduler]`.
    Scheduler = "scheduler" from Nova {
        max_attempts: u32 {
            default: Text("3"), min: Some(1.0),
            deprecated: &[("DEFAULT", "scheduler_max_attempts")],
            help: "Hosts on which a build may be tried.",
        }
        max_placement_results: u32 {
            default: Text("1000"), min: Some(1.0),
            help: "Most allocation candidates to consider.",
        }
        limit_tenants_to_placement_aggregate: bool {
            default: Text("false"),
            help: "Keep projects to aggregates whose filter_tenant_id names them.",
        }
        placement_aggregate_required_for_tenants: bool {
            default: Text("false"),
            help: "Refuse projects that no aggregate names, when the option above is on.",
        }
        query_placement_for_image_type_support: bool {
            default: Text("false"),
            help: "Ask for hosts that can use the image's disk format.",
        }
        enable_isolated_aggregate_filtering: bool {
            default: Text("false"),
            help: "Keep servers that do not ask for an aggregate's required traits off its hosts.",
        }
        image_metadata_prefilter: bool {
            default: Text("false"),
            help: "Ask for hosts that support the devices an image's properties name.",
        }
        query_placement_for_routed_network_aggregates: bool {
            default: Text("false"),
            help: "Ask for hosts on the segments of a routed network.",
        }
    }
}

section! {
    /// Nova's `[filter_scheduler]`.
    FilterScheduler = "filter_scheduler" from Nova {
        enabled_filters: Vec<String> {
            default: Text("ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"),
            choices: &NAMES,
            deprecated: &[("DEFAULT", "scheduler_default_filters")],
            help: "Filters that a host must pass, in the order of their use.",
        }
        available_filters: Multi {
            default: Text("nova.scheduler.filters.all_filters"),
            deprecated: &[("DEFAULT", "scheduler_available_filters")],
            help: "Filters that may be enabled. Nova loads Python classes by it; all built-in filters are available here, \
                   whatever it says.",
        }
        weight_classes: Vec<String> {
            default: Text("nova.scheduler.weights.all_weighers"),
            choices: &CLASSES,
            deprecated: &[("DEFAULT", "scheduler_weight_classes")],
            help: "Weighers to use, by Nova's class names.",
        }
        host_subset_size: u32 {
            default: Text("1"), min: Some(1.0),
            deprecated: &[("DEFAULT", "scheduler_host_subset_size")],
            help: "Choose by chance among this many best hosts.",
        }
        shuffle_best_same_weighed_hosts: bool {
            default: Text("false"),
            help: "Choose by chance among hosts that share the best weight.",
        }
        max_io_ops_per_host: u32 {
            default: Text("8"), min: Some(0.0),
            deprecated: &[("DEFAULT", "max_io_ops_per_host")],
            help: "Servers building, resizing, rescuing or migrating on a host above which IoOpsFilter refuses it.",
        }
        max_instances_per_host: u32 {
            default: Text("50"), min: Some(1.0),
            deprecated: &[("DEFAULT", "max_instances_per_host")],
            help: "Servers on a host above which NumInstancesFilter refuses it.",
        }
        track_instance_changes: bool {
            default: Text("true"),
            deprecated: &[("DEFAULT", "scheduler_tracks_instance_changes")],
            help: "Whether the scheduler knows which servers are on a host. It reads the same log here, so it always does.",
        }
        ram_weight_multiplier: f64 {
            default: Text("1.0"),
            deprecated: &[("DEFAULT", "ram_weight_multiplier")],
            help: "Weight of free memory; below zero fills hosts up.",
        }
        cpu_weight_multiplier: f64 {
            default: Text("1.0"),
            help: "Weight of free virtual CPUs; below zero fills hosts up.",
        }
        disk_weight_multiplier: f64 {
            default: Text("1.0"),
            deprecated: &[("DEFAULT", "disk_weight_multiplier")],
            help: "Weight of free disk; below zero fills hosts up.",
        }
        hypervisor_version_weight_multiplier: f64 {
            default: Text("1.0"),
            help: "Weight of newer hypervisors.",
        }
        num_instances_weight_multiplier: f64 {
            default: Text("0.0"),
            help: "Weight of the number of servers on a host.",
        }
        io_ops_weight_multiplier: f64 {
            default: Text("-1.0"),
            deprecated: &[("DEFAULT", "io_ops_weight_multiplier")],
            help: "Weight of servers building or moving on a host; below zero prefers idle hosts.",
        }
        image_props_weight_multiplier: f64 {
            default: Text("0.0"),
            help: "Weight of servers on a host whose images have the same properties.",
        }
        image_props_weight_setting: Vec<String> {
            help: "Image properties to compare and the weight of each, as in os_distro=1,hw_machine_type=0.",
        }
        pci_weight_multiplier: f64 {
            default: Text("1.0"), min: Some(0.0),
            help: "Weight that keeps hosts with PCI devices for servers that ask for some.",
        }
        soft_affinity_weight_multiplier: f64 {
            default: Text("1.0"), min: Some(0.0),
            deprecated: &[("DEFAULT", "soft_affinity_weight_multiplier")],
            help: "Weight of members of the same soft-affinity group on a host.",
        }
        soft_anti_affinity_weight_multiplier: f64 {
            default: Text("1.0"), min: Some(0.0),
            deprecated: &[("DEFAULT", "soft_anti_affinity_weight_multiplier")],
            help: "Weight against members of the same soft-anti-affinity group on a host.",
        }
        build_failure_weight_multiplier: f64 {
            default: Text("1000000.0"),
            help: "Weight against hosts whose last builds failed.",
        }
        cross_cell_move_weight_multiplier: f64 {
            default: Text("1000000.0"),
            help: "Weight of staying in the same cell when a server moves.",
        }
        image_properties_default_architecture: Option<String> {
            help: "Architecture of images that do not say theirs, for ImagePropertiesFilter.",
        }
        isolated_images: Vec<String> {
            deprecated: &[("DEFAULT", "isolated_images")],
            help: "Images that IsolatedHostsFilter keeps to isolated_hosts.",
        }
        isolated_hosts: Vec<String> {
            deprecated: &[("DEFAULT", "isolated_hosts")],
            help: "Hosts that IsolatedHostsFilter keeps for isolated_images.",
        }
        restrict_isolated_hosts_to_isolated_images: bool {
            default: Text("true"),
            deprecated: &[("DEFAULT", "restrict_isolated_hosts_to_isolated_images")],
            help: "Keep other images off isolated hosts.",
        }
        aggregate_image_properties_isolation_namespace: Option<String> {
            deprecated: &[("DEFAULT", "aggregate_image_properties_isolation_namespace")],
            help: "Namespace of the properties that AggregateImagePropertiesIsolation compares.",
        }
        aggregate_image_properties_isolation_separator: String {
            default: Text("."),
            deprecated: &[("DEFAULT", "aggregate_image_properties_isolation_separator")],
            help: "What separates that namespace from a property's name.",
        }
    }
}

section! {
    /// Nova's `[metrics]`.
    Metrics = "metrics" from Nova {
        weight_multiplier: f64 {
            default: Text("1.0"),
            help: "Weight of the metrics that hosts report.",
        }
        weight_setting: Vec<String> {
            help: "Metrics to weigh and the ratio of each, as in cpu.percent=-1.0. Hosts report no metrics yet, so with a \
                   setting MetricsFilter refuses every host.",
        }
        required: bool {
            default: Text("true"),
            help: "Whether a host that lacks a metric of weight_setting is an error. MetricsFilter is what keeps such hosts \
                   out.",
        }
        weight_of_unavailable: f64 {
            default: Text("-10000.0"),
            help: "What a host that lacks a metric weighs, where metrics are not required.",
        }
    }
}
