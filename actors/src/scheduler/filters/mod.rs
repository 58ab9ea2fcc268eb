//! The filters of hosts, with the names of Nova's `[filter_scheduler] enabled_filters`; each theme has a file.
//!
//! A filter reads views that may lag, so it never guards an invariant: the ledger checks invariants again when the host
//! is claimed.

mod affinity;
mod aggregates;
mod capabilities;
mod counts;
mod devices;
mod hosts;
mod image;
mod query;

use super::look::{HostState, SchedulingContext};

/// One check of a host.
#[derive(Debug)]
pub struct Filter {
    pub name: &'static str,
    /// Whether it runs even if it is not enabled, and for a forced host. In Nova the compute service itself refuses
    /// such a server in its claim.
    pub always: bool,
    /// Whether it runs when a server is rebuilt with another image on its host.
    pub on_rebuild: bool,
    /// Whether it applies to this request; if not, every host passes.
    pub applies: fn(&SchedulingContext<'_>) -> bool,
    pub passes: fn(&HostState<'_>) -> bool,
    /// The reason why a host did not pass, with the numbers.
    pub says: fn(&HostState<'_>) -> String,
    /// The user's message when no host passes; it names no host.
    pub lacks: fn(&SchedulingContext<'_>) -> String,
}

/// The defaults that most filters share.
const PLAIN: Filter = Filter {
    name: "",
    always: false,
    on_rebuild: false,
    applies: |_| true,
    passes: |_| true,
    says: |_| String::new(),
    lacks: |_| String::new(),
};

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
];

/// The names of all, for the configuration.
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

/// The filter of that name.
pub fn named(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.name == name)
}
