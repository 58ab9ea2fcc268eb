//! The embedded network service: virtual networks, and the ports of servers.
//!
//! A network with its subnets and ports is one aggregate, so that no two ports ever get one address. [`decide`] has the
//! rules of the network. [`subnets`], [`ports`] and [`floating`] have the rules of its parts. [`creation`] creates
//! resources within the quota of their project. [`floating_ips`] associates floating addresses with ports of other
//! networks. [`ovn`] carries networks across hosts, if the operator has OVN. [`service`] implements the trait
//! [`crate::ports::NetworkService`], through which processes give servers their interfaces. [`reconcile`] keeps hosts and
//! servers in line with the log. [`access`] gives policy rules the attributes of resources.
//!
//! A router, a project's security groups and a project's quota are aggregates of their own: [`router`],
//! [`security_group`], [`quota`].
//!
//! Most refusals have Neutron's messages, because clients may rely on these messages.

pub mod access;
pub mod creation;
pub mod decide;
pub(crate) mod erasure;
mod floating;
pub mod floating_ips;
pub mod ovn;
mod ports;
mod subnets;

pub mod quota;
pub mod reconcile;
pub mod router;
pub mod security_group;
pub mod service;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{FloatingIpId, InstanceId, NetworkId, PortId, ProjectId, SecurityGroupId, SubnetId};
use chronova_events::network::{
    AddressPair, AllocationPool, Association, DhcpOption, FixedAddress, FloatingIpSettings, HostRoute, Ipv6Mode,
    Network, NetworkCreated, NetworkEvent, PortBinding, PortSettings,
};
use ipnet::IpNet;
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum NetworkRoot {}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // commands are moved a few times, never kept
pub enum NetworkCommand {
    Create(NetworkCreated),
    Change(NetworkPatch),
    /// Deletes the network and its subnets. Refused while the network has ports. Ports of floating IPs without an
    /// association do not count.
    Delete,
    AddSubnet(SubnetRequest),
    ChangeSubnet {
        subnet: SubnetId,
        patch: SubnetPatch,
    },
    RemoveSubnet {
        subnet: SubnetId,
    },
    CreatePort(PortRequest),
    ChangePort {
        port: PortId,
        patch: PortPatch,
    },
    /// Changes the security groups of all ports of a device at once, or of none of them.
    ChangeDeviceGroups(DeviceGroupsChange),
    /// Binds a port to a device on a host. The port must have no device, or have this one. A repetition changes
    /// nothing.
    BindPort {
        port: PortId,
        project: ProjectId,
        binding: PortBinding,
    },
    DeletePort {
        port: PortId,
    },
    /// Like [`ReleaseDevice`](Self::ReleaseDevice), but for one port. Does nothing if the port is not the device's.
    ReleasePort {
        device: InstanceId,
        project: ProjectId,
        port: PortId,
    },
    /// Deletes the ports that were created for the device, and unbinds its other ports. Ignores ports of other
    /// projects, because their owners could have set `device_id` to this device.
    ReleaseDevice {
        device: InstanceId,
        project: ProjectId,
    },
    AllocateFloatingIp(FloatingIpRequest),
    ChangeFloatingIp {
        floating_ip: FloatingIpId,
        patch: FloatingIpPatch,
    },
    /// Ends the floating IP's association with this address of the port. If the floating IP has another association or
    /// none, nothing changes.
    DisassociateFloatingIp {
        floating_ip: FloatingIpId,
        port: PortId,
        address: IpAddr,
    },
    /// Deletes the floating IP. Does nothing if there is none.
    ReleaseFloatingIp {
        floating_ip: FloatingIpId,
    },
    /// Executes `command` only if the part of the network still has this revision.
    IfRevision {
        of: NetworkPart,
        revision: u64,
        command: Box<NetworkCommand>,
    },
}

/// The parts of a network that have revisions of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPart {
    Network,
    Subnet(SubnetId),
    Port(PortId),
    FloatingIp(FloatingIpId),
}

/// A resource has changed since the client looked at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("Constrained to {expected}, but current revision is {current}")]
pub struct RevisionMismatch {
    pub expected: u64,
    pub current: u64,
}

impl RevisionMismatch {
    /// Fails if the revisions differ. Succeeds if the resource does not exist, because the decision on the command
    /// reports that.
    pub fn check(expected: u64, current: Option<u64>) -> Result<(), Self> {
        match current {
            Some(current) if current != expected => Err(Self { expected, current }),
            _ => Ok(()),
        }
    }
}

/// Adds a security group to all ports that a device has in the network, or removes the group from all of them.
#[derive(Debug, Clone)]
pub struct DeviceGroupsChange {
    pub device: InstanceId,
    /// A port of another project is not the device's, whatever its owner wrote into `device_id`.
    pub project: ProjectId,
    pub group: SecurityGroupId,
    /// Whether the group applies afterwards.
    pub applies: bool,
}

/// The changes of a network; `None` keeps a setting.
#[derive(Debug, Clone, Default)]
pub struct NetworkPatch {
    pub name: Option<String>,
    pub description: Option<String>,
    pub admin_state_up: Option<bool>,
    pub shared: Option<bool>,
    pub external: Option<bool>,
    pub port_security: Option<bool>,
    pub mtu: Option<u32>,
    pub dns_domain: Option<String>,
    pub is_default: Option<bool>,
    pub tags: Option<Vec<String>>,
}

/// The requested gateway of a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubnetGateway {
    /// The first address that hosts of the subnet can use.
    Default,
    None,
    At(IpAddr),
}

#[derive(Debug, Clone)]
pub struct SubnetRequest {
    pub subnet: SubnetId,
    pub project: ProjectId,
    pub name: String,
    pub description: String,
    pub cidr: IpNet,
    pub gateway: SubnetGateway,
    /// The allocation pools; `None` means all addresses that hosts can use, except the gateway's.
    pub pools: Option<Vec<AllocationPool>>,
    pub dhcp: bool,
    pub dns: Vec<IpAddr>,
    pub host_routes: Vec<HostRoute>,
    pub ipv6_address_mode: Option<Ipv6Mode>,
    pub ipv6_ra_mode: Option<Ipv6Mode>,
    pub tags: Vec<String>,
}

/// The changes of a subnet.
#[derive(Debug, Clone, Default)]
pub struct SubnetPatch {
    pub name: Option<String>,
    pub description: Option<String>,
    pub gateway: Option<Option<IpAddr>>,
    pub pools: Option<Vec<AllocationPool>>,
    pub dhcp: Option<bool>,
    pub dns: Option<Vec<IpAddr>>,
    pub host_routes: Option<Vec<HostRoute>>,
    pub tags: Option<Vec<String>>,
}

/// One requested address: a subnet, an address, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedIpRequest {
    pub subnet: Option<SubnetId>,
    pub address: Option<IpAddr>,
}

#[derive(Debug, Clone)]
pub struct PortRequest {
    pub port: PortId,
    pub project: ProjectId,
    /// The MAC address; `None` means one that is derived from the port's id.
    pub mac: Option<String>,
    /// The addresses. With `None`, the port gets one address from pools for each IP version that has pools, and one
    /// address in each subnet where addresses derive from the MAC.
    pub addresses: Option<Vec<FixedIpRequest>>,
    /// The settings, except `port_security` and `security_groups`, which have their own fields below.
    pub settings: PortSettings,
    /// `None`: the network's setting.
    pub port_security: Option<bool>,
    /// `None`: the project's default group, if port security is on and the port is not the network service's own.
    pub security_groups: Option<Vec<SecurityGroupId>>,
    pub binding: PortBinding,
    pub made_for: Option<InstanceId>,
}

/// The changes of a port.
#[derive(Debug, Clone, Default)]
pub struct PortPatch {
    pub name: Option<String>,
    pub description: Option<String>,
    pub admin_state_up: Option<bool>,
    pub mac: Option<String>,
    pub addresses: Option<Vec<FixedIpRequest>>,
    pub port_security: Option<bool>,
    pub security_groups: Option<Vec<SecurityGroupId>>,
    pub allowed_address_pairs: Option<Vec<AddressPair>>,
    pub dhcp_options: Option<Vec<DhcpOption>>,
    pub dns_name: Option<String>,
    pub dns_domain: Option<String>,
    pub vnic_type: Option<String>,
    pub profile: Option<String>,
    pub device: Option<String>,
    pub owner: Option<String>,
    pub host: Option<String>,
    pub tags: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
pub struct FloatingIpRequest {
    pub floating_ip: FloatingIpId,
    /// The port that this command creates for the floating IP's address.
    pub port: PortId,
    pub project: ProjectId,
    /// A subnet, an address, or `None` for any.
    pub address: Option<FixedIpRequest>,
    pub settings: FloatingIpSettings,
    pub association: Option<Association>,
    /// The project's quota; a negative number means no limit.
    pub limit: i64,
    /// How many floating IPs the project has in other networks.
    pub elsewhere: usize,
}

/// The changes of a floating IP.
#[derive(Debug, Clone, Default)]
pub struct FloatingIpPatch {
    pub description: Option<String>,
    /// `Some(None)` ends the association.
    pub association: Option<Option<Association>>,
    pub tags: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkReject {
    #[error("The network could not be found.")]
    NotFound,
    #[error("Subnet {0} could not be found.")]
    SubnetNotFound(SubnetId),
    #[error("Port {0} could not be found.")]
    PortNotFound(PortId),
    #[error("The id {0} is taken.")]
    IdTaken(String),
    #[error(transparent)]
    Revision(#[from] RevisionMismatch),
    #[error(
        "Unable to complete operation on network {0}. There are one or more ports still in use on the network, id for \
         these ports is: {1}."
    )]
    NetworkInUse(NetworkId, String),
    #[error("Unable to reconfigure sharing settings for network {0}. Multiple tenants are using it.")]
    SharedInUse(NetworkId),
    #[error("Unable to complete operation on subnet {0}: One or more ports have an IP allocation from this subnet.")]
    SubnetInUse(SubnetId),
    #[error("Invalid input for operation: {0}.")]
    InvalidInput(String),
    #[error("The allocation pool {0} is not valid.")]
    InvalidPool(String),
    #[error("The allocation pool {pool} spans beyond the subnet cidr {cidr}.")]
    PoolOutOfBounds { pool: String, cidr: IpNet },
    #[error("Found overlapping allocation pools: {first} {second} for subnet {cidr}.")]
    OverlappingPools { first: String, second: String, cidr: IpNet },
    #[error("Gateway ip {gateway} conflicts with allocation pool {pool}.")]
    GatewayInPool { gateway: IpAddr, pool: String },
    #[error("Unable to complete operation for network {network}. The IP address {address} is in use.")]
    AddressInUse { network: NetworkId, address: IpAddr },
    #[error("Unable to complete operation for network {network}. The mac address {mac} is in use.")]
    MacInUse { network: NetworkId, mac: String },
    #[error("No more IP addresses available on network {0}.")]
    NoMoreAddresses(NetworkId),
    #[error("No more MAC addresses available on network {0}.")]
    NoMoreMacs(NetworkId),
    #[error("IP address {0} is not a valid IP for any of the subnets on the specified network.")]
    NotInNetwork(IpAddr),
    #[error("IP address {0} is not a valid IP for the specified subnet.")]
    NotInSubnet(IpAddr),
    #[error("Port security must be enabled and port must have an IP address in order to use security groups.")]
    GroupsNeedSecurity,
    #[error(
        "Port has security group associated. Cannot disable port security or IP address until security group is \
         removed."
    )]
    PortHasGroups,
    #[error("Port Security must be enabled in order to have allowed address pairs on a port.")]
    PairsNeedSecurity,
    #[error("Port {0} is still in use.")]
    PortInUse(PortId),
    #[error("Router {router} already has a gateway in network {network}.")]
    GatewayExists { router: String, network: NetworkId },
    #[error("Network {0} is not a valid external network")]
    NotExternal(NetworkId),
    #[error("Network {0} does not contain any IPv4 subnet")]
    NoIpv4(NetworkId),
    #[error("Unable to find any IP address on external network {0}.")]
    NoExternalAddress(NetworkId),
    #[error("Floating IP {0} could not be found")]
    FloatingIpNotFound(FloatingIpId),
    #[error(
        "Cannot associate floating IP {floating} ({floating_ip}) with port {port} using fixed IP {fixed}, as that fixed IP \
         already has a floating IP on external network {network}."
    )]
    AlreadyAssociated { floating_ip: FloatingIpId, floating: IpAddr, port: PortId, fixed: IpAddr, network: NetworkId },
    #[error(
        "External network {0} cannot be updated to be made non-external, since it has existing gateway ports or floating \
         IPs."
    )]
    ExternalInUse(NetworkId),
    #[error("Quota exceeded for resources: ['{0}'].")]
    OverQuota(&'static str),
}

impl AggregateRoot for NetworkRoot {
    type Id = NetworkId;
    type State = Network;
    type Command = NetworkCommand;
    type Reject = NetworkReject;

    fn stream(id: &NetworkId) -> StreamId {
        StreamId::new("network", id)
    }

    fn decide(state: &Network, command: NetworkCommand) -> Result<Vec<NetworkEvent>, NetworkReject> {
        decide::decide(state, command)
    }
}

/// The pool's name in messages, as in Neutron: `10.0.0.2-10.0.0.254`.
fn pool_name(pool: &AllocationPool) -> String {
    format!("{}-{}", pool.start, pool.end)
}

/// The address of `mac` in an IPv6 prefix (RFC 4291, modified EUI-64).
pub fn eui64(cidr: &IpNet, mac: &str) -> Option<IpAddr> {
    let IpNet::V6(net) = cidr else { return None };
    let mut bytes = [0_u8; 6];
    let mut parts = mac.split(':');
    for byte in &mut bytes {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    let ([first, upper @ ..], lower) = ([bytes[0], bytes[1], bytes[2]], [bytes[3], bytes[4], bytes[5]]);
    let interface = u64::from_be_bytes([
        first ^ 2, // the universal/local bit
        upper[0],
        upper[1],
        0xff,
        0xfe,
        lower[0],
        lower[1],
        lower[2],
    ]);
    let address = u128::from(net.network()) | u128::from(interface);
    Some(std::net::Ipv6Addr::from(address).into())
}

/// A request for exactly this address.
impl From<FixedAddress> for FixedIpRequest {
    fn from(fixed: FixedAddress) -> Self {
        Self { subnet: Some(fixed.subnet), address: Some(fixed.address) }
    }
}
