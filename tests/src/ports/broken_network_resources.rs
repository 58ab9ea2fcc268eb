//! The users' side of [`BrokenNetworks`], which breaks one chosen promise. A case of the conformance suite must detect
//! it.

use std::net::IpAddr;

use async_trait::async_trait;
use chronova_actors::ports::{
    FloatingIpAllocationReject, FloatingIpInfo, NetworkInfo, NetworkResources, NewSecurityGroup, PortError,
    SecurityGroupInfo, SecurityRuleInfo, ServiceCaller,
};
use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::RuleTraffic;

use super::broken_networks::{BrokenNetworks, NetworkFault};

impl BrokenNetworks {
    fn whole(&self) -> &dyn NetworkResources {
        self.networks.resources().unwrap()
    }

    /// The caller. If this service has the fault `fault`, the caller becomes an administrator.
    fn raised(&self, caller: &ServiceCaller, fault: NetworkFault) -> ServiceCaller {
        ServiceCaller { is_admin: caller.is_admin || self.fault == fault, ..caller.clone() }
    }
}

#[async_trait]
impl NetworkResources for BrokenNetworks {
    async fn list_networks(&self, caller: &ServiceCaller) -> Result<Vec<NetworkInfo>, PortError> {
        self.whole().list_networks(&self.raised(caller, NetworkFault::ShowsAllNetworks)).await
    }

    async fn find_network(&self, network: NetworkId, caller: &ServiceCaller) -> Result<NetworkInfo, PortError> {
        self.whole().find_network(network, caller).await
    }

    async fn list_floating_ips(&self, caller: &ServiceCaller) -> Result<Vec<FloatingIpInfo>, PortError> {
        self.whole().list_floating_ips(caller).await
    }

    async fn find_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<FloatingIpInfo, PortError> {
        self.whole().find_floating_ip(id, caller).await
    }

    async fn allocate_floating_ip(
        &self,
        network: NetworkId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<FloatingIpInfo, FloatingIpAllocationReject> {
        self.whole().allocate_floating_ip(network, project, caller).await
    }

    async fn associate_floating_ip(
        &self,
        id: FloatingIpId,
        to: Option<(PortId, IpAddr)>,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        if self.fault == NetworkFault::AssociatesForEver && to.is_none() {
            return Ok(());
        }
        self.whole().associate_floating_ip(id, to, caller).await
    }

    async fn release_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.whole().release_floating_ip(id, &self.raised(caller, NetworkFault::ReleasesForAll)).await
    }

    async fn list_groups(&self, all: bool, caller: &ServiceCaller) -> Result<Vec<SecurityGroupInfo>, PortError> {
        self.whole().list_groups(all, &self.raised(caller, NetworkFault::ListsAllGroups)).await
    }

    async fn find_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<SecurityGroupInfo, PortError> {
        self.whole().find_group(group, caller).await
    }

    async fn create_group(
        &self,
        wanted: NewSecurityGroup,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError> {
        self.whole().create_group(wanted, caller).await
    }

    async fn change_group(
        &self,
        group: SecurityGroupId,
        name: String,
        description: String,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError> {
        self.whole().change_group(group, name, description, caller).await
    }

    async fn delete_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<(), PortError> {
        match self.whole().delete_group(group, caller).await {
            Err(PortError::Conflict(_)) if self.fault == NetworkFault::DeletesUsedGroups => Ok(()),
            answer => answer,
        }
    }

    async fn find_rule(
        &self,
        rule: SecurityGroupRuleId,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError> {
        self.whole().find_rule(rule, caller).await
    }

    async fn add_rule(
        &self,
        group: SecurityGroupId,
        traffic: RuleTraffic,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError> {
        self.whole().add_rule(group, traffic, &self.raised(caller, NetworkFault::AddsRulesForAll)).await
    }

    async fn remove_rule(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.whole().remove_rule(rule, caller).await
    }
}
