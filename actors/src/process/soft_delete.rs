//! Soft-deletes a server, so that it can be restored. The process only goes forward, and retries each step until the
//! step succeeds.
//!
//! | step | does |
//! |---|---|
//! | `power_off` | powers the guest off; a host that does not answer keeps it running |
//! | `release_quota` | releases the project's quota |
//!
//! Ports, disks and the claim stay, so that a restore returns the same server on the same host.

use chronova_events::instance::Alive;
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::{DriverError, StopMode};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, settled, steps};
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::quota::{QuotaCommand, QuotaRoot};

pub const DEFINITION: Definition = Definition {
    name: "soft_delete",
    steps: steps! {
        "power_off" => power_off;
        "release_quota" => release_quota;
    },
    undoes: false,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let record = InstanceRecord::SoftDeleted { process: work.running.process };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

/// The server, while this process owns the server's task. A final delete or an administrator may have overtaken the
/// process.
async fn mine(work: &StepRun) -> Result<Option<Alive>, StepError> {
    let mine = |server: &Alive| server.ongoing.map(|ongoing| ongoing.process()) == Some(work.running.process);
    Ok(work.server().await?.filter(mine))
}

async fn power_off(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(placed) = mine(work).await?.and_then(|server| server.placement) else { return Ok(StepOutput::Nothing) };
    if !work.host_answers(placed.host)? {
        return Ok(StepOutput::Nothing);
    }
    match work.driver(placed.host)?.stop(work.instance_id(), StopMode::Hard).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(StepOutput::Nothing),
        Err(error) => Err(StepError::again(error)),
    }
}

async fn release_quota(work: &StepRun) -> Result<StepOutput, StepError> {
    if let Some(server) = mine(work).await? {
        let project = server.request.project.clone();
        let release = QuotaCommand::Release { project: project.clone(), instance: work.instance_id() };
        work.context.gateway.send::<QuotaRoot>(&project, release, work.meta.clone()).await?;
    }
    Ok(StepOutput::Nothing)
}
