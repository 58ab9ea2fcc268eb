//! Rebuilds a server on its host: new disks, but the same id, ports and claim.
//!
//! | step | does |
//! |---|---|
//! | `check_host` | if the image is another one, checks that the host may run it |
//! | `prepare_host` | loads the image into the host's cache, creates networks and filters |
//! | `write_volume` | if the root disk is a volume that gets the image, powers the guest off and writes the image |
//! | `respawn` | creates new disks and a definition, starts the guest; powers it off again if the server is stopped |
//!
//! No step has an undo, because a rebuild removes the old disks. A failure leaves the server in error, and the user can
//! rebuild it again.

use std::time::Duration;

use chronova_events::ids::{ProcessId, VolumeId};
use chronova_events::instance::{Alive, ImageSnapshot, OngoingTask, Phase, WorkStage};
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::driver::{DriverError, StopMode};
use chronova_hypervisor::guest::Renew;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::definition::{Definition, StepError, StepRun, steps};
use super::{guest, imaging, new_image, turn};
use crate::instance::WorkOutcome;
use crate::scheduler::{RequestSpec, may_rebuild};

pub const DEFINITION: Definition = Definition {
    name: "rebuild",
    steps: steps! {
        "check_host" => check_host;
        "prepare_host" => prepare_host;
        "write_volume" => write_volume;
        "respawn" => respawn;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &StepRun, outcome: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    work.context.passwords.forget(work.running.process);
    turn::conclude(work, outcome, WorkOutcome::Rebuilt, WorkOutcome::RebuildFailed)
}

/// Nova schedules a rebuild with another image to the server's own host, and runs only some filters.
async fn check_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    if matches!(work.running.task, Task::Rebuild { other_image: true, .. }) {
        let context = &work.context;
        let request =
            RequestSpec::of_build(&server.request, &work.running.excluded, &context.server_options.availability_zone);
        may_rebuild(&context.views, placed.host, &request, context.scheduler.options())
            .map_err(|reasons| StepError::fatal(500, &reasons.message(), reasons.counts()))?;
    }
    Ok(StepOutput::Nothing)
}

async fn prepare_host(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    new_image::prepare(work, placed.host, &server, new_image::plain).await?;
    // A rebuild that failed before this stage gives the server its former image back. Moves do not verify the recorded
    // image again, so the recorded image must not be one that was refused here.
    turn::advance(work, WorkStage::AtWork).await?;
    Ok(StepOutput::Nothing)
}

/// The root disk, if it is a volume that gets the image.
fn root_to_write(server: &Alive) -> Option<VolumeId> {
    let asked = matches!(server.ongoing, Some(OngoingTask::Rebuild { reimage: true, .. }));
    let root = server.disks.iter().map(|disk| &disk.device).find(|device| device.is_root() && device.is_volume());
    root.filter(|_| asked).and_then(|device| device.volume)
}

/// The largest size of an image that counts, in GiB, so that no deadline is too late for a clock.
const LARGEST: u64 = 1 << 20;

/// How long the volume service may take to write the image.
fn patience(work: &StepRun, image: &ImageSnapshot) -> Duration {
    let gib = image.size.div_ceil(1 << 30).clamp(1, LARGEST);
    work.context.options.reimage_patience.saturating_mul(u32::try_from(gib).unwrap_or(u32::MAX))
}

async fn write_volume(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    let (Some(volume), Some(image)) = (root_to_write(&server), &server.boot_image) else {
        return Ok(StepOutput::Nothing);
    };
    changes_disks(work, WorkStage::Disks).await?;
    match work.driver(placed.host)?.stop(work.instance_id(), guest::graceful(work, &server)).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
        Err(error) if error.is_transient() => return Err(StepError::again(error)),
        Err(error) => return Err(StepError::only_here(error)),
    }
    let (project, volumes) = (&server.request.project, &work.context.volumes);
    let process = ProcessId::derive(work.running.process.0, "write-volume");
    volumes.reimage(volume, image.id, project, process, work.meta.clone()).await?;
    let end = Instant::now() + patience(work, image);
    loop {
        let now = volumes.find(volume, project, true).await?;
        match now.status.as_str() {
            "downloading" if Instant::now() < end => {}
            // As in Nova, the volume service may have broken off the write without a word.
            "downloading" => {
                let details = "the volume service has not written the image in time";
                return Err(StepError::fatal(500, "Failed to rebuild volume backed instance.", details));
            }
            status if status.starts_with("error") => {
                return Err(StepError::fatal(500, "Failed to rebuild volume backed instance.", status));
            }
            _ => return Ok(StepOutput::Nothing),
        }
        // If another process has overtaken the rebuild, this step fails here. The volume service nevertheless completes
        // the write.
        turn::still_mine(work).await?;
        tokio::time::sleep(work.context.options.volume_pause).await;
    }
}

/// Records the stage that changes disks. After this record, no evacuation overtakes the rebuild. An evacuation that
/// came before the record already owns the server.
async fn changes_disks(work: &StepRun, stage: WorkStage) -> Result<Alive, StepError> {
    turn::advance(work, stage).await?;
    turn::still_mine(work).await
}

async fn respawn(work: &StepRun) -> Result<StepOutput, StepError> {
    let server = changes_disks(work, WorkStage::Spawning).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    let renew = match work.running.task {
        Task::Rebuild { preserve_ephemeral: true, .. } => Renew::Root,
        _ => Renew::All,
    };
    guest::reshape(work, placed.host, &server, renew, None).await?;
    // As in Nova, the guest is started once, and then powered off again.
    if matches!(server.phase, Phase::Stopped { .. }) {
        work.driver(placed.host)?.stop(work.instance_id(), StopMode::Hard).await?;
    }
    Ok(StepOutput::Nothing)
}
