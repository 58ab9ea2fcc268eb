//! Takes a shelved server off its host, or one whose root disk is a volume: that needs no copy, so shelving it is this
//! process, too. Goes forward only: each step is tried until it succeeds.
//!
//! | step | does |
//! |---|---|
//! | `power_off` | switches a guest off that is not shelved yet |
//! | `destroy_guest` | removes domain and disks; a host that is down does it when it is back |
//! | `keep_volumes` | gives the connections of the volumes back; the volumes stay the server's |
//! | `unbind_network` | takes the ports off the host; they stay the server's |
//! | `release_claim` | gives the resources back to the ledger |
//!
//! The room in the quota stays: the server is there, and may come back.

use chronova_events::instance::{Alive, Ongoing, Phase};
use chronova_events::process::{Outcome, Output};
use chronova_hypervisor::driver::{DriverError, StopMode};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work};
use super::{away, build_instance, guest, turn};
use crate::instance::work::End;

pub const DEFINITION: Definition = Definition {
    name: "offload",
    steps: &[
        Step { name: "power_off", run: |work| power_off(work).boxed(), undo: None },
        Step { name: "destroy_guest", run: |work| destroy_guest(work).boxed(), undo: None },
        Step { name: "keep_volumes", run: |work| keep_volumes(work).boxed(), undo: None },
        Step { name: "unbind_network", run: |work| unbind_network(work).boxed(), undo: None },
        Step { name: "release_claim", run: |work| release_claim(work).boxed(), undo: None },
    ],
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, _: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    turn::end(work, End::Offloaded).boxed()
}

async fn power_off(work: &Work) -> Result<Output, StepError> {
    let Some(server) = turn::mine(work).await? else { return Ok(Output::Nothing) };
    let shelving = matches!(server.ongoing, Some(Ongoing::Shelve { .. }));
    let Some(placed) = server.placement.as_ref().filter(|_| shelving) else { return Ok(Output::Nothing) };
    if !work.host_answers(placed.host)? {
        return Ok(Output::Nothing);
    }
    let mode = match server.phase {
        Phase::Active { .. } => guest::graceful(work, &server),
        // One that stands still hears nothing.
        _ => StopMode::Hard,
    };
    match work.driver(placed.host)?.stop(work.instance_id(), mode).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(Output::Nothing),
        Err(error) => Err(StepError::Again(error.to_string())),
    }
}

async fn keep_volumes(work: &Work) -> Result<Output, StepError> {
    match turn::mine(work).await? {
        Some(server) => away::keep(work, &server).await?,
        None => away::let_go(work).await?,
    }
    Ok(Output::Nothing)
}

async fn destroy_guest(work: &Work) -> Result<Output, StepError> {
    if let Some(placed) = turn::mine(work).await?.and_then(|server| server.placement) {
        guest::destroy(work, placed.host).await?;
    }
    Ok(Output::Nothing)
}

async fn unbind_network(work: &Work) -> Result<Output, StepError> {
    if let Some(server) = turn::mine(work).await? {
        unbind(work, &server).await?;
    }
    Ok(Output::Nothing)
}

/// The ports are on no host.
pub(super) async fn unbind(work: &Work, server: &Alive) -> Result<(), StepError> {
    let zone = server.placement.as_ref().map_or("", |placed| &placed.availability_zone);
    let project = &server.request.project;
    Ok(work.context.networks.rebind(work.instance_id(), project, None, zone, work.meta.clone()).await?)
}

async fn release_claim(work: &Work) -> Result<Output, StepError> {
    if turn::mine(work).await?.is_some() {
        build_instance::release_claim(work).await?;
    }
    Ok(Output::Nothing)
}
