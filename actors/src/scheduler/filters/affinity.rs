//! Filters on the servers that a host already has, and on the host's address.

use std::net::IpAddr;

use chronova_events::server_group::ServerGroupPolicy;

use super::filter::{Filter, PLAIN};
use crate::scheduler::context::{HostState, SchedulingContext};

pub(super) const DIFFERENT_HOST: Filter = Filter {
    name: "DifferentHostFilter",
    applies: |context| context.hints.different.is_some(),
    passes: |host| !host.context.hints.different.as_ref().is_some_and(|slots| slots.contains(host.slot)),
    says: |_| "a server of the hint different_host is on it".to_owned(),
    lacks: |_| "every host with room has a server that the hint different_host names".to_owned(),
    ..PLAIN
};

pub(super) const SAME_HOST: Filter = Filter {
    name: "SameHostFilter",
    applies: |context| context.hints.same.is_some(),
    passes: |host| host.context.hints.same.as_ref().is_none_or(|slots| slots.contains(host.slot)),
    says: |_| "no server of the hint same_host is on it".to_owned(),
    lacks: |_| "no host with room has a server that the hint same_host names".to_owned(),
    ..PLAIN
};

pub(super) const SIMPLE_CIDR: Filter = Filter {
    name: "SimpleCIDRAffinityFilter",
    applies: |context| context.hints.near.is_some(),
    passes: |host| {
        let Some(Some(net)) = &host.context.hints.near else { return false };
        address(host).is_some_and(|address| net.contains(&address))
    },
    says: |host| match &host.context.hints.near {
        Some(Some(net)) => format!("address: wants {}, is {}", net.trunc(), address_text(host)),
        _ => "the hints build_near_host_ip and cidr name no network".to_owned(),
    },
    lacks: |_| "no host with room has an address near the one that the hint build_near_host_ip names".to_owned(),
    ..PLAIN
};

fn address_text<'a>(host: &HostState<'a>) -> &'a str {
    host.row.facts.as_ref().map_or("unknown", |facts| facts.capabilities.host_ip.as_str())
}

fn address(host: &HostState<'_>) -> Option<IpAddr> {
    address_text(host).parse().ok()
}

pub(super) const GROUP_ANTI_AFFINITY: Filter = Filter {
    name: "ServerGroupAntiAffinityFilter",
    applies: |context| policy(context) == Some(ServerGroupPolicy::AntiAffinity),
    passes: |host| {
        // During a move, the server's present host passes, because the server itself is one of the members there.
        host.has_the_server() || host.context.group.as_ref().is_none_or(|group| host.members() < group.most_per_host)
    },
    says: |host| {
        let most = host.context.group.as_ref().map_or(1, |group| group.most_per_host);
        format!("members of the server group: {} of at most {most}", host.members())
    },
    lacks: |context| format!("no host with room may have another member of anti-affinity group {}", name(context)),
    ..PLAIN
};

pub(super) const GROUP_AFFINITY: Filter = Filter {
    name: "ServerGroupAffinityFilter",
    applies: |context| {
        policy(context) == Some(ServerGroupPolicy::Affinity)
            && context.group.as_ref().is_some_and(|group| !group.members.is_empty())
    },
    passes: |host| host.members() > 0,
    says: |_| "the other members of the server group are not on it".to_owned(),
    lacks: |context| format!("the host of affinity group {} is not suitable", name(context)),
    ..PLAIN
};

fn policy(context: &SchedulingContext<'_>) -> Option<ServerGroupPolicy> {
    context.group.as_ref().map(|group| group.policy)
}

fn name<'a>(context: &'a SchedulingContext<'_>) -> &'a str {
    context.group.as_ref().map_or("", |group| group.name.as_str())
}
