//! Choosing hosts: `[scheduler]`, `[filter_scheduler]`, `[scheduler_hook]`.

use std::path::PathBuf;

use chronova_actors::scheduler::filters::NAMES;
use chronova_actors::scheduler::weighers::CLASSES;

use super::super::option::Default::Text;

section! {
    /// Nova's `[scheduler]`.
    Scheduler = "scheduler" from Nova {
        max_attempts: u32 => runtime.processes.max_attempts => runtime.scheduler.max_attempts by Whole {
            min: Some(1.0),
            deprecated: &[("DEFAULT", "scheduler_max_attempts")],
            help: "Hosts on which a build may be tried.",
        }
        max_placement_results: u32 => runtime.scheduler.max_placement_results by Whole {
            min: Some(1.0),
            help: "Largest number of allocation candidates to consider.",
        }
        limit_tenants_to_placement_aggregate: bool
            => runtime.scheduler.prefilters.limit_tenants_to_placement_aggregate {
            help: "Place a project's servers only in aggregates whose filter_tenant_id names the project.",
        }
        placement_aggregate_required_for_tenants: bool
            => runtime.scheduler.prefilters.placement_aggregate_required_for_tenants {
            help: "With limit_tenants_to_placement_aggregate: refuse projects that no aggregate names.",
        }
        query_placement_for_availability_zone: bool => runtime.scheduler.prefilters.query_placement_for_availability_zone {
            help: "Narrow the hosts to the zone of the request before the filters run. If false, only \
                   AvailabilityZoneFilter heeds zones, so enable it then.",
        }
        query_placement_for_image_type_support: bool
            => runtime.scheduler.prefilters.query_placement_for_image_type_support {
            help: "Ask for hosts that can use the image's disk format.",
        }
        enable_isolated_aggregate_filtering: bool => runtime.scheduler.prefilters.enable_isolated_aggregate_filtering {
            help: "Place a server on the hosts of an aggregate only if the server requires the traits that the \
                   aggregate requires.",
        }
        image_metadata_prefilter: bool => runtime.scheduler.prefilters.image_metadata_prefilter {
            help: "Ask for hosts that support the devices an image's properties name.",
        }
        query_placement_for_routed_network_aggregates: bool => here {
            default: Text("false"),
            help: "Ask for hosts on the segments of a routed network. Chronova reads no segments, so it does not start \
                   if this option is true.",
        }
    }
}

section! {
    /// Nova's `[filter_scheduler]`.
    FilterScheduler = "filter_scheduler" from Nova {
        enabled_filters: Vec<String> => runtime.scheduler.enabled_filters by FilterNames {
            choices: &NAMES,
            deprecated: &[("DEFAULT", "scheduler_default_filters")],
            help: "Filters that a host must pass, in the order of their use.",
        }
        weight_classes: Vec<String> => runtime.scheduler.weighers by WeigherClasses {
            choices: &CLASSES,
            deprecated: &[("DEFAULT", "scheduler_weight_classes")],
            help: "Weighers to use, by Nova's class names.",
        }
        host_subset_size: u32 => runtime.scheduler.host_subset_size by Whole {
            min: Some(1.0),
            deprecated: &[("DEFAULT", "scheduler_host_subset_size")],
            help: "Choose at random among this number of best hosts.",
        }
        shuffle_best_same_weighed_hosts: bool => runtime.scheduler.shuffle_best_same_weighed_hosts {
            help: "Choose at random among the hosts with the best weight.",
        }
        max_io_ops_per_host: u32 => runtime.scheduler.max_io_ops_per_host {
            min: Some(0.0),
            deprecated: &[("DEFAULT", "max_io_ops_per_host")],
            help: "IoOpsFilter refuses a host as soon as this number of servers on it are being built, resized, \
                   rescued or migrated.",
        }
        max_instances_per_host: u32 => runtime.scheduler.max_instances_per_host {
            min: Some(1.0),
            deprecated: &[("DEFAULT", "max_instances_per_host")],
            help: "NumInstancesFilter refuses a host as soon as this number of servers are on it.",
        }
        ram_weight_multiplier: f64 => runtime.scheduler.multipliers.ram {
            deprecated: &[("DEFAULT", "ram_weight_multiplier")],
            help: "Weight of free memory; a negative number fills up hosts first.",
        }
        cpu_weight_multiplier: f64 => runtime.scheduler.multipliers.cpu {
            help: "Weight of free virtual CPUs; a negative number fills up hosts first.",
        }
        disk_weight_multiplier: f64 => runtime.scheduler.multipliers.disk {
            deprecated: &[("DEFAULT", "disk_weight_multiplier")],
            help: "Weight of free disk; a negative number fills up hosts first.",
        }
        hypervisor_version_weight_multiplier: f64 => runtime.scheduler.multipliers.hypervisor_version {
            help: "Weight of newer hypervisors.",
        }
        num_instances_weight_multiplier: f64 => runtime.scheduler.multipliers.num_instances {
            help: "Weight of the number of servers on a host.",
        }
        io_ops_weight_multiplier: f64 => runtime.scheduler.multipliers.io_ops {
            deprecated: &[("DEFAULT", "io_ops_weight_multiplier")],
            help: "Weight of servers that are being built or moved on a host; a negative number prefers idle hosts.",
        }
        pci_in_placement: bool => here {
            default: Text("false"),
            help: "Give guests only PCI devices that Placement tracks. It needs [pci] report_in_placement, and hosts that \
                   have reported their devices.",
        }
        image_props_weight_multiplier: f64 => runtime.scheduler.multipliers.image_props {
            help: "Weight of a host's servers whose images have the same properties as the new server's image.",
        }
        image_props_weight_setting: Vec<String> => runtime.scheduler.image_props_weight_setting by WeightSettings {
            help: "Image properties to compare and the weight of each, as in os_distro=1,hw_machine_type=0.",
        }
        pci_weight_multiplier: f64 => runtime.scheduler.multipliers.pci {
            min: Some(0.0),
            help: "Weight that keeps hosts with PCI devices for servers that ask for some.",
        }
        soft_affinity_weight_multiplier: f64 => runtime.scheduler.multipliers.soft_affinity {
            min: Some(0.0),
            deprecated: &[("DEFAULT", "soft_affinity_weight_multiplier")],
            help: "Weight of members of the same soft-affinity group on a host.",
        }
        soft_anti_affinity_weight_multiplier: f64 => runtime.scheduler.multipliers.soft_anti_affinity {
            min: Some(0.0),
            deprecated: &[("DEFAULT", "soft_anti_affinity_weight_multiplier")],
            help: "Weight against members of the same soft-anti-affinity group on a host.",
        }
        build_failure_weight_multiplier: f64 => runtime.scheduler.multipliers.build_failure {
            help: "Weight against hosts whose last builds failed.",
        }
        image_properties_default_architecture: Option<String>
            => runtime.scheduler.image_properties_default_architecture {
            help: "Architecture that ImagePropertiesFilter assumes for an image without the property hw_architecture.",
        }
        isolated_images: Vec<String> => runtime.scheduler.isolated_images {
            deprecated: &[("DEFAULT", "isolated_images")],
            help: "Images that IsolatedHostsFilter allows only on isolated_hosts.",
        }
        isolated_hosts: Vec<String> => runtime.scheduler.isolated_hosts {
            deprecated: &[("DEFAULT", "isolated_hosts")],
            help: "Hosts that IsolatedHostsFilter reserves for isolated_images.",
        }
        restrict_isolated_hosts_to_isolated_images: bool
            => runtime.scheduler.restrict_isolated_hosts_to_isolated_images {
            deprecated: &[("DEFAULT", "restrict_isolated_hosts_to_isolated_images")],
            help: "Allow no other images on isolated hosts.",
        }
        aggregate_image_properties_isolation_namespace: Option<String>
            => runtime.scheduler.aggregate_image_properties_isolation_namespace {
            deprecated: &[("DEFAULT", "aggregate_image_properties_isolation_namespace")],
            help: "Namespace of the properties that AggregateImagePropertiesIsolation compares.",
        }
        aggregate_image_properties_isolation_separator: String
            => runtime.scheduler.aggregate_image_properties_isolation_separator {
            deprecated: &[("DEFAULT", "aggregate_image_properties_isolation_separator")],
            help: "The separator of that namespace and a property's name.",
        }
    }
}

section! {
    /// The scheduler hook: your own program that filters and weighs hosts. See docs/scheduling.md.
    SchedulerHook = "scheduler_hook" from Chronova {
        url: Option<String> => here {
            help: "Address (http:// or https://) to which the scheduler posts each question about hosts. Unset: there is \
                   no hook.",
        }
        timeout: u32 => here {
            default: Text("2"), min: Some(1.0), max: Some(5.0), unit: "seconds",
            help: "How long one answer may take.",
        }
        fail_open: bool => runtime.scheduler.hook.fails_open {
            help: "Choose hosts without the hook if it gives no valid answer in time. If false, no host is chosen then.",
        }
        max_hosts: u32 => runtime.scheduler.hook.max_hosts by Whole {
            min: Some(1.0), max: Some(10000.0),
            help: "Most hosts in one question, the best ones by the other weighers. Hosts beyond this number are not chosen.",
        }
        weight_multiplier: f64 => runtime.scheduler.multipliers.hook {
            help: "Weight of the numbers that the hook gives to hosts.",
        }
        cafile: Option<PathBuf> => here {
            help: "File with certificates (PEM) of authorities that sign the hook's. Unset: the system's.",
        }
    }
}

section! {
    /// Nova's `[metrics]`.
    Metrics = "metrics" from Nova {
        weight_multiplier: f64 => runtime.scheduler.multipliers.metrics {
            help: "Weight of the metrics that hosts report.",
        }
        weight_setting: Vec<String> => runtime.scheduler.metrics_weight_setting by WeightSettings {
            help: "Metrics to weigh and the ratio of each, as in cpu.percent=-1.0. Hosts report metrics with [DEFAULT] \
                   compute_monitors.",
        }
        required: bool => runtime.scheduler.metrics_required {
            help: "Leave out hosts that lack a metric of weight_setting.",
        }
        weight_of_unavailable: f64 => runtime.scheduler.metrics_weight_of_unavailable {
            help: "The weight of a host that lacks a metric, if metrics are not required.",
        }
    }
}
