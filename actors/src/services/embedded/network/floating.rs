//! The decisions on the floating addresses of an external network.
//!
//! One append creates or deletes a floating address together with the port that holds it, so that no address is lost.
//! The caller checks that the associated port exists, because that port is in another network's stream. If the port is
//! deleted at the same moment, [`floating_ips`](super::reconcile::floating_ips) ends the association.

use std::net::IpAddr;

use chronova_events::ids::{FloatingIpId, PortId, ProjectId};
use chronova_events::network::{
    Association, FLOATING_IP_OWNER, FixedAddress, FloatingIp, FloatingIpAllocated, FloatingIpAssociated,
    FloatingIpDisassociated, FloatingIpReleased, FloatingIpSettings, FloatingIpSettingsReplaced, Network, NetworkEvent,
    NetworkRow, PortBinding, PortDeleted, PortSettings, Subnet,
};
use chronova_events::tags::TagsChange;

use super::{FixedIpRequest, FloatingIpPatch, FloatingIpRequest, NetworkReject, PortRequest, ports};

fn find(state: &Network, id: FloatingIpId) -> Result<&FloatingIp, NetworkReject> {
    state.floating_ips.get(&id).map(AsRef::as_ref).ok_or(NetworkReject::FloatingIpNotFound(id))
}

pub(super) fn allocate(
    state: &Network,
    row: &NetworkRow,
    wanted: FloatingIpRequest,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let network = row.created.network;
    if state.floating_ips.contains_key(&wanted.floating_ip) {
        return Err(NetworkReject::IdTaken(wanted.floating_ip.to_string()));
    }
    if !row.settings().external {
        return Err(NetworkReject::NotExternal(network));
    }
    let is_v4 = |subnet: &Subnet| subnet.added.cidr.addr().is_ipv4();
    if !state.subnets.values().any(|subnet| is_v4(subnet)) {
        return Err(NetworkReject::NoIpv4(network));
    }
    check_limit(state, &wanted)?;
    let mut events = ports::create(state, row, holder(&wanted))?;
    let address = address_of_new_port(&events).ok_or(NetworkReject::NoExternalAddress(network))?;
    let FloatingIpRequest { floating_ip, port, project, settings, association, .. } = wanted;
    events.push(FloatingIpAllocated { network, floating_ip, project, port, address, settings }.into());
    if let Some(association) = association {
        check_free(state, row, floating_ip, address.address, &association)?;
        events.push(FloatingIpAssociated { network, floating_ip, association }.into());
    }
    Ok(events)
}

/// Checks a project's limit in the decision that allocates the address. So concurrent requests on one network cannot
/// exceed the limit. The caller has counted the addresses on other networks (`elsewhere`).
fn check_limit(state: &Network, wanted: &FloatingIpRequest) -> Result<(), NetworkReject> {
    match usize::try_from(wanted.limit) {
        Ok(limit) if state.floating_ips_of(&wanted.project) + wanted.elsewhere >= limit => {
            Err(NetworkReject::OverQuota("floatingip"))
        }
        _ => Ok(()),
    }
}

/// The port that holds the address. It belongs to no project, so that no project can delete it.
fn holder(wanted: &FloatingIpRequest) -> PortRequest {
    let any = FixedIpRequest { subnet: None, address: None };
    PortRequest {
        port: wanted.port,
        project: ProjectId::new(""),
        mac: None,
        addresses: wanted.address.filter(|address| *address != any).map(|address| vec![address]),
        settings: PortSettings::default(),
        port_security: Some(false),
        security_groups: Some(vec![]),
        binding: PortBinding {
            device: wanted.floating_ip.to_string(),
            owner: FLOATING_IP_OWNER.to_owned(),
            host: String::new(),
        },
        made_for: None,
    }
}

/// The IPv4 address of the new port.
fn address_of_new_port(events: &[NetworkEvent]) -> Option<FixedAddress> {
    events.iter().find_map(|event| match event {
        NetworkEvent::PortCreated(created) => created.addresses.iter().find(|fixed| fixed.address.is_ipv4()).copied(),
        _ => None,
    })
}

/// Checks that the fixed address has no other floating address of this network.
fn check_free(
    state: &Network,
    row: &NetworkRow,
    floating_ip: FloatingIpId,
    floating: IpAddr,
    wanted: &Association,
) -> Result<(), NetworkReject> {
    match state.floating_ip_for(wanted.port, wanted.address) {
        Some(other) if other.id() != floating_ip => Err(NetworkReject::AlreadyAssociated {
            floating_ip,
            floating,
            port: wanted.port,
            fixed: wanted.address,
            network: row.created.network,
        }),
        _ => Ok(()),
    }
}

pub(super) fn change(
    state: &Network,
    floating_ip: FloatingIpId,
    patch: FloatingIpPatch,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let known = find(state, floating_ip)?;
    let network = known.network();
    let mut events = Vec::new();
    let old = known.settings();
    let settings = FloatingIpSettings {
        description: patch.description.unwrap_or_else(|| old.description.clone()),
        tags: patch.tags.unwrap_or_else(|| old.tags.clone()),
        ..old.clone()
    };
    if settings != *old {
        let (settings, tags) = TagsChange::between(&old.tags, settings);
        events.push(FloatingIpSettingsReplaced { network, floating_ip, settings, tags }.into());
    }
    match patch.association {
        None => {}
        Some(None) if known.association.is_none() => {}
        Some(None) => events.push(FloatingIpDisassociated { network, floating_ip }.into()),
        Some(same) if same == known.association => {}
        Some(Some(association)) => {
            if let Some(row) = &state.row {
                check_free(state, row, floating_ip, known.address(), &association)?;
            }
            events.push(FloatingIpAssociated { network, floating_ip, association }.into());
        }
    }
    Ok(events)
}

pub(super) fn disassociate(
    state: &Network,
    floating_ip: FloatingIpId,
    port: PortId,
    address: IpAddr,
) -> Vec<NetworkEvent> {
    let known = state.floating_ips.get(&floating_ip);
    let lost = |to: &Association| to.port == port && to.address == address;
    let still = known.filter(|known| known.association.as_ref().is_some_and(lost));
    still.map(|known| FloatingIpDisassociated { network: known.network(), floating_ip }.into()).into_iter().collect()
}

pub(super) fn release(state: &Network, floating_ip: FloatingIpId) -> Vec<NetworkEvent> {
    let Some(known) = state.floating_ips.get(&floating_ip) else { return vec![] };
    let (network, port) = (known.network(), known.allocated.port);
    let mut events = vec![FloatingIpReleased { network, floating_ip }.into()];
    if state.ports.contains_key(&port) {
        events.push(PortDeleted { network, port }.into());
    }
    events
}
