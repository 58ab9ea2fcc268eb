//! Networks, floating addresses and security groups of users, for Nova's old API: see [`NetworkResources`].

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::network::{FloatingIp, NetworkRow};
use chronova_events::security_group::{
    GroupCreated, GroupSettings, RuleAdded, RuleTraffic, SecurityGroup, default_group,
};
use chronova_projections::networks::NetworksView;

use super::reads::{group_info, rule_info};
use super::{EmbeddedNetworks, port_error};
use crate::aggregate::CommandError;
use crate::coordination::project_turns::ProjectTurn;
use crate::ports::{
    EmbeddedPolicy, FloatingIpAllocationReject, FloatingIpInfo, FloatingIpTarget, NetworkInfo, NetworkResources,
    NewSecurityGroup, PortError, SecurityGroupInfo, SecurityRuleInfo, ServiceCaller,
};
use crate::services::embedded::network::floating_ips::{self, FloatingIpTargetReject};
use crate::services::embedded::network::quota::limit_of;
use crate::services::embedded::network::security_group::{
    GroupPatch, SecurityGroupCommand, SecurityGroupReject, SecurityGroupRoot,
};
use crate::services::embedded::network::{FloatingIpPatch, NetworkCommand, NetworkReject, access};

fn sees_network(row: &NetworkRow, caller: &ServiceCaller) -> bool {
    let (settings, rule) = (row.settings(), (EmbeddedPolicy::Network, "get_network"));
    let open = caller.rights.is_none() && (settings.shared || settings.external);
    open || caller.may(rule, Some(&row.created.project), &access::network(row))
}

fn sees_floating_ip(row: &FloatingIp, caller: &ServiceCaller) -> bool {
    caller.may((EmbeddedPolicy::Network, "get_floatingip"), Some(row.project()), &access::owned(row.project()))
}

/// Refuses a change that the policy of the Network API denies the user.
fn check_right(rule: &'static str, project: &ProjectId, caller: &ServiceCaller) -> Result<(), PortError> {
    match caller.may((EmbeddedPolicy::Network, rule), Some(project), &access::owned(project)) {
        true => Ok(()),
        false => Err(PortError::Forbidden(format!("Policy doesn't allow {rule} to be performed."))),
    }
}

/// Whether the caller sees the group. Nova calls Neutron for the user. Neutron shows a user only the groups of the
/// user's project, and an administrator all groups.
fn sees_group(group: &SecurityGroup, caller: &ServiceCaller) -> bool {
    caller.is_admin || caller.project.as_ref() == Some(group.project())
}

fn network_info(row: &NetworkRow) -> NetworkInfo {
    let settings = row.settings();
    NetworkInfo { id: row.created.network, name: settings.name.clone(), external: settings.external }
}

fn floating_ip_info(view: &NetworksView, row: &FloatingIp) -> FloatingIpInfo {
    let pool = |network: &Arc<NetworkRow>| match network.settings().name.as_str() {
        "" => network.created.network.to_string(),
        name => name.to_owned(),
    };
    let target = view.association(row).map(|to| FloatingIpTarget {
        port: to.port,
        address: to.address,
        device: view.port(to.port).map(|port| port.binding().device.clone()).unwrap_or_default(),
    });
    FloatingIpInfo {
        id: row.id(),
        project: row.project().clone(),
        address: row.address(),
        network: row.network(),
        pool: view.network(row.network()).map(pool),
        target,
    }
}

fn no_floating_ip(id: FloatingIpId) -> PortError {
    PortError::NotFound(format!("Floating IP {id} could not be found"))
}

fn no_group(id: SecurityGroupId) -> PortError {
    PortError::NotFound(SecurityGroupReject::NotFound(id).to_string())
}

fn no_rule(id: SecurityGroupRuleId) -> PortError {
    PortError::NotFound(SecurityGroupReject::RuleNotFound(id).to_string())
}

/// The error of Neutron's `BadRequest`.
fn bad_request(reason: impl std::fmt::Display) -> PortError {
    PortError::Invalid(format!("Bad floatingip request: {reason}."))
}

fn target_error(reject: FloatingIpTargetReject) -> PortError {
    match reject {
        FloatingIpTargetReject::NotReachable { .. } => PortError::NotFound(reject.to_string()),
        other => bad_request(other),
    }
}

fn floating_ip_error(error: CommandError<NetworkReject>) -> PortError {
    match error {
        CommandError::Rejected(reject @ (NetworkReject::NotExternal(_) | NetworkReject::NoIpv4(_))) => {
            bad_request(reject)
        }
        error => port_error(error),
    }
}

fn allocation_error(error: CommandError<NetworkReject>) -> FloatingIpAllocationReject {
    match error {
        CommandError::Rejected(NetworkReject::NoMoreAddresses(_) | NetworkReject::NoExternalAddress(_)) => {
            FloatingIpAllocationReject::NoneLeft
        }
        CommandError::Rejected(NetworkReject::OverQuota(_)) => FloatingIpAllocationReject::OverQuota,
        error => floating_ip_error(error).into(),
    }
}

fn group_error(error: CommandError<SecurityGroupReject>) -> PortError {
    let reject = match error {
        CommandError::Rejected(reject) => reject,
        CommandError::Unavailable(error) => return PortError::Unavailable(error.to_string()),
    };
    let message = reject.to_string();
    match reject {
        SecurityGroupReject::NotFound(_) | SecurityGroupReject::RuleNotFound(_) => PortError::NotFound(message),
        SecurityGroupReject::OverQuota(_) => PortError::Forbidden(message),
        SecurityGroupReject::IdTaken(_) | SecurityGroupReject::Revision(_) => PortError::Conflict(message),
        SecurityGroupReject::DefaultExists
        | SecurityGroupReject::CannotChangeDefault
        | SecurityGroupReject::CannotRemoveDefault
        | SecurityGroupReject::RuleExists(_)
        | SecurityGroupReject::InvalidInput(_) => PortError::Invalid(message),
    }
}

impl EmbeddedNetworks {
    async fn send_to_groups(
        &self,
        project: &ProjectId,
        command: SecurityGroupCommand,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let sent = self.gateway.send::<SecurityGroupRoot>(project, command, Arc::clone(&caller.meta)).await;
        self.see(sent.map_err(group_error)?.position).await
    }

    fn limit(&self, project: &ProjectId, resource: &str) -> i64 {
        self.views.networks.read(|view| limit_of(view.limits(project), resource))
    }

    fn seen_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<Arc<FloatingIp>, PortError> {
        let found = self.views.networks.read(|view| view.floating_ip(id).cloned());
        found.filter(|row| sees_floating_ip(row, caller)).ok_or_else(|| no_floating_ip(id))
    }

    fn seen_group(&self, id: SecurityGroupId, caller: &ServiceCaller) -> Result<Arc<SecurityGroup>, PortError> {
        let found = self.views.security_groups.read(|view| view.get(id).cloned());
        found.filter(|group| sees_group(group, caller)).ok_or_else(|| no_group(id))
    }

    /// The group of a rule. If the caller may not see the group, the error is the same as if the rule did not exist.
    fn group_of(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller) -> Result<Arc<SecurityGroup>, PortError> {
        let group = self.views.security_groups.read(|view| view.get(view.rule(rule)?.added.group).cloned());
        group.filter(|group| sees_group(group, caller)).ok_or_else(|| no_rule(rule))
    }
}

#[async_trait]
impl NetworkResources for EmbeddedNetworks {
    async fn list_networks(&self, caller: &ServiceCaller) -> Result<Vec<NetworkInfo>, PortError> {
        let all: Vec<Arc<NetworkRow>> = self.views.networks.read(|view| view.networks().cloned().collect());
        Ok(all.iter().filter(|row| sees_network(row, caller)).map(|row| network_info(row)).collect())
    }

    async fn find_network(&self, network: NetworkId, caller: &ServiceCaller) -> Result<NetworkInfo, PortError> {
        let found = self.views.networks.read(|view| view.network(network).cloned());
        let seen = found.filter(|row| sees_network(row, caller)).map(|row| network_info(&row));
        seen.ok_or_else(|| PortError::NotFound(format!("Network {network} could not be found.")))
    }

    async fn list_floating_ips(&self, caller: &ServiceCaller) -> Result<Vec<FloatingIpInfo>, PortError> {
        let rows: Vec<Arc<FloatingIp>> =
            self.views.networks.read(|view| match caller.project.as_ref().filter(|_| !caller.is_admin) {
                Some(project) => {
                    let held = view.held(project).into_iter().flat_map(|held| &held.floating_ips);
                    held.filter_map(|id| view.floating_ip(*id)).cloned().collect()
                }
                None => view.floating_ips().cloned().collect(),
            });
        let seen: Vec<Arc<FloatingIp>> = rows.into_iter().filter(|row| sees_floating_ip(row, caller)).collect();
        Ok(self.views.networks.read(|view| seen.iter().map(|row| floating_ip_info(view, row)).collect()))
    }

    async fn find_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<FloatingIpInfo, PortError> {
        let row = self.seen_floating_ip(id, caller)?;
        Ok(self.views.networks.read(|view| floating_ip_info(view, &row)))
    }

    async fn floating_ip_turn(&self, project: &ProjectId) -> Option<ProjectTurn> {
        Some(self.floating_ip_turns.turn(project).await)
    }

    async fn allocate_floating_ip(
        &self,
        network: NetworkId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<FloatingIpInfo, FloatingIpAllocationReject> {
        check_right("create_floatingip", project, caller)?;
        let _turn = self.floating_ip_turns.turn(project).await;
        let mut wanted = floating_ips::any(project.clone());
        let id = wanted.floating_ip;
        wanted.limit = self.limit(project, "floatingip");
        wanted.elsewhere = self.views.networks.read(|view| floating_ips::elsewhere(view, project, network));
        let command = NetworkCommand::AllocateFloatingIp(wanted);
        let sent = self.send(network, command, &caller.meta).await.map_err(allocation_error)?;
        self.see(sent).await?;
        let made = self.views.networks.read(|view| Some(floating_ip_info(view, view.floating_ip(id)?)));
        made.ok_or_else(|| no_floating_ip(id).into())
    }

    async fn associate_floating_ip(
        &self,
        id: FloatingIpId,
        to: Option<(PortId, IpAddr)>,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let row = self.seen_floating_ip(id, caller)?;
        check_right("update_floatingip", row.project(), caller)?;
        let association = to.map(|(port, fixed)| {
            self.views.networks.read(|view| {
                let found = view.port(port);
                let found = found.ok_or_else(|| PortError::NotFound(format!("Port {port} could not be found.")))?;
                floating_ips::association(view, row.network(), found, Some(fixed)).map_err(target_error)
            })
        });
        let patch = FloatingIpPatch { association: Some(association.transpose()?), ..FloatingIpPatch::default() };
        let command = NetworkCommand::ChangeFloatingIp { floating_ip: id, patch };
        let sent = self.send(row.network(), command, &caller.meta).await.map_err(floating_ip_error)?;
        self.see(sent).await
    }

    async fn release_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<(), PortError> {
        let row = self.seen_floating_ip(id, caller)?;
        check_right("delete_floatingip", row.project(), caller)?;
        let command = NetworkCommand::ReleaseFloatingIp { floating_ip: id };
        let sent = self.send(row.network(), command, &caller.meta).await.map_err(floating_ip_error)?;
        self.see(sent).await
    }

    async fn list_groups(&self, all: bool, caller: &ServiceCaller) -> Result<Vec<SecurityGroupInfo>, PortError> {
        let own = caller.project.as_ref();
        if let Some(project) = own
            && self.views.security_groups.read(|view| view.get(default_group(project)).is_none())
        {
            let command = SecurityGroupCommand::EnsureDefault { project: project.clone() };
            self.send_to_groups(project, command, caller).await?;
        }
        Ok(self.views.security_groups.read(|view| {
            let wanted = view.all().filter(|group| (all && caller.is_admin) || own == Some(group.project()));
            wanted.map(|group| group_info(view, group)).collect()
        }))
    }

    async fn find_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<SecurityGroupInfo, PortError> {
        let found = self.seen_group(group, caller)?;
        Ok(self.views.security_groups.read(|view| group_info(view, &found)))
    }

    async fn create_group(
        &self,
        wanted: NewSecurityGroup,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError> {
        let NewSecurityGroup { project, name, description } = wanted;
        check_right("create_security_group", &project, caller)?;
        let group = SecurityGroupId::random();
        let settings = GroupSettings { name, description, stateful: true, tags: Vec::new() };
        let created = GroupCreated { group, project: project.clone(), settings };
        let limit = self.limit(&project, "security_group");
        self.send_to_groups(&project, SecurityGroupCommand::Create { created, limit }, caller).await?;
        self.find_group(group, caller).await
    }

    async fn change_group(
        &self,
        group: SecurityGroupId,
        name: String,
        description: String,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError> {
        let found = self.seen_group(group, caller)?;
        check_right("update_security_group", found.project(), caller)?;
        let patch = GroupPatch { name: Some(name), description: Some(description), ..GroupPatch::default() };
        self.send_to_groups(found.project(), SecurityGroupCommand::Change { group, patch }, caller).await?;
        self.find_group(group, caller).await
    }

    async fn delete_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<(), PortError> {
        let found = self.seen_group(group, caller)?;
        check_right("delete_security_group", found.project(), caller)?;
        // In Neutron, administrators may delete a project's default group.
        let default_too = caller.is_admin;
        let used = self.views.networks.read(|view| view.members(group).next().is_some());
        if used && (default_too || group != default_group(found.project())) {
            return Err(PortError::Conflict(format!("Security Group {group} in use.")));
        }
        self.send_to_groups(found.project(), SecurityGroupCommand::Delete { group, default_too }, caller).await
    }

    async fn find_rule(
        &self,
        rule: SecurityGroupRuleId,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError> {
        self.group_of(rule, caller)?;
        let found = self.views.security_groups.read(|view| Some(rule_info(view, view.rule(rule)?)));
        found.ok_or_else(|| no_rule(rule))
    }

    async fn add_rule(
        &self,
        group: SecurityGroupId,
        traffic: RuleTraffic,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError> {
        let found = self.seen_group(group, caller)?;
        check_right("create_security_group_rule", found.project(), caller)?;
        let (project, rule) = (found.project(), SecurityGroupRuleId::random());
        let added = RuleAdded { rule, group, project: project.clone(), description: String::new(), traffic };
        let limit = self.limit(project, "security_group_rule");
        let command = SecurityGroupCommand::AddRules { rules: vec![added], limit };
        self.send_to_groups(project, command, caller).await?;
        self.find_rule(rule, caller).await
    }

    async fn remove_rule(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller) -> Result<(), PortError> {
        let group = self.group_of(rule, caller)?;
        check_right("delete_security_group_rule", group.project(), caller)?;
        self.send_to_groups(group.project(), SecurityGroupCommand::RemoveRule { rule }, caller).await
    }
}
