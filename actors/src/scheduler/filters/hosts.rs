//! Filters on the state of a host, on its zone, and on isolated hosts and images.

use super::filter::{Filter, PLAIN};
use crate::scheduler::context::HostState;

pub(super) const COMPUTE: Filter = Filter {
    name: "ComputeFilter",
    passes: |host| host.row.facts.as_ref().is_some_and(|facts| facts.answers() && facts.enabled),
    says: |host| match &host.row.facts {
        None => "it never answered".to_owned(),
        Some(facts) if facts.forced_down => "it is forced down".to_owned(),
        Some(facts) if !facts.up => "it does not answer".to_owned(),
        Some(_) => "it is disabled".to_owned(),
    },
    lacks: |_| "the hosts that have room do not answer or are disabled".to_owned(),
    ..PLAIN
};

/// Nova removed this filter in 29.0, because a request filter checks the zone. Chronova still accepts it, and it works
/// as before.
pub(super) const AVAILABILITY_ZONE: Filter = Filter {
    name: "AvailabilityZoneFilter",
    applies: |context| context.request.zone.is_some(),
    passes: |host| {
        let request = host.context.request;
        let Some(wanted) = &request.zone else { return true };
        let mut in_zone = host.said("availability_zone").peekable();
        match in_zone.peek() {
            None => *wanted == request.default_zone,
            Some(_) => in_zone.any(|zones| zones.split(',').any(|zone| zone.trim() == wanted)),
        }
    },
    says: |host| {
        let own = host.context.fleet.zone_of(host.slot).unwrap_or(&host.context.request.default_zone);
        format!("zone: wants {}, is in {own}", host.context.request.zone.as_deref().unwrap_or_default())
    },
    lacks: |context| format!("no host in zone {} is suitable", context.request.zone.as_deref().unwrap_or_default()),
    ..PLAIN
};

pub(super) const ISOLATED_HOSTS: Filter = Filter {
    name: "IsolatedHostsFilter",
    on_rebuild: true,
    passes: |host| {
        let options = host.context.options;
        let restrictive = options.restrict_isolated_hosts_to_isolated_images;
        if options.isolated_images.is_empty() {
            return !restrictive || !host_is_isolated(host);
        }
        match (image_is_isolated(host), host_is_isolated(host)) {
            (image, host) if restrictive => image == host,
            (image, host) => !image || host,
        }
    },
    says: |host| match image_is_isolated(host) {
        true => "the image may run on isolated hosts only, and this host is not isolated".to_owned(),
        false => "the host is reserved for isolated images, and this image is not isolated".to_owned(),
    },
    lacks: |_| "no host may run this image".to_owned(),
    ..PLAIN
};

fn image_is_isolated(host: &HostState<'_>) -> bool {
    let image = host.context.request.image.as_ref().map(|image| image.id.to_string());
    image.is_some_and(|id| host.context.options.isolated_images.contains(&id))
}

fn host_is_isolated(host: &HostState<'_>) -> bool {
    host.context.options.isolated_hosts.contains(&host.row.name)
}
