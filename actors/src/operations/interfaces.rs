//! Attaches interfaces to existing servers, and changes their addresses.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, ProcessId};
use chronova_events::instance::{FaultInfo, NicInfo, RequestedNic};
use chronova_events::process::StepOutput;
use chronova_events::store::StoreError;
use thiserror::Error;

use super::Operations;
use super::waiting::ProcessEnd;
use crate::aggregate::CommandError;
use crate::instance::actions::{self, ServerAction};
use crate::instance::{CallerRights, InstanceRecord, InstanceReject, InstanceRequest, InstanceRoot};
use crate::ports::{PortError, ServiceCaller};

/// The longest wait for an attachment. Nova's `long_rpc_timeout` is 1800 s, but clients do not wait so long.
const PATIENCE: Duration = Duration::from_mins(3);

/// One more interface for a server.
#[derive(Debug, Clone)]
pub struct AttachInterfaceRequest {
    pub server: InstanceId,
    pub nic: RequestedNic,
    pub asker: CallerRights,
}

/// Why a server did not get the interface.
#[derive(Debug, Error)]
pub enum AttachInterfaceReject {
    #[error("the server refused the interface")]
    Instance(#[source] InstanceReject),
    #[error("the network service refuses")]
    Network(#[source] PortError),
    #[error("the attachment failed: {}", .0.message)]
    Failed(FaultInfo),
    /// The attachment continues, but the operation has stopped waiting for it.
    #[error("attaching the interface takes too long: the request stops waiting for it")]
    NotYet,
    #[error("the event log does not answer")]
    Unavailable(#[source] StoreError),
}

/// A change of a server's addresses.
#[derive(Debug, Clone, Copy)]
pub enum AddressChange {
    /// Adds an address on this network.
    Add(NetworkId),
    Remove(IpAddr),
}

/// Why the addresses of a server did not change, or changed without being recorded.
#[derive(Debug, Error)]
pub enum InterfaceReject {
    #[error("the network service refuses")]
    Network(#[source] PortError),
    #[error("the server refuses the change of its addresses")]
    Instance(#[source] CommandError<InstanceReject>),
}

impl From<CommandError<InstanceReject>> for AttachInterfaceReject {
    fn from(error: CommandError<InstanceReject>) -> Self {
        match error {
            CommandError::Rejected(reject) => Self::Instance(reject),
            CommandError::Unavailable(error) => Self::Unavailable(error),
        }
    }
}

impl Operations {
    /// Attaches an interface to a server. Returns when the guest has it.
    ///
    /// # Errors
    /// The server or the network service refuses, the attachment fails or takes too long, or the log is not available.
    pub async fn attach_interface(
        &self,
        request: AttachInterfaceRequest,
        caller: &ServiceCaller,
        meta: Arc<Meta>,
    ) -> Result<NicInfo, AttachInterfaceReject> {
        let AttachInterfaceRequest { server: id, nic: wanted, asker } = request;
        let row = self.queries.views.servers.read(|servers| servers.get(id).cloned());
        let server = row.as_ref().and_then(|row| row.instance.alive());
        let server = server.ok_or(AttachInterfaceReject::Instance(InstanceReject::NotFound))?;
        actions::admit(server, ServerAction::AttachInterface, asker).map_err(AttachInterfaceReject::Instance)?;
        let project = &server.request.project;
        self.queries.networks.check_attach(project, &wanted, caller).await.map_err(AttachInterfaceReject::Network)?;
        let process = ProcessId::random();
        let command = InstanceRequest::AttachNic { process, wanted, asker };
        self.send_shown::<InstanceRoot>(&id, command, meta).await?;
        match self.process_end(process, PATIENCE).await.map_err(AttachInterfaceReject::Unavailable)? {
            ProcessEnd::Succeeded(outputs) => attached(outputs).ok_or(AttachInterfaceReject::NotYet),
            ProcessEnd::Failed(fault) => Err(AttachInterfaceReject::Failed(fault)),
            ProcessEnd::NotYet => Err(AttachInterfaceReject::NotYet),
        }
    }

    /// Adds an address to a server, or removes one, and then records the server's present addresses. If the network
    /// service does not answer now, the addresses are recorded later. Neutron's event `network-changed` leads to this,
    /// or the reconciler `server-interfaces` of the embedded service does it.
    ///
    /// # Errors
    /// There is no such server, the network service refuses, or the log is not available.
    pub async fn change_address(
        &self,
        server: InstanceId,
        change: AddressChange,
        meta: Arc<Meta>,
    ) -> Result<(), InterfaceReject> {
        let (networks, views) = (&self.queries.networks, &self.queries.views);
        let row = views.servers.read(|servers| servers.get(server).cloned());
        let known = row.as_ref().and_then(|row| row.instance.alive());
        let known = known.ok_or(InterfaceReject::Instance(CommandError::Rejected(InstanceReject::NotFound)))?;
        let (project, by) = (&known.request.project, Arc::clone(&meta));
        let changed = match change {
            AddressChange::Add(network) => networks.add_address(server, project, network, by).await,
            AddressChange::Remove(address) => networks.remove_address(server, project, address, by).await,
        };
        changed.map_err(InterfaceReject::Network)?;
        let Ok(nics) = networks.refresh(server, &known.nics).await else { return Ok(()) };
        let sent = self.send_shown::<InstanceRoot>(&server, InstanceRecord::NicsRefreshed { nics }, meta).await;
        sent.map(drop).map_err(InterfaceReject::Instance)
    }
}

/// The interface that the process attached.
fn attached(outputs: Vec<StepOutput>) -> Option<NicInfo> {
    outputs.into_iter().find_map(|output| match output {
        StepOutput::Nics(nics) => nics.into_iter().next(),
        _ => None,
    })
}
