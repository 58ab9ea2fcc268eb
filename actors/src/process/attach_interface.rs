//! Attaches a network interface to a server.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `claim_device` | if the port needs a PCI device: claims its resources, then the device | releasing the device |
//! | `allocate_port` | claims the port's resources, creates or binds the port | releasing them, deleting or unbinding it |
//! | `plug` | creates network and filter on the host, attaches the interface to the guest | detaching it |
//!
//! A delete overtakes this process. If `allocate_port` finds the server being deleted, the step fails, and its undo
//! releases the port.

use chronova_events::instance::{Alive, NicInfo, OngoingTask, RequestedNic};
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::driver::DriverError;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, settled, steps};
use super::{guest, port_devices, port_resources};
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::ports::{InterfaceRequest, PortError, PortGrants};

pub const DEFINITION: Definition = Definition {
    name: "attach_interface",
    steps: steps! {
        "claim_device" => claim_device, undone by release_device;
        "allocate_port" => allocate, undone by release;
        "plug" => plug, undone by pull;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (ProcessOutcome::Succeeded, Some(nic)) = (outcome, allocated(work)) else {
            return port_resources::release(work).await;
        };
        port_resources::join(work).await?;
        let record = InstanceRecord::NicAttached { process: work.running.process, nic };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

fn wanted(work: &StepRun) -> Option<&RequestedNic> {
    match &work.running.task {
        Task::AttachInterface { wanted, .. } => Some(wanted),
        _ => None,
    }
}

/// The interface that `allocate_port` returned.
fn allocated(work: &StepRun) -> Option<NicInfo> {
    work.running.done.iter().find_map(|record| match &record.output {
        StepOutput::Nics(nics) => nics.first().cloned(),
        _ => None,
    })
}

/// Nova's `InterfaceAttachFailed`.
fn failed(work: &StepRun, details: &str) -> StepError {
    let message = format!("Failed to attach network adapter device to {}", work.instance_id());
    StepError::fatal(500, &message, details)
}

/// The server, unless it is being deleted.
pub(super) fn staying(server: Option<Alive>) -> Option<Alive> {
    server.filter(|server| !matches!(server.ongoing, Some(OngoingTask::Delete { .. })))
}

async fn claim_device(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = staying(work.server().await?).ok_or_else(|| failed(work, "the server is being deleted"))?;
    let Some(port) = wanted(work).and_then(|nic| nic.port) else { return Ok(StepOutput::Nothing) };
    let Some(placed) = &server.placement else { return Err(failed(work, "the server is on no host")) };
    let needy = port_devices::of_ports(work, &[port]).await?;
    if let Some(wanted) = needy.first() {
        // The device must be of the card that gives the resources. `conclude` releases them after a failure.
        let given = port_resources::claim(work, &server, placed.host, port).await?;
        port_devices::claim(work, &server, placed.host, wanted, &given).await?;
    }
    Ok(StepOutput::Nothing)
}

async fn release_device(work: &StepRun) -> Result<(), StepError> {
    let Some(port) = wanted(work).and_then(|nic| nic.port) else { return Ok(()) };
    // A port that the server had before this process began keeps its device.
    match work.server().await?.is_some_and(|server| server.nics.iter().any(|nic| nic.port == port)) {
        true => Ok(()),
        false => port_devices::release(work, port).await,
    }
}

async fn allocate(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = staying(work.server().await?).ok_or_else(|| failed(work, "the server is being deleted"))?;
    let Some(nic) = wanted(work).cloned() else { return Ok(StepOutput::Nothing) };
    let Some(placed) = &server.placement else { return Err(failed(work, "the server is on no host")) };
    if let Some(port) = nic.port.filter(|port| server.nics.iter().any(|known| known.port == *port)) {
        return Err(PortError::Conflict(format!("Port {port} is still in use.")).into());
    }
    let grants = match nic.port {
        Some(port) => PortGrants {
            devices: port_devices::of_port(work, placed.host, port).await?.into_iter().collect(),
            allocations: port_resources::claim(work, &server, placed.host, port).await?,
        },
        // A port that is created for a server has `vnic_type` `normal`, and the network service refuses to create a port
        // that requests resources.
        None => PortGrants::default(),
    };
    let wanted = InterfaceRequest {
        process: work.running.process,
        instance: work.instance_id(),
        project: server.request.project.clone(),
        hostname: server.request.hostname.clone(),
        host: placed.hostname.clone(),
        availability_zone: placed.availability_zone.clone(),
        nic,
        grants,
    };
    let nic = work.context.networks.attach(wanted, work.meta.clone()).await?;
    // A delete may have released the server's ports before this port was created. Then only this step can release the
    // port.
    match staying(work.server().await?) {
        Some(_) => Ok(StepOutput::Nics(vec![nic])),
        None => Err(failed(work, "the server is being deleted")),
    }
}

async fn release(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = work.known_server().await? else { return Ok(()) };
    let (networks, project, meta) = (&work.context.networks, &server.request.project, work.meta.clone());
    let released = match wanted(work) {
        Some(RequestedNic { port: Some(port), .. }) => {
            // A port that the server had before this process began stays with the server.
            let before = work.server().await?.is_some_and(|server| server.nics.iter().any(|nic| nic.port == *port));
            if before {
                return Ok(());
            }
            networks.detach(work.instance_id(), project, *port, false, meta).await
        }
        _ => networks.undo_attach(work.instance_id(), project, work.running.process, meta).await,
    };
    match released {
        Ok(()) | Err(PortError::NotFound(_)) => port_resources::release(work).await,
        Err(error) => Err(StepError::again(error)),
    }
}

async fn plug(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = work.present_server().await?;
    let (Some(nic), Some(placed)) = (allocated(work), &server.placement) else {
        return Err(failed(work, "the server is on no host"));
    };
    match guest::plug(work, placed.host, &server, nic).await {
        Ok(()) => Ok(StepOutput::Nothing),
        Err(StepError::Again(reason)) => Err(StepError::Again(reason)),
        Err(error) => Err(failed(work, &error.fault().details)),
    }
}

async fn pull(work: &StepRun) -> Result<(), StepError> {
    let (Some(nic), Some(server)) = (allocated(work), work.server().await?) else { return Ok(()) };
    let Some(placed) = &server.placement else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    let driver = work.driver(placed.host)?;
    let Some(interfaces) = driver.interfaces() else { return Ok(()) };
    match interfaces.detach_nic(work.instance_id(), &nic.mac).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
        Err(error) => return Err(StepError::again(error)),
    }
    guest::forget_filters(work, placed.host, &[nic]).await;
    Ok(())
}
