//! Security groups and anti-spoofing as libvirt network filters, one per port.
//!
//! A filter has all rules of its port, so libvirt's stock filters need not be installed on a host. It has two layers.
//! Link-layer rules (ebtables) bind the port to its MAC and addresses. Stateful rules (iptables) accept the traffic
//! that the security groups allow, and the replies to it. They drop all other traffic. As in Neutron, DHCP and IPv6
//! neighbour discovery always work.

use std::net::IpAddr;

use ipnet::IpNet;
use uuid::Uuid;
use virt::connect::Connect;
use virt::error::ErrorNumber;

use super::error::{Context, found, is, translate};
use super::network::UNSPECIFIED;
use crate::driver::{DriverError, DriverResult};
use crate::guest::{FilterRule, FilterSpec};
use crate::xml::Element;

const CALL: &str = "network filter";

pub(super) fn ensure(connect: &Connect, spec: &FilterSpec) -> DriverResult<()> {
    // An existing filter of this name keeps its UUID, because libvirt refuses a second UUID for one name.
    let uuid = match found(CALL, connect.lookup_nwfilter_by_name(&spec.name))? {
        Some(filter) => filter.uuid().during(CALL)?,
        None => Uuid::new_v5(&spec.port.0, b"nwfilter"),
    };
    connect.define_nwfilter_xml(&element(spec, uuid)?.render()).during(CALL).map(drop)
}

/// Removes a filter. Succeeds if there is none.
pub(super) fn remove(connect: &Connect, name: &str) -> DriverResult<()> {
    let Some(filter) = found(CALL, connect.lookup_nwfilter_by_name(name))? else { return Ok(()) };
    match filter.undefine() {
        Err(error) if !is(&error, ErrorNumber::NoNwfilter) => Err(translate(CALL, &error)),
        _ => Ok(()),
    }
}

fn element(spec: &FilterSpec, uuid: Uuid) -> DriverResult<Element> {
    let mut rules = link_layer(spec)?;
    rules.extend(always_allowed());
    for rule in &spec.rules {
        match group_rule(rule)? {
            Some(element) => rules.push(element),
            // Packets that only this rule would allow stay blocked. An error here would prevent the guest from
            // starting.
            None => {
                tracing::warn!(
                    filter = spec.name,
                    ?rule,
                    "libvirt cannot filter by this rule, so the rule allows nothing"
                );
            }
        }
    }
    for protocol in ["all", "all-ipv6"] {
        rules.push(rule("drop", "inout", 1000, Element::new(protocol)));
    }
    Ok(Element::new("filter")
        .attr("name", &spec.name)
        .attr("chain", "root")
        .child(Element::leaf("uuid", uuid))
        .children(rules))
}

/// A rule. Direction `out` is traffic that the guest sends.
fn rule(action: &str, direction: &str, priority: i32, matching: Element) -> Element {
    Element::new("rule").attr("action", action).attr("direction", direction).attr("priority", priority).child(matching)
}

fn link_layer(spec: &FilterSpec) -> DriverResult<Vec<Element>> {
    let out = |action: &str, priority: i32, matching: Element| rule(action, "out", priority, matching);
    let mac = Element::new("mac").attr("match", "no").attr("srcmacaddr", &spec.mac);
    let arp = Element::new("arp").attr("match", "no").attr("arpsrcmacaddr", &spec.mac);
    let mut rules = vec![out("drop", -900, mac), out("drop", -890, arp)];
    let nets = spec.ips.iter().map(|ip| net_of(ip)).collect::<DriverResult<Vec<_>>>()?;
    let (v4, v6): (Vec<_>, Vec<_>) = nets.into_iter().partition(|net| net.addr().is_ipv4());

    // ARP is allowed only for the port's own addresses. 0.0.0.0 is the probe for a duplicate.
    for net in v4.iter().copied().chain([IpNet::from(IpAddr::V4(UNSPECIFIED))]) {
        rules.push(out("accept", -880, from(net, Element::new("arp"), ["arpsrcipaddr", "arpsrcipmask"])));
    }
    rules.push(out("drop", -870, Element::new("arp")));

    let dhcp = Element::new("ip")
        .attr("srcipaddr", UNSPECIFIED)
        .attr("dstipaddr", "255.255.255.255")
        .attr("protocol", "udp")
        .attr("srcportstart", 68)
        .attr("dstportstart", 67);
    rules.push(out("return", -860, dhcp));
    for net in v4 {
        rules.push(out("return", -860, from(net, Element::new("ip"), ["srcipaddr", "srcipmask"])));
    }
    rules.push(out("drop", -850, Element::new("ip")));

    // The port may use link-local addresses, and the unspecified address for duplicate detection.
    let local = Element::new("ipv6").attr("srcipaddr", "fe80::").attr("srcipmask", 10);
    rules.push(out("return", -860, local));
    rules.push(out("return", -860, Element::new("ipv6").attr("srcipaddr", "::").attr("srcipmask", 128)));
    for net in v6 {
        rules.push(out("return", -860, from(net, Element::new("ipv6"), ["srcipaddr", "srcipmask"])));
    }
    rules.push(out("drop", -850, Element::new("ipv6")));
    Ok(rules)
}

/// The element for packets from these addresses. An allowed address pair may be a prefix.
fn from(net: IpNet, element: Element, [address, mask]: [&'static str; 2]) -> Element {
    match net.prefix_len() {
        0 => element,
        all if all == net.max_prefix_len() => element.attr(address, net.addr()),
        prefix => element.attr(address, net.network()).attr(mask, prefix),
    }
}

/// Allows DHCP and the ICMPv6 types that IPv6 needs: multicast listeners (130-132, 143) and neighbour discovery
/// (133-136). Router advertisements from a guest are not allowed.
fn always_allowed() -> Vec<Element> {
    let dhcp = Element::new("udp").attr("srcportstart", 68).attr("dstportstart", 67);
    let icmpv6 = |direction: &'static str, kinds: &'static [u8]| {
        kinds.iter().map(move |kind| rule("accept", direction, 90, Element::new("icmpv6").attr("type", kind)))
    };
    let mut rules = vec![rule("accept", "out", 90, dhcp)];
    rules.extend(icmpv6("out", &[131, 132, 133, 135, 136, 143]));
    rules.extend(icmpv6("in", &[130, 131, 132, 134, 135, 136]));
    rules
}

/// The element for a rule of a security group; `None` if libvirt has no element for the rule's protocol and ports.
fn group_rule(spec: &FilterRule) -> DriverResult<Option<Element>> {
    let Some(mut matching) = protocol(spec) else { return Ok(None) };
    if let Some(remote) = &spec.remote {
        let remote = net_of(remote)?;
        let [address_name, mask_name] =
            if spec.ingress { ["srcipaddr", "srcipmask"] } else { ["dstipaddr", "dstipmask"] };
        matching = matching.attr(address_name, remote.network()).attr(mask_name, remote.prefix_len());
    }
    Ok(Some(rule("accept", if spec.ingress { "in" } else { "out" }, 100, matching)))
}

/// Reads an address or a prefix.
fn net_of(text: &str) -> DriverResult<IpNet> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    net.map_err(|_| DriverError::Failed { call: CALL, message: format!("{text:?} is not a network") })
}

/// libvirt's element for a protocol. Neutron allows names and numbers. For ICMP the "ports" are type and code.
fn protocol(spec: &FilterRule) -> Option<Element> {
    let six = |four: &'static str, six: &'static str| Element::new(if spec.ipv6 { six } else { four });
    let ports = |element: Element| element.attr_if("dstportstart", spec.port_min).attr_if("dstportend", spec.port_max);
    let icmp = |element: Element| element.attr_if("type", spec.port_min).attr_if("code", spec.port_max);
    Some(match spec.protocol.as_deref() {
        None | Some("any" | "0") => six("all", "all-ipv6"),
        Some("tcp" | "6") => ports(six("tcp", "tcp-ipv6")),
        Some("udp" | "17") => ports(six("udp", "udp-ipv6")),
        Some("sctp" | "132") => ports(six("sctp", "sctp-ipv6")),
        Some("icmp" | "1" | "icmpv6" | "ipv6-icmp" | "58") => icmp(six("icmp", "icmpv6")),
        // libvirt cannot filter UDP-Lite by port. A rule that left out the ports would allow all ports.
        Some("udplite" | "136") if spec.port_min.is_none() => six("udplite", "udplite-ipv6"),
        Some("esp" | "50") => six("esp", "esp-ipv6"),
        Some("ah" | "51") => six("ah", "ah-ipv6"),
        Some("igmp" | "2") if !spec.ipv6 => Element::new("igmp"),
        Some(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::ids::PortId;

    #[test]
    fn a_rule_that_libvirt_cannot_express_allows_nothing() {
        let allowed = |protocol: &str, port: Option<u16>| {
            let rule = FilterRule {
                ingress: true,
                ipv6: false,
                protocol: Some(protocol.to_owned()),
                port_min: port,
                port_max: port,
                remote: None,
            };
            group_rule(&rule).unwrap().is_some()
        };
        assert!(allowed("udplite", None) && allowed("udp", Some(7)) && allowed("132", Some(7)));
        assert!(!allowed("udplite", Some(7)) && !allowed("136", Some(7)), "the rule must not open all ports");
        assert!(!allowed("gre", None) && !allowed("33", None));
    }

    #[test]
    fn an_allowed_prefix_is_a_source_of_the_guests_packets() {
        let sources = |ips: &[&str]| {
            let spec = FilterSpec {
                name: "chronova-port".to_owned(),
                port: PortId(Uuid::nil()),
                mac: "fa:16:3e:00:00:05".to_owned(),
                ips: ips.iter().map(|ip| (*ip).to_owned()).collect(),
                groups: Vec::new(),
                rules: Vec::new(),
            };
            element(&spec, Uuid::nil()).map(|filter| filter.render())
        };
        let xml = sources(&["10.0.0.5", "192.168.7.9/24", "fd00:1::/64"]).unwrap();
        for source in [
            "<arp arpsrcipaddr='10.0.0.5'/>",
            "<arp arpsrcipaddr='192.168.7.0' arpsrcipmask='24'/>",
            "<ip srcipaddr='192.168.7.0' srcipmask='24'/>",
            "<ipv6 srcipaddr='fd00:1::' srcipmask='64'/>",
        ] {
            assert!(xml.contains(source), "{source} is not in {xml}");
        }
        let all = sources(&["0.0.0.0/0"]).unwrap();
        assert_eq!((all.matches("<arp/>").count(), all.matches("<ip/>").count()), (2, 2), "{all}");
        assert!(sources(&["10.0.0"]).is_err(), "an unreadable address must be an error");
    }

    #[test]
    fn a_filter_is_golden() {
        let open =
            |ingress, ipv6, protocol: Option<&str>, ports: Option<(u16, u16)>, remote: Option<&str>| FilterRule {
                ingress,
                ipv6,
                protocol: protocol.map(str::to_owned),
                port_min: ports.map(|ports| ports.0),
                port_max: ports.map(|ports| ports.1),
                remote: remote.map(str::to_owned),
            };
        let spec = FilterSpec {
            name: "chronova-port".to_owned(),
            port: PortId(Uuid::nil()),
            mac: "fa:16:3e:00:00:05".to_owned(),
            ips: vec!["10.0.0.5".to_owned(), "fd00::5".to_owned()],
            groups: Vec::new(),
            rules: vec![
                open(false, false, None, None, None),
                open(false, true, None, None, None),
                open(true, false, Some("tcp"), Some((22, 23)), Some("192.0.2.7/24")),
                open(true, true, Some("icmp"), Some((128, 0)), None),
            ],
        };
        let xml = element(&spec, Uuid::nil()).unwrap().render();
        expectorate::assert_contents("golden/nwfilter.xml", &xml);
    }
}
