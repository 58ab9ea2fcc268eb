//! `/ports`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use chronova_actors::services::embedded::network::creation::NewNetworkResource;
use chronova_actors::services::embedded::network::{
    FixedIpRequest, NetworkCommand, NetworkPart, PortPatch, PortRequest,
};
use chronova_events::ids::{FloatingIpId, PortId, ProjectId, RouterId, SecurityGroupId};
use chronova_events::network::{AddressPair, DhcpOption, FLOATING_IP_OWNER, Port, PortBinding, PortSettings};
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::attributes::LONG_TEXT;
use super::subnets::network_filter;
use super::{answers, faults, gateways, listing, preconditions, quotas, security_groups, tags, targets, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete as delete_route, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("ports.index", "/ports", handler!(index)).policy_on_target("get_port").answers(answers::ports).as_of(),
    post("ports.create", "/ports", handler!(create))
        .policy_on_target("create_port")
        .any_body()
        .answers(answers::port_created),
    get("ports.show", "/ports/{id}", handler!(show)).policy_on_target("get_port").answers(answers::port_shown).as_of(),
    put("ports.update", "/ports/{id}", handler!(update))
        .policy_on_target("update_port")
        .any_body()
        .answers(answers::port_shown),
    delete_route("ports.delete", "/ports/{id}", handler!(delete)).policy_on_target("delete_port").answers(no_content),
];

/// Restricted attributes, with the rules for creating and for updating a port.
const GUARDED: [(&str, &str, &str); 8] = [
    ("device_owner", "create_port:device_owner", "update_port:device_owner"),
    ("mac_address", "create_port:mac_address", "update_port:mac_address"),
    ("port_security_enabled", "create_port:port_security_enabled", "update_port:port_security_enabled"),
    ("allowed_address_pairs", "create_port:allowed_address_pairs", "update_port:allowed_address_pairs"),
    ("binding:host_id", "create_port:binding:host_id", "update_port:binding:host_id"),
    ("binding:profile", "create_port:binding:profile", "update_port:binding:profile"),
    ("binding:vnic_type", "create_port:binding:vnic_type", "update_port:binding:vnic_type"),
    ("fixed_ips", "create_port:fixed_ips", "update_port:fixed_ips"),
];

const READ_ONLY: [&str; 7] =
    ["id", "tenant_id", "project_id", "network_id", "status", "binding:vif_type", "binding:vif_details"];

/// The most DHCP options of a port. The number is bounded, because each change of a port writes all of them.
const MOST_OPTIONS: usize = 50;

/// The most address pairs of a port: Neutron's `max_allowed_address_pair`.
const MOST_PAIRS: usize = 10;

const VNIC_TYPES: [&str; 6] = ["normal", "direct", "macvtap", "direct-physical", "vdpa", "remote-managed"];

fn render(ctx: &Ctx, row: &Port) -> Result<Value, Fault> {
    Ok(ctx.views()?.networks.read(|view| views::port(ctx, view, row)))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    let rows = candidates(&ctx)?;
    let rows = ctx.views()?.networks.read(|view| {
        let visible = rows.iter().filter(|row| ctx.allows("get_port", &targets::port(view, row)));
        visible.map(|row| views::port(&ctx, view, row)).collect()
    });
    listing::list(&ctx, "ports", "ports", rows)
}

/// The ports that may be in the answer. An index finds them if the query names devices, ids or a network, or if the
/// caller does not see the ports of all projects.
fn candidates(ctx: &Ctx) -> Result<Vec<Arc<Port>>, Fault> {
    let devices: BTreeSet<&str> = ctx.query.all("device_id").filter(|device| !device.is_empty()).collect();
    let ids: BTreeSet<PortId> = ctx.query.all("id").filter_map(|id| id.parse().ok()).collect();
    let project = ctx.caller().project.clone().filter(|_| !targets::reaches_all(ctx, "get_port"));
    Ok(ctx.views()?.networks.read(|view| {
        if !devices.is_empty() {
            devices.iter().flat_map(|device| view.of_device(device)).cloned().collect()
        } else if !ids.is_empty() {
            ids.iter().filter_map(|id| view.port(*id)).cloned().collect()
        } else if let Some(network) = network_filter(ctx) {
            view.whole(network).into_iter().flat_map(|network| network.ports.values()).cloned().collect()
        } else if let Some(project) = project {
            let Some(held) = view.held(&project) else { return Vec::new() };
            // The ports of the project, and the ports of other projects on this project's networks.
            let foreign = held.networks.iter().filter_map(|id| view.whole(*id)).flat_map(|n| n.ports.values());
            let foreign = foreign.filter(|port| !held.ports.contains(&port.created.port));
            held.ports.iter().filter_map(|id| view.port(*id)).chain(foreign).cloned().collect()
        } else {
            view.ports().cloned().collect()
        }
    }))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (row, target) = targets::find_port(&ctx, ctx.param("id"))?;
    ctx.authorize(&target)?;
    Ok(listing::one(&ctx, "port", render(&ctx, &row)?))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut body = Attributes::of(&ctx, "port")?;
    let row = targets::named_network(&ctx, &mut body, "network_id")?;
    let project = targets::owner(&ctx, body.project()?)?;
    let target = of_owner(targets::within(&project, Some(&row)), &body);
    let permit = ctx.authorize(&target)?;
    guard(&ctx, &body, &target, false)?;
    let wanted = wanted(&ctx, body, project)?;
    let (port, groups) = (wanted.port, wanted.security_groups.as_deref().unwrap_or_default());
    security_groups::check(&ctx, &permit, &wanted.project, groups).await?;
    quotas::create(&ctx, &permit, NewNetworkResource::Port(row.created.network, wanted)).await?;
    let (row, _) = targets::find_port(&ctx, &port.to_string())?;
    Ok(Reply::json(201, json!({"port": render(&ctx, &row)?})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (row, target) = targets::find_port(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&target)?;
    let patch = change(&ctx, &row, &target)?;
    let groups = patch.security_groups.as_deref().unwrap_or_default();
    security_groups::check(&ctx, &permit, &row.created.project, groups).await?;
    let command = NetworkCommand::ChangePort { port: row.created.port, patch };
    let command = preconditions::network(&ctx, NetworkPart::Port(row.created.port), command)?;
    gateways::send(&ctx, &permit, row.created.network, command).await?;
    let (row, _) = targets::find_port(&ctx, ctx.param("id"))?;
    Ok(listing::one(&ctx, "port", render(&ctx, &row)?))
}

/// The change of the port that the body describes.
fn change(ctx: &Ctx, row: &Port, target: &PolicyTarget) -> Result<PortPatch, Fault> {
    let mut body = Attributes::of(ctx, "port")?;
    body.refuse(&READ_ONLY)?;
    guard(ctx, &body, target, true)?;
    let mut patch = patch(&mut body, ctx)?;
    body.finish()?;
    patch.tags = patch.tags.map(|tags| tags::with_settings(tags, &row.settings().tags)).transpose()?;
    let binding = row.binding();
    if patch.owner.is_some() || patch.device.is_some() {
        let owner = patch.owner.as_deref().unwrap_or(&binding.owner);
        check_router(ctx, Some(owner), Some(patch.device.as_deref().unwrap_or(&binding.device)))?;
    }
    Ok(patch)
}

async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let (row, target) = targets::find_port(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&target)?;
    check_deletable(&ctx, &row)?;
    let command = NetworkCommand::DeletePort { port: row.created.port };
    let command = preconditions::network(&ctx, NetworkPart::Port(row.created.port), command)?;
    gateways::send(&ctx, &permit, row.created.network, command).await?;
    Ok(Reply::empty(204))
}

/// Refuses to delete a port with addresses if it belongs to a router or a floating address that still exists. Such a
/// port is deleted through its owner.
fn check_deletable(ctx: &Ctx, row: &Port) -> Result<(), Fault> {
    let (device, owner) = (row.binding().device.as_str(), row.binding().owner.as_str());
    let stands = ctx.views()?.networks.read(|view| match owner {
        GATEWAY_OWNER | INTERFACE_OWNER => device.parse::<RouterId>().is_ok_and(|id| view.router(id).is_some()),
        FLOATING_IP_OWNER => device.parse::<FloatingIpId>().is_ok_and(|id| view.floating_ip(id).is_some()),
        _ => false,
    });
    if stands && !row.addresses().is_empty() {
        return Err(Fault::conflict(format!(
            "Port {} cannot be deleted directly via the port API: has device owner {owner}.",
            row.created.port
        ))
        .key("ServicePortInUse"));
    }
    Ok(())
}

/// Refuses to make a port the interface or gateway of another project's router, unless the caller is an administrator.
/// The policy rule of `device_owner` does not suffice. It lets services set such an owner, and afterwards the port's
/// project could change the `device_id`.
fn check_router(ctx: &Ctx, owner: Option<&str>, device: Option<&str>) -> Result<(), Fault> {
    let (Some(GATEWAY_OWNER | INTERFACE_OWNER), Some(device)) = (owner, device) else { return Ok(()) };
    let Ok(router) = device.parse::<RouterId>() else { return Ok(()) };
    let row = ctx.views()?.networks.read(|view| view.router(router).cloned());
    let own = |project: &ProjectId| ctx.caller().project.as_ref() == Some(project);
    match row {
        Some(row) if !ctx.caller().is_admin && !own(row.project()) => Err(Fault::conflict(format!(
            "The following device_id {device} is not owned by your tenant or matches another tenants router."
        ))
        .key("DeviceIDNotOwnedByTenant")),
        _ => Ok(()),
    }
}

/// Adds the kind of device owner that the body names to `target`.
fn of_owner(target: PolicyTarget, body: &Attributes) -> PolicyTarget {
    let owner = body.peek("device_owner").and_then(Value::as_str).unwrap_or_default();
    target.with("device_owner_kind", owner.split(':').next().unwrap_or_default())
}

/// Checks the policy rules of the guarded attributes in the body. In a request to create a port, default values need no
/// rule. An update needs the rule of each attribute that it names, even if the value is the default, as in Neutron. For
/// example, an empty `binding:host_id` unbinds the port.
fn guard(ctx: &Ctx, body: &Attributes, target: &PolicyTarget, update: bool) -> Result<(), Fault> {
    // The rules check the kind of owner that the body names, not the kind of the port's previous owner.
    let target = &of_owner(target.clone(), body);
    for (name, on_create, on_update) in GUARDED {
        if body.has(name) && (update || !body.is_default(name)) {
            ctx.authorize_rule(if update { on_update } else { on_create }, target)?;
        }
    }
    // Choosing an address needs a stricter rule than choosing a subnet.
    let names_address = |fixed: &Value| fixed.get("ip_address").is_some_and(|address| !address.is_null());
    let named = body.peek("fixed_ips").and_then(Value::as_array).is_some_and(|ips| ips.iter().any(names_address));
    if named {
        let rule = if update { "update_port:fixed_ips:ip_address" } else { "create_port:fixed_ips:ip_address" };
        ctx.authorize_rule(rule, target)?;
    }
    Ok(())
}

/// The new port that the body describes.
fn wanted(ctx: &Ctx, mut body: Attributes, project: ProjectId) -> Result<PortRequest, Fault> {
    let patch = patch(&mut body, ctx)?;
    let propagate_uplink_status = body.boolean("propagate_uplink_status")?.unwrap_or(true);
    body.finish()?;
    check_router(ctx, patch.owner.as_deref(), patch.device.as_deref())?;
    let default = PortSettings::default();
    Ok(PortRequest {
        port: PortId::random(),
        project,
        mac: patch.mac,
        addresses: patch.addresses,
        settings: PortSettings {
            name: patch.name.unwrap_or_default(),
            description: patch.description.unwrap_or_default(),
            admin_state_up: patch.admin_state_up.unwrap_or(default.admin_state_up),
            allowed_address_pairs: patch.allowed_address_pairs.unwrap_or_default(),
            dhcp_options: patch.dhcp_options.unwrap_or_default(),
            dns_name: patch.dns_name.unwrap_or_default(),
            dns_domain: patch.dns_domain.unwrap_or_default(),
            vnic_type: patch.vnic_type.unwrap_or(default.vnic_type),
            profile: patch.profile.unwrap_or(default.profile),
            propagate_uplink_status,
            ..PortSettings::default()
        },
        port_security: patch.port_security,
        security_groups: patch.security_groups,
        binding: PortBinding {
            device: patch.device.unwrap_or_default(),
            owner: patch.owner.unwrap_or_default(),
            host: patch.host.unwrap_or_default(),
        },
        made_for: None,
    })
}

fn patch(body: &mut Attributes, ctx: &Ctx) -> Result<PortPatch, Fault> {
    if body.take("qos_policy_id").is_some_and(|value| !value.is_null()) {
        return Err(faults::invalid_input("qos_policy_id is not supported"));
    }
    Ok(PortPatch {
        name: body.text_or_null("name", 255)?,
        description: body.text_or_null("description", LONG_TEXT)?,
        admin_state_up: body.boolean("admin_state_up")?,
        mac: mac(body, "mac_address")?,
        addresses: fixed_ips(body)?,
        port_security: body.boolean("port_security_enabled")?,
        security_groups: groups(body)?,
        allowed_address_pairs: pairs(body)?,
        dhcp_options: options(body)?,
        dns_name: body.text_or_null("dns_name", 255)?,
        dns_domain: body.text_or_null("dns_domain", 255)?,
        vnic_type: vnic_type(body)?,
        profile: profile(body)?,
        device: body.text_or_null("device_id", 255)?,
        owner: body.text_or_null("device_owner", 255)?,
        host: body.text_or_null("binding:host_id", 255)?,
        tags: if ctx.route.op == "ports.create" { None } else { body.texts("tags")? },
    })
}

/// Takes a MAC address, and returns it in lower case with colons. As in Neutron, only the addresses with all bits 0 or
/// all bits 1 are refused.
fn mac(body: &mut Attributes, name: &str) -> Result<Option<String>, Fault> {
    let Some(text) = body.text_or_null(name, 32)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let octets = octets(&text).filter(|octets| ![[0; 6], [0xff; 6]].contains(octets));
    octets.map(|octets| Some(octets.map(|octet| format!("{octet:02x}")).join(":"))).ok_or_else(|| {
        Fault::bad_request(format!("Invalid input for {name}. Reason: '{text}' is not a valid MAC address."))
    })
}

/// The spellings that Neutron takes (netaddr's): `fa:16:3e:0:1:2`, `fa-16-3e-00-01-02`, `fa16:3e00:0102`,
/// `fa16.3e00.0102`, `fa163e-000102`, `fa163e000102`. Zeros at the beginning of a part may be missing.
fn octets(text: &str) -> Option<[u8; 6]> {
    let separator = [':', '-', '.'].into_iter().find(|separator| text.contains(*separator));
    let parts: Vec<&str> = separator.map_or_else(|| vec![text], |separator| text.split(separator).collect());
    let widths = match (separator, parts.len()) {
        (Some(':' | '-'), 6) => 1..=2,
        (Some(_), 3) => 1..=4,
        (Some(':' | '-'), 2) => 5..=6,
        (None, 1) => 11..=12,
        _ => return None,
    };
    let widest = *widths.end();
    let digits = parts.iter().try_fold(String::new(), |digits, part| {
        let hexadecimal = widths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        hexadecimal.then(|| format!("{digits}{part:0>widest$}"))
    })?;
    let number = u64::from_str_radix(&digits, 16).ok()?;
    let [_, _, octets @ ..] = number.to_be_bytes();
    Some(octets)
}

fn fixed_ips(body: &mut Attributes) -> Result<Option<Vec<FixedIpRequest>>, Fault> {
    body.objects("fixed_ips", |fixed| {
        let address: Option<IpAddr> = fixed.parsed("ip_address", "IP address")?;
        Ok(FixedIpRequest { subnet: fixed.id("subnet_id")?, address })
    })
}

fn groups(body: &mut Attributes) -> Result<Option<Vec<SecurityGroupId>>, Fault> {
    let mut groups: Option<Vec<SecurityGroupId>> = body.ids("security_groups")?;
    if let Some(groups) = &mut groups {
        groups.sort();
        groups.dedup();
    }
    Ok(groups)
}

fn pairs(body: &mut Attributes) -> Result<Option<Vec<AddressPair>>, Fault> {
    if body.count("allowed_address_pairs") > MOST_PAIRS {
        let message = format!("The number of allowed address pair exceeds the maximum {MOST_PAIRS}.");
        return Err(Fault::bad_request(message).key("AllowedAddressPairExhausted"));
    }
    body.objects("allowed_address_pairs", |pair| {
        pair.required("ip_address")?;
        let text = pair.text("ip_address", 64)?.unwrap_or_default();
        if text.parse::<IpAddr>().is_err() && text.parse::<IpNet>().is_err() {
            return Err(Fault::bad_request(format!(
                "Invalid input for allowed_address_pairs. Reason: '{text}' is not a valid IP address or subnet."
            )));
        }
        Ok(AddressPair { address: text, mac: mac(pair, "mac_address")? })
    })
}

fn options(body: &mut Attributes) -> Result<Option<Vec<DhcpOption>>, Fault> {
    let read = body.objects_up_to(MOST_OPTIONS, "extra_dhcp_opts", |option| {
        option.required("opt_name")?;
        let version = option.integer("ip_version")?;
        Ok(DhcpOption {
            name: option.text("opt_name", 64)?.unwrap_or_default(),
            value: option.text_or_null("opt_value", 255)?.unwrap_or_default(),
            ip_version: if version == Some(6) { 6 } else { 4 },
        })
    })?;
    // An option without a value is removed.
    Ok(read.map(|options| options.into_iter().filter(|option| !option.value.is_empty()).collect()))
}

fn vnic_type(body: &mut Attributes) -> Result<Option<String>, Fault> {
    let Some(text) = body.text("binding:vnic_type", 64)? else { return Ok(None) };
    if VNIC_TYPES.contains(&text.as_str()) {
        Ok(Some(text))
    } else {
        Err(Fault::bad_request(format!(
            "Invalid input for binding:vnic_type. Reason: '{text}' is not in {VNIC_TYPES:?}."
        )))
    }
}

fn profile(body: &mut Attributes) -> Result<Option<String>, Fault> {
    match body.take("binding:profile") {
        None => Ok(None),
        Some(Value::Null) => Ok(Some("{}".to_owned())),
        Some(value @ Value::Object(_)) => match value.to_string() {
            text if text.len() <= 4096 => Ok(Some(text)),
            _ => Err(faults::invalid_input("binding:profile value too large")),
        },
        Some(_) => Err(Fault::bad_request("Invalid input for binding:profile. Reason: it is not a dictionary.")),
    }
}
