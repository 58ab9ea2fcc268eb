//! `/network-ip-availabilities`: the total and the used number of addresses of networks.

use chronova_events::network::{Network, Subnet};
use serde_json::{Value, json};

use super::{answers, faults, listing, targets};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("ip_availabilities.index", "/network-ip-availabilities", handler!(index))
        .policy("get_network_ip_availability")
        .answers(answers::ip_availabilities)
        .as_of(),
    get("ip_availabilities.show", "/network-ip-availabilities/{id}", handler!(show))
        .policy("get_network_ip_availability")
        .answers(answers::ip_availability_shown)
        .as_of(),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let version = ctx.query.last("ip_version").and_then(|text| text.parse().ok());
    let rows = ctx.views()?.networks.read(|view| {
        let networks = view.networks().filter_map(|row| view.whole(row.created.network));
        networks.filter_map(|network| render(network, version)).collect()
    });
    listing::list(&ctx, "network_ip_availabilities", "network-ip-availabilities", rows)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_network(&ctx, ctx.param("id"))?;
    let id = row.created.network;
    let shown = ctx.views()?.networks.read(|view| view.whole(id).and_then(|network| render(network, None)));
    let shown = shown.ok_or_else(|| faults::not_found("NetworkNotFound", "Network", ctx.param("id")))?;
    Ok(listing::one(&ctx, "network_ip_availability", shown))
}

fn render(network: &Network, version: Option<u8>) -> Option<Value> {
    let row = network.row.as_ref()?;
    let of_version = |subnet: &&std::sync::Arc<Subnet>| {
        version.is_none_or(|version| (version == 4) == subnet.added.cidr.addr().is_ipv4())
    };
    let (mut total, mut used) = (0.0, 0);
    let mut subnets = Vec::new();
    for subnet in network.subnets.values().filter(of_version) {
        let size: f64 = subnet.added.settings.pools.iter().map(chronova_events::network::AllocationPool::size).sum();
        let held = network.ipam(subnet.added.subnet).map_or(0, chronova_events::network::ipam::Ipam::held_count);
        (total, used) = (total + size, used + held);
        subnets.push(json!({
            "subnet_id": subnet.added.subnet,
            "subnet_name": subnet.added.settings.name,
            "cidr": subnet.added.cidr,
            "ip_version": if subnet.added.cidr.addr().is_ipv4() { 4 } else { 6 },
            "total_ips": whole(size),
            "used_ips": held,
        }));
    }
    Some(json!({
        "network_id": row.created.network,
        "network_name": row.settings().name,
        "tenant_id": row.created.project,
        "project_id": row.created.project,
        "total_ips": whole(total),
        "used_ips": used,
        "subnet_ip_availability": subnets,
    }))
}

/// A count of addresses. As in Neutron, a count that exceeds the exact integers of JSON readers is rounded.
fn whole(count: f64) -> Value {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 2^53 and never negative
    if count < 9_007_199_254_740_992.0 { json!(count as u64) } else { json!(count) }
}
