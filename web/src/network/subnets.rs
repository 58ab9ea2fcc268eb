//! `/subnets`.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_actors::services::embedded::network::creation::NewNetworkResource;
use chronova_actors::services::embedded::network::{
    NetworkCommand, NetworkPart, NetworkRoot, SubnetGateway, SubnetPatch, SubnetRequest,
};
use chronova_events::ids::{NetworkId, ProjectId, SubnetId};
use chronova_events::network::{AllocationPool, HostRoute, Ipv6Mode};
use ipnet::IpNet;
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::attributes::LONG_TEXT;
use super::{answers, faults, listing, preconditions, quotas, targets, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete as delete_route, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("subnets.index", "/subnets", handler!(index)).policy_on_target("get_subnet").answers(answers::subnets).as_of(),
    post("subnets.create", "/subnets", handler!(create))
        .policy_on_target("create_subnet")
        .any_body()
        .answers(answers::subnet_created),
    get("subnets.show", "/subnets/{id}", handler!(show))
        .policy_on_target("get_subnet")
        .answers(answers::subnet_shown)
        .as_of(),
    put("subnets.update", "/subnets/{id}", handler!(update))
        .policy_on_target("update_subnet")
        .any_body()
        .answers(answers::subnet_shown),
    delete_route("subnets.delete", "/subnets/{id}", handler!(delete))
        .policy_on_target("delete_subnet")
        .answers(no_content),
];

const READ_ONLY: [&str; 9] = [
    "id",
    "tenant_id",
    "project_id",
    "network_id",
    "cidr",
    "ip_version",
    "subnetpool_id",
    "ipv6_ra_mode",
    "ipv6_address_mode",
];

/// `max_subnet_host_routes` of neutron.conf.
const MOST_ROUTES: usize = 20;
const MOST_POOLS: usize = 100;

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    let rows: Vec<_> = ctx.views()?.networks.read(|view| {
        let with_target = |row| (Arc::clone(row), targets::subnet(view, row));
        match network_filter(&ctx) {
            Some(network) => {
                view.whole(network).into_iter().flat_map(|network| network.subnets.values()).map(with_target).collect()
            }
            None => view.subnets().map(with_target).collect(),
        }
    });
    let visible = rows.iter().filter(|(_, target)| ctx.allows("get_subnet", target));
    let rows = visible.map(|(row, _)| views::subnet(row)).collect();
    listing::list(&ctx, "subnets", "subnets", rows)
}

/// The network that the query requests, if it requests exactly one. The listing then reads only the rows of this
/// network.
pub(super) fn network_filter(ctx: &Ctx) -> Option<NetworkId> {
    let mut named = ctx.query.all("network_id");
    match (named.next(), named.next()) {
        (Some(only), None) => only.parse().ok(),
        _ => None,
    }
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (row, target) = targets::find_subnet(&ctx, ctx.param("id"))?;
    ctx.authorize(&target)?;
    Ok(listing::one(&ctx, "subnet", views::subnet(&row)))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut body = Attributes::of(&ctx, "subnet")?;
    let row = targets::named_network(&ctx, &mut body, "network_id")?;
    let project = targets::owner(&ctx, body.project()?)?;
    let permit = ctx.authorize(&targets::within(&project, Some(&row)))?;
    let wanted = wanted(&ctx, body, &project)?;
    let (network, subnet) = (row.created.network, wanted.subnet);
    quotas::create(&ctx, &permit, NewNetworkResource::Subnet(network, wanted)).await?;
    let (row, _) = targets::find_subnet(&ctx, &subnet.to_string())?;
    Ok(Reply::json(201, json!({"subnet": views::subnet(&row)})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (row, target) = targets::find_subnet(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&target)?;
    let mut body = Attributes::of(&ctx, "subnet")?;
    body.refuse(&READ_ONLY)?;
    let patch = patch(&mut body)?;
    body.finish()?;
    check_reserved(&ctx, patch.gateway.flatten().map(IpNet::from))?;
    let network = row.added.network;
    let command = NetworkCommand::ChangeSubnet { subnet: row.added.subnet, patch };
    let command = preconditions::network(&ctx, NetworkPart::Subnet(row.added.subnet), command)?;
    dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, &permit, &network, command)
        .await
        .map_err(faults::network(network))?;
    let (row, _) = targets::find_subnet(&ctx, ctx.param("id"))?;
    Ok(listing::one(&ctx, "subnet", views::subnet(&row)))
}

async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let (row, target) = targets::find_subnet(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&target)?;
    let network = row.added.network;
    let command = NetworkCommand::RemoveSubnet { subnet: row.added.subnet };
    let command = preconditions::network(&ctx, NetworkPart::Subnet(row.added.subnet), command)?;
    dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, &permit, &network, command)
        .await
        .map_err(faults::network(network))?;
    Ok(Reply::empty(204))
}

/// Unless the caller is an administrator, refuses address ranges that belong to the operator's own networks. A
/// network's bridge on a host gets the gateway addresses of the network's subnets. Without this check, a project could
/// claim an address of the operator's network.
fn check_reserved(ctx: &Ctx, places: impl IntoIterator<Item = IpNet>) -> Result<(), Fault> {
    let reserved = &ctx.app.config.reserved_networks;
    let overlaps = |place: &IpNet| reserved.iter().any(|own| own.contains(place) || place.contains(own));
    match places.into_iter().find(overlaps) {
        Some(place) if !ctx.caller().is_admin => {
            Err(faults::invalid_input(format_args!("{place} overlaps with a network that the operator reserved")))
        }
        _ => Ok(()),
    }
}

fn wanted(ctx: &Ctx, mut body: Attributes, project: &ProjectId) -> Result<SubnetRequest, Fault> {
    for pool in ["subnetpool_id", "prefixlen", "use_default_subnetpool", "segment_id"] {
        if body.take(pool).is_some_and(|value| !value.is_null() && value != json!(false)) {
            return Err(faults::invalid_input(format_args!("{pool} is not supported")));
        }
    }
    if body.list("service_types")?.is_some_and(|types| !types.is_empty()) {
        return Err(faults::invalid_input("service_types is not supported"));
    }
    let _ = body.boolean("dns_publish_fixed_ip")?;
    body.required("ip_version")?;
    let version = body.integer("ip_version")?;
    let cidr: Option<IpNet> = body.parsed("cidr", "IP subnet")?;
    let cidr = cidr.ok_or_else(|| Fault::bad_request("a subnetpool must be specified in the absence of a cidr"))?;
    if version != Some(if cidr.addr().is_ipv4() { 4 } else { 6 }) {
        let version = version.map_or_else(|| "None".to_owned(), |version| version.to_string());
        return Err(faults::invalid_input(format_args!("cidr {cidr} does not match the ip_version {version}")));
    }
    let gateway = match body.take("gateway_ip") {
        None => SubnetGateway::Default,
        Some(Value::Null) => SubnetGateway::None,
        Some(value) => SubnetGateway::At(address("gateway_ip", &value)?),
    };
    check_reserved(ctx, [cidr])?;
    if let SubnetGateway::At(gateway) = gateway {
        check_reserved(ctx, [gateway.into()])?;
    }
    let modes = (mode(&mut body, "ipv6_address_mode")?, mode(&mut body, "ipv6_ra_mode")?);
    let patch = patch(&mut body)?;
    body.finish()?;
    Ok(SubnetRequest {
        subnet: SubnetId::random(),
        project: project.clone(),
        name: patch.name.unwrap_or_default(),
        description: patch.description.unwrap_or_default(),
        cidr,
        gateway,
        pools: patch.pools,
        dhcp: patch.dhcp.unwrap_or(true),
        dns: patch.dns.unwrap_or_default(),
        host_routes: patch.host_routes.unwrap_or_default(),
        ipv6_address_mode: modes.0,
        ipv6_ra_mode: modes.1,
        tags: Vec::new(),
    })
}

fn address(name: &str, value: &Value) -> Result<IpAddr, Fault> {
    value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Fault::bad_request(format!("Invalid input for {name}. Reason: '{value}' is not a valid IP address."))
    })
}

fn mode(body: &mut Attributes, name: &str) -> Result<Option<Ipv6Mode>, Fault> {
    let Some(text) = body.take(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let modes = [Ipv6Mode::Slaac, Ipv6Mode::Stateful, Ipv6Mode::Stateless];
    modes.into_iter().find(|mode| text == views::mode_name(*mode)).map(Some).ok_or_else(|| {
        let names = "['dhcpv6-stateful', 'dhcpv6-stateless', 'slaac']";
        Fault::bad_request(format!("Invalid input for {name}. Reason: {text} is not in {names}."))
    })
}

/// The settings that a request to create a subnet and a request to update it have in common.
fn patch(body: &mut Attributes) -> Result<SubnetPatch, Fault> {
    let gateway = match body.take("gateway_ip") {
        None => None,
        Some(Value::Null) => Some(None),
        Some(value) => Some(Some(address("gateway_ip", &value)?)),
    };
    Ok(SubnetPatch {
        name: body.text_or_null("name", 255)?,
        description: body.text_or_null("description", LONG_TEXT)?,
        gateway,
        pools: body.objects_up_to(MOST_POOLS, "allocation_pools", |pool| {
            let (start, end) = (pool.parsed("start", "IP address")?, pool.parsed("end", "IP address")?);
            let missing = || Fault::bad_request("Invalid input for allocation_pools. Reason: invalid data format.");
            Ok(AllocationPool { start: start.ok_or_else(missing)?, end: end.ok_or_else(missing)? })
        })?,
        dhcp: body.boolean("enable_dhcp")?,
        dns: body.addresses("dns_nameservers")?,
        host_routes: body.objects_up_to(MOST_ROUTES, "host_routes", |route| {
            let destination: Option<IpNet> = route.parsed("destination", "IP subnet")?;
            let nexthop: Option<IpAddr> = route.parsed("nexthop", "IP address")?;
            let missing = || Fault::bad_request("Invalid input for host_routes. Reason: invalid data format.");
            Ok(HostRoute {
                destination: destination.ok_or_else(missing)?.to_string(),
                nexthop: nexthop.ok_or_else(missing)?.to_string(),
            })
        })?,
        tags: None,
    })
}
