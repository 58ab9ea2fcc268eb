//! Answers to compute about ports, floating addresses and security groups.

use std::sync::Arc;

use chronova_events::ids::{InstanceId, PortId, ProjectId, SecurityGroupId};
use chronova_events::network::Port;
use chronova_events::security_group::{SecurityGroup, SecurityGroupRule};
use chronova_projections::networks::NetworksView;
use chronova_projections::security_groups::SecurityGroupsView;
use chronova_projections::views::Views;

use crate::ports::{FloatingAddress, PortInfo, SecurityGroupInfo, SecurityRuleInfo};

pub(super) fn port_info(port: &Port) -> PortInfo {
    PortInfo {
        port: port.created.port,
        network: port.created.network,
        project: port.created.project.clone(),
        server: port.binding().device.parse().ok(),
        host: Some(port.binding().host.clone()).filter(|host| !host.is_empty()),
        addresses: port.addresses().to_vec(),
    }
}

/// The present names of the servers' groups, in the order of `servers`; `None` for a server without ports. The servers'
/// events may have older names, because a port can change its groups.
pub(super) fn group_names(views: &Views, servers: &[(InstanceId, ProjectId)]) -> Vec<Option<Vec<String>>> {
    let bound: Vec<Option<Vec<SecurityGroupId>>> = views.networks.read(|networks| {
        let of_ports = |(server, project): &(InstanceId, ProjectId)| {
            let mut ports = networks.of_server(project, *server).peekable();
            ports.peek()?;
            Some(ports.flat_map(|port| port.settings().security_groups.iter().copied()).collect())
        };
        servers.iter().map(of_ports).collect()
    });
    views.security_groups.read(|groups| {
        let name = |id: SecurityGroupId| groups.get(id).map(|group| group.settings().name.clone());
        bound.into_iter().map(|ids| Some(ids?.into_iter().filter_map(name).collect())).collect()
    })
}

/// The floating addresses of these ports. The servers' events do not have them.
pub(super) fn floating_addresses(networks: &NetworksView, ports: &[PortId]) -> Vec<FloatingAddress> {
    // If there are no floating addresses at all, the search is not necessary.
    if !networks.any_floats() {
        return Vec::new();
    }
    let at = |port: &PortId| {
        let (port, all) = (*port, networks.floating_ips_at(*port));
        all.map(move |(floating, _)| FloatingAddress { port, address: floating.address() })
    };
    ports.iter().flat_map(at).collect()
}

/// The project's group with this id, or else the first with this name.
pub(super) fn find_group<'a>(
    view: &'a SecurityGroupsView,
    project: &ProjectId,
    named: &str,
) -> Option<&'a Arc<SecurityGroup>> {
    let own = || view.of_project(project)?.by_id.values().find(|group| group.settings().name == named);
    let by_id = named.parse::<SecurityGroupId>().ok().and_then(|id| view.get(id));
    // The id of another project's group does not count as an id. It may still be the name of a group of this project.
    by_id.filter(|group| group.project() == project).or_else(own)
}

/// Converts a group into the type of the trait.
pub(super) fn group_info(view: &SecurityGroupsView, group: &SecurityGroup) -> SecurityGroupInfo {
    SecurityGroupInfo {
        id: group.id(),
        project: group.project().clone(),
        name: group.settings().name.clone(),
        description: group.settings().description.clone(),
        rules: group.rules.values().map(|rule| rule_info(view, rule)).collect(),
    }
}

/// Converts a rule into the type of the trait.
pub(super) fn rule_info(view: &SecurityGroupsView, rule: &SecurityGroupRule) -> SecurityRuleInfo {
    let remote = rule.added.traffic.remote_group.and_then(|id| view.get(id));
    SecurityRuleInfo {
        id: rule.added.rule,
        group: rule.added.group,
        traffic: rule.added.traffic.clone(),
        remote: remote.map(|group| (group.project().clone(), group.settings().name.clone())),
    }
}
