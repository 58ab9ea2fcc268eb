//! Filters on hosts by themselves: whether they answer, their zone, and isolated hosts and images.

use super::filter::{Filter, PLAIN};
use crate::scheduler::look::HostState;

pub(super) const COMPUTE: Filter = Filter {
    name: "ComputeFilter",
    passes: |seen| seen.row.facts.as_ref().is_some_and(|facts| facts.answers() && facts.enabled),
    says: |seen| match &seen.row.facts {
        None => "it never answered".to_owned(),
        Some(facts) if facts.forced_down => "it is forced down".to_owned(),
        Some(facts) if !facts.up => "it does not answer".to_owned(),
        Some(_) => "it is disabled".to_owned(),
    },
    lacks: |_| "the hosts that have room do not answer or are disabled".to_owned(),
    ..PLAIN
};

/// Nova removed it in 29.0, because a request filter requires the zone. It is accepted, and works as before.
pub(super) const AVAILABILITY_ZONE: Filter = Filter {
    name: "AvailabilityZoneFilter",
    applies: |look| look.request.zone.is_some(),
    passes: |seen| {
        let request = seen.look.request;
        let Some(wanted) = &request.zone else { return true };
        let mut in_zone = seen.said("availability_zone").peekable();
        match in_zone.peek() {
            None => *wanted == request.default_zone,
            Some(_) => in_zone.any(|zones| zones.split(',').any(|zone| zone.trim() == wanted)),
        }
    },
    says: |seen| {
        let own = seen.look.fleet.zone_of(seen.slot).unwrap_or(&seen.look.request.default_zone);
        format!("zone: wants {}, is in {own}", seen.look.request.zone.as_deref().unwrap_or_default())
    },
    lacks: |look| format!("no host in zone {} would do", look.request.zone.as_deref().unwrap_or_default()),
    ..PLAIN
};

pub(super) const ISOLATED_HOSTS: Filter = Filter {
    name: "IsolatedHostsFilter",
    on_rebuild: true,
    passes: |seen| {
        let options = seen.look.options;
        let restrictive = options.restrict_isolated_hosts_to_isolated_images;
        if options.isolated_images.is_empty() {
            return !restrictive || !host_is_isolated(seen);
        }
        match (image_is_isolated(seen), host_is_isolated(seen)) {
            (image, host) if restrictive => image == host,
            (image, host) => !image || host,
        }
    },
    says: |seen| match image_is_isolated(seen) {
        true => "the image is kept to isolated hosts, and this is none".to_owned(),
        false => "the host is kept for isolated images, and this is none".to_owned(),
    },
    lacks: |_| "no host may run this image".to_owned(),
    ..PLAIN
};

/// A host of an aggregate with the metadata `closed=true` gets no new server.
pub(super) const OPEN_HOSTS: Filter = Filter {
    name: "OpenHostsFilter",
    passes: |seen| !seen.said("closed").any(|closed| closed == "true"),
    says: |_| "an aggregate of the host is closed".to_owned(),
    lacks: |_| "every host with room is in a closed aggregate".to_owned(),
    ..PLAIN
};

fn image_is_isolated(seen: &HostState<'_>) -> bool {
    let image = seen.look.request.image.as_ref().map(|image| image.id.to_string());
    image.is_some_and(|id| seen.look.options.isolated_images.contains(&id))
}

fn host_is_isolated(seen: &HostState<'_>) -> bool {
    seen.look.options.isolated_hosts.contains(&seen.row.name)
}
