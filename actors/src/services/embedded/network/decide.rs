//! The decisions of a network.

use std::collections::BTreeMap;

use chronova_events::ids::{FloatingIpId, PortId};
use chronova_events::network::{
    Network, NetworkDeleted, NetworkEvent, NetworkRow, NetworkSettings, NetworkSettingsReplaced, SubnetRemoved,
};
use chronova_events::router::GATEWAY_OWNER;
use chronova_events::tags::TagsChange;

use super::{NetworkCommand, NetworkPart, NetworkPatch, NetworkReject, RevisionMismatch, floating, ports, subnets};

pub fn decide(state: &Network, command: NetworkCommand) -> Result<Vec<NetworkEvent>, NetworkReject> {
    match command {
        NetworkCommand::Create(created) => match &state.row {
            None if !state.deleted => {
                check_mtu(created.settings.mtu)?;
                Ok(vec![created.into()])
            }
            _ => Err(NetworkReject::IdTaken(created.network.to_string())),
        },
        // A deleted network has no ports, so there is nothing to release.
        NetworkCommand::ReleaseDevice { device, project } => {
            Ok(ports::release(state, device, |port| port.created.project == project))
        }
        NetworkCommand::ReleasePort { device, project, port } => {
            Ok(ports::release(state, device, |known| known.created.port == port && known.created.project == project))
        }
        NetworkCommand::DisassociateFloatingIp { floating_ip, port, address } => {
            Ok(floating::disassociate(state, floating_ip, port, address))
        }
        NetworkCommand::ReleaseFloatingIp { floating_ip } => Ok(floating::release(state, floating_ip)),
        NetworkCommand::IfRevision { of, revision, command } => {
            RevisionMismatch::check(revision, revision_of(state, of))?;
            decide(state, *command)
        }
        command => {
            let row = state.row.as_deref().ok_or(NetworkReject::NotFound)?;
            on_existing(state, row, command)
        }
    }
}

fn revision_of(state: &Network, of: NetworkPart) -> Option<u64> {
    match of {
        NetworkPart::Network => state.row.as_ref().map(|row| row.revision),
        NetworkPart::Subnet(id) => state.subnets.get(&id).map(|subnet| subnet.revision),
        NetworkPart::Port(id) => state.ports.get(&id).map(|port| port.revision),
        NetworkPart::FloatingIp(id) => state.floating_ips.get(&id).map(|floating| floating.revision),
    }
}

fn on_existing(state: &Network, row: &NetworkRow, command: NetworkCommand) -> Result<Vec<NetworkEvent>, NetworkReject> {
    match command {
        NetworkCommand::Change(patch) => change(state, row, patch),
        NetworkCommand::Delete => delete(state, row),
        NetworkCommand::AddSubnet(wanted) => subnets::add(state, row, wanted),
        NetworkCommand::ChangeSubnet { subnet, patch } => subnets::change(state, row, subnet, patch),
        NetworkCommand::RemoveSubnet { subnet } => subnets::remove(state, row, subnet),
        NetworkCommand::CreatePort(wanted) => ports::create(state, row, wanted),
        NetworkCommand::ChangePort { port, patch } => ports::change(state, row, port, patch),
        NetworkCommand::ChangeDeviceGroups(wanted) => ports::change_groups(state, row, &wanted),
        NetworkCommand::BindPort { port, project, binding } => ports::bind(state, port, &project, binding),
        NetworkCommand::DeletePort { port } => ports::delete(state, row, port),
        NetworkCommand::AllocateFloatingIp(wanted) => floating::allocate(state, row, wanted),
        NetworkCommand::ChangeFloatingIp { floating_ip, patch } => floating::change(state, floating_ip, patch),
        NetworkCommand::Create(_)
        | NetworkCommand::ReleaseDevice { .. }
        | NetworkCommand::ReleasePort { .. }
        | NetworkCommand::DisassociateFloatingIp { .. }
        | NetworkCommand::ReleaseFloatingIp { .. }
        | NetworkCommand::IfRevision { .. } => Ok(vec![]),
    }
}

fn change(state: &Network, row: &NetworkRow, patch: NetworkPatch) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let network = row.created.network;
    let old = row.settings();
    let settings = NetworkSettings {
        name: patch.name.unwrap_or_else(|| old.name.clone()),
        description: patch.description.unwrap_or_else(|| old.description.clone()),
        admin_state_up: patch.admin_state_up.unwrap_or(old.admin_state_up),
        shared: patch.shared.unwrap_or(old.shared),
        external: patch.external.unwrap_or(old.external),
        port_security: patch.port_security.unwrap_or(old.port_security),
        mtu: patch.mtu.unwrap_or(old.mtu),
        dns_domain: patch.dns_domain.unwrap_or_else(|| old.dns_domain.clone()),
        is_default: patch.is_default.unwrap_or(old.is_default),
        tags: patch.tags.unwrap_or_else(|| old.tags.clone()),
    };
    check_mtu(settings.mtu)?;
    // As in Neutron, the network service's own ports do not count. They belong to routers and to floating addresses.
    let foreign = || {
        let mut guests = state.ports.values().filter(|port| !port.binding().owner.starts_with("network:"));
        guests.any(|port| port.created.project != row.created.project)
    };
    if old.shared && !settings.shared && foreign() {
        return Err(NetworkReject::SharedInUse(network));
    }
    // Only an external network has gateways and floating addresses.
    let outward = || state.ports.values().any(|port| port.binding().owner == GATEWAY_OWNER);
    if old.external && !settings.external && (!state.floating_ips.is_empty() || outward()) {
        return Err(NetworkReject::ExternalInUse(network));
    }
    if settings == *old {
        return Ok(vec![]);
    }
    let (settings, tags) = TagsChange::between(&old.tags, settings);
    Ok(vec![NetworkSettingsReplaced { network, settings, tags }.into()])
}

/// Checks Neutron's bounds: 68 is the smallest MTU that IPv4 allows; 0 would mean "not set".
fn check_mtu(mtu: u32) -> Result<(), NetworkReject> {
    match mtu {
        68..=65_535 => Ok(()),
        _ => Err(NetworkReject::InvalidInput(format!("Invalid MTU: {mtu} is not between 68 and 65535"))),
    }
}

fn delete(state: &Network, row: &NetworkRow) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let network = row.created.network;
    // As in Neutron, floating addresses without a port are deleted with their network.
    let idle: BTreeMap<PortId, FloatingIpId> = state
        .floating_ips
        .values()
        .filter(|floating| floating.association.is_none())
        .map(|floating| (floating.allocated.port, floating.id()))
        .collect();
    let mut used = state.ports.keys().filter(|port| !idle.contains_key(port)).peekable();
    if used.peek().is_some() {
        let ports: Vec<String> = used.take(10).map(ToString::to_string).collect();
        return Err(NetworkReject::NetworkInUse(network, ports.join(",")));
    }
    let mut events: Vec<NetworkEvent> = idle.values().flat_map(|id| floating::release(state, *id)).collect();
    events.extend(state.subnets.keys().map(|subnet| NetworkEvent::from(SubnetRemoved { network, subnet: *subnet })));
    events.push(NetworkDeleted { network }.into());
    Ok(events)
}
