//! The networks, filters and interfaces that a host needs for a guest.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::ids::NetworkId;
use chronova_events::instance::NicInfo;
use chronova_events::network::{Network, NetworkRow, Port};
use chronova_events::security_group::{Direction, Ethertype, RuleTraffic};
use chronova_hypervisor::guest::{FilterRule, FilterSpec, NetworkSpec, Nic, NicPlug, Reservation, SubnetSpec};
use chronova_projections::networks::NetworksView;
use chronova_projections::security_groups::SecurityGroupsView;
use chronova_projections::views::Views;

use super::devices;
use crate::ports::{HostNetworkSetup, PortError};
use crate::services::embedded::network::ovn::{self, OvnOptions};

/// The number of characters of a port's id in the names of devices. With `tap`, a name has 14 characters as in Nova,
/// and fits into a Linux interface name.
const TAP_ID: usize = 11;

/// The MTU of guests on a network.
pub(super) fn mtu(network: &NetworkRow, ovn: Option<&OvnOptions>) -> u32 {
    ovn.map_or(network.settings().mtu, |options| ovn::mtu(network, options.tunnel_mtu))
}

/// With OVN, a host needs neither a network nor a filter: a guest's interface is plugged into Open vSwitch.
pub(super) fn realise(
    views: &Views,
    nics: &[NicInfo],
    ovn: Option<&OvnOptions>,
) -> Result<HostNetworkSetup, PortError> {
    let mut realisation = HostNetworkSetup::default();
    let wanted: BTreeSet<NetworkId> = nics.iter().map(|nic| nic.network).collect();
    views.networks.read(|networks| {
        let hosts: BTreeSet<&str> =
            nics.iter().filter_map(|nic| networks.port(nic.port)).map(|port| port.binding().host.as_str()).collect();
        for id in wanted {
            let network = networks.whole(id).filter(|network| network.row.is_some());
            let network = network.ok_or_else(|| PortError::NotFound(format!("Network {id} could not be found.")))?;
            if ovn.is_none() {
                realisation.networks.push(spec(networks, id, network, &hosts));
            }
        }
        for nic in nics {
            let port = networks.port(nic.port);
            let port = port.ok_or_else(|| PortError::NotFound(format!("Port {} could not be found.", nic.port)))?;
            let plug = match (devices::plug(networks, port), ovn) {
                (NicPlug::Network, Some(options)) => NicPlug::OpenVswitch { bridge: options.bridge.clone() },
                (plug, _) => plug,
            };
            // OVN filters by itself, and no filter of the host sees the traffic of a device.
            let filter = match plug {
                NicPlug::Network => views.security_groups.read(|groups| filter(networks, groups, port)),
                _ => None,
            };
            realisation.nics.push(Nic {
                port: nic.port,
                network: nic.network,
                mac: port.created.mac.clone(),
                mtu: networks.network(nic.network).map_or(nic.mtu, |network| mtu(network, ovn)),
                filter: filter.as_ref().map(|filter| filter.name.clone()),
                tap: device_name("tap", port),
                plug,
            });
            realisation.filters.extend(filter);
        }
        Ok::<_, PortError>(())
    })?;
    Ok(realisation)
}

fn device_name(prefix: &str, port: &Port) -> String {
    format!("{prefix}{}", &port.created.port.to_string()[..TAP_ID])
}

/// The network as a host needs it. The DHCP server of a host serves only the guests of that host.
fn spec(networks: &NetworksView, id: NetworkId, network: &Network, hosts: &BTreeSet<&str>) -> NetworkSpec {
    let mut subnets: Vec<_> = network.subnets.values().collect();
    subnets.sort_by_key(|subnet| (subnet.created_at, subnet.added.subnet));
    let mut reservations = Vec::new();
    for host in hosts {
        for port in networks.on_host(host).filter(|port| port.created.network == id) {
            reservations.extend(reserved(network, port));
        }
    }
    NetworkSpec {
        network: id,
        mtu: network.row.as_ref().map_or(0, |row| row.settings().mtu),
        subnets: subnets
            .into_iter()
            .map(|subnet| SubnetSpec {
                cidr: subnet.added.cidr.to_string(),
                gateway: subnet.added.settings.gateway.map(|gateway| gateway.to_string()),
                dhcp: subnet.added.settings.dhcp,
                dns: subnet.added.settings.dns.iter().map(ToString::to_string).collect(),
            })
            .collect(),
        reservations,
    }
}

fn reserved<'a>(network: &'a Network, port: &'a Port) -> impl Iterator<Item = Reservation> + 'a {
    let served = port
        .addresses()
        .iter()
        .filter(|fixed| network.subnets.get(&fixed.subnet).is_some_and(|subnet| subnet.added.settings.dhcp));
    served.map(|fixed| Reservation {
        mac: port.created.mac.clone(),
        ip: fixed.address.to_string(),
        hostname: match port.settings().dns_name.as_str() {
            "" => fallback_name(fixed.address),
            name => name.to_owned(),
        },
    })
}

/// Neutron's name for a port without its own name: `host-10-0-0-5`.
pub(crate) fn fallback_name(address: IpAddr) -> String {
    format!("host-{}", address.to_string().replace(['.', ':'], "-"))
}

/// The packet filter of a port; `None` if port security is off.
fn filter(networks: &NetworksView, groups: &SecurityGroupsView, port: &Port) -> Option<FilterSpec> {
    let settings = port.settings();
    if !settings.port_security {
        return None;
    }
    let mut ips: Vec<String> = port.addresses().iter().map(|fixed| fixed.address.to_string()).collect();
    // The filter admits only the port's own MAC, so an allowed address pair with another MAC is left out.
    let own = |mac: &Option<String>| mac.as_ref().is_none_or(|mac| mac.eq_ignore_ascii_case(&port.created.mac));
    ips.extend(settings.allowed_address_pairs.iter().filter(|pair| own(&pair.mac)).map(|pair| pair.address.clone()));
    let groups = settings.security_groups.iter().filter_map(|id| groups.get(*id));
    let rules = groups.flat_map(|group| group.rules.values()).flat_map(|rule| expanded(networks, &rule.added.traffic));
    let rules = distinct(rules);
    Some(FilterSpec {
        name: format!("chronova-{}", port.created.port),
        port: port.created.port,
        mac: port.created.mac.clone(),
        ips,
        groups: settings.security_groups.clone(),
        rules,
    })
}

/// The rules in their order, without repetitions. There can be a rule for each security group rule and each address of
/// its remote group. These are too many to compare each rule with all others.
fn distinct(rules: impl Iterator<Item = FilterRule>) -> Vec<FilterRule> {
    let mut seen = HashSet::new();
    rules.filter(|rule| seen.insert(rule.clone())).collect()
}

/// The filter's rules for a security group rule. A remote group becomes its members' addresses.
fn expanded(networks: &NetworksView, traffic: &RuleTraffic) -> Vec<FilterRule> {
    let ipv6 = traffic.ethertype == Ethertype::Ipv6;
    let rule = |remote: Option<String>| FilterRule {
        ingress: traffic.direction == Direction::Ingress,
        ipv6,
        protocol: traffic.protocol.clone(),
        port_min: traffic.port_min,
        port_max: traffic.port_max,
        remote,
    };
    let Some(group) = traffic.remote_group else {
        // A prefix of all addresses is the same as no prefix.
        let remote = traffic.remote_prefix.clone().filter(|prefix| prefix != "0.0.0.0/0" && prefix != "::/0");
        return vec![rule(remote)];
    };
    let of_version = |address: &IpAddr| address.is_ipv6() == ipv6;
    networks
        .members(group)
        .map(Arc::as_ref)
        .flat_map(Port::addresses)
        .map(|fixed| fixed.address)
        .filter(of_version)
        .map(|address| rule(Some(format!("{address}/{}", if ipv6 { 128 } else { 32 }))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison of each pair would take hours.
    #[test]
    fn many_rules_are_compared_in_proportion_to_their_number() {
        let rule = |number: u32| FilterRule {
            ingress: true,
            ipv6: false,
            protocol: Some("tcp".to_owned()),
            port_min: Some(22),
            port_max: Some(22),
            remote: Some(format!("{}/32", std::net::Ipv4Addr::from(number))),
        };
        let rules = distinct((0..200_000).chain(0..200_000).map(rule));
        assert_eq!((rules.len(), &rules[0], &rules[199_999]), (200_000, &rule(0), &rule(199_999)));
    }
}
