//! `/networks`.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_actors::services::embedded::network::creation::NewNetworkResource;
use chronova_actors::services::embedded::network::{NetworkCommand, NetworkPart, NetworkPatch, NetworkRoot};
use chronova_events::ids::{NetworkId, ProjectId};
use chronova_events::network::{NetworkCreated, NetworkRow, NetworkSettings, ProviderAttributes};
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::attributes::LONG_TEXT;
use super::{answers, faults, listing, preconditions, quotas, targets, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete as delete_route, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("networks.index", "/networks", handler!(index))
        .policy_on_target("get_network")
        .answers(answers::networks)
        .as_of(),
    post("networks.create", "/networks", handler!(create))
        .policy_on_target("create_network")
        .any_body()
        .answers(answers::network_created),
    get("networks.show", "/networks/{id}", handler!(show))
        .policy_on_target("get_network")
        .answers(answers::network_shown)
        .as_of(),
    put("networks.update", "/networks/{id}", handler!(update))
        .policy_on_target("update_network")
        .any_body()
        .answers(answers::network_shown),
    delete_route("networks.delete", "/networks/{id}", handler!(delete))
        .policy_on_target("delete_network")
        .answers(no_content),
];

/// Restricted attributes, with the rules for creating and for updating a network.
const GUARDED: [(&str, &str, &str); 6] = [
    ("is_default", "create_network:is_default", "update_network:is_default"),
    ("shared", "create_network:shared", "update_network:shared"),
    ("router:external", "create_network:router:external", "update_network:router:external"),
    ("provider:network_type", "create_network:provider:network_type", "update_network"),
    ("provider:physical_network", "create_network:provider:physical_network", "update_network"),
    ("provider:segmentation_id", "create_network:provider:segmentation_id", "update_network"),
];

const READ_ONLY: [&str; 9] = [
    "id",
    "tenant_id",
    "project_id",
    "status",
    "subnets",
    "availability_zone_hints",
    "provider:network_type",
    "provider:physical_network",
    "provider:segmentation_id",
];

pub(super) fn render(ctx: &Ctx, row: &NetworkRow) -> Result<Value, Fault> {
    let id = row.created.network;
    let subnets = ctx.views()?.networks.read(|view| subnet_ids(view.whole(id)));
    Ok(views::network(ctx, row, &subnets))
}

fn subnet_ids(network: Option<&chronova_events::network::Network>) -> Vec<String> {
    network.into_iter().flat_map(|network| network.subnets.keys()).map(ToString::to_string).collect()
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    let wanted: BTreeSet<NetworkId> = ctx.query.all("id").filter_map(|id| id.parse().ok()).collect();
    let rows: Vec<(Arc<NetworkRow>, Vec<String>)> = ctx.views()?.networks.read(|view| {
        let with_subnets = |row: &Arc<NetworkRow>| (Arc::clone(row), subnet_ids(view.whole(row.created.network)));
        match wanted.is_empty() {
            true => view.networks().map(with_subnets).collect(),
            false => wanted.iter().filter_map(|id| view.network(*id)).map(with_subnets).collect(),
        }
    });
    let visible = rows.iter().filter(|(row, _)| ctx.allows("get_network", &targets::network(row)));
    let rows = visible.map(|(row, subnets)| views::network(&ctx, row, subnets)).collect();
    listing::list(&ctx, "networks", "networks", rows)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_network(&ctx, ctx.param("id"))?;
    ctx.authorize(&targets::network(&row))?;
    Ok(listing::one(&ctx, "network", render(&ctx, &row)?))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut body = Attributes::of(&ctx, "network")?;
    let project = targets::owner(&ctx, body.project()?)?;
    let target = targets::new(&project);
    let permit = ctx.authorize(&target)?;
    guard(&ctx, &body, &target, false)?;
    let created = wanted(&ctx, body, project)?;
    let network = created.network;
    quotas::create(&ctx, &permit, NewNetworkResource::Network(created)).await?;
    let row = targets::find_network(&ctx, &network.to_string())?;
    Ok(Reply::json(201, json!({"network": render(&ctx, &row)?})))
}

/// The new network that the body describes.
fn wanted(ctx: &Ctx, mut body: Attributes, project: ProjectId) -> Result<NetworkCreated, Fault> {
    let provider = provider(&mut body)?;
    let availability_zone_hints = body.zone_hints()?;
    // The traffic of a physical network is not encapsulated.
    let tunnel = views::parts::plane(ctx).filter(|_| provider.physical_network.is_none());
    let settings = settings(patch(&mut body)?, tunnel.map(|plane| plane.tunnel_mtu()));
    body.finish()?;
    Ok(NetworkCreated { network: NetworkId::random(), project, settings, provider, availability_zone_hints })
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_network(&ctx, ctx.param("id"))?;
    let (id, target) = (row.created.network, targets::network(&row));
    let permit = ctx.authorize(&target)?;
    let mut body = Attributes::of(&ctx, "network")?;
    body.refuse(&READ_ONLY)?;
    guard(&ctx, &body, &target, true)?;
    let patch = patch(&mut body)?;
    body.finish()?;
    let command = preconditions::network(&ctx, NetworkPart::Network, NetworkCommand::Change(patch))?;
    dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, &permit, &id, command).await.map_err(faults::network(id))?;
    let row = targets::find_network(&ctx, ctx.param("id"))?;
    Ok(listing::one(&ctx, "network", render(&ctx, &row)?))
}

async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_network(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::network(&row))?;
    let id = row.created.network;
    let command = preconditions::network(&ctx, NetworkPart::Network, NetworkCommand::Delete)?;
    dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, &permit, &id, command).await.map_err(faults::network(id))?;
    Ok(Reply::empty(204))
}

/// Checks the policy rules of the guarded attributes in the body. In a request to create a network, `null` and `false`
/// need no rule. As in Neutron, an update needs the rule of each attribute that it names, whatever the value. Otherwise
/// it could remove a value that only an administrator may set.
fn guard(ctx: &Ctx, body: &Attributes, target: &PolicyTarget, update: bool) -> Result<(), Fault> {
    for (name, on_create, on_update) in GUARDED {
        if body.has(name) && (update || !body.is_false_or_null(name)) {
            ctx.authorize_rule(if update { on_update } else { on_create }, target)?;
        }
    }
    Ok(())
}

fn provider(body: &mut Attributes) -> Result<ProviderAttributes, Fault> {
    let network_type = body.text("provider:network_type", 32)?;
    let physical_network = body.text("provider:physical_network", 64)?;
    let segmentation_id = body.integer("provider:segmentation_id")?;
    let network_type = network_type.unwrap_or_else(|| "local".to_owned());
    let largest: Option<i64> = match network_type.as_str() {
        "local" | "flat" => None,
        "vlan" => Some(4094),
        "vxlan" | "geneve" => Some(16_777_215),
        "gre" => Some(i64::from(u32::MAX)),
        other => return Err(faults::invalid_input(format_args!("provider:network_type {other} not supported"))),
    };
    if matches!(network_type.as_str(), "flat" | "vlan") != physical_network.is_some() {
        let need = if physical_network.is_some() { "prohibited" } else { "required" };
        return Err(faults::invalid_input(format_args!(
            "provider:physical_network {need} for {network_type} provider network"
        )));
    }
    let segmentation_id = match (segmentation_id, largest) {
        (None, _) => None,
        (Some(id), Some(largest)) if (1..=largest).contains(&id) => u32::try_from(id).ok(),
        (Some(id), _) => {
            return Err(faults::invalid_input(format_args!(
                "provider:segmentation_id {id} is not valid for {network_type} provider network"
            )));
        }
    };
    Ok(ProviderAttributes { network_type, physical_network, segmentation_id })
}

fn patch(body: &mut Attributes) -> Result<NetworkPatch, Fault> {
    Ok(NetworkPatch {
        name: body.text_or_null("name", 255)?,
        description: body.text_or_null("description", LONG_TEXT)?,
        admin_state_up: body.boolean("admin_state_up")?,
        shared: body.boolean("shared")?,
        external: body.boolean("router:external")?,
        port_security: body.boolean("port_security_enabled")?,
        mtu: super::attributes::small(body, "mtu")?,
        dns_domain: body.text_or_null("dns_domain", 255)?,
        is_default: body.boolean("is_default")?,
        tags: None,
    })
}

/// `tunnel_mtu`: the default MTU if the traffic between hosts is encapsulated.
fn settings(patch: NetworkPatch, tunnel_mtu: Option<u32>) -> NetworkSettings {
    let default = NetworkSettings::default();
    NetworkSettings {
        name: patch.name.unwrap_or_default(),
        description: patch.description.unwrap_or_default(),
        admin_state_up: patch.admin_state_up.unwrap_or(default.admin_state_up),
        shared: patch.shared.unwrap_or(default.shared),
        external: patch.external.unwrap_or(default.external),
        port_security: patch.port_security.unwrap_or(default.port_security),
        // In Neutron, zero requests the default MTU.
        mtu: patch.mtu.filter(|mtu| *mtu != 0).or(tunnel_mtu).unwrap_or(default.mtu),
        dns_domain: patch.dns_domain.unwrap_or_default(),
        is_default: patch.is_default.unwrap_or(default.is_default),
        tags: Vec::new(),
    }
}
