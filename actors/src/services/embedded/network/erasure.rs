//! The personal data of the embedded network service. Some of its ports have the host names of servers.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::{Meta, StreamId};
use chronova_events::erasure::ErasureRequested;
use chronova_events::ids::{InstanceId, NetworkId, PortId};
use chronova_events::sealed::ERASED;
use chronova_projections::views::Views;

use super::{NetworkCommand, NetworkReject, NetworkRoot, PortPatch};
use crate::aggregate::{AggregateRoot as _, CommandError};
use crate::erasure::error::ErasureError;
use crate::erasure::holder::PersonalDataHolder;
use crate::gateway::CommandGateway;

/// The names of ports that were created for servers.
#[derive(Debug)]
pub(crate) struct PortNames;

#[async_trait]
impl PersonalDataHolder for PortNames {
    async fn erase(
        &self,
        gateway: &CommandGateway,
        views: &Views,
        request: &ErasureRequested,
        meta: &Arc<Meta>,
    ) -> Result<(), ErasureError> {
        for (network, port) in named_after(views, &request.servers) {
            let patch = PortPatch { dns_name: Some(ERASED.to_owned()), ..PortPatch::default() };
            let command = NetworkCommand::ChangePort { port, patch };
            match gateway.send::<NetworkRoot>(&network, command, Arc::clone(meta)).await {
                Ok(_) | Err(CommandError::Rejected(NetworkReject::NotFound | NetworkReject::PortNotFound(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn streams(&self, views: &Views, request: &ErasureRequested) -> Vec<StreamId> {
        if request.servers.is_empty() {
            return Vec::new();
        }
        // A deleted port may still be in the snapshot of its network.
        views.networks.read(|view| view.networks().map(|row| NetworkRoot::stream(&row.created.network)).collect())
    }
}

/// The ports that have the host name of one of these servers, and their networks.
fn named_after(views: &Views, servers: &[InstanceId]) -> Vec<(NetworkId, PortId)> {
    views.networks.read(|networks| {
        let of = |server: &InstanceId| {
            let device = server.to_string();
            let all = networks.of_device(&device).filter(|port| port.created.made_for == Some(*server));
            let named = all.filter(|port| !port.settings().dns_name.is_empty());
            named.map(|port| (port.created.network, port.created.port)).collect::<Vec<_>>()
        };
        servers.iter().flat_map(of).collect()
    })
}
