//! The filters of hosts, with the names of Nova's `[filter_scheduler] enabled_filters`. Each file has the filters of
//! one theme.
//!
//! A filter reads views that may lag, so it cannot guarantee an invariant. The ledger checks invariants again when the
//! host is claimed.

mod affinity;
mod aggregates;
mod capabilities;
mod counts;
mod devices;
mod filter;
mod hook;
mod hosts;
mod image;
pub mod query;

pub use filter::Filter;

use filter::PLAIN;

use super::context::SchedulingContext;

/// All filters.
pub const FILTERS: &[Filter] = &[
    aggregates::IMAGE_PROPERTIES,
    aggregates::EXTRA_SPECS,
    counts::AGGREGATE_IO_OPS,
    aggregates::TENANCY,
    counts::AGGREGATE_NUM_INSTANCES,
    aggregates::TYPE_AFFINITY,
    Filter { name: "AllHostsFilter", applies: |_| false, ..PLAIN },
    hosts::AVAILABILITY_ZONE,
    capabilities::COMPUTE_CAPABILITIES,
    hosts::COMPUTE,
    affinity::DIFFERENT_HOST,
    image::IMAGE_PROPERTIES,
    counts::IO_OPS,
    hosts::ISOLATED_HOSTS,
    query::JSON,
    devices::METRICS,
    devices::NUMA_TOPOLOGY,
    counts::NUM_INSTANCES,
    devices::PCI_PASSTHROUGH,
    affinity::SAME_HOST,
    affinity::GROUP_AFFINITY,
    affinity::GROUP_ANTI_AFFINITY,
    affinity::SIMPLE_CIDR,
    hook::SCHEDULER_HOOK,
];

/// The names of all filters, for the configuration.
pub const NAMES: [&str; FILTERS.len()] = {
    let mut names = [""; FILTERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FILTERS[at].name;
        at += 1;
    }
    names
};

/// Nova's default filters, in its order.
pub const DEFAULT: &[&str] = &[
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
];

/// Whether the filter applies even if it is not enabled. True for the filters that always run, and for the scheduler
/// hook's filter. True for the filter on metrics if `[metrics] required` is set and the weigher of metrics has several
/// hosts to compare.
pub fn is_demanded(filter: &Filter, context: &SchedulingContext<'_>, hosts: usize) -> bool {
    let weighs = || context.options.weighers.contains(&"MetricsWeigher");
    let metrics = filter.name == devices::METRICS.name && context.options.metrics_required && hosts > 1 && weighs();
    let asked = filter.name == hook::SCHEDULER_HOOK.name;
    (filter.always || metrics || asked) && (filter.applies)(context)
}

/// The filter of this name.
pub fn named(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.name == name)
}
