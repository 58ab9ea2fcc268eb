//! Uploads a volume's content to an image.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `send` | sends the volume's bytes to the image, which exists already | (the image drops an incomplete upload) |

use chronova_events::process::{ProcessOutcome, StepOutput, Task, VolumeWork};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::volumes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{here, user};
use crate::process::definition::{Definition, StepError, StepRun, steps};
use crate::services::embedded::volume::VolumeCommand;

pub const DEFINITION: Definition = Definition {
    name: "upload_volume",
    steps: steps! {
        "send" => send;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

/// Success and failure end the upload in the same way, because the volume's content did not change. The image shows the
/// result.
fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        match outcome {
            ProcessOutcome::CalledOff => Ok(()),
            _ => work.tell_volume(VolumeCommand::RecordUploaded { process: work.running.process }).await,
        }
    }
    .boxed()
}

async fn send(work: &StepRun) -> Result<StepOutput, StepError> {
    let volume = work.present_volume().await?;
    let (Some((host, _)), Task::Volume { work: VolumeWork::Upload { image }, .. }) =
        (&volume.place, &work.running.task)
    else {
        return Err(StepError::fatal(409, "The volume has no content.", ""));
    };
    let name = volumes::volume(work.volume_id());
    let driver = work.must_reach(*host)?;
    let store = driver.volume_store().needed().map_err(here)?;
    let bytes = store.read_volume(&name, user(&volume)).await.map_err(here)?;
    work.context.images.upload(*image, bytes, work.meta.clone()).await?;
    Ok(StepOutput::Nothing)
}
