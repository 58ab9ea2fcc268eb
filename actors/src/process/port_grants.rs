//! The PCI devices and resources that a server's ports request from its next host, and those that they have on a host.

use chronova_events::ids::HostId;
use chronova_events::instance::{Alive, Placed};

use super::claim_holder::ClaimHolder;
use super::definition::{StepError, StepRun};
use super::{port_devices, port_resources};
use crate::ports::PortGrants;
use crate::scheduler::RequestSpec;

/// Adds to the request spec what the server's ports request.
pub(super) async fn take_requests(work: &StepRun, server: &Alive, request: &mut RequestSpec) -> Result<(), StepError> {
    request.device_ports = port_devices::requested(work, server).await?;
    request.port_requests = port_resources::requests(work, server).await?;
    Ok(())
}

/// The grants of the server's ports on the host, by this claim.
pub(super) async fn held(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    holder: ClaimHolder,
) -> Result<PortGrants, StepError> {
    Ok(PortGrants {
        devices: port_devices::held(work, host, server, holder).await?,
        allocations: port_resources::given(work, server, holder).await?,
    })
}

/// The grants of the server's ports at one end of its move, or on its only host.
pub(super) async fn at(work: &StepRun, server: &Alive, placed: &Placed) -> Result<PortGrants, StepError> {
    held(work, placed.host, server, ClaimHolder::at(server, placed)).await
}
