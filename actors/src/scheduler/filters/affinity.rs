//! Filters on the distance to other servers and addresses.

use std::net::IpAddr;

use chronova_events::server_group::ServerGroupPolicy;

use super::filter::{Filter, PLAIN};
use crate::scheduler::look::{HostState, SchedulingContext};

pub(super) const DIFFERENT_HOST: Filter = Filter {
    name: "DifferentHostFilter",
    applies: |look| look.hints.different.is_some(),
    passes: |seen| !seen.look.hints.different.as_ref().is_some_and(|slots| slots.contains(seen.slot)),
    says: |_| "a server of the hint different_host is on it".to_owned(),
    lacks: |_| "every host with room has a server that the hint different_host names".to_owned(),
    ..PLAIN
};

pub(super) const SAME_HOST: Filter = Filter {
    name: "SameHostFilter",
    applies: |look| look.hints.same.is_some(),
    passes: |seen| seen.look.hints.same.as_ref().is_none_or(|slots| slots.contains(seen.slot)),
    says: |_| "no server of the hint same_host is on it".to_owned(),
    lacks: |_| "no host with room has a server that the hint same_host names".to_owned(),
    ..PLAIN
};

pub(super) const SIMPLE_CIDR: Filter = Filter {
    name: "SimpleCIDRAffinityFilter",
    applies: |look| look.hints.near.is_some(),
    passes: |seen| {
        let Some(Some(net)) = &seen.look.hints.near else { return false };
        address(seen).is_some_and(|address| net.contains(&address))
    },
    says: |seen| match &seen.look.hints.near {
        Some(Some(net)) => format!("address: wants {}, is {}", net.trunc(), address_text(seen)),
        _ => "the hints build_near_host_ip and cidr name no network".to_owned(),
    },
    lacks: |_| "no host with room has an address near the one that the hint build_near_host_ip names".to_owned(),
    ..PLAIN
};

fn address_text<'a>(seen: &HostState<'a>) -> &'a str {
    seen.row.facts.as_ref().map_or("unknown", |facts| facts.capabilities.host_ip.as_str())
}

fn address(seen: &HostState<'_>) -> Option<IpAddr> {
    address_text(seen).parse().ok()
}

pub(super) const GROUP_ANTI_AFFINITY: Filter = Filter {
    name: "ServerGroupAntiAffinityFilter",
    applies: |look| policy(look) == Some(ServerGroupPolicy::AntiAffinity),
    passes: |seen| {
        // A move may examine the host where the server is.
        seen.has_the_server() || seen.look.group.as_ref().is_none_or(|group| seen.members() < group.most_per_host)
    },
    says: |seen| {
        let most = seen.look.group.as_ref().map_or(1, |group| group.most_per_host);
        format!("members of the server group: {} of at most {most}", seen.members())
    },
    lacks: |look| format!("every host with room has its members of anti-affinity group {}", name(look)),
    ..PLAIN
};

pub(super) const GROUP_AFFINITY: Filter = Filter {
    name: "ServerGroupAffinityFilter",
    applies: |look| {
        policy(look) == Some(ServerGroupPolicy::Affinity)
            && look.group.as_ref().is_some_and(|group| !group.members.is_empty())
    },
    passes: |seen| seen.members() > 0,
    says: |_| "the other members of the server group are not on it".to_owned(),
    lacks: |look| format!("the host of affinity group {} would not do", name(look)),
    ..PLAIN
};

fn policy(look: &SchedulingContext<'_>) -> Option<ServerGroupPolicy> {
    look.group.as_ref().map(|group| group.policy)
}

fn name<'a>(look: &'a SchedulingContext<'_>) -> &'a str {
    look.group.as_ref().map_or("", |group| group.name.as_str())
}
