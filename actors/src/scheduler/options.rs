//! The options of the scheduler: `[filter_scheduler]`, `[scheduler]`, `[scheduler_hook]` and `[metrics]`, and single
//! options of `[compute]` and `[workarounds]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hosts::fleet::ConnectedHosts;
use crate::hosts::metrics::HostMetrics;
use crate::pci::alias::PciAliases;
use crate::ports::scheduler_hook::SchedulerHook;
use crate::topology::networks::NetworkCells;

/// The options; names and meanings are Nova's.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerOptions {
    /// The enabled filters in the order of their use; every name is one of [`super::filters::FILTERS`].
    pub enabled_filters: Vec<&'static str>,
    /// Every name is one of [`super::weighers::WEIGHERS`].
    pub weighers: Vec<&'static str>,
    pub multipliers: Multipliers,
    /// `[scheduler] max_placement_results`: the most hosts that the search for resources returns.
    pub max_placement_results: usize,
    /// `[scheduler] max_attempts`: the most hosts in a decision, the selected one and its alternates.
    pub max_attempts: usize,
    pub host_subset_size: usize,
    pub shuffle_best_same_weighed_hosts: bool,
    pub max_io_ops_per_host: u32,
    pub max_instances_per_host: u32,
    pub isolated_images: Vec<String>,
    pub isolated_hosts: Vec<String>,
    pub restrict_isolated_hosts_to_isolated_images: bool,
    pub aggregate_image_properties_isolation_namespace: Option<String>,
    pub aggregate_image_properties_isolation_separator: String,
    pub image_properties_default_architecture: Option<String>,
    /// The weight of each image property; if empty, all properties have the same weight.
    pub image_props_weight_setting: BTreeMap<String, f64>,
    /// `[metrics] weight_setting`: metric and ratio.
    pub metrics_weight_setting: BTreeMap<String, f64>,
    /// `[metrics] required`: whether no host is chosen if the metrics to weigh are missing.
    pub metrics_required: bool,
    pub metrics_weight_of_unavailable: f64,
    pub prefilters: PrefilterOptions,
    /// Whether `[compute] consecutive_build_service_disable_threshold` is not 0.
    pub counts_build_failures: bool,
    /// `[workarounds] disable_fallback_pcpu_query`.
    pub disable_fallback_pcpu_query: bool,
    /// `[compute] packing_host_numa_cells_allocation_strategy`.
    pub packs_cells: bool,
    /// `[pci] alias`.
    pub pci_aliases: PciAliases,
    /// `[neutron] physnets`, and the sections `[neutron_physnet_NAME]` and `[neutron_tunnel]`.
    pub network_cells: NetworkCells,
    pub hook: HookOptions,
}

/// `[scheduler_hook]`: the operator's own program that judges hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct HookOptions {
    /// `None`: there is no such program.
    pub program: Option<SharedSchedulerHook>,
    /// Whether hosts are chosen without the program if it gives no valid answer. Otherwise no host is chosen then.
    pub fails_open: bool,
    /// The most hosts of one question.
    pub max_hosts: usize,
}

impl Default for HookOptions {
    fn default() -> Self {
        Self { program: None, fails_open: true, max_hosts: 200 }
    }
}

/// The program as an option. Options are compared, so this type implements `PartialEq`.
#[derive(Debug, Clone)]
pub struct SharedSchedulerHook(pub Arc<dyn SchedulerHook>);

impl PartialEq for SharedSchedulerHook {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// `[scheduler]`: requirements before any host is examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefilterOptions {
    pub query_placement_for_availability_zone: bool,
    pub limit_tenants_to_placement_aggregate: bool,
    pub placement_aggregate_required_for_tenants: bool,
    pub query_placement_for_image_type_support: bool,
    pub enable_isolated_aggregate_filtering: bool,
    pub image_metadata_prefilter: bool,
}

impl Default for PrefilterOptions {
    fn default() -> Self {
        Self {
            query_placement_for_availability_zone: true,
            limit_tenants_to_placement_aggregate: false,
            placement_aggregate_required_for_tenants: false,
            query_placement_for_image_type_support: false,
            enable_isolated_aggregate_filtering: false,
            image_metadata_prefilter: false,
        }
    }
}

/// The multiplier of each weigher.
#[derive(Debug, Clone, PartialEq)]
pub struct Multipliers {
    pub ram: f64,
    pub cpu: f64,
    pub disk: f64,
    pub hypervisor_version: f64,
    pub num_instances: f64,
    pub io_ops: f64,
    pub image_props: f64,
    pub pci: f64,
    pub soft_affinity: f64,
    pub soft_anti_affinity: f64,
    pub build_failure: f64,
    pub metrics: f64,
    pub hook: f64,
}

impl Default for Multipliers {
    fn default() -> Self {
        Self {
            ram: 1.0,
            cpu: 1.0,
            disk: 1.0,
            hypervisor_version: 1.0,
            num_instances: 0.0,
            io_ops: -1.0,
            image_props: 0.0,
            pci: 1.0,
            soft_affinity: 1.0,
            soft_anti_affinity: 1.0,
            build_failure: 1_000_000.0,
            metrics: 1.0,
            hook: 1.0,
        }
    }
}

impl SchedulerOptions {
    /// The metrics of the hosts, if any are weighed.
    pub fn metrics_of(&self, fleet: &ConnectedHosts) -> HostMetrics {
        if self.metrics_weight_setting.is_empty() { HostMetrics::default() } else { fleet.metrics() }
    }
}
