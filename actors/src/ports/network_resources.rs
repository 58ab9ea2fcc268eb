//! Networks, floating addresses and security groups as their users manage them through Nova's old API (`os-networks`,
//! `os-floating-ips`, `os-security-groups`, until 2.35).
//!
//! The service's own rules judge the user: a client of Neutron passes the user's token on, the embedded service asks
//! [`ServiceCaller::may`]. Resources that the caller may not see are `NotFound`. A refusal has the service's own message.
//!
//! | call | Neutron's part in it |
//! |---|---|
//! | `list_networks`, `find_network` | `GET networks` |
//! | `list_floating_ips`, `find_floating_ip` | `GET floatingips`, and `GET ports` for the devices |
//! | `allocate_floating_ip`, `release_floating_ip` | `POST` and `DELETE floatingips` |
//! | `associate_floating_ip` | `PUT floatingips` with another `port_id` |
//! | `list_groups`, `find_group` | `GET security-groups` |
//! | `create_group`, `change_group`, `delete_group` | `POST`, `PUT` and `DELETE security-groups` |
//! | `find_rule`, `add_rule`, `remove_rule` | `GET`, `POST` and `DELETE security-group-rules` |

use std::net::IpAddr;

use async_trait::async_trait;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::RuleTraffic;
use thiserror::Error;

use super::networks::{SecurityGroupInfo, SecurityRuleInfo};
use super::{PortError, ServiceCaller};

/// A network, as far as Nova's old API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkInfo {
    pub id: NetworkId,
    /// May be empty.
    pub name: String,
    /// Whether it gives out floating addresses.
    pub external: bool,
}

/// A floating address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIpInfo {
    pub id: FloatingIpId,
    pub project: ProjectId,
    pub address: IpAddr,
    pub network: NetworkId,
    /// The name of its network, or the network's id if that has no name.
    pub pool: Option<String>,
    /// `None`: it stands for nothing.
    pub target: Option<FloatingIpTarget>,
}

/// The fixed address that a floating one stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIpTarget {
    pub port: PortId,
    pub address: IpAddr,
    /// The id of the port's server; empty if no device has the port.
    pub device: String,
}

/// Why a project gets no floating address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FloatingIpAllocationReject {
    #[error("the network has no free address")]
    NoneLeft,
    #[error("the project may have no more floating addresses")]
    OverQuota,
    #[error(transparent)]
    Service(#[from] PortError),
}

/// A security group that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecurityGroup {
    pub project: ProjectId,
    pub name: String,
    pub description: String,
}

/// The resources of users.
#[async_trait]
pub trait NetworkResources: Send + Sync {
    /// The networks that the caller may see.
    async fn list_networks(&self, caller: &ServiceCaller) -> Result<Vec<NetworkInfo>, PortError>;

    async fn find_network(&self, network: NetworkId, caller: &ServiceCaller) -> Result<NetworkInfo, PortError>;

    /// The floating addresses that the caller may see, in the order of their ids.
    async fn list_floating_ips(&self, caller: &ServiceCaller) -> Result<Vec<FloatingIpInfo>, PortError>;

    async fn find_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<FloatingIpInfo, PortError>;

    /// Gives the project a floating address of an external network; it stands for nothing yet.
    async fn allocate_floating_ip(
        &self,
        network: NetworkId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<FloatingIpInfo, FloatingIpAllocationReject>;

    /// Has the floating address stand for a fixed address of a port, or for nothing. `Conflict`: the fixed address has
    /// another one. `NotFound`: no router connects the two networks. `Invalid`: the port has no such IPv4 address.
    async fn associate_floating_ip(
        &self,
        id: FloatingIpId,
        to: Option<(PortId, IpAddr)>,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// Gives the address back to its network, whatever it stands for.
    async fn release_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<(), PortError>;

    /// The security groups of the caller's project, or those of all projects. The project's default group is there.
    async fn list_groups(&self, all: bool, caller: &ServiceCaller) -> Result<Vec<SecurityGroupInfo>, PortError>;

    async fn find_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<SecurityGroupInfo, PortError>;

    /// `Forbidden`: the project may have no more groups.
    async fn create_group(
        &self,
        wanted: NewSecurityGroup,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError>;

    async fn change_group(
        &self,
        group: SecurityGroupId,
        name: String,
        description: String,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError>;

    /// `Conflict`: a port is in the group.
    async fn delete_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<(), PortError>;

    async fn find_rule(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller)
    -> Result<SecurityRuleInfo, PortError>;

    /// `Forbidden`: the project may have no more rules. `Invalid`: the group has the rule.
    async fn add_rule(
        &self,
        group: SecurityGroupId,
        traffic: RuleTraffic,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError>;

    async fn remove_rule(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller) -> Result<(), PortError>;
}
