//! Security groups of servers. Source: nova `network/security_group_api.py`.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::{InstanceId, ProjectId, SecurityGroupId};
use serde_json::{Value, json};

use super::NeutronNetworks;
use super::calls::{NeutronCaller, encoded, fields};
use super::documents::{NeutronGroup, NeutronPort, NeutronRule};
use crate::ports::{PortError, SecurityGroupInfo, SecurityRuleInfo, ServiceCaller};

/// The group with this id, or the only one with this name.
pub(super) fn choose<'a>(groups: &'a [NeutronGroup], named: &str) -> Result<&'a NeutronGroup, PortError> {
    if let Some(group) = groups.iter().find(|group| group.id.to_string() == named) {
        return Ok(group);
    }
    let mut matching = groups.iter().filter(|group| group.name == named);
    match (matching.next(), matching.next()) {
        (Some(_), Some(_)) => Err(PortError::Conflict(format!(
            "Multiple security groups found matching '{named}'. Use an ID to be more specific."
        ))),
        (Some(only), None) => Ok(only),
        (None, _) => Err(PortError::Invalid(format!("Security group {named} not found."))),
    }
}

impl NeutronNetworks {
    pub(super) async fn groups_of_project(
        &self,
        project: &ProjectId,
        asker: NeutronCaller<'_>,
    ) -> Result<Vec<NeutronGroup>, PortError> {
        let query = format!("project_id={}", encoded(project.as_str()));
        Ok(self.calls.list(asker, "security-groups", &query).await?)
    }

    pub(super) async fn change_group_of(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        named: &str,
        applies: bool,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let asker = NeutronCaller::of(caller);
        let groups = self.groups_of_project(project, asker).await?;
        let group = choose(&groups, named).map_err(|error| match error {
            PortError::Invalid(_) => {
                PortError::NotFound(format!("Security group {named} not found for project {project}."))
            }
            other => other,
        })?;
        let id = group.id.to_string();
        let ports = self.ports_of_server(asker, instance, project).await?;
        if ports.is_empty() {
            let message = format!("instance_id {instance} could not be found as device id on any ports");
            return Err(PortError::Invalid(message));
        }
        if !applies && !ports.iter().any(|port| port.security_groups.contains(&id)) {
            let message = format!("Security group {id} not associated with the instance {instance}");
            return Err(PortError::NotFound(message));
        }
        for port in ports.iter().filter(|port| port.security_groups.contains(&id) != applies) {
            self.set_groups(port, &id, applies, asker).await?;
        }
        Ok(())
    }

    async fn set_groups(
        &self,
        port: &NeutronPort,
        group: &str,
        applies: bool,
        asker: NeutronCaller<'_>,
    ) -> Result<(), PortError> {
        // Nova's `SecurityGroupCannotBeApplied`.
        if applies && (port.port_security_enabled == Some(false) || port.fixed_ips.is_empty()) {
            let message =
                "Network requires port_security_enabled and subnet associated in order to apply security groups.";
            return Err(PortError::Invalid(message.to_owned()));
        }
        let mut groups: Vec<&str> = port.security_groups.iter().map(String::as_str).filter(|id| *id != group).collect();
        groups.extend(applies.then_some(group));
        let body = fields([("security_groups", json!(groups))]);
        let changed = self.calls.change::<Value>(asker, "ports", "port", &port.id.to_string(), body).await;
        changed.map(drop).map_err(|error| match PortError::from(error) {
            PortError::Conflict(message) => PortError::Invalid(message),
            other => other,
        })
    }

    pub(super) async fn names_of_groups(
        &self,
        servers: &[(InstanceId, ProjectId)],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<Vec<String>>>, PortError> {
        let asker = NeutronCaller::of(caller);
        let ids: Vec<String> = servers.iter().map(|(server, _)| server.to_string()).collect();
        let mut ports: Vec<NeutronPort> = self.calls.list_by(asker, "ports", "device_id", &ids, "").await?;
        ports.sort_by_key(|port| port.id);
        let groups: BTreeSet<String> = ports.iter().flat_map(|port| port.security_groups.iter().cloned()).collect();
        let names = self.names_of(groups, asker).await?;
        let of_server = |(server, project): &(InstanceId, ProjectId)| {
            let device = server.to_string();
            let mut own = ports.iter().filter(|port| port.device_id == device && port.project() == *project).peekable();
            own.peek()?;
            let ids = own.flat_map(|port| &port.security_groups);
            Some(ids.map(|id| names.get(id).unwrap_or(id).clone()).collect())
        };
        Ok(servers.iter().map(of_server).collect())
    }

    /// The names of groups by their ids.
    pub(super) async fn names_of(
        &self,
        groups: BTreeSet<String>,
        asker: NeutronCaller<'_>,
    ) -> Result<BTreeMap<String, String>, PortError> {
        let ids: Vec<String> = groups.into_iter().collect();
        let more = "&fields=id&fields=name";
        let found: Vec<NeutronGroup> = self.calls.list_by(asker, "security-groups", "id", &ids, more).await?;
        Ok(found.into_iter().map(|group| (group.id.to_string(), group.name)).collect())
    }

    pub(super) async fn named_groups(
        &self,
        project: &ProjectId,
        named: &[String],
        caller: &ServiceCaller,
    ) -> Result<Vec<Option<SecurityGroupInfo>>, PortError> {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let asker = NeutronCaller::of(caller);
        let all = self.groups_of_project(project, asker).await?;
        let find = |name: &String| {
            let by_id = all.iter().find(|group| group.id.to_string() == *name);
            by_id.or_else(|| all.iter().find(|group| group.name == *name)).cloned()
        };
        let found: Vec<Option<NeutronGroup>> = named.iter().map(find).collect();
        let infos = self.group_infos(found.iter().flatten().cloned().collect(), asker).await?;
        let info = |group: &Option<NeutronGroup>| {
            let id = group.as_ref()?.id;
            infos.iter().find(|info| info.id == id).cloned()
        };
        Ok(found.iter().map(info).collect())
    }

    /// Converts the groups, and looks up the owner and the name of each remote group in their rules.
    pub(super) async fn group_infos(
        &self,
        groups: Vec<NeutronGroup>,
        asker: NeutronCaller<'_>,
    ) -> Result<Vec<SecurityGroupInfo>, PortError> {
        let rules: Vec<NeutronRule> =
            groups.iter().flat_map(|group| group.security_group_rules.iter().cloned()).collect();
        let infos = self.rule_infos(&rules, &groups, asker).await?;
        let info = |group: NeutronGroup| SecurityGroupInfo {
            id: group.id,
            project: group.project(),
            rules: infos.iter().filter(|rule| rule.group == group.id).cloned().collect(),
            name: group.name,
            description: group.description.unwrap_or_default(),
        };
        Ok(groups.into_iter().map(info).collect())
    }

    /// Converts the rules. `near` are groups that the caller has already fetched.
    pub(super) async fn rule_infos(
        &self,
        rules: &[NeutronRule],
        near: &[NeutronGroup],
        asker: NeutronCaller<'_>,
    ) -> Result<Vec<SecurityRuleInfo>, PortError> {
        let mut remotes: BTreeMap<SecurityGroupId, (ProjectId, String)> =
            near.iter().map(|group| (group.id, (group.project(), group.name.clone()))).collect();
        let wanted: BTreeSet<SecurityGroupId> = rules
            .iter()
            .filter_map(|rule| rule.traffic().remote_group)
            .filter(|id| !remotes.contains_key(id))
            .collect();
        let ids: Vec<String> = wanted.into_iter().map(|id| id.to_string()).collect();
        let others: Vec<NeutronGroup> = self.calls.list_by(asker, "security-groups", "id", &ids, "").await?;
        remotes.extend(others.into_iter().map(|group| (group.id, (group.project(), group.name))));
        let info = |rule: &NeutronRule| {
            let traffic = rule.traffic();
            let remote = traffic.remote_group.and_then(|id| remotes.get(&id).cloned());
            SecurityRuleInfo { id: rule.id, group: rule.security_group_id, remote, traffic }
        };
        Ok(rules.iter().map(info).collect())
    }
}
