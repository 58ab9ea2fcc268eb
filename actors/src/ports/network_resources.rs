//! Networks, floating addresses and security groups as their users manage them through Nova's old API (`os-networks`,
//! `os-floating-ips`, `os-security-groups`, until 2.35).
//!
//! The service checks the user's rights. A client of Neutron sends the user's token, and the embedded service calls
//! [`ServiceCaller::may`]. Resources that the caller may not see are `NotFound`. A refusal has the service's own
//! message.
//!
//! | call | requests to Neutron |
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
use crate::coordination::project_turns::ProjectTurn;

/// The fields of a network that Nova's old API shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkInfo {
    pub id: NetworkId,
    /// The name, which may be empty.
    pub name: String,
    /// Whether the network has floating addresses.
    pub external: bool,
}

/// A floating address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIpInfo {
    pub id: FloatingIpId,
    pub project: ProjectId,
    pub address: IpAddr,
    pub network: NetworkId,
    /// The name of its network, or the network's id if the network has no name.
    pub pool: Option<String>,
    /// The port's address that the floating address is mapped to, if there is one.
    pub target: Option<FloatingIpTarget>,
}

/// The fixed address that a floating address is mapped to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIpTarget {
    pub port: PortId,
    pub address: IpAddr,
    /// The id of the port's server; empty if no device has the port.
    pub device: String,
}

/// Why a project did not get a floating address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FloatingIpAllocationReject {
    #[error("the network has no free address")]
    NoneLeft,
    #[error("the project may have no more floating addresses")]
    OverQuota,
    #[error(transparent)]
    Service(#[from] PortError),
}

/// The request for a new security group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecurityGroup {
    pub project: ProjectId,
    pub name: String,
    pub description: String,
}

/// The resources that users manage through Nova's old API.
#[async_trait]
pub trait NetworkResources: Send + Sync {
    /// The networks that the caller may see.
    async fn list_networks(&self, caller: &ServiceCaller) -> Result<Vec<NetworkInfo>, PortError>;

    async fn find_network(&self, network: NetworkId, caller: &ServiceCaller) -> Result<NetworkInfo, PortError>;

    /// The floating addresses that the caller may see, in the order of their ids.
    async fn list_floating_ips(&self, caller: &ServiceCaller) -> Result<Vec<FloatingIpInfo>, PortError>;

    async fn find_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<FloatingIpInfo, PortError>;

    /// Waits until no other allocation of a floating address for the project is under way. `None`: the service orders
    /// the allocations by itself.
    async fn floating_ip_turn(&self, _project: &ProjectId) -> Option<ProjectTurn> {
        None
    }

    /// Allocates a floating address of an external network for the project. The address is not mapped yet.
    async fn allocate_floating_ip(
        &self,
        network: NetworkId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<FloatingIpInfo, FloatingIpAllocationReject>;

    /// Maps the floating address to a fixed address of a port, or to none. `Conflict`: the fixed address has another
    /// floating address. `NotFound`: no router connects the two networks. `Invalid`: the port has no such IPv4 address.
    async fn associate_floating_ip(
        &self,
        id: FloatingIpId,
        to: Option<(PortId, IpAddr)>,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// Releases the address, even if it is mapped.
    async fn release_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<(), PortError>;

    /// The security groups of the caller's project, or of all projects. They include the project's default group.
    async fn list_groups(&self, all: bool, caller: &ServiceCaller) -> Result<Vec<SecurityGroupInfo>, PortError>;

    async fn find_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<SecurityGroupInfo, PortError>;

    /// Creates a group. `Forbidden`: the project has reached its limit of groups.
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

    /// Deletes a group. `Conflict`: a port has the group.
    async fn delete_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<(), PortError>;

    async fn find_rule(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller)
    -> Result<SecurityRuleInfo, PortError>;

    /// Adds a rule. `Forbidden`: the project has reached its limit of rules. `Invalid`: the group already has the rule.
    async fn add_rule(
        &self,
        group: SecurityGroupId,
        traffic: RuleTraffic,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError>;

    async fn remove_rule(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller) -> Result<(), PortError>;
}
