//! The attributes of a resource that policy rules can use, and the check whether the caller may see it at all.
//!
//! Every operation on an invisible resource answers 404, so that status codes do not reveal which ids other projects
//! have.

use chronova_actors::services::embedded::network::access;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, RouterId, SecurityGroupId, SubnetId};
use chronova_events::network::{FloatingIp, NetworkRow, Port, Subnet};
use chronova_events::router::RouterRow;
use chronova_events::security_group::SecurityGroup;
use chronova_projections::networks::NetworksView;
use std::sync::Arc;

use super::attributes::Attributes;
use super::faults::{floating_ip_not_found, group_not_found, not_found, router_not_found};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::policy::PolicyTarget;
use crate::service::Service;

/// Whether a rule of the network service permits the caller's access to `target`. The request itself may be one to
/// another service.
pub(super) fn allows(ctx: &Ctx, rule: &'static str, target: &PolicyTarget) -> bool {
    ctx.app.policy.allows(Service::Network, rule, ctx.caller(), target)
}

/// Whether a rule permits the caller's access to resources of every project.
pub(super) fn reaches_all(ctx: &Ctx, rule: &'static str) -> bool {
    allows(ctx, rule, &new(&ProjectId::new("no project has this id")))
}

/// The target for a new resource of `project`.
pub(super) fn new(project: &ProjectId) -> PolicyTarget {
    PolicyTarget::default().with_all(&access::owned(project))
}

pub(super) fn network(row: &NetworkRow) -> PolicyTarget {
    PolicyTarget::default().with_all(&access::network(row))
}

/// The target for a resource of `project` in a network.
pub(super) fn within(project: &ProjectId, network: Option<&NetworkRow>) -> PolicyTarget {
    let Some(row) = network else { return new(project) };
    PolicyTarget::default().with_all(&access::within(project, row))
}

pub(super) fn subnet(networks: &NetworksView, row: &Subnet) -> PolicyTarget {
    within(&row.added.project, networks.network(row.added.network).map(AsRef::as_ref))
}

pub(super) fn port(networks: &NetworksView, row: &Port) -> PolicyTarget {
    within(&row.created.project, networks.network(row.created.network).map(AsRef::as_ref))
        .with("device_owner_kind", row.binding().owner.split(':').next().unwrap_or_default())
}

pub(super) fn group(row: &SecurityGroup) -> PolicyTarget {
    new(row.project()).with("shared", "False").with("security_group:tenant_id", row.project().as_str())
}

pub(super) fn router(row: &RouterRow) -> PolicyTarget {
    new(row.project())
}

pub(super) fn floating_ip(row: &FloatingIp) -> PolicyTarget {
    new(row.project())
}

pub(super) fn find_router(ctx: &Ctx, id: &str) -> Result<Arc<RouterRow>, Fault> {
    let views = ctx.views()?;
    let found = id.parse::<RouterId>().ok().and_then(|id| views.networks.read(|view| view.router(id).cloned()));
    found.filter(|row| allows(ctx, "get_router", &router(row))).ok_or_else(|| router_not_found(id))
}

pub(super) fn find_floating_ip(ctx: &Ctx, id: &str) -> Result<Arc<FloatingIp>, Fault> {
    let views = ctx.views()?;
    let found =
        id.parse::<FloatingIpId>().ok().and_then(|id| views.networks.read(|view| view.floating_ip(id).cloned()));
    found.filter(|row| allows(ctx, "get_floatingip", &floating_ip(row))).ok_or_else(|| floating_ip_not_found(id))
}

/// The network of the path, if the caller may see it.
pub(super) fn find_network(ctx: &Ctx, id: &str) -> Result<Arc<NetworkRow>, Fault> {
    let views = ctx.views()?;
    let found = id.parse::<NetworkId>().ok().and_then(|id| views.networks.read(|view| view.network(id).cloned()));
    found
        .filter(|row| ctx.allows("get_network", &network(row)))
        .ok_or_else(|| not_found("NetworkNotFound", "Network", id))
}

/// The network that a body must name, if the caller may see it.
pub(super) fn named_network(ctx: &Ctx, body: &mut Attributes, name: &str) -> Result<Arc<NetworkRow>, Fault> {
    body.required(name)?;
    let network: Option<NetworkId> = body.id(name)?;
    find_network(ctx, &network.map(|id| id.to_string()).unwrap_or_default())
}

pub(super) fn find_subnet(ctx: &Ctx, id: &str) -> Result<(Arc<Subnet>, PolicyTarget), Fault> {
    let found = ctx.views()?.networks.read(|view| {
        let row = view.subnet(id.parse::<SubnetId>().ok()?)?;
        Some((Arc::clone(row), subnet(view, row)))
    });
    found
        .filter(|(_, target)| ctx.allows("get_subnet", target))
        .ok_or_else(|| not_found("SubnetNotFound", "Subnet", id))
}

pub(super) fn find_port(ctx: &Ctx, id: &str) -> Result<(Arc<Port>, PolicyTarget), Fault> {
    let found = ctx.views()?.networks.read(|view| {
        let row = view.port(id.parse::<PortId>().ok()?)?;
        Some((Arc::clone(row), port(view, row)))
    });
    found.filter(|(_, target)| ctx.allows("get_port", target)).ok_or_else(|| not_found("PortNotFound", "Port", id))
}

pub(super) fn find_group(ctx: &Ctx, id: &str) -> Result<Arc<SecurityGroup>, Fault> {
    let views = ctx.views()?;
    let found =
        id.parse::<SecurityGroupId>().ok().and_then(|id| views.security_groups.read(|view| view.get(id).cloned()));
    found.filter(|row| ctx.allows("get_security_group", &group(row))).ok_or_else(|| group_not_found(id))
}

/// The project of the new resource: `named` by the body, or else the caller's.
pub(super) fn owner(ctx: &Ctx, named: Option<ProjectId>) -> Result<ProjectId, Fault> {
    let own = || ctx.caller().project.clone();
    named
        .or_else(own)
        .ok_or_else(|| Fault::bad_request("Running without keystone AuthN requires that tenant_id is specified"))
}
