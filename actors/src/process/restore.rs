//! Restores a soft-deleted server. Its quota was reserved before the request was recorded.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `keep_quota` | nothing: the quota is already reserved | releasing the quota |
//! | `start` | starts the guest from its own disk; creates a vanished guest again, from its disks | powering it off |

use chronova_events::instance::Alive;
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::{DriverError, StopMode};
use chronova_hypervisor::guest::Renew;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, settled, steps};
use super::{guest, power, turn};
use crate::instance::{InstanceRecord, InstanceRoot};
use crate::quota::{QuotaCommand, QuotaRoot};

pub const DEFINITION: Definition = Definition {
    name: "restore",
    steps: steps! {
        "keep_quota" => turn::nothing, undone by release_quota;
        "start" => start, undone by pull;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        let record = match (outcome, &work.running.failure) {
            (ProcessOutcome::Succeeded, _) => InstanceRecord::Restored { process },
            (_, failure) => {
                let fault = failure.as_ref().map(|failure| failure.fault.clone());
                let fault = fault.unwrap_or_else(|| StepError::again("cancelled").fault());
                InstanceRecord::RestoreFailed { process, fault }
            }
        };
        let gateway = &work.context.gateway;
        settled(gateway.send::<InstanceRoot>(&work.instance_id(), record, work.meta.clone()).await)
    }
    .boxed()
}

/// The server, while this process owns its task.
async fn mine(work: &StepRun) -> Result<Option<Alive>, StepError> {
    let mine = |server: &Alive| server.ongoing.map(|ongoing| ongoing.process()) == Some(work.running.process);
    Ok(work.server().await?.filter(mine))
}

async fn release_quota(work: &StepRun) -> Result<(), StepError> {
    if let Some(server) = mine(work).await? {
        let project = server.request.project.clone();
        let release = QuotaCommand::Release { project: project.clone(), instance: work.instance_id() };
        work.context.gateway.send::<QuotaRoot>(&project, release, work.meta.clone()).await?;
    }
    Ok(())
}

async fn start(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(server) = mine(work).await? else { return Ok(StepOutput::Nothing) };
    let Some(placed) = &server.placement else {
        return Err(StepError::fatal(500, "The server has no host.", ""));
    };
    guest::connect(work, placed.host, &server).await?;
    // The server was deleted in rescue, or the delete overtook a rescue, so the guest gets its own disk again.
    if server.rescue.is_some() {
        guest::reshape(work, placed.host, &server, Renew::Nothing, None).await?;
        return Ok(StepOutput::Nothing);
    }
    match guest::start(work, placed.host, &server).await? {
        Ok(()) => Ok(StepOutput::Nothing),
        Err(DriverError::NoSuchGuest(_)) => power::revive(work, placed.host, &server).await,
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error) => Err(error.into()),
    }
}

async fn pull(work: &StepRun) -> Result<(), StepError> {
    let Some(placed) = mine(work).await?.and_then(|server| server.placement) else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    match work.driver(placed.host)?.stop(work.instance_id(), StopMode::Hard).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::again(error)),
    }
}
