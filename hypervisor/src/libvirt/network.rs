//! Virtual networks as libvirt networks: one bridge and one dnsmasq per network and host.
//!
//! libvirt sets limits. A network serves DHCP for one IPv4 subnet only (the first with DHCP). Two networks with
//! overlapping addresses cannot be on one host. IPv6 addresses come from router advertisements. The bridge has the
//! gateway's address. Without a gateway it has the subnet's last host address, and DHCP announces no router.

mod read_back;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use chronova_events::ids::NetworkId;
use ipnet::IpNet;
use roxmltree::{Document, Node};
use sha2::{Digest, Sha256};
use virt::connect::Connect;
use virt::error::ErrorNumber;
use virt::network::Network;

use super::error::{Context, found, is, translate};
use crate::driver::{DriverError, DriverResult};
use crate::guest::{NetworkSpec, Reservation, SubnetSpec};
use crate::options::ForwardMode;
use crate::volumes;
use crate::xml::Element;

const CALL: &str = "network";
const NAMESPACE: &str = "urn:chronova:network:1";
const DNSMASQ: &str = "http://libvirt.org/schemas/network/dnsmasq/1.0";

/// The desired form of a network, parsed.
struct NetworkPlan {
    network: NetworkId,
    mtu: u32,
    addresses: Vec<Address>,
    /// The index of the address that serves DHCP.
    dhcp: Option<usize>,
    hosts: BTreeSet<DhcpHost>,
}

struct Address {
    ip: IpAddr,
    prefix: u8,
    routed: bool,
    dns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DhcpHost {
    mac: String,
    ip: String,
    name: String,
}

impl DhcpHost {
    fn element(&self) -> Element {
        Element::new("host").attr("mac", &self.mac).attr("name", &self.name).attr("ip", &self.ip)
    }
}

impl NetworkPlan {
    fn new(spec: &NetworkSpec) -> DriverResult<Self> {
        let mut addresses = Vec::new();
        let mut dhcp = None;
        let mut range = None;
        for subnet in &spec.subnets {
            let (net, address) = address(subnet)?;
            if subnet.dhcp && net.addr().is_ipv4() && dhcp.is_none() {
                dhcp = Some(addresses.len());
                range = Some(net);
            }
            addresses.push(address);
        }
        let hosts = range.map(|range| hosts(&spec.reservations, &range)).unwrap_or_default();
        Ok(Self { network: spec.network, mtu: spec.mtu, addresses, dhcp, hosts })
    }

    /// A digest of the definition. The digest leaves out the reservations, because they change while guests run.
    fn layout(&self, forward: ForwardMode) -> String {
        let digest = Sha256::digest(self.element(forward, None).render());
        crate::checksum::hex(&digest[..8])
    }

    fn element(&self, forward: ForwardMode, layout: Option<&str>) -> Element {
        let router = self.dhcp.and_then(|index| self.addresses.get(index)).is_none_or(|address| address.routed);
        let option = |value: &str| Element::new("dnsmasq:option").attr("value", value);
        let silent = (!router).then(|| Element::new("dnsmasq:options").child(option("dhcp-option=3")));
        let metadata = layout.map(|layout| {
            let ours = Element::new("chronova:network").attr("xmlns:chronova", NAMESPACE).attr("layout", layout);
            Element::new("metadata").child(ours)
        });
        Element::new("network")
            .attr_if("xmlns:dnsmasq", silent.is_some().then_some(DNSMASQ))
            .child(Element::leaf("name", volumes::network_name(self.network)))
            .child(Element::leaf("uuid", self.network))
            .children(metadata)
            .children(forward_element(forward))
            .child(
                Element::new("bridge")
                    .attr("name", volumes::bridge_name(self.network))
                    .attr("stp", "off")
                    .attr("delay", 0),
            )
            .children((self.mtu > 0).then(|| Element::new("mtu").attr("size", self.mtu)))
            .children(self.dns())
            .children(self.addresses.iter().enumerate().map(|(index, address)| {
                let dhcp = (self.dhcp == Some(index)).then(|| {
                    let hosts = self.hosts.iter().filter(|_| layout.is_some());
                    Element::new("dhcp").children(hosts.map(DhcpHost::element))
                });
                address.element().children(dhcp)
            }))
            .children(silent)
    }

    /// Guests send DNS queries to the bridge's dnsmasq. The dnsmasq forwards them to the DNS servers that the subnets
    /// name, or otherwise to the host's DNS servers.
    fn dns(&self) -> Option<Element> {
        let servers: BTreeSet<_> = self.addresses.iter().flat_map(|address| &address.dns).collect();
        (!servers.is_empty()).then(|| {
            Element::new("dns").children(servers.into_iter().map(|ip| Element::new("forwarder").attr("addr", ip)))
        })
    }
}

impl Address {
    fn element(&self) -> Element {
        Element::new("ip")
            .attr_if("family", self.ip.is_ipv6().then_some("ipv6"))
            .attr("address", self.ip)
            .attr("prefix", self.prefix)
    }
}

fn forward_element(forward: ForwardMode) -> Option<Element> {
    let mode = match forward {
        ForwardMode::Auto | ForwardMode::Nat => "nat",
        ForwardMode::Open => "open",
        ForwardMode::Isolated => return None,
    };
    Some(Element::new("forward").attr("mode", mode))
}

fn bad(what: &str, value: &str) -> DriverError {
    DriverError::Failed { call: CALL, message: format!("{value:?} is not {what}") }
}

fn address(subnet: &SubnetSpec) -> DriverResult<(IpNet, Address)> {
    let net: IpNet = subnet.cidr.parse().map_err(|_| bad("a network in CIDR form", &subnet.cidr))?;
    let ip = match &subnet.gateway {
        Some(gateway) => gateway.parse().map_err(|_| bad("a gateway address", gateway))?,
        None => net.hosts().last().unwrap_or_else(|| net.addr()),
    };
    let parsed = Address { ip, prefix: net.prefix_len(), routed: subnet.gateway.is_some(), dns: subnet.dns.clone() };
    Ok((net, parsed))
}

/// The DHCP reservations in libvirt's form. libvirt refuses two reservations with one name, but Nova allows two servers
/// with one host name. If two servers have the same host name, or a host name is no DNS label, the reservation has the
/// name that Neutron would use.
fn hosts(reservations: &[Reservation], range: &IpNet) -> BTreeSet<DhcpHost> {
    let inside = |reservation: &&Reservation| reservation.ip.parse().is_ok_and(|ip: IpAddr| range.contains(&ip));
    let mut uses = BTreeMap::<&str, usize>::new();
    for reservation in reservations.iter().filter(inside) {
        *uses.entry(&reservation.hostname).or_default() += 1;
    }
    let named = |reservation: &Reservation| {
        let name = reservation.hostname.as_str();
        let unique = uses.get(name) == Some(&1) && is_label(name);
        if unique { name.to_owned() } else { format!("host-{}", reservation.ip.replace('.', "-")) }
    };
    reservations
        .iter()
        .filter(inside)
        .map(|reservation| DhcpHost {
            mac: reservation.mac.to_ascii_lowercase(),
            ip: reservation.ip.clone(),
            name: named(reservation),
        })
        .collect()
}

fn is_label(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    (1..=63).contains(&name.len())
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// Creates or updates the network. Returns the forward mode that works, so that the host's next network uses the same
/// mode.
pub(super) fn ensure(connect: &Connect, spec: &NetworkSpec, forward: ForwardMode) -> DriverResult<ForwardMode> {
    let plan = NetworkPlan::new(spec)?;
    match forward {
        ForwardMode::Auto => match realise(connect, &plan, ForwardMode::Nat) {
            Ok(()) => Ok(ForwardMode::Nat),
            // A host without a firewall cannot do NAT. It can use `open`, because libvirt then creates no firewall
            // rules. If `open` fails, too, the firewall was not the reason, so this returns the error of NAT.
            Err(reason @ DriverError::Failed { .. }) => match realise(connect, &plan, ForwardMode::Open) {
                Ok(()) => {
                    tracing::warn!(%reason, "this host cannot do NAT: libvirt routes its networks (forward mode open)");
                    Ok(ForwardMode::Open)
                }
                Err(_) => Err(reason),
            },
            Err(error) => Err(error),
        },
        known => realise(connect, &plan, known).map(|()| known),
    }
}

fn lookup(connect: &Connect, network: NetworkId) -> DriverResult<Option<Network>> {
    found(CALL, connect.lookup_network_by_uuid(network.0))
}

fn realise(connect: &Connect, plan: &NetworkPlan, forward: ForwardMode) -> DriverResult<()> {
    let layout = plan.layout(forward);
    let network = match lookup(connect, plan.network)? {
        Some(network) => {
            let xml = network.xml_desc(0).during(CALL)?;
            if current_layout(&xml).as_deref() == Some(layout.as_str()) {
                update_hosts(&network, &xml, plan, everywhere(&network)?)?;
            } else {
                redefine(connect, &network, &xml, plan, forward, &layout)?;
            }
            network
        }
        None => define(connect, plan, forward, &layout)?,
    };
    start(&network)
}

fn define(connect: &Connect, plan: &NetworkPlan, forward: ForwardMode, layout: &str) -> DriverResult<Network> {
    let xml = plan.element(forward, Some(layout)).render();
    let network = connect.define_network_xml(&xml).during(CALL)?;
    network.set_autostart(true).during(CALL)?;
    Ok(network)
}

/// Defines the network with another layout. Stops a network without guests, so that its next start applies the layout.
/// A stop would disconnect guests. So in a network with guests, only the DHCP reservations change at once, and the
/// layout applies at the network's next start.
fn redefine(
    connect: &Connect,
    network: &Network,
    xml: &str,
    plan: &NetworkPlan,
    forward: ForwardMode,
    layout: &str,
) -> DriverResult<()> {
    define(connect, plan, forward, layout)?;
    let in_use = Document::parse(xml)
        .ok()
        .and_then(|document| document.root_element().attribute("connections").and_then(|n| n.parse::<u32>().ok()))
        .is_some_and(|connections| connections > 0);
    if in_use {
        tracing::warn!(network = %plan.network, "the network has guests: its new layout applies from its next start");
        // The new definition already has the reservations, so only the running network needs them.
        return update_hosts(network, xml, plan, virt_sys::VIR_NETWORK_UPDATE_AFFECT_LIVE);
    }
    stop(network)
}

fn start(network: &Network) -> DriverResult<()> {
    if network.is_active().during(CALL)? {
        return Ok(());
    }
    match network.create() {
        Err(error) if !network.is_active().unwrap_or(false) => Err(translate(CALL, &error)),
        _ => Ok(()),
    }
}

fn stop(network: &Network) -> DriverResult<()> {
    match network.destroy() {
        Err(error) if network.is_active().unwrap_or(true) => Err(translate(CALL, &error)),
        _ => Ok(()),
    }
}

fn current_layout(xml: &str) -> Option<String> {
    let document = Document::parse(xml).ok()?;
    let ours = document.descendants().find(|node| node.has_tag_name((NAMESPACE, "network")))?;
    ours.attribute("layout").map(str::to_owned)
}

fn current_hosts(xml: &str) -> BTreeSet<DhcpHost> {
    let Ok(document) = Document::parse(xml) else { return BTreeSet::new() };
    let text = |node: Node<'_, '_>, name: &str| node.attribute(name).unwrap_or_default().to_owned();
    document
        .descendants()
        .filter(|node| node.has_tag_name("host") && node.parent().is_some_and(|parent| parent.has_tag_name("dhcp")))
        .map(|node| DhcpHost {
            mac: text(node, "mac").to_ascii_lowercase(),
            ip: text(node, "ip"),
            name: text(node, "name"),
        })
        .collect()
}

/// The flags with which a change applies to the network's definition, and to the running network if it is active.
fn everywhere(network: &Network) -> DriverResult<u32> {
    let mut flags = virt_sys::VIR_NETWORK_UPDATE_AFFECT_CONFIG;
    if network.is_active().during(CALL)? {
        flags |= virt_sys::VIR_NETWORK_UPDATE_AFFECT_LIVE;
    }
    Ok(flags)
}

/// Changes the reservations without a restart: dnsmasq rereads them, and the guests stay connected.
fn update_hosts(network: &Network, xml: &str, plan: &NetworkPlan, flags: u32) -> DriverResult<()> {
    use virt_sys::{VIR_NETWORK_UPDATE_COMMAND_ADD_LAST as ADD, VIR_NETWORK_UPDATE_COMMAND_DELETE as DELETE};
    let Some(index) = plan.dhcp.and_then(|index| i32::try_from(index).ok()) else { return Ok(()) };
    let now = current_hosts(xml);
    let gone = now.difference(&plan.hosts).map(|host| (DELETE, host));
    let new = plan.hosts.difference(&now).map(|host| (ADD, host));
    for (command, host) in gone.chain(new) {
        let section = virt_sys::VIR_NETWORK_SECTION_IP_DHCP_HOST;
        network.update(command, section, index, &host.element().render(), flags).during("network reservations")?;
    }
    Ok(())
}

/// Stops and undefines the network. Succeeds if there is none.
pub(super) fn remove(connect: &Connect, network: NetworkId) -> DriverResult<()> {
    let Some(network) = lookup(connect, network)? else { return Ok(()) };
    stop(&network)?;
    match network.undefine() {
        Err(error) if !is(&error, ErrorNumber::NoNetwork) => Err(translate(CALL, &error)),
        _ => Ok(()),
    }
}

/// Our networks on the host. Their names derive from their ids.
pub(super) fn list(connect: &Connect) -> DriverResult<BTreeSet<NetworkId>> {
    let mut found = BTreeSet::new();
    for network in connect.list_all_networks(0).during(CALL)? {
        // Another call may remove a network during the listing. Such a network is left out.
        let (Ok(name), Ok(uuid)) = (network.name(), network.uuid()) else { continue };
        let id = NetworkId(uuid);
        if name == volumes::network_name(id) {
            found.insert(id);
        }
    }
    Ok(found)
}

/// Our networks on the host, as they are defined.
pub(super) fn found_all(connect: &Connect) -> DriverResult<Vec<NetworkSpec>> {
    let mut all = Vec::new();
    for id in list(connect)? {
        let Some(network) = lookup(connect, id)? else { continue };
        let xml = network.xml_desc(0).during(CALL)?;
        all.push(read_back::spec(&xml, id).ok_or_else(|| bad("a network that can be read", &xml))?);
    }
    Ok(all)
}

/// The source address of a guest that has no address yet.
pub(super) const UNSPECIFIED: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

#[cfg(test)]
mod tests;
