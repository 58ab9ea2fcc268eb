//! The PCI devices and resources that a server's ports request from the server's next host, and the devices and
//! resources that the ports have on a host. Also the cells of hosts that are near the server's networks.

use chronova_events::ids::{HostId, NetworkId, PortId};
use chronova_events::instance::{Alive, Placed};

use super::claim_holder::ClaimHolder;
use super::definition::{StepError, StepRun};
use super::{port_devices, port_resources};
use crate::ports::PortGrants;
use crate::scheduler::RequestSpec;
use crate::topology::networks::NearCells;

/// Adds to the request spec what the server's ports request.
pub(super) async fn take_requests(work: &StepRun, server: &Alive, request: &mut RequestSpec) -> Result<(), StepError> {
    request.device_ports = port_devices::requested(work, server).await?;
    request.port_requests = port_resources::requests(work, server).await?;
    request.near_networks = near_networks(work, server, request).await?;
    Ok(())
}

/// The cells near the server's networks. The network service is asked only if the operator named cells, and only for a
/// guest with NUMA nodes. A server that is being built may leave the choice of its network to the service. As in Nova,
/// such a network restricts nothing.
async fn near_networks(work: &StepRun, server: &Alive, request: &RequestSpec) -> Result<Vec<NearCells>, StepError> {
    let cells = &work.context.scheduler.options().network_cells;
    if cells.is_empty() || !matches!(request.topology(), Ok(Some(_))) {
        return Ok(Vec::new());
    }
    let (networks, ports): (Vec<NetworkId>, Vec<PortId>) = match server.building() {
        Some(_) => {
            let listed = server.request.networks.listed();
            (listed.iter().filter_map(|nic| nic.network).collect(), listed.iter().filter_map(|nic| nic.port).collect())
        }
        None => (server.nics.iter().map(|nic| nic.network).collect(), Vec::new()),
    };
    if networks.is_empty() && ports.is_empty() {
        return Ok(Vec::new());
    }
    Ok(cells.near(&work.context.networks.carriers(&networks, &ports, &work.meta).await?))
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
