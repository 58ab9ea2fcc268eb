//! Reverts a move: the server gets its old host and flavor back.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `stop_target` | powers the guest off at its destination | starting it, if it ran |
//! | `bind_network` | binds the ports to the source again | binding them to the destination |
//! | `attach_volumes` | attaches the volumes to the source again | attaching them to the destination |
//! | `start_source` | defines the guest there with its present devices, starts it if it ran | powering it off |
//!
//! The cleanup of the destination and the release of its claim cannot be undone. They come last, and are retried until
//! they succeed. If the disks stayed in place (on the same host or on shared storage), restoring them from the copy
//! cannot be undone. Then the disks are restored and the guest is started in this last part, too.

use chronova_events::process::{ProcessOutcome, StepOutput};
use chronova_hypervisor::driver::{DriverError, StopMode};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::moving::MovingServer;
use super::{guest, move_instance, moved_volumes, moving, tpm};
use crate::instance::MoveRecord;

pub const DEFINITION: Definition = Definition {
    name: "revert_resize",
    steps: steps! {
        "stop_target" => stop_target, undone by start_target;
        "bind_network" => bind_network, undone by unbind;
        "attach_volumes" => attach_volumes, undone by reattach_volumes;
        "start_source" => start_source, undone by stop_source;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        let Some(subject) = moving::subject(work).await? else { return Ok(()) };
        match outcome {
            ProcessOutcome::Succeeded => {
                // If a delete has overtaken this process, the delete cleans up.
                if !moving::is_mine(work, &subject.server) {
                    return Ok(());
                }
                match moving::in_place(work, &subject).await? {
                    true => put_back(work, &subject).await?,
                    false => guest::destroy(work, subject.target()?.host).await?,
                }
                moving::take_back(work, &subject.moving).await?;
                moving::count(work, &subject.server, &subject.moving.old_flavor).await?;
                moving::record(work, MoveRecord::Reverted { process }).await
            }
            ProcessOutcome::Failed => {
                // The server keeps its new flavor, and gives back the quota that the request claimed for the old one.
                if moving::is_mine(work, &subject.server) {
                    moving::count(work, &subject.server, &subject.moving.new_flavor).await?;
                }
                let fault = moving::fault(work);
                moving::record(work, MoveRecord::RevertFailed { process, fault }).await
            }
            ProcessOutcome::CalledOff => Ok(()),
        }
    }
    .boxed()
}

/// Restores the disks that were set aside, defines the guest at the source, and starts it if it ran.
async fn put_back(work: &StepRun, subject: &MovingServer) -> Result<(), StepError> {
    let (source, target) = (&subject.moving.source, subject.target()?);
    if !subject.moving.stays() {
        moving::withdraw(work, target).await?;
    }
    move_instance::restore(work, subject).await?;
    if subject.moving.was_active {
        moving::start_again(work, source.host, &subject.server).await?;
    }
    moving::drop_kept(work, subject).await
}

async fn stop_target(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    moving::disks_at_rest(&subject.server)?;
    tpm::check_access(work, &subject.server).await?;
    // The source must answer before the first step, so that the process can end.
    if !work.host_answers(subject.moving.source.host)? {
        let message = format!("Service is unavailable at this time: host {} is down.", subject.moving.source.hostname);
        return Err(StepError::fatal(409, &message, ""));
    }
    let driver = work.driver(subject.target()?.host)?;
    match driver.stop(work.instance_id(), StopMode::Hard).await {
        // As in Nova, the revert does not need the guest at the destination. A vanished guest counts as off.
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => Ok(StepOutput::Nothing),
        Err(error) => Err(StepError::only_here(error)),
    }
}

async fn start_target(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    match subject.moving.was_active && moving::is_mine(work, &subject.server) {
        true => moving::start_again(work, subject.target()?.host, &subject.server).await,
        false => Ok(()),
    }
}

async fn bind_network(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    moving::bind(work, &subject.moving.source).await?;
    Ok(StepOutput::Nothing)
}

async fn unbind(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    moving::bind(work, subject.target()?).await
}

async fn attach_volumes(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    if !subject.moving.stays() {
        moved_volumes::take(work, &subject.server, &subject.moving.source).await?;
    }
    Ok(StepOutput::Nothing)
}

async fn reattach_volumes(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    match subject.moving.stays() {
        true => Ok(()),
        false => moved_volumes::take_back(work, &subject.server, subject.target()?).await,
    }
}

async fn start_source(work: &StepRun) -> Result<StepOutput, StepError> {
    let subject = moving::mine(work).await?;
    let host = subject.moving.source.host;
    // On the same host, `conclude` replaces the existing guest.
    if subject.moving.stays() {
        return Ok(StepOutput::Nothing);
    }
    guest::connect(work, host, &subject.server).await?;
    if moving::in_place(work, &subject).await? {
        return Ok(StepOutput::Nothing);
    }
    // No other host has the old disks, so the error is final.
    guest::install_as_before(work, &subject, subject.moving.was_active).await.map_err(StepError::only_here)?;
    Ok(StepOutput::Nothing)
}

async fn stop_source(work: &StepRun) -> Result<(), StepError> {
    let Some(subject) = moving::subject(work).await? else { return Ok(()) };
    match subject.moving.stays() {
        true => Ok(()),
        // The undo starts the guest at its destination again, so it must be off here.
        false => moving::see_off(work, &subject, &subject.moving.source, subject.moving.was_active).await.map(drop),
    }
}
