//! Creates an image of a server's disk. A backup also deletes the oldest backups beyond its rotation.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `keep_image` | nothing: the image already exists, without data | deleting it |
//! | `copy_disk` | copies the disk on its host, with the guest quiesced if it has a guest agent | removing the copy |
//! | | if the root disk is a volume: creates snapshots, guest quiesced if possible | unquiescing it, deleting them |
//! | `upload` | sends the copy to the image service; for volumes, completes the image without data | (with the image) |
//! | `clean_up` | removes the copy; deletes backups beyond the rotation | (nothing is left) |
//!
//! The server keeps running meanwhile. For images of volumes see [`super::snapshot_volumes`].

use chronova_events::ids::ImageId;
use chronova_events::instance::{Rotation, WorkStage};
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{imaging, snapshot_volumes, turn};
use crate::instance::WorkOutcome;

pub const DEFINITION: Definition = Definition {
    name: "snapshot",
    steps: steps! {
        "keep_image" => keep_image, undone by drop_image;
        "copy_disk" => copy_disk, undone by drop_copy;
        "upload" => upload;
        "clean_up" => clean_up;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let Some((image, _)) = asked(work) else { return Ok(()) };
        let end = match outcome {
            ProcessOutcome::Succeeded => WorkOutcome::SnapshotTaken { image },
            ProcessOutcome::Failed | ProcessOutcome::CalledOff => {
                WorkOutcome::SnapshotFailed { image, fault: turn::fault(work) }
            }
        };
        turn::end(work, end).await
    }
    .boxed()
}

fn asked(work: &StepRun) -> Option<(ImageId, Option<&Rotation>)> {
    match &work.running.task {
        Task::Snapshot { image, backup, .. } => Some((*image, backup.as_ref())),
        _ => None,
    }
}

/// Whether the root disk is a volume. The answer never changes.
async fn on_volumes(work: &StepRun) -> Result<bool, StepError> {
    Ok(work.known_server().await?.is_some_and(|server| server.is_volume_backed()))
}

async fn keep_image(work: &StepRun) -> Result<StepOutput, StepError> {
    turn::still_mine(work).await?;
    turn::advance(work, WorkStage::AtWork).await?;
    Ok(StepOutput::Nothing)
}

async fn drop_image(work: &StepRun) -> Result<(), StepError> {
    let Some((image, _)) = asked(work) else { return Ok(()) };
    imaging::drop_image(work, image).await
}

async fn copy_disk(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some((image, _)) = asked(work) else { return Ok(StepOutput::Nothing) };
    match on_volumes(work).await? {
        true => snapshot_volumes::take(work, image).await?,
        false => imaging::copy_disk(work, image).await?,
    }
    Ok(StepOutput::Nothing)
}

async fn drop_copy(work: &StepRun) -> Result<(), StepError> {
    let Some((image, _)) = asked(work) else { return Ok(()) };
    match on_volumes(work).await? {
        true => snapshot_volumes::drop(work).await,
        false => imaging::undo_copy(work, image).await,
    }
}

async fn upload(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some((image, _)) = asked(work) else { return Ok(StepOutput::Nothing) };
    match on_volumes(work).await? {
        // The image of a volume-backed server has no data, only properties.
        true => {
            turn::still_mine(work).await?;
            let nothing = Box::pin(futures::stream::empty());
            work.context.images.upload(image, nothing, work.meta.clone()).await?;
        }
        false => imaging::upload(work, image).await?,
    }
    Ok(StepOutput::Nothing)
}

async fn clean_up(work: &StepRun) -> Result<StepOutput, StepError> {
    let Some((image, backup)) = asked(work) else { return Ok(StepOutput::Nothing) };
    if !on_volumes(work).await? {
        imaging::drop_copy(work, image).await?;
    }
    if let Some(rotation) = backup {
        rotate(work, image, rotation).await?;
    }
    Ok(StepOutput::Nothing)
}

/// Deletes the oldest backups beyond the rotation, as Nova's `_rotate_backups`. A rotation of 0 keeps no backup, not
/// even the new one. The new backup is deleted last, because it identifies the owner of the backups.
async fn rotate(work: &StepRun, made: ImageId, rotation: &Rotation) -> Result<(), StepError> {
    let newest_first = work.context.images.backups(made, work.instance_id(), &rotation.kind).await?;
    let keep = usize::try_from(rotation.keep).unwrap_or(usize::MAX);
    for image in newest_first.into_iter().skip(keep).rev() {
        imaging::drop_image(work, image).await?;
    }
    Ok(())
}
