//! Checks the requested interfaces of a server as Nova's `validate_networks` does, with the same messages.
//!
//! The check reads the views, which may lag. The aggregates check again when the ports are created.

use std::sync::Arc;

use chronova_events::ids::{NetworkId, PortId, ProjectId, SecurityGroupId};
use chronova_events::instance::{RequestedNetworks, RequestedNic};
use chronova_events::network::{NetworkRow, Port};
use chronova_events::security_group::{DEFAULT, default_group};
use chronova_projections::networks::NetworksView;
use chronova_projections::security_groups::SecurityGroupsView;
use chronova_projections::views::Views;

use crate::ports::{EmbeddedPolicy, PortError, ServiceCaller};
use crate::services::embedded::network::access;
use crate::services::embedded::network::quota::limit_of;

pub(super) fn check(
    views: &Views,
    project: &ProjectId,
    networks: &RequestedNetworks,
    security_groups: &[String],
) -> Result<(), PortError> {
    let new_ports = views.networks.read(|view| match networks {
        RequestedNetworks::None => Ok(0),
        RequestedNetworks::Auto => automatic(view, project).map(|network| usize::from(network.is_some())),
        RequestedNetworks::These(nics) | RequestedNetworks::OfAnyProject(nics) => {
            for nic in nics {
                check_nic(view, project, networks, nic)?;
            }
            Ok(nics.iter().filter(|nic| nic.port.is_none()).count())
        }
    })?;
    check_quota(views, project, new_ports)?;
    views.security_groups.read(|view| groups(view, project, security_groups)).map(drop)
}

pub(super) fn too_many_ports() -> PortError {
    PortError::Forbidden("Maximum number of ports exceeded".to_owned())
}

pub(super) fn check_quota(views: &Views, project: &ProjectId, new_ports: usize) -> Result<(), PortError> {
    let (held, limit) = views
        .networks
        .read(|view| (view.held(project).map_or(0, |held| held.ports.len()), limit_of(view.limits(project), "port")));
    match usize::try_from(limit) {
        Ok(limit) if new_ports > 0 && held + new_ports > limit => Err(too_many_ports()),
        _ => Ok(()),
    }
}

/// The network for a server whose request names no network. `None` if the project has no network; several networks are
/// an error.
pub(super) fn automatic(view: &NetworksView, project: &ProjectId) -> Result<Option<NetworkId>, PortError> {
    let mut usable = view.networks().filter(|network| {
        let settings = network.settings();
        let own = network.created.project == *project && !settings.external;
        settings.admin_state_up && (own || settings.shared)
    });
    match (usable.next(), usable.next()) {
        (_, Some(_)) => Err(PortError::Conflict(
            "Multiple possible networks found, use a Network ID to be more specific.".to_owned(),
        )),
        (only, None) => Ok(only.map(|network| network.created.network)),
    }
}

fn check_nic(
    view: &NetworksView,
    project: &ProjectId,
    networks: &RequestedNetworks,
    nic: &RequestedNic,
) -> Result<(), PortError> {
    if let Some(id) = nic.port {
        let port = usable_port(view, project, id)?;
        if !port.binding().device.is_empty() {
            return Err(PortError::Conflict(format!("Port {id} is still in use.")));
        }
        if port.addresses().is_empty() {
            return Err(PortError::Invalid(format!("Port {id} requires a FixedIP in order to be used.")));
        }
        return Ok(());
    }
    let Some(id) = nic.network else { return automatic(view, project).map(drop) };
    admitted_network(view, project, is_of_administrator(networks), id)?;
    if view.whole(id).is_none_or(|network| network.subnets.is_empty()) {
        return Err(PortError::Invalid(format!("Network {id} requires a subnet in order to boot instances on.")));
    }
    if let Some(address) = &nic.fixed_ip {
        let parsed = address.parse().map_err(|_| PortError::Invalid(format!("Invalid input received: {address}")))?;
        let holder = view.whole(id).and_then(|network| network.ports.get(&network.holder(parsed)?));
        if let Some(port) = holder {
            return Err(PortError::Invalid(in_use(view, project, port, address)));
        }
    }
    Ok(())
}

/// Refuses an address that the user chooses, if the policy of the Network API denies that choice in the network. Nova
/// creates ports with the user's token, so Neutron asks the same rule. By default only the network's owner and
/// administrators choose addresses, because an address outside the allocation pools may belong to a machine of the
/// owner. The other checks refuse a network that the project does not see.
pub(super) fn chosen_address(
    views: &Views,
    project: &ProjectId,
    nic: &RequestedNic,
    caller: &ServiceCaller,
) -> Result<(), PortError> {
    let (Some(id), Some(_)) = (nic.network, &nic.fixed_ip) else { return Ok(()) };
    let network = views.networks.read(|view| view.network(id).cloned());
    let Some(network) = network.filter(|network| is_inner(network, project)) else { return Ok(()) };
    let rule = "create_port:fixed_ips:ip_address";
    let attributes = access::within(project, &network);
    match caller.may((EmbeddedPolicy::Network, rule), Some(&network.created.project), &attributes) {
        true => Ok(()),
        false => Err(PortError::Forbidden(format!("Policy doesn't allow {rule} to be performed."))),
    }
}

/// Nova's message about an address that a port has. As in Neutron, a project sees its own ports and those on its
/// networks. On a shared network, the message names no device of another project.
pub(super) fn in_use(view: &NetworksView, project: &ProjectId, port: &Port, address: &str) -> String {
    let owns_network = || view.network(port.created.network).is_some_and(|row| row.created.project == *project);
    let place = match port.created.project == *project || owns_network() {
        true => format!(" on instance {}", port.binding().device),
        false => String::new(),
    };
    format!("Fixed IP address {address} is already in use{place}.")
}

/// The project's own port with this id (Nova: `PortNotUsable`). A port on an external network is refused if the network
/// is neither the project's own nor shared.
pub(super) fn usable_port<'a>(
    view: &'a NetworksView,
    project: &ProjectId,
    id: PortId,
) -> Result<&'a Arc<Port>, PortError> {
    let port = view.port(id).filter(|port| port.created.project == *project);
    let port = port.ok_or_else(|| PortError::Invalid(format!("Port id {id} could not be found.")))?;
    match view.network(port.created.network) {
        Some(network) if !is_inner(network, project) && network.settings().external => {
            Err(external(network.created.network))
        }
        _ => Ok(port),
    }
}

/// Whether the network is the project's own or shared. It may be external, too.
fn is_inner(network: &NetworkRow, project: &ProjectId) -> bool {
    network.created.project == *project || network.settings().shared
}

/// The refusal of an external network of another project. Every project sees such a network.
fn external(id: NetworkId) -> PortError {
    PortError::Forbidden(format!("It is not allowed to create an interface on external network {id}"))
}

/// Whether an administrator made the request.
pub(super) const fn is_of_administrator(networks: &RequestedNetworks) -> bool {
    matches!(networks, RequestedNetworks::OfAnyProject(_))
}

/// A network that a request may use: any network if an administrator made the request.
pub(super) fn admitted_network<'a>(
    view: &'a NetworksView,
    project: &ProjectId,
    by_administrator: bool,
    id: NetworkId,
) -> Result<&'a Arc<NetworkRow>, PortError> {
    match by_administrator {
        true => view.network(id).ok_or_else(|| no_network(id)),
        false => usable_network(view, project, id),
    }
}

fn no_network(id: NetworkId) -> PortError {
    PortError::Invalid(format!("Network {id} could not be found."))
}

/// A network that the project's servers may have ports on.
fn usable_network<'a>(
    view: &'a NetworksView,
    project: &ProjectId,
    id: NetworkId,
) -> Result<&'a Arc<NetworkRow>, PortError> {
    let network = view.network(id).ok_or_else(|| no_network(id))?;
    match is_inner(network, project) {
        true => Ok(network),
        false if network.settings().external => Err(external(id)),
        false => Err(no_network(id)),
    }
}

/// The ids of the groups with these names or ids; empty for an empty request. The default group has an id even if it
/// does not exist yet.
pub(super) fn groups(
    view: &SecurityGroupsView,
    project: &ProjectId,
    wanted: &[String],
) -> Result<Vec<SecurityGroupId>, PortError> {
    let mut ids = Vec::new();
    for name in wanted {
        let id = group(view, project, name)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn group(view: &SecurityGroupsView, project: &ProjectId, name: &str) -> Result<SecurityGroupId, PortError> {
    let own = view.of_project(project);
    if let Ok(id) = name.parse::<SecurityGroupId>()
        && (own.is_some_and(|groups| groups.by_id.contains_key(&id)) || id == default_group(project))
    {
        return Ok(id);
    }
    if name == DEFAULT {
        return Ok(default_group(project));
    }
    let mut named = own.into_iter().flat_map(|groups| groups.by_id.values()).filter(|g| g.settings().name == name);
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => Err(PortError::Conflict(format!(
            "Multiple security groups found matching '{name}'. Use an ID to be more specific."
        ))),
        (Some(only), None) => Ok(only.id()),
        (None, _) => Err(PortError::Invalid(format!("Security group {name} not found."))),
    }
}
