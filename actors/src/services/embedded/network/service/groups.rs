//! Security groups of a server, which are the groups of all its ports. Source: nova `network/security_group_api.py`
//! (`add_to_instance`, `remove_from_instance`).

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, ProjectId, SecurityGroupId};
use chronova_events::network::Port;

use super::EmbeddedNetworks;
use crate::aggregate::CommandError;
use crate::ports::PortError;
use crate::services::embedded::network::{NetworkCommand, NetworkReject, PortPatch};

impl EmbeddedNetworks {
    pub(super) async fn add_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        name: &str,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let group = self.named_group(project, name)?;
        for port in self.existing_ports(instance, project)? {
            let mut groups = port.settings().security_groups.clone();
            if !groups.contains(&group) {
                groups.push(group);
                self.set_groups(&port, groups, meta).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn remove_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        name: &str,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let group = self.named_group(project, name)?;
        let ports = self.existing_ports(instance, project)?;
        let having: Vec<_> = ports.iter().filter(|port| port.settings().security_groups.contains(&group)).collect();
        if having.is_empty() {
            let message = format!("Security group {group} not associated with the instance {instance}");
            return Err(PortError::NotFound(message));
        }
        for port in having {
            let groups = port.settings().security_groups.iter().copied().filter(|known| *known != group).collect();
            self.set_groups(port, groups, meta).await?;
        }
        Ok(())
    }

    /// The project's group with this id, or the only one with this name.
    fn named_group(&self, project: &ProjectId, name: &str) -> Result<SecurityGroupId, PortError> {
        let matching: Vec<SecurityGroupId> = self.views.security_groups.read(|view| {
            let own = view.of_project(project).into_iter().flat_map(|groups| groups.by_id.values());
            own.filter(|group| group.settings().name == name || group.id().to_string() == name)
                .map(|group| group.id())
                .collect()
        });
        match matching[..] {
            [] => Err(PortError::NotFound(format!("Security group {name} not found for project {project}."))),
            [one] => Ok(one),
            _ => Err(PortError::Conflict(format!(
                "Multiple security groups found matching '{name}'. Use an ID to be more specific."
            ))),
        }
    }

    fn existing_ports(&self, instance: InstanceId, project: &ProjectId) -> Result<Vec<Arc<Port>>, PortError> {
        let ports = self.ports_of(project, instance);
        match ports.is_empty() {
            true => {
                let message = format!("instance_id {instance} could not be found as device id on any ports");
                Err(PortError::Invalid(message))
            }
            false => Ok(ports),
        }
    }

    async fn set_groups(&self, port: &Port, groups: Vec<SecurityGroupId>, meta: &Arc<Meta>) -> Result<(), PortError> {
        let patch = PortPatch { security_groups: Some(groups), ..PortPatch::default() };
        let command = NetworkCommand::ChangePort { port: port.created.port, patch };
        let sent = self.send(port.created.network, command, meta).await.map_err(refused)?;
        self.see(sent).await
    }
}

/// Nova gives one error for all of Neutron's refusals of a port's groups.
fn refused(error: CommandError<NetworkReject>) -> PortError {
    match error {
        CommandError::Rejected(reject) => PortError::Invalid(reject.to_string()),
        CommandError::Unavailable(error) => PortError::Unavailable(error.to_string()),
    }
}
