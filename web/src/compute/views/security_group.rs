//! Security groups and their rules in nova-network's form: ingress only.

use chronova_actors::ports::{SecurityGroupInfo, SecurityRuleInfo};
use chronova_events::security_group::{Direction, Ethertype};
use serde_json::{Value, json};

pub fn group(group: &SecurityGroupInfo) -> Value {
    let ingress = group.rules.iter().filter(|rule| rule.traffic.direction == Direction::Ingress);
    json!({
        "description": group.description,
        "id": group.id,
        "name": group.name,
        "rules": ingress.map(rule).collect::<Vec<_>>(),
        "tenant_id": group.project,
    })
}

pub fn rule(rule: &SecurityRuleInfo) -> Value {
    let traffic = &rule.traffic;
    let icmp = traffic.protocol.as_deref().is_some_and(|protocol| protocol.contains("icmp"));
    let (first, last) = match (&traffic.protocol, icmp) {
        (None, _) => (None, None),
        (Some(_), true) => (Some(-1), Some(-1)),
        (Some(_), false) => (Some(1), Some(65_535)),
    };
    let range = match (&traffic.remote_group, &traffic.remote_prefix) {
        (Some(_), _) => json!({}),
        (None, Some(prefix)) => json!({"cidr": prefix}),
        (None, None) if traffic.ethertype == Ethertype::Ipv6 => json!({"cidr": "::/0"}),
        (None, None) => json!({"cidr": "0.0.0.0/0"}),
    };
    json!({
        "id": rule.id,
        "parent_group_id": rule.group,
        "ip_protocol": traffic.protocol,
        "from_port": traffic.port_min.map(i32::from).or(first),
        "to_port": traffic.port_max.map(i32::from).or(last),
        "group": rule.remote.as_ref().map_or_else(|| json!({}), |(project, name)| json!({"name": name, "tenant_id": project})),
        "ip_range": range,
    })
}
