//! Makes an image of a server's disk; of backups, only the newest are kept.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `keep_image` | nothing: the image is there, without bytes | deleting it |
//! | `copy_disk` | copies the disk on its host, at rest if its image asks for that | removing the copy |
//! | `upload` | sends the copy to the image service | (with the image) |
//! | `clean_up` | removes the copy; of backups, deletes those beyond the rotation | (nothing is left) |
//!
//! The server goes on meanwhile. Servers that boot from volumes are for another process: their image is made of snapshots
//! of the volumes, and nothing is copied from their host.

use chronova_events::ids::ImageId;
use chronova_events::instance::{Rotation, WorkStage};
use chronova_events::process::{Outcome, Output, Task};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work};
use super::{imaging, turn};
use crate::instance::work::End;

pub const DEFINITION: Definition = Definition {
    name: "snapshot",
    steps: &[
        Step { name: "keep_image", run: |work| keep_image(work).boxed(), undo: Some(|work| drop_image(work).boxed()) },
        Step { name: "copy_disk", run: |work| copy_disk(work).boxed(), undo: Some(|work| drop_copy(work).boxed()) },
        Step { name: "upload", run: |work| upload(work).boxed(), undo: None },
        Step { name: "clean_up", run: |work| clean_up(work).boxed(), undo: None },
    ],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let Some((image, _)) = asked(work) else { return Ok(()) };
        let end = match outcome {
            Outcome::Succeeded => End::SnapshotTaken { image },
            Outcome::Failed | Outcome::CalledOff => End::SnapshotFailed { image, fault: turn::fault(work) },
        };
        turn::end(work, end).await
    }
    .boxed()
}

fn asked(work: &Work) -> Option<(ImageId, Option<&Rotation>)> {
    match &work.running.task {
        Task::Snapshot { image, backup, .. } => Some((*image, backup.as_ref())),
        _ => None,
    }
}

async fn keep_image(work: &Work) -> Result<Output, StepError> {
    turn::still_mine(work).await?;
    turn::advance(work, WorkStage::AtWork).await?;
    Ok(Output::Nothing)
}

async fn drop_image(work: &Work) -> Result<(), StepError> {
    let Some((image, _)) = asked(work) else { return Ok(()) };
    imaging::drop_image(work, image).await
}

async fn copy_disk(work: &Work) -> Result<Output, StepError> {
    let Some((image, _)) = asked(work) else { return Ok(Output::Nothing) };
    imaging::copy_disk(work, image).await.map(|()| Output::Nothing)
}

async fn drop_copy(work: &Work) -> Result<(), StepError> {
    let Some((image, _)) = asked(work) else { return Ok(()) };
    imaging::drop_copy(work, image).await
}

async fn upload(work: &Work) -> Result<Output, StepError> {
    let Some((image, _)) = asked(work) else { return Ok(Output::Nothing) };
    imaging::upload(work, image).await.map(|()| Output::Nothing)
}

async fn clean_up(work: &Work) -> Result<Output, StepError> {
    let Some((image, backup)) = asked(work) else { return Ok(Output::Nothing) };
    imaging::drop_copy(work, image).await?;
    if let Some(rotation) = backup {
        rotate(work, rotation).await?;
    }
    Ok(Output::Nothing)
}

/// Nova's `_rotate_backups`: the oldest beyond the rotation go; a rotation of 0 keeps none, not even the new one.
async fn rotate(work: &Work, rotation: &Rotation) -> Result<(), StepError> {
    let newest_first = work.house.images.backups(work.instance_id(), &rotation.kind).await?;
    let keep = usize::try_from(rotation.keep).unwrap_or(usize::MAX);
    for image in newest_first.into_iter().skip(keep) {
        imaging::drop_image(work, image).await?;
    }
    Ok(())
}
