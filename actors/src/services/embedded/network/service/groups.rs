//! Security groups of a server: the groups of all its ports. Source: nova `network/security_group_api.py`
//! (`add_to_instance`, `remove_from_instance`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{InstanceId, NetworkId, ProjectId, SecurityGroupId};
use chronova_events::network::Port;

use super::EmbeddedNetworks;
use crate::aggregate::CommandError;
use crate::ports::PortError;
use crate::services::embedded::network::{DeviceGroupsChange, NetworkCommand, NetworkReject};

impl EmbeddedNetworks {
    pub(super) async fn add_group(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        name: &str,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let group = self.named_group(project, name)?;
        let ports = self.existing_ports(instance, project)?;
        let wanted = DeviceGroupsChange { device: instance, project: project.clone(), group, applies: true };
        self.change_groups(&ports, wanted, meta).await
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
        if !ports.iter().any(|port| port.settings().security_groups.contains(&group)) {
            let message = format!("Security group {group} not associated with the instance {instance}");
            return Err(PortError::NotFound(message));
        }
        let wanted = DeviceGroupsChange { device: instance, project: project.clone(), group, applies: false };
        self.change_groups(&ports, wanted, meta).await
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

    /// Changes the groups with one append for each network that the server is in. A crash between two appends leaves
    /// the change half done, and the client without an answer; a repeated request does the rest.
    async fn change_groups(
        &self,
        ports: &[Arc<Port>],
        wanted: DeviceGroupsChange,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let networks: BTreeSet<NetworkId> = ports.iter().map(|port| port.created.network).collect();
        let mut seen = Position::START;
        for network in networks {
            let command = NetworkCommand::ChangeDeviceGroups(wanted.clone());
            seen = seen.max(self.send(network, command, meta).await.map_err(refused)?);
        }
        self.see(seen).await
    }
}

/// If Neutron answers 400 to a group for a port, Nova answers 400, too. Chronova answers 400 to every refusal.
fn refused(error: CommandError<NetworkReject>) -> PortError {
    match error {
        CommandError::Rejected(reject) => PortError::Invalid(reject.to_string()),
        CommandError::Unavailable(error) => PortError::Unavailable(error.to_string()),
    }
}
