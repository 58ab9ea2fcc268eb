//! Security groups and their rules in the form of the days when Nova had its own: only what a group lets in.

use chronova_events::security_group::{Direction, Ethertype, Group, Rule};
use chronova_projections::security_groups::SecurityGroupsView;
use serde_json::{Value, json};

pub fn group(view: &SecurityGroupsView, group: &Group) -> Value {
    let ingress = group.rules.values().filter(|rule| rule.added.traffic.direction == Direction::Ingress);
    json!({
        "description": group.settings().description,
        "id": group.id(),
        "name": group.settings().name,
        "rules": ingress.map(|one| rule(view, one)).collect::<Vec<_>>(),
        "tenant_id": group.project(),
    })
}

pub fn rule(view: &SecurityGroupsView, rule: &Rule) -> Value {
    let traffic = &rule.added.traffic;
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
    let source = traffic.remote_group.and_then(|id| view.get(id));
    json!({
        "id": rule.added.rule,
        "parent_group_id": rule.added.group,
        "ip_protocol": traffic.protocol,
        "from_port": traffic.port_min.map(i32::from).or(first),
        "to_port": traffic.port_max.map(i32::from).or(last),
        "group": source.map_or_else(|| json!({}), |group| json!({"name": group.settings().name, "tenant_id": group.project()})),
        "ip_range": range,
    })
}
