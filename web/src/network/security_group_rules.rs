//! `/security-group-rules`.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_actors::services::embedded::network::security_group::SecurityGroupCommand;
use chronova_events::ids::{ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::{Direction, Ethertype, RuleAdded, RuleTraffic, SecurityGroup, SecurityGroupRule};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::attributes::LONG_TEXT;
use super::attributes::{Attributes, as_integer};
use super::{answers, faults, listing, preconditions, quotas, security_groups, targets, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, delete as delete_route, get, post};

pub(super) const ROUTES: &[Route] = &[
    get("security_group_rules.index", "/security-group-rules", handler!(index))
        .leader()
        .policy_on_target("get_security_group_rule")
        .answers(answers::rules)
        .as_of(),
    post("security_group_rules.create", "/security-group-rules", handler!(create))
        .policy_on_target("create_security_group_rule")
        .any_body()
        .answers(answers::rule_created),
    get("security_group_rules.show", "/security-group-rules/{id}", handler!(show))
        .policy_on_target("get_security_group_rule")
        .answers(answers::rule_shown)
        .as_of(),
    delete_route("security_group_rules.delete", "/security-group-rules/{id}", handler!(delete))
        .policy_on_target("delete_security_group_rule")
        .answers(no_content),
];

/// The key of a body with several rules.
const BULK: &str = "security_group_rules";

/// The protocols that a host can filter. Zero means every protocol.
const FILTERED: [u8; 10] = [0, 1, 2, 6, 17, 50, 51, 58, 132, 136];

/// The protocols that Neutron knows by name, and their numbers.
const PROTOCOLS: [(&str, u8); 20] = [
    ("ah", 51),
    ("dccp", 33),
    ("egp", 8),
    ("esp", 50),
    ("gre", 47),
    ("icmp", 1),
    ("icmpv6", 58),
    ("igmp", 2),
    ("ipip", 4),
    ("ipv6-encap", 41),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ospf", 89),
    ("pgm", 113),
    ("rsvp", 46),
    ("sctp", 132),
    ("tcp", 6),
    ("udp", 17),
    ("udplite", 136),
    ("vrrp", 112),
];

fn find(ctx: &Ctx) -> Result<(Arc<SecurityGroup>, Arc<SecurityGroupRule>), Fault> {
    let text = ctx.param("id");
    let found = text.parse::<SecurityGroupRuleId>().ok().and_then(|id| {
        let views = ctx.views().ok()?;
        views.security_groups.read(|view| {
            let rule = view.rule(id)?;
            Some((Arc::clone(view.get(rule.added.group)?), Arc::clone(rule)))
        })
    });
    found
        .filter(|(group, _)| ctx.allows("get_security_group_rule", &targets::group(group)))
        .ok_or_else(|| faults::rule_not_found(text))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.authorize(&ctx.own_target())?;
    if let Some(project) = ctx.caller().project.clone().filter(|_| !ctx.is_past()) {
        security_groups::ensure_default(&ctx, &permit, &project).await?;
    }
    let own = if ctx.caller().is_admin { None } else { ctx.caller().project.clone() };
    let groups: Vec<Arc<SecurityGroup>> = ctx.views()?.security_groups.read(|view| match own {
        Some(project) => view.of_project(&project).into_iter().flat_map(|g| g.by_id.values()).cloned().collect(),
        None => view.all().cloned().collect(),
    });
    let visible = groups.iter().filter(|row| ctx.allows("get_security_group_rule", &targets::group(row)));
    let rows = visible.flat_map(|group| group.rules.values()).map(|rule| views::rule(rule)).collect();
    listing::list(&ctx, "security_group_rules", "security-group-rules", rows)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (group, rule) = find(&ctx)?;
    ctx.authorize(&targets::group(&group))?;
    Ok(listing::one(&ctx, "security_group_rule", views::rule(&rule)))
}

/// Creates one rule, or several of one project under `security_group_rules`. Either all rules of the body are created,
/// or none.
async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let (rules, project, permit) = asked(&ctx)?;
    let ids: Vec<SecurityGroupRuleId> = rules.iter().map(|rule| rule.rule).collect();
    let limit = quotas::limit(&ctx, &project, "security_group_rule")?;
    security_groups::send(&ctx, &permit, &project, SecurityGroupCommand::AddRules { rules, limit }).await?;
    let made = ctx
        .views()?
        .security_groups
        .read(|view| ids.iter().filter_map(|id| view.rule(*id)).map(|rule| views::rule(rule)).collect::<Vec<Value>>());
    Ok(Reply::json(
        201,
        match ctx.body.get(BULK) {
            Some(_) => json!({BULK: made}),
            None => json!({"security_group_rule": made.into_iter().next()}),
        },
    ))
}

/// The rules of the body, their project, and the permit to add them.
fn asked(ctx: &Ctx) -> Result<(Vec<RuleAdded>, ProjectId, Permit), Fault> {
    let nothing = || Fault::bad_request("Resource body required");
    let bodies = match ctx.body.get(BULK) {
        None => vec![Attributes::of(ctx, "security_group_rule")?],
        Some(items) => {
            let maps = items.as_array().into_iter().flatten().map(|item| item.as_object().cloned());
            maps.map(|map| map.map(Attributes::from_map).ok_or_else(nothing)).collect::<Result<_, _>>()?
        }
    };
    let mut rules = Vec::with_capacity(bodies.len());
    let mut owner: Option<(ProjectId, Permit)> = None;
    for body in bodies {
        let (group, added) = read(ctx, body)?;
        let permit = ctx.authorize(&targets::group(&group))?;
        if owner.as_ref().is_some_and(|(project, _)| project != group.project()) {
            return Err(faults::invalid_input("the rules of one request belong to one project"));
        }
        owner = Some((group.project().clone(), permit));
        rules.push(added);
    }
    let (project, permit) = owner.ok_or_else(nothing)?;
    Ok((rules, project, permit))
}

async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let (group, rule) = find(&ctx)?;
    let permit = ctx.authorize(&targets::group(&group))?;
    preconditions::check(&ctx, views::RULE_REVISION)?;
    let command = SecurityGroupCommand::RemoveRule { rule: rule.added.rule };
    security_groups::send(&ctx, &permit, group.project(), command).await?;
    Ok(Reply::empty(204))
}

fn read(ctx: &Ctx, mut body: Attributes) -> Result<(Arc<SecurityGroup>, RuleAdded), Fault> {
    body.required("security_group_id")?;
    body.required("direction")?;
    let group: Option<SecurityGroupId> = body.id("security_group_id")?;
    let group = targets::find_group(ctx, &group.map(|id| id.to_string()).unwrap_or_default())?;
    // The rule belongs to the group's project, even if a caller of another project adds it.
    let _ = body.project()?;
    let description = body.text_or_null("description", LONG_TEXT)?.unwrap_or_default();
    let traffic = traffic(ctx, &mut body)?;
    if body.take("remote_address_group_id").is_some_and(|value| !value.is_null()) {
        return Err(faults::invalid_input("remote_address_group_id is not supported"));
    }
    body.finish()?;
    let rule = SecurityGroupRuleId::random();
    let added = RuleAdded { rule, group: group.id(), project: group.project().clone(), description, traffic };
    Ok((group, added))
}

fn traffic(ctx: &Ctx, body: &mut Attributes) -> Result<RuleTraffic, Fault> {
    let direction = match body.text("direction", 16)?.as_deref() {
        Some("ingress") => Direction::Ingress,
        Some("egress") => Direction::Egress,
        other => {
            let shown = other.unwrap_or("None");
            return Err(Fault::bad_request(format!(
                "Invalid input for direction. Reason: '{shown}' is not in ['ingress', 'egress']."
            )));
        }
    };
    let ethertype = match body.text_or_null("ethertype", 16)?.unwrap_or_default().to_ascii_lowercase().as_str() {
        "ipv4" | "" => Ethertype::Ipv4,
        "ipv6" => Ethertype::Ipv6,
        other => {
            return Err(Fault::bad_request(format!(
                "Invalid input for ethertype. Reason: '{other}' is not in ['IPv4', 'IPv6']."
            )));
        }
    };
    let remote_group: Option<SecurityGroupId> = body.id("remote_group_id")?;
    if let Some(id) = remote_group {
        targets::find_group(ctx, &id.to_string())?;
    }
    let traffic = RuleTraffic {
        direction,
        ethertype,
        protocol: protocol(body)?,
        port_min: port(body, "port_range_min")?,
        port_max: port(body, "port_range_max")?,
        remote_prefix: prefix(body, ethertype)?,
        remote_group,
    };
    check_protocol(&traffic)?;
    check_ports(&traffic)?;
    Ok(traffic)
}

/// Refuses a protocol that hosts cannot filter. Neutron accepts all protocols.
fn check_protocol(traffic: &RuleTraffic) -> Result<(), Fault> {
    let Some(name) = traffic.protocol.as_deref() else { return Ok(()) };
    match number(name) {
        // Hosts filter IGMP for IPv4 only.
        Some(number) if FILTERED.contains(&number) && (number != 2 || traffic.ethertype == Ethertype::Ipv4) => Ok(()),
        _ => Err(Fault::bad_request(format!(
            "Hosts cannot filter the protocol {name}. Use one of the protocols {FILTERED:?}, or a rule without a protocol."
        ))
        .key("SecurityGroupRuleInvalidProtocol")),
    }
}

/// The number of a protocol that is given by name or number.
fn number(name: &str) -> Option<u8> {
    let known = PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    known.or_else(|| name.parse().ok())
}

/// Takes the protocol, by name or number. `any`, an empty text and null mean every protocol.
fn protocol(body: &mut Attributes) -> Result<Option<String>, Fault> {
    let Some(value) = body.take("protocol").filter(|value| !value.is_null()) else { return Ok(None) };
    let text = match &value {
        Value::String(text) => text.to_ascii_lowercase(),
        other => other.to_string(),
    };
    let number = as_integer(&value).filter(|number| (0..=255).contains(number));
    match text.as_str() {
        "" | "any" => Ok(None),
        // A number is stored without leading zeros: `06` becomes `6`.
        _ if number.is_some() => Ok(number.map(|number| number.to_string())),
        known if PROTOCOLS.iter().any(|(name, _)| *name == known) => Ok(Some(text)),
        _ => {
            let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
            Err(Fault::bad_request(format!(
                "Security group rule protocol {text} not supported. Only protocol values {names:?} and integer \
                 representations [0 to 255] are supported."
            ))
            .key("SecurityGroupRuleInvalidProtocol"))
        }
    }
}

fn port(body: &mut Attributes, name: &str) -> Result<Option<u16>, Fault> {
    let Some(number) = body.integer(name)? else { return Ok(None) };
    u16::try_from(number).map(Some).map_err(|_| {
        Fault::bad_request(format!("Invalid value for port {number}")).key("SecurityGroupInvalidPortValue")
    })
}

fn prefix(body: &mut Attributes, ethertype: Ethertype) -> Result<Option<String>, Fault> {
    let Some(text) = body.text_or_null("remote_ip_prefix", 64)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let net = net.map_err(|_| {
        Fault::bad_request(format!("Invalid input for remote_ip_prefix. Reason: '{text}' is not a valid CIDR."))
    })?;
    if net.addr().is_ipv6() != (ethertype == Ethertype::Ipv6) {
        return Err(Fault::bad_request(format!(
            "Conflicting value ethertype {} for CIDR {text}",
            if ethertype == Ethertype::Ipv6 { "IPv6" } else { "IPv4" }
        ))
        .key("SecurityGroupRuleParameterConflict"));
    }
    // A single address becomes a prefix of full length. A prefix is stored as sent.
    Ok(Some(net.to_string()))
}

fn check_ports(traffic: &RuleTraffic) -> Result<(), Fault> {
    if traffic.port_min.is_none() && traffic.port_max.is_none() {
        return Ok(());
    }
    match traffic.protocol.as_deref().and_then(number) {
        None => Err(Fault::bad_request("Must also specify protocol if port range is given.")
            .key("SecurityGroupProtocolRequiredWithPorts")),
        // For ICMP the two port fields hold type and code, so any order is valid.
        Some(1 | 58) => Ok(()),
        // Only SCTP, TCP and UDP may have port ranges, and a range needs both ends. Hosts cannot filter UDP-Lite by
        // port.
        Some(132 | 6 | 17) => match (traffic.port_min, traffic.port_max) {
            (Some(min), Some(max)) if min > 0 && min <= max => Ok(()),
            _ => Err(Fault::bad_request("For TCP/UDP protocols, port_range_min must be <= port_range_max")
                .key("SecurityGroupInvalidPortRange")),
        },
        Some(_) => {
            let name = traffic.protocol.as_deref().unwrap_or_default();
            Err(Fault::bad_request(format!("Invalid port range specified for protocol {name}"))
                .key("SecurityGroupInvalidProtocolForPortRange"))
        }
    }
}
