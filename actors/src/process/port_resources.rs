//! The resources of ports, in the processes of servers.
//!
//! The claim of a new host includes the resources of the server's ports. An interface that is attached to a server on
//! its host claims its resources under the id of the process. Only the end of the process adds them to the server's
//! claim. A detachment takes the resources out of the server's claim in the same way. So a repeated step finds its own
//! work, also while another interface of the server changes.

use chronova_events::ids::{ConsumerId, HostId, PortId};
use chronova_events::instance::Alive;
use chronova_events::ledger::{Allocation, Claimed};

use super::claim_holder::{ClaimHolder, caught_up, server_consumer};
use super::definition::{StepError, StepRun};
use super::port_devices;
use crate::aggregate::CommandError;
use crate::ledger::{CELL, LedgerCommand, LedgerRoot, ServerClaim};
use crate::port_resources::{proposals, providers, share};
use crate::ports::{PortAllocations, PortResourceRequest};

/// The requests of the server's ports.
pub(super) async fn requests(work: &StepRun, server: &Alive) -> Result<Vec<PortResourceRequest>, StepError> {
    of_ports(work, &port_devices::of_users(server)).await
}

async fn of_ports(work: &StepRun, ports: &[PortId]) -> Result<Vec<PortResourceRequest>, StepError> {
    match ports.is_empty() {
        true => Ok(Vec::new()),
        false => Ok(work.context.networks.resource_requests(ports, &work.meta).await?),
    }
}

/// The providers of the server's ports, by this claim. If the claim lacks resources of the ports, for example because the
/// user has changed a port's policy meanwhile, no providers are named. The network service then refuses to bind the ports.
pub(super) async fn given(work: &StepRun, server: &Alive, holder: ClaimHolder) -> Result<PortAllocations, StepError> {
    let requests = requests(work, server).await?;
    if requests.is_empty() {
        return Ok(PortAllocations::new());
    }
    caught_up(work).await?;
    let found = work.context.views.placement.read(|view| {
        let held = view.ledger.consumers.get(&holder.consumer(work, &view.ledger))?;
        providers(&requests, &held.claim.allocations, &view.ledger)
    });
    if found.is_none() {
        tracing::warn!(instance = %work.instance_id(), "ports request resources that their server has not claimed");
    }
    Ok(found.unwrap_or_default())
}

// ------------------------------------------------------------------------------- interfaces of servers on their hosts

/// The consumer of the resources of the process's port.
fn part(work: &StepRun) -> ConsumerId {
    ConsumerId::new(work.running.process.to_string())
}

/// Claims the resources of one more port of a server, from providers of its host. Returns the port's providers.
pub(super) async fn claim(
    work: &StepRun,
    server: &Alive,
    host: HostId,
    port: PortId,
) -> Result<PortAllocations, StepError> {
    let requests = of_ports(work, &[port]).await?;
    let Some(request) = requests.first() else { return Ok(PortAllocations::new()) };
    caught_up(work).await?;
    let known = work.context.views.placement.read(|view| {
        let held = view.ledger.consumers.get(&part(work))?;
        providers(&requests, &held.claim.allocations, &view.ledger)
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let allocations = proposed(work, request, host).ok_or_else(|| no_room(work, "no provider of the host has room"))?;
    let claim = Claimed {
        consumer: part(work),
        project: server.request.project.clone(),
        user: server.request.user.clone(),
        consumer_type: Some("INSTANCE".to_owned()),
        allocations: allocations.clone(),
    };
    let claim = LedgerCommand::ClaimAll { claims: vec![ServerClaim { claim, group: None, guest: None }] };
    match work.context.gateway.send::<LedgerRoot>(&CELL, claim, work.meta.clone()).await {
        Ok(_) => {}
        // Another server was faster, or the view lags.
        Err(CommandError::Rejected(reject)) => return Err(StepError::again(reject)),
        Err(error) => return Err(error.into()),
    }
    let found = work.context.views.placement.read(|view| providers(&requests, &allocations, &view.ledger));
    found.ok_or_else(|| no_room(work, "the providers do not fit the request"))
}

/// Nova's `InterfaceAttachResourceAllocationFailed`.
fn no_room(work: &StepRun, details: &'static str) -> StepError {
    let message = format!(
        "Failed to allocate additional resources to instance {} for the attached interface: {details}.",
        work.instance_id()
    );
    StepError::fatal(400, &message, "")
}

/// Allocations for the port from the tree of the host.
fn proposed(work: &StepRun, request: &PortResourceRequest, host: HostId) -> Option<Vec<Allocation>> {
    work.context.views.placement.read(|view| proposals(&view.index, request, host, 1)).pop()
}

/// Moves the resources of a port, which the server is about to lose, from the server's claim to the process.
pub(super) async fn set_aside(work: &StepRun, port: PortId) -> Result<(), StepError> {
    let requests = of_ports(work, &[port]).await?;
    let Some(request) = requests.first() else { return Ok(()) };
    caught_up(work).await?;
    let allocations = work.context.views.placement.read(|view| {
        let held = view.ledger.consumers.get(&server_consumer(work))?;
        let given = providers(&requests, &held.claim.allocations, &view.ledger)?;
        Some(share(request, given.get(&port)?))
    });
    let Some(allocations) = allocations else { return Ok(()) };
    tell(work, LedgerCommand::SetPartAside { server: server_consumer(work), part: part(work), allocations }).await
}

/// Adds the resources that the process holds to the server's claim.
pub(super) async fn join(work: &StepRun) -> Result<(), StepError> {
    tell(work, LedgerCommand::JoinPart { server: server_consumer(work), part: part(work) }).await
}

/// Releases the resources that the process holds.
pub(super) async fn release(work: &StepRun) -> Result<(), StepError> {
    tell(work, LedgerCommand::Release { consumer: part(work) }).await
}

async fn tell(work: &StepRun, command: LedgerCommand) -> Result<(), StepError> {
    work.context.gateway.send::<LedgerRoot>(&CELL, command, work.meta.clone()).await?;
    Ok(())
}
