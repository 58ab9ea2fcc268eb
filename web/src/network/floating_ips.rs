//! `/floatingips`: addresses of external networks that are mapped to fixed addresses of ports.
//!
//! Source: neutron `db/l3_db.py`, neutron-lib `exceptions/l3.py`.

use std::net::IpAddr;
use std::sync::Arc;

use chronova_actors::services::embedded::network::floating_ips::{self, FloatingIpTargetReject};
use chronova_actors::services::embedded::network::{
    FixedIpRequest, FloatingIpPatch, FloatingIpRequest, NetworkCommand, NetworkPart, NetworkRoot,
};
use chronova_events::ids::{NetworkId, PortId, ProjectId, SubnetId};
use chronova_events::network::{Association, FloatingIp, FloatingIpSettings, NetworkRow, Port};
use chronova_projections::networks::NetworksView;
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::attributes::LONG_TEXT;
use super::{answers, faults, listing, preconditions, quotas, targets, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, delete as delete_route, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("floating_ips.index", "/floatingips", handler!(index))
        .policy_on_target("get_floatingip")
        .answers(answers::floating_ips)
        .as_of(),
    post("floating_ips.create", "/floatingips", handler!(create))
        .policy_on_target("create_floatingip")
        .any_body()
        .answers(answers::floating_ip_created),
    get("floating_ips.show", "/floatingips/{id}", handler!(show))
        .policy_on_target("get_floatingip")
        .answers(answers::floating_ip_shown)
        .as_of(),
    put("floating_ips.update", "/floatingips/{id}", handler!(update))
        .policy_on_target("update_floatingip")
        .any_body()
        .answers(answers::floating_ip_shown),
    delete_route("floating_ips.delete", "/floatingips/{id}", handler!(delete))
        .policy_on_target("delete_floatingip")
        .answers(no_content),
];

const READ_ONLY: [&str; 10] = [
    "id",
    "tenant_id",
    "project_id",
    "floating_ip_address",
    "floating_network_id",
    "subnet_id",
    "router_id",
    "status",
    "dns_name",
    "dns_domain",
];

fn render(ctx: &Ctx, row: &FloatingIp) -> Result<Value, Fault> {
    Ok(views::routing::floating_ip(ctx, ctx.views()?, row))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    let rows = visible(&ctx)?;
    let rows = rows.iter().map(|row| render(&ctx, row)).collect::<Result<_, _>>()?;
    listing::list(&ctx, "floatingips", "floatingips", rows)
}

/// The floating addresses that the caller may see, in the order of their ids.
fn visible(ctx: &Ctx) -> Result<Vec<Arc<FloatingIp>>, Fault> {
    let rows: Vec<Arc<FloatingIp>> = ctx.views()?.networks.read(|view| {
        match ctx.caller().project.as_ref().filter(|_| !targets::reaches_all(ctx, "get_floatingip")) {
            Some(project) => {
                let held = view.held(project).into_iter().flat_map(|held| &held.floating_ips);
                held.filter_map(|id| view.floating_ip(*id)).cloned().collect()
            }
            None => view.floating_ips().cloned().collect(),
        }
    });
    Ok(rows.into_iter().filter(|row| targets::allows(ctx, "get_floatingip", &targets::floating_ip(row))).collect())
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_floating_ip(&ctx, ctx.param("id"))?;
    ctx.authorize(&targets::floating_ip(&row))?;
    Ok(listing::one(&ctx, "floatingip", render(&ctx, &row)?))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut body = Attributes::of(&ctx, "floatingip")?;
    let network = targets::named_network(&ctx, &mut body, "floating_network_id")?;
    let project = targets::owner(&ctx, body.project()?)?;
    let permit = ctx.authorize(&targets::new(&project))?;
    // As in Neutron, the network is checked before the port.
    check_external(&network)?;
    let wanted = wanted(&ctx, body, &network, project)?;
    let row = allocate(&ctx, &permit, &network, wanted).await?;
    Ok(Reply::json(201, json!({"floatingip": render(&ctx, &row)?})))
}

fn check_external(network: &NetworkRow) -> Result<(), Fault> {
    if network.settings().external {
        return Ok(());
    }
    let id = network.created.network;
    Err(faults::bad("floatingip", format_args!("Network {id} is not a valid external network")))
}

/// The new floating address that the body describes.
fn wanted(
    ctx: &Ctx,
    mut body: Attributes,
    network: &NetworkRow,
    project: ProjectId,
) -> Result<FloatingIpRequest, Fault> {
    if body.take("qos_policy_id").is_some_and(|value| !value.is_null()) {
        return Err(faults::invalid_input("qos_policy_id is not supported"));
    }
    if !body.is_default("floating_ip_address") {
        ctx.authorize_rule("create_floatingip:floating_ip_address", &targets::within(&project, Some(network)))?;
    }
    let address: Option<IpAddr> = body.parsed("floating_ip_address", "IP address")?;
    let subnet: Option<SubnetId> = body.id("subnet_id")?;
    let settings = FloatingIpSettings {
        description: body.text_or_null("description", LONG_TEXT)?.unwrap_or_default(),
        dns_name: body.text_or_null("dns_name", 255)?.unwrap_or_default(),
        dns_domain: body.text_or_null("dns_domain", 255)?.unwrap_or_default(),
        tags: Vec::new(),
    };
    let requested = PortAssociation::of(&mut body)?;
    body.finish()?;
    let association = requested.resolve(ctx, &project, network.created.network)?.flatten();
    let address = Some(FixedIpRequest { subnet, address });
    Ok(FloatingIpRequest { address, settings, association, ..floating_ips::any(project) })
}

/// Allocates a floating address of the network, if the project's quota allows one more.
async fn allocate(
    ctx: &Ctx,
    permit: &Permit,
    network: &NetworkRow,
    mut wanted: FloatingIpRequest,
) -> Result<Arc<FloatingIp>, Fault> {
    let dispatch = ctx.app.dispatch()?;
    let (id, network) = (wanted.floating_ip, network.created.network);
    let _turn = match dispatch.queries().networks.resources() {
        Some(resources) => resources.floating_ip_turn(&wanted.project).await,
        None => None,
    };
    wanted.limit = quotas::limit(ctx, &wanted.project, "floatingip")?;
    let elsewhere = |view: &NetworksView| floating_ips::elsewhere(view, &wanted.project, network);
    wanted.elsewhere = dispatch.queries().views.networks.read(elsewhere);
    dispatch::send::<NetworkRoot>(dispatch, permit, &network, NetworkCommand::AllocateFloatingIp(wanted))
        .await
        .map_err(faults::network(network))?;
    let row = dispatch.queries().views.networks.read(|view| view.floating_ip(id).cloned());
    row.ok_or_else(|| faults::floating_ip_not_found(&id.to_string()))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_floating_ip(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::floating_ip(&row))?;
    let mut body = Attributes::of(&ctx, "floatingip")?;
    body.refuse(&READ_ONLY)?;
    let description = body.text_or_null("description", LONG_TEXT)?;
    let requested = PortAssociation::of(&mut body)?;
    body.finish()?;
    let association = requested.resolve(&ctx, row.project(), row.network())?;
    let patch = FloatingIpPatch { description, association, tags: None };
    change(&ctx, &permit, &row, patch).await?;
    let row = targets::find_floating_ip(&ctx, ctx.param("id"))?;
    Ok(listing::one(&ctx, "floatingip", render(&ctx, &row)?))
}

pub(super) async fn change(ctx: &Ctx, permit: &Permit, row: &FloatingIp, patch: FloatingIpPatch) -> Result<(), Fault> {
    let network = row.network();
    let command = NetworkCommand::ChangeFloatingIp { floating_ip: row.id(), patch };
    let command = preconditions::network(ctx, NetworkPart::FloatingIp(row.id()), command)?;
    dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, permit, &network, command)
        .await
        .map(drop)
        .map_err(faults::network(network))
}

async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_floating_ip(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::floating_ip(&row))?;
    let network = row.network();
    let command = NetworkCommand::ReleaseFloatingIp { floating_ip: row.id() };
    let command = preconditions::network(&ctx, NetworkPart::FloatingIp(row.id()), command)?;
    let sent = dispatch::send::<NetworkRoot>(ctx.app.dispatch()?, &permit, &network, command).await;
    sent.map_err(faults::network(network))?;
    Ok(Reply::empty(204))
}

/// The association that a body requests.
#[derive(Debug)]
enum PortAssociation {
    /// The body does not name a port, so the association stays as it is.
    Keep,
    Nothing,
    At(PortId, Option<IpAddr>),
}

impl PortAssociation {
    fn of(body: &mut Attributes) -> Result<Self, Fault> {
        let named = body.has("port_id");
        let port: Option<PortId> = body.id("port_id")?;
        let fixed: Option<IpAddr> = body.parsed("fixed_ip_address", "IP address")?;
        match (port, fixed) {
            (None, Some(_)) => Err(faults::bad("floatingip", "fixed_ip_address cannot be specified without a port_id")),
            (Some(port), fixed) => Ok(Self::At(port, fixed)),
            (None, None) if named => Ok(Self::Nothing),
            (None, None) => Ok(Self::Keep),
        }
    }

    /// Checks the requested association. `None`: the present association stays. `Some(None)`: the present association
    /// ends.
    #[allow(clippy::option_option, reason = "a patch keeps, removes or replaces the association")]
    fn resolve(
        &self,
        ctx: &Ctx,
        project: &ProjectId,
        network: NetworkId,
    ) -> Result<Option<Option<Association>>, Fault> {
        match self {
            Self::Keep => Ok(None),
            Self::Nothing => Ok(Some(None)),
            Self::At(port, fixed) => {
                let (port, _) = targets::find_port(ctx, &port.to_string())?;
                if port.created.project != *project && !ctx.caller().is_admin {
                    let port = port.created.port;
                    return Err(faults::bad(
                        "floatingip",
                        format_args!(
                            "Cannot process floating IP association with Port {port}, since that port is owned by a \
                             different tenant"
                        ),
                    ));
                }
                association(ctx, network, &port, *fixed).map(|found| Some(Some(found)))
            }
        }
    }
}

/// The association of a floating address of `network` with a port: the fixed address and the router.
fn association(ctx: &Ctx, network: NetworkId, port: &Port, fixed: Option<IpAddr>) -> Result<Association, Fault> {
    let found = |view: &NetworksView| floating_ips::association(view, network, port, fixed);
    ctx.views()?.networks.read(found).map_err(|reject| match reject {
        FloatingIpTargetReject::NotReachable { .. } => {
            Fault::not_found(reject.to_string()).key("ExternalGatewayForFloatingIPNotFound")
        }
        other => faults::bad("floatingip", other),
    })
}
