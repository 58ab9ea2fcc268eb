//! Gives a server one more network interface.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `allocate_port` | makes or binds the port | deleting or unbinding it |
//! | `plug` | network and filter on the host; the interface in the guest, now and for later starts | pulling it |
//!
//! A delete overtakes it: whoever finds the server leaving gives the port back.

use chronova_events::instance::{Alive, NicInfo, Ongoing, RequestedNic};
use chronova_events::process::{Outcome, Output, Task};
use chronova_hypervisor::driver::DriverError;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work, settled};
use super::guest;
use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::ports::{NicWanted, PortError};

pub const DEFINITION: Definition = Definition {
    name: "attach_interface",
    steps: &[
        Step { name: "allocate_port", run: |work| allocate(work).boxed(), undo: Some(|work| release(work).boxed()) },
        Step { name: "plug", run: |work| plug(work).boxed(), undo: Some(|work| pull(work).boxed()) },
    ],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let (Outcome::Succeeded, Some(nic)) = (outcome, allocated(work)) else { return Ok(()) };
        let record = InstanceCommand::RecordNicAttached { process: work.running.process, nic };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceAggregate>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

fn wanted(work: &Work) -> Option<&RequestedNic> {
    match &work.running.task {
        Task::AttachInterface { wanted, .. } => Some(wanted),
        _ => None,
    }
}

/// The interface that `allocate_port` found.
fn allocated(work: &Work) -> Option<NicInfo> {
    work.running.done.iter().find_map(|record| match &record.output {
        Output::Nics(nics) => nics.first().cloned(),
        _ => None,
    })
}

/// Nova's `InterfaceAttachFailed`.
fn failed(work: &Work, details: &str) -> StepError {
    let message = format!("Failed to attach network adapter device to {}", work.instance_id());
    StepError::fatal(500, &message, details)
}

/// The server, if it still is to have interfaces.
pub(super) fn staying(server: Option<Alive>) -> Option<Alive> {
    server.filter(|server| !matches!(server.ongoing, Some(Ongoing::Delete { .. })))
}

async fn allocate(work: &Work) -> Result<Output, StepError> {
    let server = staying(work.server().await?).ok_or_else(|| failed(work, "the server is leaving"))?;
    let Some(nic) = wanted(work).cloned() else { return Ok(Output::Nothing) };
    let Some(placed) = &server.placement else { return Err(failed(work, "the server is on no host")) };
    if let Some(port) = nic.port.filter(|port| server.nics.iter().any(|known| known.port == *port)) {
        return Err(PortError::Conflict(format!("Port {port} is still in use.")).into());
    }
    let wanted = NicWanted {
        process: work.running.process,
        instance: work.instance_id(),
        project: server.request.project.clone(),
        hostname: server.request.hostname.clone(),
        host: placed.hostname.clone(),
        availability_zone: placed.availability_zone.clone(),
        nic,
    };
    let nic = work.context.networks.attach(wanted, work.meta.clone()).await?;
    // Overtaken meanwhile: what a delete released before the port was made, nobody else gives back.
    match staying(work.server().await?) {
        Some(_) => Ok(Output::Nics(vec![nic])),
        None => Err(failed(work, "the server is leaving")),
    }
}

async fn release(work: &Work) -> Result<(), StepError> {
    let (networks, meta) = (&work.context.networks, work.meta.clone());
    let released = match wanted(work) {
        Some(RequestedNic { port: Some(port), .. }) => {
            // A port that was the server's before this process began is not this process's to take away.
            let before = work.server().await?.is_some_and(|server| server.nics.iter().any(|nic| nic.port == *port));
            if before {
                return Ok(());
            }
            networks.detach(work.instance_id(), *port, meta).await
        }
        _ => networks.undo_attach(work.instance_id(), work.running.process, meta).await,
    };
    match released {
        Ok(()) | Err(PortError::NotFound(_)) => Ok(()),
        Err(error) => Err(StepError::Again(error.to_string())),
    }
}

async fn plug(work: &Work) -> Result<Output, StepError> {
    let server = work.present_server().await?;
    let (Some(nic), Some(placed)) = (allocated(work), &server.placement) else {
        return Err(failed(work, "the server is on no host"));
    };
    match guest::plug(work, placed.host, &server, nic).await {
        Ok(()) => Ok(Output::Nothing),
        Err(StepError::Again(reason)) => Err(StepError::Again(reason)),
        Err(error) => Err(failed(work, &error.fault().details)),
    }
}

async fn pull(work: &Work) -> Result<(), StepError> {
    let (Some(nic), Some(server)) = (allocated(work), work.server().await?) else { return Ok(()) };
    let Some(placed) = &server.placement else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    let driver = work.driver(placed.host)?;
    let Some(interfaces) = driver.interfaces() else { return Ok(()) };
    match interfaces.detach_nic(work.instance_id(), &nic.mac).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
        Err(error) => return Err(StepError::Again(error.to_string())),
    }
    guest::forget_filter(work, placed.host, nic).await;
    Ok(())
}
