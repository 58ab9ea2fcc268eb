//! Security groups and their rules in nova-network's form: ingress only.

use chronova_actors::ports::{SecurityGroupInfo, SecurityRuleInfo};
use chronova_events::security_group::{Direction, Ethertype};
use serde_json::{Value, json};

use crate::schema::{Schema, array, object, opt, req, shape};

/// A group that the network service does not know any more shows its name as its id.
pub fn group_shape() -> Schema {
    object([
        req("description", shape::string()),
        req("id", shape::string()),
        req("name", shape::string()),
        req("rules", array(rule_shape())),
        req("tenant_id", shape::string()),
    ])
}

/// `group` is empty for a rule about addresses, and `ip_range` for a rule about a group.
pub fn rule_shape() -> Schema {
    object([
        req("id", shape::uuid()),
        req("parent_group_id", shape::uuid()),
        req("ip_protocol", shape::string_or_null()),
        req("from_port", shape::integer_or_null()),
        req("to_port", shape::integer_or_null()),
        req("group", object([opt("name", shape::string()), opt("tenant_id", shape::string())])),
        req("ip_range", object([opt("cidr", shape::string())])),
    ])
}

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
