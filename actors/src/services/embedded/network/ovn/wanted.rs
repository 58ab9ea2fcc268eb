//! The wanted rows, from the read models: switches with their ports, and DHCP options.
//!
//! As in Neutron's driver, a network becomes a logical switch, and a port becomes a logical port of the same id.
//! libvirt puts this id into `external_ids:iface-id` of a guest's interface, and OVN binds the port where the interface
//! appears.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::ids::{NetworkId, PortId, RouterId, SubnetId};
use chronova_events::instance::MoveKind;
use chronova_events::network::{FLOATING_IP_OWNER, Ipv6Mode, Network, NetworkRow, Port, Subnet};
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER};
use chronova_projections::networks::NetworksView;
use chronova_projections::security_groups::SecurityGroupsView;
use chronova_projections::views::Views;
use ipnet::IpNet;
use uuid::Uuid;

use super::OvnOptions;
use super::rows::{NorthboundKey, NorthboundTable, WantedRow, WantedRows, key};
use super::{groups, routers};
use crate::services::external::ovsdb::{OvsdbAtom, OvsdbValue};

/// How long a guest may use its address before it asks again, in seconds. Neutron's default.
const LEASE: &str = "43200";
/// The DHCP server's address in a subnet without a gateway. No guest has it. A guest that renews its lease there gets no
/// answer, and then asks all servers.
const NO_GATEWAY: &str = "169.254.0.1";

/// The destination of each server that migrates live, by the server's id as text.
pub(super) type LiveDestinations = BTreeMap<String, String>;

/// The part of the read models that the rows follow from. It is held without a lock, because the rows of a large cloud
/// take long to derive.
pub(super) struct NorthboundSources {
    networks: Arc<NetworksView>,
    groups: Arc<SecurityGroupsView>,
    moving: LiveDestinations,
}

impl NorthboundSources {
    pub(super) fn of(views: &Views) -> Self {
        let (networks, groups) = (views.networks.share(), views.security_groups.share());
        Self { networks, groups, moving: destinations(views) }
    }
}

/// All rows that the database should have.
pub(super) fn wanted(sources: &NorthboundSources, options: &OvnOptions) -> WantedRows {
    let NorthboundSources { networks, groups, moving } = sources;
    let mut rows = WantedRows::new();
    for network in networks.networks() {
        if let Some(whole) = networks.whole(network.created.network) {
            switch(networks, network, whole, moving, options, &mut rows);
        }
    }
    routers::routers(networks, options, &mut rows);
    groups::groups(networks, groups, &mut rows);
    rows
}

fn destinations(views: &Views) -> LiveDestinations {
    views.servers.read(|servers| {
        let moves = servers.all().filter_map(|row| Some((row.id, row.instance.alive()?.moving.as_deref()?)));
        let live = moves.filter(|(_, moving)| moving.kind == MoveKind::Live);
        live.filter_map(|(id, moving)| Some((id.to_string(), moving.target.as_ref()?.hostname.clone()))).collect()
    })
}

/// The MTU of a network. Traffic between hosts is encapsulated, unless the network is a physical one.
pub(in crate::services::embedded::network) fn mtu(network: &NetworkRow, tunnel: u32) -> u32 {
    let own = network.settings().mtu;
    if network.created.provider.physical_network.is_some() { own } else { own.min(tunnel) }
}

fn switch_key(network: NetworkId) -> NorthboundKey {
    key(NorthboundTable::Switch, format!("network/{network}"))
}

pub(super) fn port_key(port: PortId) -> NorthboundKey {
    key(NorthboundTable::SwitchPort, format!("port/{port}"))
}

fn dhcp_key(subnet: SubnetId) -> NorthboundKey {
    key(NorthboundTable::DhcpOptions, format!("subnet/{subnet}"))
}

/// The router of the port; `None`: the port is not a router's.
fn router_of(port: &Port) -> Option<RouterId> {
    let binding = port.binding();
    matches!(binding.owner.as_str(), GATEWAY_OWNER | INTERFACE_OWNER).then(|| binding.device.parse().ok())?
}

/// Whether the port belongs neither to a router nor to a floating address, so that a guest may use it.
pub(super) fn is_plain(port: &Port) -> bool {
    port.binding().owner != FLOATING_IP_OWNER && router_of(port).is_none()
}

fn switch(
    networks: &NetworksView,
    row: &NetworkRow,
    network: &Network,
    moving: &LiveDestinations,
    options: &OvnOptions,
    rows: &mut WantedRows,
) {
    let id = row.created.network;
    for subnet in network.subnets.values() {
        rows.extend(dhcp(subnet, mtu(row, options.tunnel_mtu)).map(|wanted| (dhcp_key(subnet.added.subnet), wanted)));
    }
    let mut ports = Vec::new();
    for port in network.ports.values() {
        let wanted = match router_of(port) {
            _ if port.binding().owner == FLOATING_IP_OWNER => continue,
            Some(router) if routers::is_routed(networks, router, port, options) => peer(port),
            Some(_) => continue,
            None => guest(network, port, moving),
        };
        ports.push(port_key(port.created.port));
        rows.insert(port_key(port.created.port), wanted);
    }
    if let Some(physical) = &row.created.provider.physical_network {
        let localnet = key(NorthboundTable::SwitchPort, format!("physical/{id}"));
        let tag = row.created.provider.segmentation_id.map(i64::from);
        rows.insert(localnet.clone(), localnet_port(id, physical, tag));
        ports.push(localnet);
    }
    let wanted = WantedRow::default().text("name", format!("chronova-{id}")).rows("ports", ports);
    rows.insert(switch_key(id), wanted.titled(&row.settings().name));
}

/// The port through which a switch reaches the physical network of the hosts.
fn localnet_port(network: NetworkId, physical: &str, tag: Option<i64>) -> WantedRow {
    let tag = OvsdbValue::Set(tag.map(OvsdbAtom::Integer).into_iter().collect());
    WantedRow::default()
        .text("name", format!("physical-{network}"))
        .text("type", "localnet")
        .texts("addresses", ["unknown".to_owned()])
        .map("options", [("network_name", physical.to_owned())])
        .value("tag", tag)
}

/// The switch's side of a connection to a router. The router announces its addresses and those of its NAT in an
/// external network.
fn peer(port: &Port) -> WantedRow {
    let id = port.created.port;
    let mut options = vec![("router-port", routers::port_name(id))];
    if port.binding().owner == GATEWAY_OWNER {
        options.push(("nat-addresses", "router".to_owned()));
    }
    WantedRow::default()
        .text("name", id.to_string())
        .text("type", "router")
        .texts("addresses", ["router".to_owned()])
        .enabled(port.settings().admin_state_up)
        .map("options", options)
}

/// A port that an interface of a guest is plugged into.
fn guest(network: &Network, port: &Port, moving: &LiveDestinations) -> WantedRow {
    let (id, settings) = (port.created.port, port.settings());
    let mut addresses = vec![with_addresses(&port.created.mac, port.addresses().iter().map(|fixed| fixed.address))];
    addresses.extend((!settings.port_security).then(|| "unknown".to_owned()));
    let mut admitted = BTreeMap::new();
    if settings.port_security {
        let own: Vec<String> = port.addresses().iter().map(|fixed| fixed.address.to_string()).collect();
        admitted.insert(port.created.mac.clone(), own);
        for pair in &settings.allowed_address_pairs {
            let mac = pair.mac.as_ref().unwrap_or(&port.created.mac).to_ascii_lowercase();
            if !admitted.contains_key(&mac) {
                // Frames to another address of the guest must reach it, too.
                addresses.push(mac.clone());
            }
            admitted.entry(mac).or_default().push(spelled(&pair.address));
        }
    }
    let security = admitted.into_iter().map(|(mac, addresses)| [vec![mac], addresses].concat().join(" "));
    let served = |ipv4: bool| {
        let addresses = port.addresses().iter().filter(move |fixed| fixed.address.is_ipv4() == ipv4);
        let mut subnets = addresses.filter_map(|fixed| network.subnets.get(&fixed.subnet));
        subnets.find(|subnet| has_options(subnet)).map(|subnet| dhcp_key(subnet.added.subnet))
    };
    WantedRow::default()
        .text("name", id.to_string())
        .text("type", "")
        .texts("addresses", addresses)
        .texts("port_security", security)
        .enabled(settings.admin_state_up)
        .map("options", chassis(port, moving))
        .row("dhcpv4_options", served(true))
        .row("dhcpv6_options", served(false))
        .titled(&settings.name)
}

/// The address or prefix of a pair. OVN takes a prefix with bits of a host for the address of that host.
fn spelled(pair: &str) -> String {
    pair.parse::<IpNet>().map_or_else(|_| pair.to_owned(), |prefix| prefix.trunc().to_string())
}

fn with_addresses(mac: &str, addresses: impl Iterator<Item = IpAddr>) -> String {
    addresses.fold(mac.to_owned(), |text, address| format!("{text} {address}"))
}

/// The hosts that may bind the port, by the name that their Open vSwitch has in `external_ids:hostname`. During a live
/// migration the destination is a second host. OVN keeps the port silent there until the guest runs and QEMU announces
/// the guest.
pub(super) fn chassis(port: &Port, moving: &LiveDestinations) -> Vec<(&'static str, String)> {
    let binding = port.binding();
    if binding.host.is_empty() {
        return Vec::new();
    }
    match moving.get(&binding.device).filter(|destination| **destination != binding.host) {
        Some(destination) => vec![
            ("requested-chassis", format!("{},{destination}", binding.host)),
            ("activation-strategy", "rarp".to_owned()),
        ],
        None => vec![("requested-chassis", binding.host.clone())],
    }
}

/// Whether OVN answers the DHCP requests of the subnet's guests.
fn has_options(subnet: &Arc<Subnet>) -> bool {
    subnet.added.settings.dhcp && !(subnet.added.cidr.addr().is_ipv6() && derives(subnet))
}

/// Whether guests derive everything from router advertisements.
fn derives(subnet: &Subnet) -> bool {
    matches!(subnet.added.ipv6_address_mode.or(subnet.added.ipv6_ra_mode), Some(Ipv6Mode::Slaac))
}

/// The options that OVN's DHCP server gives to the guests of a subnet; `None`: it does not answer them.
fn dhcp(subnet: &Arc<Subnet>, mtu: u32) -> Option<WantedRow> {
    if !has_options(subnet) {
        return None;
    }
    let options = match subnet.added.cidr {
        IpNet::V4(_) => options_v4(subnet, mtu),
        IpNet::V6(_) => options_v6(subnet),
    };
    Some(WantedRow::default().text("cidr", subnet.added.cidr.to_string()).map("options", options))
}

fn options_v4(subnet: &Subnet, mtu: u32) -> Vec<(&'static str, String)> {
    let settings = &subnet.added.settings;
    let gateway = settings.gateway.map(|gateway| gateway.to_string());
    let mut options = vec![
        ("server_id", gateway.clone().unwrap_or_else(|| NO_GATEWAY.to_owned())),
        ("server_mac", server_mac(subnet.added.subnet.0)),
        ("lease_time", LEASE.to_owned()),
        ("mtu", mtu.to_string()),
    ];
    options.extend(dns(settings.dns.iter().filter(|address| address.is_ipv4())));
    if !settings.host_routes.is_empty() {
        // A client that gets routes in this option ignores the option `router` (RFC 3442).
        let routes = settings.host_routes.iter().map(|route| format!("{},{}", route.destination, route.nexthop));
        let default = gateway.iter().map(|gateway| format!("0.0.0.0/0,{gateway}"));
        let routes: Vec<String> = routes.chain(default).collect();
        options.push(("classless_static_route", format!("{{{}}}", routes.join(", "))));
    }
    options.extend(gateway.map(|gateway| ("router", gateway)));
    options
}

fn options_v6(subnet: &Subnet) -> Vec<(&'static str, String)> {
    let mut options = vec![("server_id", server_mac(subnet.added.subnet.0))];
    options.extend(dns(subnet.added.settings.dns.iter().filter(|address| address.is_ipv6())));
    if subnet.derives_addresses() {
        options.push(("dhcpv6_stateless", "true".to_owned()));
    }
    options
}

fn dns<'a>(servers: impl Iterator<Item = &'a IpAddr>) -> Option<(&'static str, String)> {
    let servers: Vec<String> = servers.map(ToString::to_string).collect();
    (!servers.is_empty()).then(|| ("dns_server", format!("{{{}}}", servers.join(", "))))
}

/// The MAC of a subnet's DHCP server. Ports have another prefix.
fn server_mac(subnet: Uuid) -> String {
    let bytes: Vec<String> = subnet.as_bytes()[..5].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0e:{}", bytes.join(":"))
}
