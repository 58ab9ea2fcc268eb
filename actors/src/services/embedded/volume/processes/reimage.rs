//! Writes an image to a volume, and so destroys its old content. A guest that has the volume is off.
//!
//! | step | does | undone by |
//! |---|---|---|
//! | `write_image` | caches the image on the host, recreates the volume from the image | (the old content is gone) |
//!
//! A failure leaves the volume in error, because its content is unknown. An operator can reset the volume's status.
//! Then another rebuild of the server repairs the volume.

use std::sync::Arc;

use chronova_events::ids::ImageId;
use chronova_events::process::{ProcessOutcome, StepOutput, Task, VolumeWork};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::capability::volume_store::VolumeContent;
use chronova_hypervisor::driver::{BytesAlone, ImageSource};
use chronova_hypervisor::volumes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{GIB, here};
use crate::image_signatures::{ImageToPlace, PlaceError};
use crate::process::definition::{Definition, StepError, StepRun, steps};
use crate::process::guest::{PortImageSource, image_ref};
use crate::services::embedded::volume::VolumeCommand;

pub const DEFINITION: Definition = Definition {
    name: "reimage_volume",
    steps: steps! {
        "write_image" => write_image;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async move {
        let process = work.running.process;
        match (outcome, &work.running.failure) {
            (ProcessOutcome::Succeeded, _) => work.tell_volume(VolumeCommand::RecordReimaged { process }).await,
            (ProcessOutcome::Failed, Some(failure)) => {
                work.tell_volume(VolumeCommand::RecordFailed { process, fault: failure.fault.clone() }).await
            }
            // The process that cancelled this process deletes the volume.
            _ => Ok(()),
        }
    }
    .boxed()
}

fn image(work: &StepRun) -> Option<ImageId> {
    match work.running.task {
        Task::Volume { work: VolumeWork::Reimage { image }, .. } => Some(image),
        _ => None,
    }
}

async fn write_image(work: &StepRun) -> Result<StepOutput, StepError> {
    let volume = work.present_volume().await?;
    let known = volume.image.as_ref().map(|image| &image.snapshot).filter(|known| Some(known.id) == image(work));
    let (Some((host, _)), Some(known)) = (&volume.place, known) else {
        return Err(StepError::fatal(409, "The volume has no content.", ""));
    };
    let (driver, image, process) = (work.must_reach(*host)?, image_ref(known), work.running.process);
    let source: Arc<dyn ImageSource> = Arc::new(PortImageSource::new(&work.context.images, &work.meta));
    // The volume is made from the copy in the host's cache.
    let source: Arc<dyn ImageSource> = Arc::new(BytesAlone(source));
    work.context.image_holds.hold(process, *host, &image.checksum).await;
    let properties = known.properties.as_slice();
    let wanted = ImageToPlace { image: &image, properties, trusted: &[], work: &work.meta };
    let placed = work.context.signatures.place(driver.as_ref(), source, wanted).await;
    placed.map_err(|error| match error {
        PlaceError::Driver(error) => here(error),
        PlaceError::Signature(_) => error.into(),
    })?;
    let name = volumes::volume(work.volume_id());
    // This removes the old content, and a repeated step starts over here.
    let store = driver.volume_store().needed().map_err(here)?;
    store.create_volume(&name, u64::from(volume.size_gb) * GIB, &VolumeContent::Image(image)).await.map_err(here)?;
    Ok(StepOutput::Nothing)
}
