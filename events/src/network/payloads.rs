//! Payloads of the events of a network.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::NetworkEvent;
use crate::ids::{InstanceId, NetworkId, PortId, ProjectId, SecurityGroupId, SubnetId};
use crate::tags::{SettingsWithTags, TagsChange};

/// The settings of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSettings {
    pub name: String,
    pub description: String,
    pub admin_state_up: bool,
    /// Whether every project may use the network.
    pub shared: bool,
    /// Neutron's `router:external`.
    pub external: bool,
    /// Whether port security is on by default for ports of the network.
    pub port_security: bool,
    pub mtu: u32,
    pub dns_domain: String,
    /// Neutron's `is_default`; only an external network can have it.
    pub is_default: bool,
    /// Sorted.
    pub tags: Vec<String>,
}

impl SettingsWithTags for NetworkSettings {
    fn tags_mut(&mut self) -> &mut Vec<String> {
        &mut self.tags
    }
}

/// The provider attributes of the network. Chronova only shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderAttributes {
    /// `local`, `flat`, `vlan`, `vxlan` or `geneve`.
    pub network_type: String,
    pub physical_network: Option<String>,
    pub segmentation_id: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCreated {
    pub network: NetworkId,
    pub project: ProjectId,
    pub settings: NetworkSettings,
    pub provider: ProviderAttributes,
    pub availability_zone_hints: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSettingsReplaced {
    pub network: NetworkId,
    pub settings: NetworkSettings,
    /// The change of the tags. `settings` itself has no tags.
    pub tags: TagsChange,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkDeleted {
    pub network: NetworkId,
}

/// A range of addresses for ports. Both ends are part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AllocationPool {
    pub start: IpAddr,
    pub end: IpAddr,
}

impl AllocationPool {
    /// The number of addresses; exact below 2^53.
    #[allow(clippy::cast_precision_loss)]
    pub fn size(&self) -> f64 {
        match (self.start, self.end) {
            (IpAddr::V4(start), IpAddr::V4(end)) => f64::from(u32::from(end).saturating_sub(u32::from(start))) + 1.0,
            (IpAddr::V6(start), IpAddr::V6(end)) => u128::from(end).saturating_sub(u128::from(start)) as f64 + 1.0,
            _ => 0.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoute {
    pub destination: String,
    pub nexthop: String,
}

/// Neutron's `ipv6_address_mode` and `ipv6_ra_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ipv6Mode {
    /// `slaac`: the address is derived from the MAC.
    Slaac,
    /// `dhcpv6-stateful`: addresses come from the pools.
    Stateful,
    /// `dhcpv6-stateless`: the address is derived from the MAC, and DHCP supplies the other options.
    Stateless,
}

/// The settings of a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetSettings {
    pub name: String,
    pub description: String,
    pub gateway: Option<IpAddr>,
    pub dhcp: bool,
    pub dns: Vec<IpAddr>,
    /// Sorted and disjoint.
    pub pools: Vec<AllocationPool>,
    pub host_routes: Vec<HostRoute>,
    /// Sorted.
    pub tags: Vec<String>,
}

impl SettingsWithTags for SubnetSettings {
    fn tags_mut(&mut self) -> &mut Vec<String> {
        &mut self.tags
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetAdded {
    pub network: NetworkId,
    pub subnet: SubnetId,
    pub project: ProjectId,
    pub cidr: IpNet,
    pub ipv6_address_mode: Option<Ipv6Mode>,
    pub ipv6_ra_mode: Option<Ipv6Mode>,
    pub settings: SubnetSettings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetSettingsReplaced {
    pub network: NetworkId,
    pub subnet: SubnetId,
    pub settings: SubnetSettings,
    /// The change of the tags. `settings` itself has no tags.
    pub tags: TagsChange,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetRemoved {
    pub network: NetworkId,
    pub subnet: SubnetId,
}

/// One fixed address of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FixedAddress {
    pub subnet: SubnetId,
    pub address: IpAddr,
}

/// Another address that a port may use as its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPair {
    /// An address or a prefix.
    pub address: String,
    /// `None`: the MAC of the port.
    pub mac: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DhcpOption {
    pub name: String,
    pub value: String,
    pub ip_version: u8,
}

/// The settings of a port, without its addresses and its device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSettings {
    pub name: String,
    pub description: String,
    pub admin_state_up: bool,
    pub port_security: bool,
    pub security_groups: Vec<SecurityGroupId>,
    pub allowed_address_pairs: Vec<AddressPair>,
    pub dhcp_options: Vec<DhcpOption>,
    pub dns_name: String,
    pub dns_domain: String,
    /// For example `normal` or `direct`.
    pub vnic_type: String,
    /// Neutron's `binding:profile`, as JSON.
    pub profile: String,
    pub propagate_uplink_status: bool,
    /// Sorted.
    pub tags: Vec<String>,
}

impl SettingsWithTags for PortSettings {
    fn tags_mut(&mut self) -> &mut Vec<String> {
        &mut self.tags
    }
}

/// The device of a port. All fields are empty if the port has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PortBinding {
    /// The id of a server, or any text from a user.
    pub device: String,
    /// For example `compute:nova` or `network:dhcp`.
    pub owner: String,
    /// The name of the compute host.
    pub host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCreated {
    pub network: NetworkId,
    pub port: PortId,
    pub project: ProjectId,
    /// Lower case, with colons.
    pub mac: String,
    pub addresses: Vec<FixedAddress>,
    pub settings: PortSettings,
    pub binding: PortBinding,
    /// The server that the port was created for. The port is deleted with the server.
    pub made_for: Option<InstanceId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSettingsReplaced {
    pub network: NetworkId,
    pub port: PortId,
    pub settings: PortSettings,
    /// The server that the port was created for, as in the creation event. If there is a server, `dns_name` is the
    /// server's host name.
    pub made_for: Option<InstanceId>,
    /// The change of the tags. `settings` itself has no tags.
    pub tags: TagsChange,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReaddressed {
    pub network: NetworkId,
    pub port: PortId,
    pub mac: String,
    pub addresses: Vec<FixedAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBound {
    pub network: NetworkId,
    pub port: PortId,
    pub binding: PortBinding,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortUnbound {
    pub network: NetworkId,
    pub port: PortId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDeleted {
    pub network: NetworkId,
    pub port: PortId,
}

/// The older version, with all tags. Chronova still reads it and no longer writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSettingsReplacedV1 {
    pub network: NetworkId,
    pub settings: NetworkSettings,
}

impl From<NetworkSettingsReplacedV1> for NetworkSettingsReplaced {
    fn from(old: NetworkSettingsReplacedV1) -> Self {
        let (settings, tags) = TagsChange::all(old.settings);
        Self { network: old.network, settings, tags }
    }
}

/// The older version, with all tags. Chronova still reads it and no longer writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetSettingsReplacedV1 {
    pub network: NetworkId,
    pub subnet: SubnetId,
    pub settings: SubnetSettings,
}

impl From<SubnetSettingsReplacedV1> for SubnetSettingsReplaced {
    fn from(old: SubnetSettingsReplacedV1) -> Self {
        let (settings, tags) = TagsChange::all(old.settings);
        Self { network: old.network, subnet: old.subnet, settings, tags }
    }
}

/// The first version, without the server and with all tags. Chronova still reads it and no longer writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSettingsReplacedV1 {
    pub network: NetworkId,
    pub port: PortId,
    pub settings: PortSettings,
}

impl From<PortSettingsReplacedV1> for PortSettingsReplaced {
    fn from(old: PortSettingsReplacedV1) -> Self {
        let (settings, tags) = TagsChange::all(old.settings);
        Self { network: old.network, port: old.port, settings, made_for: None, tags }
    }
}

/// The second version, with all tags. Chronova still reads it and no longer writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSettingsReplacedV2 {
    pub network: NetworkId,
    pub port: PortId,
    pub settings: PortSettings,
    pub made_for: Option<InstanceId>,
}

impl From<PortSettingsReplacedV2> for PortSettingsReplaced {
    fn from(old: PortSettingsReplacedV2) -> Self {
        let (settings, tags) = TagsChange::all(old.settings);
        Self { network: old.network, port: old.port, settings, made_for: old.made_for, tags }
    }
}

impl Default for NetworkSettings {
    /// Neutron's defaults.
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            admin_state_up: true,
            shared: false,
            external: false,
            port_security: true,
            mtu: 1500,
            dns_domain: String::new(),
            is_default: false,
            tags: Vec::new(),
        }
    }
}

impl Default for PortSettings {
    /// Neutron's defaults; the profile of a port is an empty JSON object.
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            admin_state_up: true,
            port_security: true,
            security_groups: Vec::new(),
            allowed_address_pairs: Vec::new(),
            dhcp_options: Vec::new(),
            dns_name: String::new(),
            dns_domain: String::new(),
            vnic_type: "normal".to_owned(),
            profile: "{}".to_owned(),
            propagate_uplink_status: true,
            tags: Vec::new(),
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<NetworkEvent> {
    let mut all = of_networks();
    all.extend(super::floating::samples());
    all
}

fn of_networks() -> Vec<NetworkEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (network, subnet, port) = (NetworkId(uuid(1)), SubnetId(uuid(2)), PortId(uuid(3)));
    let project = ProjectId::new("p");
    let v4 = |last: u8| IpAddr::from([10, 0, 0, last]);
    let network_settings = NetworkSettings { name: "private".into(), tags: vec!["blue".into()], ..Default::default() };
    let subnet_settings = SubnetSettings {
        name: "private-v4".into(),
        description: String::new(),
        gateway: Some(v4(1)),
        dhcp: true,
        dns: vec![v4(2)],
        pools: vec![AllocationPool { start: v4(2), end: v4(254) }],
        host_routes: vec![HostRoute { destination: "192.0.2.0/24".into(), nexthop: "10.0.0.9".into() }],
        tags: vec![],
    };
    let port_settings = PortSettings {
        security_groups: vec![SecurityGroupId(uuid(4))],
        allowed_address_pairs: vec![AddressPair { address: "10.0.0.200".into(), mac: None }],
        dhcp_options: vec![DhcpOption { name: "mtu".into(), value: "1400".into(), ip_version: 4 }],
        dns_name: "web-1".into(),
        ..Default::default()
    };
    let addresses = vec![FixedAddress { subnet, address: v4(5) }];
    let binding = PortBinding { device: uuid(5).to_string(), owner: "compute:nova".into(), host: "h1".into() };
    let cidr = IpNet::new_assert(v4(0), 24);
    let tags = TagsChange::Difference { added: vec!["green".into()], removed: vec!["blue".into()] };
    let mac = "fa:16:3e:00:00:01".to_owned();
    vec![
        NetworkCreated {
            network,
            project: project.clone(),
            settings: network_settings.clone(),
            provider: ProviderAttributes {
                network_type: "vxlan".into(),
                physical_network: None,
                segmentation_id: Some(1),
            },
            availability_zone_hints: vec![],
        }
        .into(),
        NetworkSettingsReplaced {
            network,
            settings: NetworkSettings { tags: vec![], ..network_settings },
            tags: tags.clone(),
        }
        .into(),
        NetworkDeleted { network }.into(),
        SubnetAdded {
            network,
            subnet,
            project: project.clone(),
            cidr,
            ipv6_address_mode: None,
            ipv6_ra_mode: Some(Ipv6Mode::Slaac),
            settings: subnet_settings.clone(),
        }
        .into(),
        SubnetSettingsReplaced { network, subnet, settings: subnet_settings, tags: tags.clone() }.into(),
        SubnetRemoved { network, subnet }.into(),
        PortCreated {
            network,
            port,
            project,
            mac: mac.clone(),
            addresses: addresses.clone(),
            settings: port_settings.clone(),
            binding: binding.clone(),
            made_for: Some(InstanceId(uuid(5))),
        }
        .into(),
        PortSettingsReplaced { network, port, settings: port_settings, made_for: Some(InstanceId(uuid(5))), tags }
            .into(),
        PortReaddressed { network, port, mac, addresses }.into(),
        PortBound { network, port, binding }.into(),
        PortUnbound { network, port }.into(),
        PortDeleted { network, port }.into(),
    ]
}
