//! Routers: their ports, routes and address translation.
//!
//! Routing between networks happens on each host. Traffic to and from an external network passes the gateway chassis,
//! which translates addresses. OVN chooses the first of the gateway chassis that is alive.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::ids::{PortId, RouterId};
use chronova_events::network::{Association, FloatingIp, Ipv6Mode, Port, Subnet};
use chronova_events::router::{GATEWAY_OWNER, RouterRow};
use chronova_projections::networks::NetworksView;

use super::OvnOptions;
use super::rows::{NorthboundKey, NorthboundTable, WantedRow, WantedRows, key};
use super::wanted::mtu;

/// Neutron's options of a router. By default, OVN tells each router its neighbours in advance. Then the rules of an
/// external network would grow with the square of its number of routers.
const NEIGHBOURS: [(&str, &str); 2] = [("always_learn_from_arp_request", "false"), ("dynamic_neigh_routers", "true")];

/// The name of a router's port, which the port of the switch refers to.
pub(super) fn port_name(port: PortId) -> String {
    format!("lrp-{port}")
}

/// Whether the port of a router is connected. Without a gateway chassis no host could answer for a gateway. The database
/// refuses a router's port without an address.
pub(super) fn is_routed(networks: &NetworksView, router: RouterId, port: &Port, options: &OvnOptions) -> bool {
    let is_gateway = port.binding().owner == GATEWAY_OWNER;
    let has_place = !(is_gateway && options.gateway_chassis.is_empty());
    let has_address = port.addresses().iter().any(|fixed| networks.subnet(fixed.subnet).is_some());
    networks.router(router).is_some() && has_place && has_address
}

/// The floating addresses of each router.
type FloatingByRouter<'a> = BTreeMap<RouterId, Vec<(&'a FloatingIp, &'a Association)>>;

/// One pass over all floating addresses. A pass for each router would take too long.
fn floating(networks: &NetworksView) -> FloatingByRouter<'_> {
    let mut by_router = FloatingByRouter::new();
    for floating in networks.floating_ips().map(Arc::as_ref) {
        if let Some(to) = networks.association(floating) {
            by_router.entry(to.router).or_default().push((floating, to));
        }
    }
    by_router
}

pub(super) fn routers(networks: &NetworksView, options: &OvnOptions, rows: &mut WantedRows) {
    let floating = floating(networks);
    for router in networks.routers() {
        let id = router.id();
        let connected = networks.of_router(id).filter(|port| is_routed(networks, id, port, options));
        let ports: Vec<NorthboundKey> = connected.map(|port| router_port(networks, port, options, rows)).collect();
        let gateway = networks.gateway_of(id).filter(|_| !options.gateway_chassis.is_empty());
        let (routes, nat) = match gateway {
            Some(gateway) => {
                (default_routes(networks, id, gateway, rows), translations(networks, router, gateway, &floating, rows))
            }
            None => (Vec::new(), Vec::new()),
        };
        let wanted = WantedRow::default()
            .text("name", format!("chronova-{id}"))
            .enabled(router.settings().admin_state_up)
            .rows("ports", ports)
            .rows("static_routes", routes)
            .rows("nat", nat)
            .map("options", NEIGHBOURS.map(|(name, value)| (name, value.to_owned())))
            .titled(&router.settings().name);
        rows.insert(key(NorthboundTable::Router, format!("router/{id}")), wanted);
    }
}

/// Adds the router's side of a port, and returns its key.
fn router_port(networks: &NetworksView, port: &Port, options: &OvnOptions, rows: &mut WantedRows) -> NorthboundKey {
    let id = port.created.port;
    let is_gateway = port.binding().owner == GATEWAY_OWNER;
    let subnets = port.addresses().iter().filter_map(|fixed| Some((fixed.address, networks.subnet(fixed.subnet)?)));
    let subnets: Vec<(IpAddr, &Subnet)> = subnets.map(|(address, subnet)| (address, subnet.as_ref())).collect();
    let prefixes = subnets.iter().map(|(address, subnet)| format!("{address}/{}", subnet.added.cidr.prefix_len()));
    let chassis = if is_gateway { gateway_chassis(id, options, rows) } else { Vec::new() };
    let network = networks.network(port.created.network);
    let tunnel = network.map(|network| mtu(network, options.tunnel_mtu));
    let wanted = WantedRow::default()
        .text("name", port_name(id))
        .text("mac", port.created.mac.clone())
        .texts("networks", prefixes)
        .enabled(port.settings().admin_state_up)
        .rows("gateway_chassis", chassis)
        .map("ipv6_ra_configs", if is_gateway { Vec::new() } else { advertisements(&subnets, tunnel) });
    let is_physical = network.is_some_and(|network| network.created.provider.physical_network.is_some());
    // Otherwise each host would send with the router's MAC into the physical network.
    let central = [("reside-on-redirect-chassis", "true".to_owned())];
    let wanted = if is_physical && !is_gateway { wanted.map("options", central) } else { wanted };
    let own = key(NorthboundTable::RouterPort, format!("router-port/{id}"));
    rows.insert(own.clone(), wanted);
    own
}

fn gateway_chassis(port: PortId, options: &OvnOptions, rows: &mut WantedRows) -> Vec<NorthboundKey> {
    let most = i64::try_from(options.gateway_chassis.len()).unwrap_or(i64::MAX);
    let ranked = options.gateway_chassis.iter().zip((1..=most).rev());
    ranked
        .map(|(chassis, priority)| {
            let own = key(NorthboundTable::GatewayChassis, format!("gateway/{port}/{chassis}"));
            let wanted = WantedRow::default()
                .text("name", format!("{}_{chassis}", port_name(port)))
                .text("chassis_name", chassis.clone())
                .number("priority", priority);
            rows.insert(own.clone(), wanted);
            own
        })
        .collect()
}

/// The router advertisements for the IPv6 subnets of a port.
fn advertisements(subnets: &[(IpAddr, &Subnet)], mtu: Option<u32>) -> Vec<(&'static str, String)> {
    let mode = subnets.iter().find_map(|(_, subnet)| subnet.added.ipv6_ra_mode);
    let Some(mode) = mode else { return Vec::new() };
    let word = match mode {
        Ipv6Mode::Slaac => "slaac",
        Ipv6Mode::Stateful => "dhcpv6_stateful",
        Ipv6Mode::Stateless => "dhcpv6_stateless",
    };
    let mut configs = vec![("address_mode", word.to_owned()), ("send_periodic", "true".to_owned())];
    configs.extend(mtu.map(|mtu| ("mtu", mtu.to_string())));
    configs
}

/// Adds the default routes through the gateways of the external subnets.
fn default_routes(
    networks: &NetworksView,
    router: RouterId,
    gateway: &Port,
    rows: &mut WantedRows,
) -> Vec<NorthboundKey> {
    let subnets = gateway.addresses().iter().filter_map(|fixed| networks.subnet(fixed.subnet));
    let hops = subnets.filter_map(|subnet| Some((subnet.added.subnet, subnet.added.settings.gateway?)));
    hops.map(|(subnet, hop)| {
        let prefix = if hop.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let wanted = WantedRow::default()
            .text("ip_prefix", prefix)
            .text("nexthop", hop.to_string())
            .text("output_port", port_name(gateway.created.port));
        let own = key(NorthboundTable::StaticRoute, format!("route/{router}/{subnet}"));
        rows.insert(own.clone(), wanted);
        own
    })
    .collect()
}

/// Adds the translation of the internal IPv4 subnets into the gateway's address, and of the floating addresses. As in
/// Neutron, IPv6 is not translated.
fn translations(
    networks: &NetworksView,
    router: &RouterRow,
    gateway: &Port,
    floating: &FloatingByRouter<'_>,
    rows: &mut WantedRows,
) -> Vec<NorthboundKey> {
    let id = router.id();
    let mut all = Vec::new();
    let mut add = |mark: String, kind: &str, external: IpAddr, internal: String| {
        let own = key(NorthboundTable::Nat, mark);
        let wanted = WantedRow::default()
            .text("type", kind)
            .text("external_ip", external.to_string())
            .text("logical_ip", internal);
        rows.insert(own.clone(), wanted);
        all.push(own);
    };
    let outside = gateway.addresses().iter().map(|fixed| fixed.address).find(IpAddr::is_ipv4);
    if let Some(outside) = outside.filter(|_| router.settings().snat) {
        for fixed in networks.interfaces_of(id).flat_map(|port| port.addresses()).filter(|f| f.address.is_ipv4()) {
            if let Some(subnet) = networks.subnet(fixed.subnet) {
                let mark = format!("snat/{id}/{}", fixed.subnet);
                add(mark, "snat", outside, subnet.added.cidr.to_string());
            }
        }
    }
    for (floating, to) in floating.get(&id).into_iter().flatten() {
        add(format!("floating/{}", floating.id()), "dnat_and_snat", floating.address(), to.address.to_string());
    }
    all
}
