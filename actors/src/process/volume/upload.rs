//! Makes an image of a volume's content.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `send` | reads the volume and sends its bytes to the image, which was announced before | (the image service gives up what was not sent whole) |

use chronova_events::process::{Outcome, Output, Task, VolumeWork};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::volumes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::super::definition::{Definition, Step, StepError, Work};
use super::{here, user};
use crate::services::embedded::volume::VolumeCommand;

pub const DEFINITION: Definition = Definition {
    name: "upload_volume",
    steps: &[Step { name: "send", run: |work| send(work).boxed(), undo: None }],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

/// Well or not, the volume is what it was; the image tells.
fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        match outcome {
            Outcome::CalledOff => Ok(()),
            _ => work.tell_volume(VolumeCommand::RecordUploaded { process: work.running.process }).await,
        }
    }
    .boxed()
}

async fn send(work: &Work) -> Result<Output, StepError> {
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
    Ok(Output::Nothing)
}
