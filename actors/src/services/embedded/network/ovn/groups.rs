//! Security groups. A group with ports becomes a port group of OVN, with an ACL for each rule.
//!
//! As in Neutron's driver, all ports with port security are also in one group that drops all IP traffic. The rules of
//! the other groups allow traffic with a higher priority. OVN keeps an address set for each port group, so a rule that
//! names a remote group names that set.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::SecurityGroupId;
use chronova_events::network::Port;
use chronova_events::security_group::{Direction, Ethertype, RuleTraffic, SecurityGroup};
use chronova_projections::networks::NetworksView;
use chronova_projections::security_groups::SecurityGroupsView;
use ipnet::IpNet;

use super::rows::{NorthboundKey, NorthboundTable, WantedRow, WantedRows, key};
use super::wanted::{is_plain, port_key};

const DROP: &str = "chronova_drop";
const DROP_PRIORITY: i64 = 1001;
const ALLOW_PRIORITY: i64 = 1002;

/// Traffic that every port may send. Without an answer to its DHCP request a guest would have no address. OVN itself
/// lets the messages of neighbour discovery pass.
const ALWAYS: [(&str, &str, &str); 2] = [
    ("dhcp", "from-lport", "inport == @chronova_drop && ip4 && udp && udp.src == 68 && udp.dst == 67"),
    ("dhcpv6", "from-lport", "inport == @chronova_drop && ip6 && udp && udp.src == 546 && udp.dst == 547"),
];

pub(super) fn groups(networks: &NetworksView, groups: &SecurityGroupsView, rows: &mut WantedRows) {
    let mut members: BTreeMap<SecurityGroupId, BTreeSet<NorthboundKey>> = BTreeMap::new();
    let mut secured = BTreeSet::new();
    for port in networks.ports().filter(|port| is_secured(port)) {
        let own = port_key(port.created.port);
        for group in &port.settings().security_groups {
            members.entry(*group).or_default().insert(own.clone());
        }
        secured.insert(own);
    }
    let used: Vec<&SecurityGroup> = members.keys().filter_map(|id| groups.get(*id)).map(AsRef::as_ref).collect();
    // A rule may name a group without ports. Its address set must exist all the same.
    let remotes: BTreeSet<SecurityGroupId> =
        used.iter().flat_map(|group| group.rules.values()).filter_map(|rule| rule.added.traffic.remote_group).collect();
    for id in remotes.into_iter().filter(|id| !members.contains_key(id)) {
        rows.insert(group_key(id), port_group(&group_name(id), [], []));
    }
    for group in used {
        let acls = acls(group, rows);
        let ports = members.get(&group.id()).cloned().unwrap_or_default();
        let wanted = port_group(&group_name(group.id()), ports, acls).titled(&group.settings().name);
        rows.insert(group_key(group.id()), wanted);
    }
    if !secured.is_empty() {
        let acls = drop_acls(rows);
        rows.insert(key(NorthboundTable::PortGroup, "group/drop"), port_group(DROP, secured, acls));
    }
}

fn is_secured(port: &Port) -> bool {
    port.settings().port_security && is_plain(port)
}

fn group_key(group: SecurityGroupId) -> NorthboundKey {
    key(NorthboundTable::PortGroup, format!("group/{group}"))
}

/// The name of a port group. OVN admits no dash in it.
fn group_name(group: SecurityGroupId) -> String {
    format!("chronova_{}", group.to_string().replace('-', "_"))
}

fn port_group(
    name: &str,
    ports: impl IntoIterator<Item = NorthboundKey>,
    acls: impl IntoIterator<Item = NorthboundKey>,
) -> WantedRow {
    WantedRow::default().text("name", name).rows("ports", ports).rows("acls", acls)
}

fn acl(direction: &str, priority: i64, matches: &str, action: &str) -> WantedRow {
    WantedRow::default()
        .text("direction", direction)
        .number("priority", priority)
        .text("match", matches)
        .text("action", action)
}

fn drop_acls(rows: &mut WantedRows) -> Vec<NorthboundKey> {
    let drops = [("to-lport", "outport"), ("from-lport", "inport")].map(|(direction, side)| {
        (format!("drop/{direction}"), acl(direction, DROP_PRIORITY, &format!("{side} == @{DROP} && ip"), "drop"))
    });
    let always = ALWAYS
        .map(|(name, direction, matches)| (format!("always/{name}"), acl(direction, ALLOW_PRIORITY, matches, "allow")));
    let all = drops.into_iter().chain(always);
    all.map(|(mark, wanted)| {
        let own = key(NorthboundTable::Acl, mark);
        rows.insert(own.clone(), wanted);
        own
    })
    .collect()
}

fn acls(group: &SecurityGroup, rows: &mut WantedRows) -> Vec<NorthboundKey> {
    let action = if group.settings().stateful { "allow-related" } else { "allow-stateless" };
    let name = group_name(group.id());
    let rules = group.rules.iter().filter_map(|(id, rule)| {
        let traffic = &rule.added.traffic;
        let direction = match traffic.direction {
            Direction::Ingress => "to-lport",
            Direction::Egress => "from-lport",
        };
        let own = key(NorthboundTable::Acl, format!("rule/{id}"));
        Some((own, acl(direction, ALLOW_PRIORITY, &expression(&name, traffic)?, action)))
    });
    rules
        .map(|(own, wanted)| {
            rows.insert(own.clone(), wanted);
            own
        })
        .collect()
}

/// The traffic of a rule as an expression of OVN. `None`: the expression cannot say it, so nothing is allowed.
fn expression(group: &str, traffic: &RuleTraffic) -> Option<String> {
    let (side, other) = match traffic.direction {
        Direction::Ingress => ("outport", "src"),
        Direction::Egress => ("inport", "dst"),
    };
    let (version, set) = match traffic.ethertype {
        Ethertype::Ipv4 => ("ip4", "ip4"),
        Ethertype::Ipv6 => ("ip6", "ip6"),
    };
    let mut terms = vec![format!("{side} == @{group}"), version.to_owned()];
    if let Some(prefix) = &traffic.remote_prefix {
        // OVN refuses an expression with a prefix that has bits of a host.
        let prefix = prefix.parse::<IpNet>().ok()?.trunc();
        // A prefix of all addresses is the same as no prefix.
        terms.extend((prefix.prefix_len() > 0).then(|| format!("{version}.{other} == {prefix}")));
    }
    terms.extend(traffic.remote_group.map(|remote| format!("{version}.{other} == ${}_{set}", group_name(remote))));
    terms.extend(protocol(traffic)?);
    Some(terms.join(" && "))
}

/// The terms for protocol and ports.
fn protocol(traffic: &RuleTraffic) -> Option<Vec<String>> {
    let word = match traffic.protocol.as_deref() {
        None | Some("any" | "0") => return Some(Vec::new()),
        Some("tcp" | "6") => "tcp",
        Some("udp" | "17") => "udp",
        Some("sctp" | "132") => "sctp",
        Some("icmp" | "icmpv6" | "ipv6-icmp" | "1" | "58") => match traffic.ethertype {
            Ethertype::Ipv4 => "icmp4",
            Ethertype::Ipv6 => "icmp6",
        },
        Some(other) => return Some(vec![format!("ip.proto == {}", number(other)?)]),
    };
    let mut terms = vec![word.to_owned()];
    let bound = |field: &str, sign: &str, value: u16| format!("{word}.{field} {sign} {value}");
    match (word, traffic.port_min, traffic.port_max) {
        ("icmp4" | "icmp6", kind, code) => {
            terms.extend(kind.map(|kind| bound("type", "==", kind)));
            terms.extend(code.map(|code| bound("code", "==", code)));
        }
        (_, Some(first), Some(last)) if first == last => terms.push(bound("dst", "==", first)),
        (_, first, last) => {
            terms.extend(first.map(|first| bound("dst", ">=", first)));
            terms.extend(last.map(|last| bound("dst", "<=", last)));
        }
    }
    Some(terms)
}

/// The number of a protocol without a word of its own in OVN's expressions.
fn number(protocol: &str) -> Option<u8> {
    match protocol {
        "igmp" => Some(2),
        "esp" => Some(50),
        "ah" => Some(51),
        "udplite" => Some(136),
        "vrrp" => Some(112),
        "gre" => Some(47),
        other => other.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_becomes_an_expression() {
        use Direction::{Egress, Ingress};
        use Ethertype::{Ipv4, Ipv6};
        let said = |direction, ethertype, protocol: Option<&str>, port_min, port_max, prefix: Option<&str>| {
            let (protocol, remote_prefix) = (protocol.map(str::to_owned), prefix.map(str::to_owned));
            let remote_group = None;
            let traffic =
                RuleTraffic { direction, ethertype, protocol, port_min, port_max, remote_prefix, remote_group };
            expression("g", &traffic)
        };
        for (got, wanted) in [
            (said(Ingress, Ipv4, None, None, None, None), "outport == @g && ip4"),
            (said(Ingress, Ipv4, None, None, None, Some("0.0.0.0/0")), "outport == @g && ip4"),
            (said(Ingress, Ipv4, None, None, None, Some("10.0.0.9/0")), "outport == @g && ip4"),
            (
                said(Ingress, Ipv4, None, None, None, Some("10.0.0.9/24")),
                "outport == @g && ip4 && ip4.src == 10.0.0.0/24",
            ),
            (
                said(Egress, Ipv6, None, None, None, Some("2001:db8::/32")),
                "inport == @g && ip6 && ip6.dst == 2001:db8::/32",
            ),
            (
                said(Ingress, Ipv4, Some("tcp"), Some(1), Some(9), None),
                "outport == @g && ip4 && tcp && tcp.dst >= 1 && tcp.dst <= 9",
            ),
            (said(Ingress, Ipv4, Some("17"), Some(53), Some(53), None), "outport == @g && ip4 && udp && udp.dst == 53"),
            (
                said(Ingress, Ipv4, Some("icmp"), Some(8), Some(0), None),
                "outport == @g && ip4 && icmp4 && icmp4.type == 8 && icmp4.code == 0",
            ),
            (
                said(Ingress, Ipv6, Some("ipv6-icmp"), Some(128), None, None),
                "outport == @g && ip6 && icmp6 && icmp6.type == 128",
            ),
            (said(Ingress, Ipv4, Some("esp"), None, None, None), "outport == @g && ip4 && ip.proto == 50"),
            (said(Ingress, Ipv4, Some("89"), None, None, None), "outport == @g && ip4 && ip.proto == 89"),
        ] {
            assert_eq!(got.as_deref(), Some(wanted));
        }
        assert_eq!(said(Ingress, Ipv4, Some("nonsense"), None, None, None), None, "an unknown protocol opens nothing");
    }
}
