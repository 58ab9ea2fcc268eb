//! The decisions on the ports of a network, and the choice of their addresses.

use std::net::IpAddr;

use chronova_events::ids::{InstanceId, NetworkId, PortId, ProjectId, SubnetId};
use chronova_events::network::{
    FixedAddress, Network, NetworkEvent, NetworkRow, Port, PortBinding, PortBound, PortCreated, PortDeleted,
    PortReaddressed, PortSettings, PortSettingsReplaced, PortUnbound, Subnet,
};
use chronova_events::router::GATEWAY_OWNER;
use chronova_events::security_group::default_group;
use chronova_events::tags::TagsChange;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::subnets::{find as find_subnet, usable};
use super::{DeviceGroupsChange, FixedIpRequest, NetworkReject, PortPatch, PortRequest, eui64};
use crate::pci::ports::{card_mac, profile_with};

fn find(state: &Network, port: PortId) -> Result<&Port, NetworkReject> {
    state.ports.get(&port).map(AsRef::as_ref).ok_or(NetworkReject::PortNotFound(port))
}

pub(super) fn create(
    state: &Network,
    row: &NetworkRow,
    wanted: PortRequest,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let network = row.created.network;
    if let Some(known) = state.ports.get(&wanted.port) {
        // A repeated step finds its own port, which may be bound to the host of an earlier attempt.
        return match wanted.made_for {
            Some(_) if known.created.made_for == wanted.made_for => Ok(rebind(known, wanted.binding)),
            _ => Err(NetworkReject::IdTaken(wanted.port.to_string())),
        };
    }
    check_only_gateway(state, network, &wanted.binding)?;
    let mac = match wanted.mac {
        Some(mac) if state.has_mac(&mac) => return Err(NetworkReject::MacInUse { network, mac }),
        Some(mac) => mac,
        None => mac_for(state, wanted.port).ok_or(NetworkReject::NoMoreMacs(network))?,
    };
    let mut choice = FixedIpAllocator::new(state, row, &mac, &[]);
    let addresses = match wanted.addresses {
        Some(wanted) => choice.these(&wanted)?,
        None => choice.one_of_each()?,
    };
    let port_security = wanted.port_security.unwrap_or(row.settings().port_security);
    // Ports of the network's own services are trusted.
    let trusted = wanted.binding.owner.starts_with("network:");
    let security_groups = match wanted.security_groups {
        Some(groups) => groups,
        None if port_security && !trusted => vec![default_group(&wanted.project)],
        None => vec![],
    };
    let settings = PortSettings { port_security, security_groups, ..wanted.settings };
    // As in Neutron's ML2, a port with groups needs no address, although the text of the refusal says that it needs
    // one.
    if !settings.security_groups.is_empty() && !port_security {
        return Err(NetworkReject::GroupsNeedSecurity);
    }
    if !settings.allowed_address_pairs.is_empty() && !port_security {
        return Err(NetworkReject::PairsNeedSecurity);
    }
    Ok(vec![
        PortCreated {
            network,
            port: wanted.port,
            project: wanted.project,
            mac,
            addresses,
            settings,
            binding: wanted.binding,
            made_for: wanted.made_for,
        }
        .into(),
    ])
}

/// Refuses a second gateway of a router in the network. A gateway belongs to no project, so no quota counts it. Without
/// this check, parallel requests for one gateway could take all addresses of an external network.
fn check_only_gateway(state: &Network, network: NetworkId, wanted: &PortBinding) -> Result<(), NetworkReject> {
    let taken = || state.of_device(&wanted.device).any(|port| port.binding().owner == GATEWAY_OWNER);
    match wanted.owner == GATEWAY_OWNER && taken() {
        true => Err(NetworkReject::GatewayExists { router: wanted.device.clone(), network }),
        false => Ok(()),
    }
}

/// The MAC address of a port: `fa:16:3e` (Neutron's `base_mac`) and three bytes that derive from the port's id.
fn mac_for(state: &Network, port: PortId) -> Option<String> {
    (0_u16..1_000).find_map(|attempt| {
        let hash = Uuid::new_v5(&port.0, &attempt.to_be_bytes());
        let [a, b, c, ..] = hash.into_bytes();
        let mac = format!("fa:16:3e:{a:02x}:{b:02x}:{c:02x}");
        (!state.has_mac(&mac)).then_some(mac)
    })
}

pub(super) fn change(
    state: &Network,
    row: &NetworkRow,
    port: PortId,
    patch: PortPatch,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let known = find(state, port)?;
    let network = row.created.network;
    let mut events = Vec::new();

    let settings = merged(known, &patch)?;
    let mac = patch.mac.clone().or_else(|| mac_without_card(state, known, &settings.profile));
    let mac = mac.unwrap_or_else(|| known.created.mac.clone());
    if mac != known.created.mac && state.has_mac(&mac) {
        return Err(NetworkReject::MacInUse { network, mac });
    }
    let addresses = match &patch.addresses {
        Some(wanted) => FixedIpAllocator::new(state, row, &mac, known.addresses()).these(wanted)?,
        None => known.addresses().to_vec(),
    };
    if mac != known.created.mac || addresses != known.addresses() {
        events.push(PortReaddressed { network, port, mac, addresses }.into());
    }
    if settings != *known.settings() {
        let made_for = known.created.made_for;
        let (settings, tags) = TagsChange::between(&known.settings().tags, settings);
        events.push(PortSettingsReplaced { network, port, settings, made_for, tags }.into());
    }
    let old = known.binding();
    let binding = PortBinding {
        device: patch.device.unwrap_or_else(|| old.device.clone()),
        owner: patch.owner.unwrap_or_else(|| old.owner.clone()),
        host: patch.host.unwrap_or_else(|| old.host.clone()),
    };
    events.extend(rebind(known, binding));
    Ok(events)
}

/// Adds a security group to all ports that the device has in this network, or removes it from all of them. If one of
/// the ports cannot have groups, no port changes.
pub(super) fn change_groups(
    state: &Network,
    row: &NetworkRow,
    wanted: &DeviceGroupsChange,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let mut events = Vec::new();
    let device = wanted.device.to_string();
    for port in state.of_device(&device).filter(|port| port.created.project == wanted.project) {
        let mut groups = port.settings().security_groups.clone();
        match (wanted.applies, groups.contains(&wanted.group)) {
            (true, false) => groups.push(wanted.group),
            (false, true) => groups.retain(|known| *known != wanted.group),
            _ => continue,
        }
        let patch = PortPatch { security_groups: Some(groups), ..PortPatch::default() };
        events.extend(change(state, row, port.created.port, patch)?);
    }
    Ok(events)
}

fn merged(known: &Port, patch: &PortPatch) -> Result<PortSettings, NetworkReject> {
    let old = known.settings();
    let keep = |new: &Option<String>, old: &String| new.clone().unwrap_or_else(|| old.clone());
    let settings = PortSettings {
        name: keep(&patch.name, &old.name),
        description: keep(&patch.description, &old.description),
        admin_state_up: patch.admin_state_up.unwrap_or(old.admin_state_up),
        port_security: patch.port_security.unwrap_or(old.port_security),
        security_groups: patch.security_groups.clone().unwrap_or_else(|| old.security_groups.clone()),
        allowed_address_pairs: patch.allowed_address_pairs.clone().unwrap_or_else(|| old.allowed_address_pairs.clone()),
        dhcp_options: patch.dhcp_options.clone().unwrap_or_else(|| old.dhcp_options.clone()),
        dns_name: keep(&patch.dns_name, &old.dns_name),
        dns_domain: keep(&patch.dns_domain, &old.dns_domain),
        vnic_type: keep(&patch.vnic_type, &old.vnic_type),
        profile: keep(&patch.profile, &old.profile),
        propagate_uplink_status: old.propagate_uplink_status,
        tags: patch.tags.clone().unwrap_or_else(|| old.tags.clone()),
    };
    if !settings.security_groups.is_empty() && !settings.port_security {
        return Err(match patch.security_groups {
            Some(_) => NetworkReject::GroupsNeedSecurity,
            None => NetworkReject::PortHasGroups,
        });
    }
    if !settings.allowed_address_pairs.is_empty() && !settings.port_security {
        return Err(NetworkReject::PairsNeedSecurity);
    }
    Ok(settings)
}

fn rebind(known: &Port, binding: PortBinding) -> Vec<NetworkEvent> {
    if binding == *known.binding() {
        return vec![];
    }
    let (network, port) = (known.created.network, known.created.port);
    vec![if binding == PortBinding::default() {
        PortUnbound { network, port }.into()
    } else {
        PortBound { network, port, binding }.into()
    }]
}

pub(super) fn bind(
    state: &Network,
    port: PortId,
    project: &ProjectId,
    binding: PortBinding,
) -> Result<Vec<NetworkEvent>, NetworkReject> {
    let known = find(state, port)?;
    if known.created.project != *project {
        return Err(NetworkReject::PortNotFound(port));
    }
    let device = &known.binding().device;
    if !device.is_empty() && *device != binding.device {
        return Err(NetworkReject::PortInUse(port));
    }
    Ok(rebind(known, binding))
}

pub(super) fn delete(state: &Network, row: &NetworkRow, port: PortId) -> Result<Vec<NetworkEvent>, NetworkReject> {
    find(state, port)?;
    Ok(vec![PortDeleted { network: row.created.network, port }.into()])
}

/// Releases the device's ports that `which` selects.
pub(super) fn release(state: &Network, device: InstanceId, which: impl Fn(&Port) -> bool) -> Vec<NetworkEvent> {
    let mut events = Vec::new();
    for port in state.of_device(&device.to_string()).filter(|port| which(port)) {
        let (network, id) = (port.created.network, port.created.port);
        let event: NetworkEvent = match port.created.made_for {
            Some(server) if server == device => PortDeleted { network, port: id }.into(),
            _ => {
                events.extend(without_device(state, port));
                PortUnbound { network, port: id }.into()
            }
        };
        events.push(event);
    }
    events
}

/// The `binding:profile` of a port.
pub(super) fn profile(port: &Port) -> Map<String, Value> {
    serde_json::from_str(&port.settings().profile).unwrap_or_default()
}

/// Another MAC address for a port that loses its whole card; `None` if the port keeps its address. As in Neutron, such a
/// port gives the card's address back, because the next port on the card needs the address.
fn mac_without_card(state: &Network, known: &Port, new_profile: &str) -> Option<String> {
    let of_card = |profile: &str| {
        let profile: Map<String, Value> = serde_json::from_str(profile).ok()?;
        card_mac(&profile).map(str::to_owned)
    };
    let gives_back = of_card(&known.settings().profile)? == known.created.mac && of_card(new_profile).is_none();
    gives_back.then(|| mac_for(state, known.created.port)).flatten()
}

/// Removes the PCI device of the port's former host from the profile. No events if there is none.
fn without_device(state: &Network, known: &Port) -> Vec<NetworkEvent> {
    let old = known.settings();
    let before = profile(known);
    let profile = profile_with(&before, None);
    if profile == before {
        return vec![];
    }
    let settings = PortSettings { profile: Value::Object(profile).to_string(), ..old.clone() };
    let (network, port, made_for) = (known.created.network, known.created.port, known.created.made_for);
    let mac = mac_without_card(state, known, &settings.profile);
    let addresses = known.addresses().to_vec();
    let readdressed: Option<NetworkEvent> = mac.map(|mac| PortReaddressed { network, port, mac, addresses }.into());
    let (settings, tags) = TagsChange::between(&old.tags, settings);
    let replaced = PortSettingsReplaced { network, port, settings, made_for, tags };
    readdressed.into_iter().chain([replaced.into()]).collect()
}

/// The most addresses that a request may give a port. Each change of a port's addresses writes all of them into the
/// log.
const MOST_ADDRESSES: usize = 50;

/// Chooses the addresses of one port.
struct FixedIpAllocator<'a> {
    state: &'a Network,
    row: &'a NetworkRow,
    mac: &'a str,
    /// The addresses that the port has already.
    own: &'a [FixedAddress],
    chosen: Vec<FixedAddress>,
}

impl<'a> FixedIpAllocator<'a> {
    fn new(state: &'a Network, row: &'a NetworkRow, mac: &'a str, own: &'a [FixedAddress]) -> Self {
        Self { state, row, mac, own, chosen: Vec::new() }
    }

    /// One IPv4 address and one IPv6 address from pools, and one address in each subnet with addresses that derive from
    /// the MAC.
    fn one_of_each(&mut self) -> Result<Vec<FixedAddress>, NetworkReject> {
        let mut subnets: Vec<&Subnet> = self.state.subnets.values().map(AsRef::as_ref).collect();
        subnets.sort_by_key(|subnet| (subnet.created_at, subnet.added.subnet));
        let (derived, pooled): (Vec<&Subnet>, Vec<&Subnet>) =
            subnets.into_iter().partition(|subnet| subnet.derives_addresses());
        for is_v4 in [true, false] {
            let mut of_version = pooled.iter().filter(|subnet| subnet.added.cidr.addr().is_ipv4() == is_v4).peekable();
            if of_version.peek().is_none() {
                continue;
            }
            let found = of_version.find_map(|subnet| self.next_of(subnet.added.subnet));
            let fixed = found.ok_or(NetworkReject::NoMoreAddresses(self.row.created.network))?;
            self.chosen.push(fixed);
        }
        for subnet in derived {
            let fixed = self.derived(subnet)?;
            self.chosen.push(fixed);
        }
        Ok(std::mem::take(&mut self.chosen))
    }

    fn these(&mut self, wanted: &[FixedIpRequest]) -> Result<Vec<FixedAddress>, NetworkReject> {
        if wanted.len() > MOST_ADDRESSES {
            return Err(NetworkReject::InvalidInput(format!(
                "Exceeded maximum amount of fixed ips per port: {MOST_ADDRESSES}"
            )));
        }
        // Addresses that the request names come first, so that no other entry of the same port takes them.
        for one in wanted.iter().filter(|one| one.address.is_some()) {
            let fixed = self.one(one)?;
            self.chosen.push(fixed);
        }
        for one in wanted.iter().filter(|one| one.address.is_none()) {
            let fixed = self.one(one)?;
            self.chosen.push(fixed);
        }
        Ok(std::mem::take(&mut self.chosen))
    }

    fn one(&self, wanted: &FixedIpRequest) -> Result<FixedAddress, NetworkReject> {
        let subnet = match (wanted.subnet, wanted.address) {
            (Some(subnet), _) => self.subnet(subnet)?,
            (None, Some(address)) => self.subnet_with(address)?,
            (None, None) => {
                return Err(NetworkReject::InvalidInput("IP allocation requires subnet_id or ip_address".to_owned()));
            }
        };
        match wanted.address {
            Some(address) => self.exactly(subnet, address),
            None if subnet.derives_addresses() => self.derived(subnet),
            None => {
                let id = subnet.added.subnet;
                let kept = self.own.iter().find(|own| own.subnet == id && !self.chosen.contains(own)).copied();
                kept.or_else(|| self.next_of(id)).ok_or(NetworkReject::NoMoreAddresses(self.row.created.network))
            }
        }
    }

    fn subnet(&self, subnet: SubnetId) -> Result<&'a Subnet, NetworkReject> {
        find_subnet(self.state, subnet).map_err(|_| {
            NetworkReject::InvalidInput(format!(
                "Failed to create port on network {}, because fixed_ips included invalid subnet {subnet}",
                self.row.created.network
            ))
        })
    }

    fn subnet_with(&self, address: IpAddr) -> Result<&'a Subnet, NetworkReject> {
        let mut subnets = self.state.subnets.values().map(AsRef::as_ref);
        subnets
            .find(|subnet: &&Subnet| subnet.added.cidr.contains(&address))
            .ok_or(NetworkReject::NotInNetwork(address))
    }

    fn exactly(&self, subnet: &Subnet, address: IpAddr) -> Result<FixedAddress, NetworkReject> {
        let fixed = FixedAddress { subnet: subnet.added.subnet, address };
        if !usable(&subnet.added.cidr, address) {
            return Err(NetworkReject::NotInSubnet(address));
        }
        let held = self.state.holder(address).is_some() && !self.own.contains(&fixed);
        if held || self.chosen.contains(&fixed) {
            Err(NetworkReject::AddressInUse { network: self.row.created.network, address })
        } else {
            Ok(fixed)
        }
    }

    fn derived(&self, subnet: &Subnet) -> Result<FixedAddress, NetworkReject> {
        let address = eui64(&subnet.added.cidr, self.mac)
            .ok_or_else(|| NetworkReject::InvalidInput(format!("'{}' is not a valid MAC address", self.mac)))?;
        self.exactly(subnet, address)
    }

    fn next_of(&self, subnet: SubnetId) -> Option<FixedAddress> {
        let ipam = self.state.ipam(subnet)?;
        let taken: Vec<IpAddr> = self.chosen.iter().filter(|c| c.subnet == subnet).map(|c| c.address).collect();
        let address = if taken.is_empty() {
            ipam.next()?
        } else {
            // Only a port with several addresses in one subnet needs this copy. Such ports are rare.
            let mut scratch = ipam.clone();
            for address in taken {
                scratch.take(address, PortId(Uuid::nil()));
            }
            scratch.next()?
        };
        Some(FixedAddress { subnet, address })
    }
}
