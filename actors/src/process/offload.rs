//! Offloads a shelved server from its host. This process also shelves a volume-backed server, which needs no snapshot.
//! The process only goes forward, and retries each step until the step succeeds.
//!
//! | step | does |
//! |---|---|
//! | `power_off` | powers the guest off, if the server is not shelved yet |
//! | `destroy_guest` | removes domain and disks; if the host is down, its agent does it when the host is back |
//! | `keep_volumes` | disconnects the volumes, which stay reserved for the server |
//! | `unbind_network` | unbinds the ports from the host; the server keeps them |
//! | `release_claim` | releases the server's claim in the ledger |
//!
//! The quota stays reserved, because the server still exists and may be unshelved.

use chronova_events::instance::{Alive, OngoingTask, Phase};
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::{DriverError, StopMode};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{away, build_instance, guest, turn};
use crate::instance::WorkOutcome;
use crate::ports::PortGrants;

pub const DEFINITION: Definition = Definition {
    name: "offload",
    steps: steps! {
        "power_off" => power_off;
        "destroy_guest" => destroy_guest;
        "keep_volumes" => keep_volumes;
        "unbind_network" => unbind_network;
        "release_claim" => release_claim;
    },
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    turn::end(work, WorkOutcome::Offloaded).boxed()
}

async fn power_off(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = turn::mine(work).await? else { return Ok(StepOutput::Nothing) };
    let shelving = matches!(server.ongoing, Some(OngoingTask::Shelve { .. }));
    let Some(placed) = server.placement.as_ref().filter(|_| shelving) else { return Ok(StepOutput::Nothing) };
    if !work.host_answers(placed.host)? {
        return Ok(StepOutput::Nothing);
    }
    let mode = match server.phase {
        Phase::Active { .. } => guest::graceful(work, &server),
        // A paused guest does not react to a graceful shutdown.
        _ => StopMode::Hard,
    };
    match work.driver(placed.host)?.stop(work.instance_id(), mode).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(StepOutput::Nothing),
        Err(error) => Err(StepError::again(error)),
    }
}

async fn keep_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    match turn::mine(work).await? {
        Some(server) => away::keep(work, &server).await?,
        None => away::let_go(work).await?,
    }
    Ok(StepOutput::Nothing)
}

async fn destroy_guest(work: &StepRun) -> Result<StepOutput, StepError> {
    if let Some(placed) = turn::mine(work).await?.and_then(|server| server.placement) {
        guest::destroy(work, placed.host).await?;
    }
    Ok(StepOutput::Nothing)
}

async fn unbind_network(work: &StepRun) -> Result<StepOutput, StepError> {
    if let Some(server) = turn::mine(work).await? {
        unbind(work, &server).await?;
    }
    Ok(StepOutput::Nothing)
}

/// Unbinds the ports from every host.
pub(super) async fn unbind(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    let zone = server.placement.as_ref().map_or("", |placed| &placed.availability_zone);
    let project = &server.request.project;
    let (networks, none) = (&work.context.networks, PortGrants::default());
    Ok(networks.rebind(work.instance_id(), project, None, zone, &none, work.meta.clone()).await?)
}

async fn release_claim(work: &StepRun) -> Result<StepOutput, StepError> {
    if turn::mine(work).await?.is_some() {
        build_instance::release_claim(work).await?;
    }
    Ok(StepOutput::Nothing)
}
