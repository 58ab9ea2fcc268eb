//! Which hosts will do. Names as in Nova's `[filter_scheduler] enabled_filters`; each theme has a file.
//!
//! A filter reads views that may lag, so it never guards an invariant: what must hold is checked again when the host is
//! claimed.

mod affinity;
mod aggregates;
mod capabilities;
mod counts;
mod devices;
mod hosts;
mod image;
mod query;

use super::look::{Look, Seen};

/// One check of a host.
#[derive(Debug)]
pub struct Filter {
    pub name: &'static str,
    /// Whether it is asked though nobody enabled it, and of a host that an administrator insists on: in Nova the host itself
    /// refuses such a server when it claims its place.
    pub always: bool,
    /// Whether it is asked when a server is rebuilt with another image where it is.
    pub on_rebuild: bool,
    /// Whether it has anything to say to this request; where not, every host passes.
    pub applies: fn(&Look<'_>) -> bool,
    pub passes: fn(&Seen<'_>) -> bool,
    /// Why a host did not pass, with the numbers that were seen.
    pub says: fn(&Seen<'_>) -> String,
    /// What is missing when no host passes, without naming any: what the user is told.
    pub lacks: fn(&Look<'_>) -> String,
}

/// What most filters have in common.
const PLAIN: Filter = Filter {
    name: "",
    always: false,
    on_rebuild: false,
    applies: |_| true,
    passes: |_| true,
    says: |_| String::new(),
    lacks: |_| String::new(),
};

/// Every filter there is.
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

/// What Nova enables by default, in its order.
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
