//! Rescues a server: starts it from another disk, with its own disks attached for repair.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `prepare_host` | caches and verifies the rescue image, creates networks and filters | (kept: cached, shared) |
//! | `power_off` | powers the guest off | starting it, if it ran |
//! | `rescue` | creates the rescue disk, defines and starts the guest with it | restoring definition and power state |

use chronova_events::instance::{Alive, Phase};
use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::{DriverError, StopMode};
use chronova_hypervisor::guest::Renew;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{guest, imaging, new_image, turn};
use crate::instance::WorkOutcome;

pub const DEFINITION: Definition = Definition {
    name: "rescue",
    steps: steps! {
        "prepare_host" => prepare_host;
        "power_off" => power_off, undone by power_on;
        "rescue" => rescue, undone by put_back;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    work.context.passwords.forget(work.running.process);
    turn::conclude(work, outcome, WorkOutcome::Rescued, WorkOutcome::RescueFailed)
}

async fn prepare_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    if let Some(image) = &server.rescue {
        new_image::place(work, placed.host, &server, image, new_image::not_rescuable).await?;
    }
    guest::connect(work, placed.host, &server).await?;
    Ok(StepOutput::Nothing)
}

async fn power_off(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    let mode = guest::graceful(work, &server);
    match work.driver(placed.host)?.stop(work.instance_id(), mode).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => Ok(StepOutput::Nothing),
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error) => Err(StepError::only_here(error)),
    }
}

async fn power_on(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = turn::mine(work).await? else { return Ok(()) };
    guest::start_again(work, &server).await
}

async fn rescue(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    guest::reshape(work, placed.host, &server, Renew::Nothing, server.rescue.as_deref()).await?;
    Ok(StepOutput::Nothing)
}

/// Restores the guest with its own disk, and starts it if it ran before. No reconciler removes a rescue disk. So the
/// undo waits for a host that is down, and is recorded as stuck meanwhile. A delete or an evacuation may overtake the
/// undo. Then the host's agent removes the guest when the host is back.
async fn put_back(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = turn::mine(work).await? else { return Ok(()) };
    let Some(placed) = &server.placement else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        let reason = format!("host {} is down: its guest may still have the rescue disk", placed.hostname);
        return Err(StepError::again(reason));
    }
    match undo_rescue(work, placed.host, &server).await {
        Err(error) => Err(error.persist()),
        Ok(()) => Ok(()),
    }
}

async fn undo_rescue(work: &StepRun, host: chronova_events::ids::HostId, server: &Alive) -> Result<(), StepError> {
    guest::connect(work, host, server).await?;
    guest::reshape(work, host, server, Renew::Nothing, None).await?;
    if !matches!(server.phase, Phase::Active { .. }) {
        work.driver(host)?.stop(work.instance_id(), StopMode::Hard).await?;
    }
    Ok(())
}
