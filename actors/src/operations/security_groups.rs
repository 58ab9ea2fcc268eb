//! Security groups of a server.

use chronova_events::ids::{InstanceId, ProjectId};

use super::Operations;
use crate::ports::{PortError, ServiceCaller};

/// A change of the security groups of a server's ports.
#[derive(Debug, Clone, Copy)]
pub struct SecurityGroupChange<'a> {
    pub server: InstanceId,
    /// The project of the server and of the group.
    pub project: &'a ProjectId,
    /// The id or the name of the group.
    pub group: &'a str,
    /// Whether the ports have the group afterwards.
    pub applies: bool,
}

impl Operations {
    /// Adds a security group to all ports of a server, or removes it from all.
    ///
    /// # Errors
    /// The network service refuses.
    pub async fn change_security_group(
        &self,
        change: SecurityGroupChange<'_>,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let SecurityGroupChange { server, project, group, applies } = change;
        let networks = &self.queries.networks;
        match applies {
            true => networks.add_security_group(server, project, group, caller).await,
            false => networks.remove_security_group(server, project, group, caller).await,
        }
    }
}
