//! Shelves a server: powers it off, and saves its disk as an image.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `keep_image` | nothing: the image already exists, without data | deleting it |
//! | `power_off` | powers the guest off | starting it, if it ran |
//! | `copy_disk` | copies the disk on its host | removing the copy |
//! | `upload` | sends the copy to the image service | (with the image) |
//! | `clean_up` | removes the copy | (nothing is left) |
//!
//! If shelved servers are offloaded at once, the offload is requested as soon as the server is shelved.

use std::time::Duration;

use chronova_events::ids::{ImageId, ProcessId};
use chronova_events::instance::Phase;
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::driver::StopMode;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, settled, steps};
use super::{guest, imaging, turn};
use crate::instance::{InstanceRequest, InstanceRoot, WorkOutcome, WorkRequest};

pub const DEFINITION: Definition = Definition {
    name: "shelve",
    steps: steps! {
        "keep_image" => turn::nothing, undone by drop_image;
        "power_off" => power_off, undone by power_on;
        "copy_disk" => copy_disk, undone by undo_copy;
        "upload" => upload;
        "clean_up" => clean_up;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let Some(image) = image(work) else { return Ok(()) };
        if outcome != ProcessOutcome::Succeeded {
            return turn::end(work, WorkOutcome::ShelveFailed(turn::fault(work))).await;
        }
        turn::end(work, WorkOutcome::Shelved { image }).await?;
        // An evacuation has overtaken the shelve after its last step, so nobody needs the image.
        if work.server().await?.is_some_and(|server| server.shelved != Some(image)) {
            return imaging::drop_image(work, image).await;
        }
        if work.context.server_options.shelved_offload == Some(Duration::ZERO) {
            let process = ProcessId::derive(work.running.process.0, "offload");
            let offload = InstanceRequest::from(WorkRequest::OffloadDue { process, shelved_by: None });
            let gateway = &work.context.gateway;
            settled(gateway.send::<InstanceRoot>(&work.instance_id(), offload, work.meta.clone()).await)?;
        }
        Ok(())
    }
    .boxed()
}

fn image(work: &StepRun) -> Option<ImageId> {
    match work.running.task {
        Task::Shelve { image, .. } => Some(image),
        _ => None,
    }
}

async fn drop_image(work: &StepRun) -> Result<(), StepError> {
    let Some(image) = image(work) else { return Ok(()) };
    imaging::drop_image(work, image).await
}

async fn power_off(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    let mode = match server.phase {
        Phase::Active { .. } => guest::graceful(work, &server),
        // A paused guest does not react to a graceful shutdown.
        _ => StopMode::Hard,
    };
    match work.driver(placed.host)?.stop(work.instance_id(), mode).await {
        Ok(()) => Ok(StepOutput::Nothing),
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error) => Err(StepError::only_here(error)),
    }
}

async fn power_on(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = turn::mine(work).await? else { return Ok(()) };
    guest::start_again(work, &server).await
}

async fn copy_disk(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(image) = image(work) else { return Ok(StepOutput::Nothing) };
    imaging::copy_disk(work, image).await.map(|()| StepOutput::Nothing)
}

async fn drop_copy(work: &StepRun) -> Result<(), StepError> {
    let Some(image) = image(work) else { return Ok(()) };
    imaging::drop_copy(work, image).await
}

async fn undo_copy(work: &StepRun) -> Result<(), StepError> {
    let Some(image) = image(work) else { return Ok(()) };
    imaging::undo_copy(work, image).await
}

async fn upload(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some(image) = image(work) else { return Ok(StepOutput::Nothing) };
    imaging::upload(work, image).await.map(|()| StepOutput::Nothing)
}

async fn clean_up(work: &StepRun) -> Result<StepOutput, StepError> {
    drop_copy(work).await.map(|()| StepOutput::Nothing)
}
