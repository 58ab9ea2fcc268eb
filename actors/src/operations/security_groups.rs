//! Security groups of a server.

use chronova_events::ids::{InstanceId, ProjectId};

use super::Operations;
use crate::ports::{PortError, ServiceCaller};

/// A change of the groups that apply to a server's ports.
#[derive(Debug, Clone, Copy)]
pub struct SecurityGroupChange<'a> {
    pub server: InstanceId,
    /// The server's project, which the group is of.
    pub project: &'a ProjectId,
    /// Id or name.
    pub group: &'a str,
    /// Whether the group applies afterwards.
    pub applies: bool,
}

impl Operations {
    /// Has a security group apply to all ports of a server, or to none of them.
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
