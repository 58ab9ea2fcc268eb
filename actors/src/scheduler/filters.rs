//! Which hosts will do. Names as in Nova's `[filter_scheduler] enabled_filters`.

use super::{Candidate, Request, SchedulerOptions};

/// One check of a host.
#[derive(Debug)]
pub struct Filter {
    pub name: &'static str,
    pub passes: fn(&Candidate<'_>, &Request) -> bool,
}

/// Every filter there is, cheapest first.
pub const FILTERS: &[Filter] = &[
    Filter { name: "ComputeFilter", passes: compute },
    Filter { name: "AvailabilityZoneFilter", passes: availability_zone },
    Filter { name: "ImagePropertiesFilter", passes: image_properties },
];

/// Checks that no option switches off: what is asked for by name, what was tried before, and what Placement would not
/// offer.
const ALWAYS: &[Filter] = &[
    Filter { name: "forced host", passes: |candidate, request| forced(candidate, request) },
    Filter { name: "not tried before", passes: |candidate, request| !request.excluded.contains(&candidate.host.id) },
    Filter { name: "capacity", passes: capacity },
];

/// The candidates that pass every check; `left` grows by one line per check.
pub fn apply<'a>(
    mut candidates: Vec<Candidate<'a>>,
    request: &Request,
    options: &SchedulerOptions,
    left: &mut Vec<(&'static str, usize)>,
) -> Vec<Candidate<'a>> {
    // Nova ignores the filters for a host that an administrator insists on.
    let enabled = |filter: &&Filter| {
        request.forced_host.is_none() && options.enabled_filters.iter().any(|name| name == filter.name)
    };
    for filter in ALWAYS.iter().chain(FILTERS.iter().filter(enabled)) {
        candidates.retain(|candidate| (filter.passes)(candidate, request));
        left.push((filter.name, candidates.len()));
    }
    candidates
}

fn forced(candidate: &Candidate<'_>, request: &Request) -> bool {
    request.forced_host.as_ref().is_none_or(|name| *name == candidate.host.hostname)
}

fn capacity(candidate: &Candidate<'_>, request: &Request) -> bool {
    request
        .resources
        .iter()
        .all(|(class, amount)| candidate.provider.inventories.get(class).is_some_and(|line| line.admits(*amount)))
}

fn compute(candidate: &Candidate<'_>, _: &Request) -> bool {
    candidate.host.answers() && candidate.host.enabled
}

fn availability_zone(candidate: &Candidate<'_>, request: &Request) -> bool {
    // Zones come with host aggregates; until a host is in one, it is in the default zone.
    let _ = candidate;
    request.availability_zone.as_ref().is_none_or(|zone| *zone == request.default_zone)
}

fn image_properties(candidate: &Candidate<'_>, request: &Request) -> bool {
    let arch = &candidate.host.capabilities.cpu_arch;
    request.architecture.as_ref().is_none_or(|wanted| arch.is_empty() || wanted == arch)
}
