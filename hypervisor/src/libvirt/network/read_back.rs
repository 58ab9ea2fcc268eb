//! Reads the definition of a network back: the opposite of [`super::NetworkPlan`], as far as the definition tells.

use std::net::IpAddr;

use chronova_events::ids::NetworkId;
use ipnet::IpNet;
use roxmltree::{Document, Node};

use super::{DNSMASQ, current_hosts};
use crate::guest::{NetworkSpec, Reservation, SubnetSpec};

/// The network in this definition; `None`: it cannot be read.
pub(super) fn spec(xml: &str, network: NetworkId) -> Option<NetworkSpec> {
    let document = Document::parse(xml).ok()?;
    let of_kind = |name: &'static str| document.root_element().children().filter(move |node| node.has_tag_name(name));
    let forwarders = document.descendants().filter(|node| node.has_tag_name("forwarder"));
    let dns: Vec<String> = forwarders.filter_map(|node| node.attribute("addr")).map(str::to_owned).collect();
    let is_silent = document
        .descendants()
        .any(|node| node.has_tag_name((DNSMASQ, "option")) && node.attribute("value") == Some("dhcp-option=3"));
    let subnets = of_kind("ip").map(|node| subnet(node, is_silent, &dns)).collect::<Option<Vec<_>>>()?;
    let reservation = |host: super::DhcpHost| Reservation { mac: host.mac, ip: host.ip, hostname: host.name };
    Some(NetworkSpec {
        network,
        mtu: of_kind("mtu").find_map(|node| node.attribute("size")?.parse().ok()).unwrap_or(0),
        subnets,
        reservations: current_hosts(xml).into_iter().map(reservation).collect(),
    })
}

/// `is_silent`: the DHCP server announces no router, so its subnet has no gateway.
fn subnet(node: Node<'_, '_>, is_silent: bool, dns: &[String]) -> Option<SubnetSpec> {
    let address: IpAddr = node.attribute("address")?.parse().ok()?;
    let prefix = node.attribute("prefix")?.parse().ok()?;
    let serves = node.children().any(|child| child.has_tag_name("dhcp"));
    Some(SubnetSpec {
        cidr: IpNet::new(address, prefix).ok()?.trunc().to_string(),
        gateway: (!(serves && is_silent)).then(|| address.to_string()),
        // Addresses of IPv6 come from router advertisements.
        dhcp: serves || address.is_ipv6(),
        dns: dns.to_vec(),
    })
}
