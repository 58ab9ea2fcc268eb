//! `/os-security-group-rules` until 2.35: the ingress rules of a group. Source: nova
//! `api/openstack/compute/security_groups.py`, `network/security_group_api.py` (validation of rules).

use std::net::IpAddr;

use chronova_events::ids::{SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::{Direction, Ethertype, RuleTraffic};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::security_groups::{group, uuid};
use super::{networks, refused};
use crate::answers::accepted;
use crate::compute::answers::proxies as answers;
use crate::compute::bodies::proxies::{self as bodies, SecurityGroupRuleBody};
use crate::compute::views::security_group::rule as render;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, post};

pub(in crate::compute) const ROUTES: &[Route] = &[
    post("security_groups.SecurityGroupRules.create", "/os-security-group-rules", handler!(create))
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:rule:create")
        .body(bodies::security_group_rule_body)
        .answers(answers::security_group_rule),
    delete("security_groups.SecurityGroupRules.delete", "/os-security-group-rules/{id}", handler!(remove))
        .until(2, 35)
        .policy_on_target("os_compute_api:os-security-groups:rule:delete")
        .answers(accepted),
];

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: SecurityGroupRuleBody = ctx.parse_at("security_group_rule")?;
    let parent = group(&ctx, uuid(&body.parent_group_id)?).await?;
    ctx.authorize(&PolicyTarget::default().project(&parent.project))?;
    let traffic = traffic(&ctx, &body).await?;
    let made = networks(&ctx)?.add_rule(parent.id, traffic, &ctx.service_caller()).await.map_err(refused)?;
    Ok(Reply::ok(json!({"security_group_rule": render(&made)})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (id, caller) = (uuid::<SecurityGroupRuleId>(ctx.param("id"))?, ctx.service_caller());
    let found = networks(&ctx)?.find_rule(id, &caller).await.map_err(refused)?;
    let parent = group(&ctx, found.group).await?;
    ctx.authorize(&PolicyTarget::default().project(&parent.project))?;
    networks(&ctx)?.remove_rule(id, &caller).await.map_err(refused)?;
    Ok(Reply::empty(202))
}

async fn traffic(ctx: &Ctx, body: &SecurityGroupRuleBody) -> Result<RuleTraffic, Fault> {
    let source = body.group_id.as_deref().map(uuid::<SecurityGroupId>).transpose()?;
    if let Some(source) = source {
        group(ctx, source).await?;
    }
    let protocol = body.ip_protocol.as_deref().filter(|text| !text.is_empty()).map(str::to_ascii_lowercase);
    let ports = ports(body, protocol.as_deref(), source.is_some())?;
    let net = if source.is_some() { None } else { Some(cidr(body.cidr.as_deref())?) };
    let ethertype = if net.is_some_and(|net| net.addr().is_ipv6()) { Ethertype::Ipv6 } else { Ethertype::Ipv4 };
    Ok(RuleTraffic {
        direction: Direction::Ingress,
        ethertype,
        protocol: ports.map(|_| protocol).unwrap_or_default(),
        port_min: ports.and_then(|(from, _)| u16::try_from(from).ok()),
        port_max: ports.and_then(|(_, to)| u16::try_from(to).ok()),
        remote_prefix: net.map(|net| net.to_string()),
        remote_group: source,
    })
}

/// The first and last port, or ICMP type and code (-1 for all). `None` means all traffic, which needs a source group.
fn ports(body: &SecurityGroupRuleBody, protocol: Option<&str>, from_group: bool) -> Result<Option<(i64, i64)>, Fault> {
    let not_enough = || Fault::bad_request("Not enough parameters to build a valid rule.");
    let (from, to) = match (protocol, &body.from_port, &body.to_port) {
        (Some("icmp"), None, None) if from_group => return Ok(Some((-1, -1))),
        (Some("tcp" | "udp"), None, None) if from_group => return Ok(Some((1, 65_535))),
        (Some(_), Some(from), Some(to)) => (from, to),
        _ if from_group => return Ok(None),
        _ => return Err(not_enough()),
    };
    let protocol = protocol.unwrap_or_default();
    if !["icmp", "tcp", "udp"].contains(&protocol) {
        return Err(Fault::bad_request(format!("Invalid IP protocol {protocol}.")));
    }
    let both = integer(from).zip(integer(to)).ok_or_else(|| {
        Fault::bad_request(match protocol {
            "icmp" => "Invalid input received: Type and Code must be integers for ICMP protocol type",
            _ => "Invalid input received: To and From ports must be integers",
        })
    })?;
    check_range(protocol, both).map(Some)
}

fn check_range(protocol: &str, (from, to): (i64, i64)) -> Result<(i64, i64), Fault> {
    let wrong = |why: &str| Fault::bad_request(format!("Invalid port range {from}:{to}. {why}"));
    if protocol == "icmp" {
        let valid = (-1..=255).contains(&from) && (-1..=255).contains(&to);
        return if valid { Ok((from, to)) } else { Err(wrong("For ICMP, the type:code must be valid")) };
    }
    if from > to {
        return Err(wrong("Former value cannot be greater than the later"));
    }
    if from < 1 || to > 65_535 {
        return Err(wrong(&format!("Valid {} ports should be between 1-65535", protocol.to_uppercase())));
    }
    Ok((from, to))
}

fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// The source prefix. A rule without a prefix accepts any IPv4 address.
fn cidr(given: Option<&str>) -> Result<IpNet, Fault> {
    let text = given.unwrap_or("0.0.0.0/0").trim().to_owned();
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let net = net.map_err(|_| Fault::bad_request(format!("{text} is not a valid IP network.")))?;
    if net.prefix_len() == 0 && !net.addr().is_unspecified() {
        return Err(Fault::bad_request(format!("Bad prefix for network in cidr {text}")));
    }
    // The prefix is stored as sent, because Neutron keeps host bits, too.
    Ok(net)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(body: &Value, from_group: bool) -> Result<Option<(i64, i64)>, String> {
        let body: SecurityGroupRuleBody = serde_json::from_value(body.clone()).unwrap();
        ports(&body, body.ip_protocol.as_deref(), from_group).map_err(|fault| fault.message.clone())
    }

    #[test]
    fn protocol_and_ports_of_a_rule_are_checked() {
        let tcp = |from: Value, to: Value| json!({"ip_protocol": "tcp", "from_port": from, "to_port": to});
        assert_eq!(answer(&tcp(json!(22), json!("23")), false), Ok(Some((22, 23))));
        assert_eq!(answer(&json!({"ip_protocol": "tcp"}), true), Ok(Some((1, 65_535))));
        assert_eq!(answer(&json!({"ip_protocol": "icmp"}), true), Ok(Some((-1, -1))));
        assert_eq!(answer(&json!({}), true), Ok(None));
        let refused = |body: &Value, words: &str| {
            let message = answer(body, false).unwrap_err();
            assert!(message.contains(words), "{message}");
        };
        refused(&json!({"ip_protocol": "tcp"}), "Not enough parameters");
        refused(&json!({"from_port": 1, "to_port": 2}), "Not enough parameters");
        refused(&tcp(json!("a"), json!(1)), "ports must be integers");
        refused(&tcp(json!(9), json!(1)), "Former value cannot be greater");
        refused(&tcp(json!(0), json!(1)), "Valid TCP ports should be between 1-65535");
        refused(&json!({"ip_protocol": "icmp", "from_port": 256, "to_port": 0}), "For ICMP");
        refused(&json!({"ip_protocol": "gre", "from_port": 1, "to_port": 1}), "Invalid IP protocol gre.");
    }

    #[test]
    fn a_source_is_a_network() {
        assert_eq!(cidr(None).unwrap().to_string(), "0.0.0.0/0");
        assert_eq!(cidr(Some("10.0.0.7/8")).unwrap().to_string(), "10.0.0.7/8", "the prefix lost its host bits");
        assert_eq!(cidr(Some("2001:db8::1")).unwrap().to_string(), "2001:db8::1/128");
        assert!(cidr(Some("10.0.0.0/0")).is_err(), "everything is 0.0.0.0/0");
        assert!(cidr(Some("nonsense")).is_err());
    }
}
