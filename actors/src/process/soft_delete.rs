//! Deletes a server so that it can be restored. Goes forward only: each step is tried until it succeeds.
//!
//! | step | does |
//! |---|---|
//! | `power_off` | pulls the guest; a host that does not answer keeps it as it is |
//! | `release_quota` | gives the room back to the project |
//!
//! Ports, disks and the claim stay: what is restored is the same server on the same host.

use chronova_events::instance::Alive;
use chronova_events::process::{Outcome, Output};
use chronova_hypervisor::driver::{DriverError, StopMode};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work, settled};
use crate::instance::{InstanceAggregate, InstanceCommand};
use crate::quota::{QuotaAggregate, QuotaCommand};

pub const DEFINITION: Definition = Definition {
    name: "soft_delete",
    steps: &[
        Step { name: "power_off", run: |work| power_off(work).boxed(), undo: None },
        Step { name: "release_quota", run: |work| release_quota(work).boxed(), undo: None },
    ],
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, _: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let record = InstanceCommand::RecordSoftDeleted { process: work.running.process };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceAggregate>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

/// The server, as long as it is this process's turn: a delete for good or an administrator may have overtaken it.
async fn mine(work: &Work) -> Result<Option<Alive>, StepError> {
    let mine = |server: &Alive| server.ongoing.map(|ongoing| ongoing.process()) == Some(work.running.process);
    Ok(work.server().await?.filter(mine))
}

async fn power_off(work: &Work) -> Result<Output, StepError> {
    let Some(placed) = mine(work).await?.and_then(|server| server.placement) else { return Ok(Output::Nothing) };
    if !work.host_answers(placed.host)? {
        return Ok(Output::Nothing);
    }
    match work.driver(placed.host)?.stop(work.instance_id(), StopMode::Hard).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(Output::Nothing),
        Err(error) => Err(StepError::Again(error.to_string())),
    }
}

async fn release_quota(work: &Work) -> Result<Output, StepError> {
    if let Some(server) = mine(work).await? {
        let project = server.request.project.clone();
        let release = QuotaCommand::Release { project: project.clone(), instance: work.instance_id() };
        work.context.gateway.send::<QuotaAggregate>(&project, release, work.meta.clone()).await?;
    }
    Ok(Output::Nothing)
}
