//! Detaches a network interface from a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `pull` | detaches the interface from the guest | attaching it again, if the port is still the server's |
//! | `release_port` | deletes the server's own port, or unbinds a user's port; releases its resources | claiming them |
//!
//! If the guest does not release the interface, the server keeps its port. Once the port is deleted, nothing can be
//! undone. When the server loses the port, its PCI device is released, if it has one.

use chronova_events::ids::PortId;
use chronova_events::instance::{Alive, NicInfo};
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::DriverError;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::attach_interface::staying;
use super::definition::{Definition, StepError, StepRun, settled, steps};
use super::{guest, port_devices, port_resources};
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::ports::PortError;

pub const DEFINITION: Definition = Definition {
    name: "detach_interface",
    steps: steps! {
        "pull" => pull, undone by plug_again;
        "release_port" => release, undone by keep_resources;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn port(work: &StepRun) -> Option<PortId> {
    match work.running.task {
        Task::DetachInterface { port, .. } => Some(port),
        _ => None,
    }
}

/// The server and the interface; `None` if the server is deleted or does not have the interface any more.
async fn subject(work: &StepRun) -> Result<Option<(Alive, NicInfo)>, StepError> {
    let Some(server) = work.server().await? else { return Ok(None) };
    let nic = server.nics.iter().find(|nic| Some(nic.port) == port(work)).cloned();
    Ok(nic.map(|nic| (server, nic)))
}

/// Whether the port still belongs to the server in the network service.
async fn is_bound(work: &StepRun, nic: &NicInfo) -> Result<bool, StepError> {
    let now = work.context.networks.refresh(work.instance_id(), std::slice::from_ref(nic)).await?;
    Ok(!now.is_empty())
}

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let Some((_, nic)) = subject(work).await? else { return port_resources::release(work).await };
        let process = work.running.process;
        let record = match outcome == ProcessOutcome::Succeeded || !is_bound(work, &nic).await? {
            true => {
                port_resources::release(work).await?;
                if !nic.owned {
                    port_devices::release(work, nic.port).await?;
                }
                InstanceRecord::NicDetached { process, port: nic.port }
            }
            false => {
                port_resources::join(work).await?;
                let fault = work.running.failure.as_ref().map(|failure| failure.fault.clone());
                let fault = fault.unwrap_or_else(|| StepError::again("cancelled").fault());
                InstanceRecord::NicDetachFailed { process, port: nic.port, fault }
            }
        };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

async fn pull(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some((server, nic)) = subject(work).await? else { return Ok(StepOutput::Nothing) };
    let Some(placed) = &server.placement else { return Ok(StepOutput::Nothing) };
    if port_devices::is_whole_card(work, placed.host, &nic).await? {
        let message =
            format!("Port {} has binding:vnic_type direct-physical, so its server cannot release it.", nic.port);
        return Err(StepError::fatal(400, &message, ""));
    }
    match work.driver(placed.host)?.interfaces().needed()?.detach_nic(work.instance_id(), &nic.mac).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
        Err(error) if error.is_transient() => return Err(StepError::again(error)),
        Err(error) => {
            let message = format!("Failed to detach network adapter device from {}", work.instance_id());
            return Err(StepError::fatal(500, &message, error));
        }
    }
    guest::forget_filters(work, placed.host, &[nic]).await;
    Ok(StepOutput::Nothing)
}

async fn plug_again(work: &StepRun) -> Result<(), StepError> {
    let Some((server, nic)) = subject(work).await? else { return Ok(()) };
    let (Some(server), true) = (staying(Some(server)), is_bound(work, &nic).await?) else { return Ok(()) };
    let Some(placed) = &server.placement else { return Ok(()) };
    // The agent corrects the guest's interfaces when the host is back. An evacuation must not wait for a host that is
    // down.
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    match guest::plug(work, placed.host, &server, nic).await {
        Ok(()) => Ok(()),
        Err(error @ StepError::Again(_)) => Err(error),
        // The host may refuse for ever. The agent does not compare the guest while a process works on it, so this
        // process must not retry for ever.
        Err(error) => {
            guest::leave_to_agent(work, placed.host, &error);
            Ok(())
        }
    }
}

async fn release(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some((server, nic)) = subject(work).await? else { return Ok(StepOutput::Nothing) };
    let (networks, project) = (&work.context.networks, &server.request.project);
    // The network service refuses to create a port that requests resources.
    if !nic.owned {
        port_resources::set_aside(work, nic.port).await?;
    }
    match networks.detach(work.instance_id(), project, nic.port, nic.owned, work.meta.clone()).await {
        Ok(()) | Err(PortError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(StepOutput::Nothing)
}

/// The server keeps the port's resources if it keeps the port.
async fn keep_resources(work: &StepRun) -> Result<(), StepError> {
    match subject(work).await? {
        Some((_, nic)) if is_bound(work, &nic).await? => port_resources::join(work).await,
        _ => Ok(()),
    }
}
