//! Makes a server anew on its host: other disks, the same id, ports and claim.
//!
//! | step | does |
//! |---|---|
//! | `check_host` | where the image is another one: whether the host may run it |
//! | `prepare_host` | image into the host's cache; networks and filters on the host |
//! | `write_volume` | where the root disk is a volume that is to be written anew: off, the image written to it |
//! | `respawn` | disks made anew, another definition, start; off again if the server was off |
//!
//! There is no way back: the old disks are gone with the second step. What fails leaves the server in error, from where
//! it can be rebuilt again.

use chronova_events::ids::{ProcessId, VolumeId};
use chronova_events::instance::{Alive, Ongoing, Phase, WorkStage};
use chronova_events::process::{Outcome, Output, Task};
use chronova_hypervisor::driver::{DriverError, StopMode};
use chronova_hypervisor::guest::Renew;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, Step, StepError, Work};
use super::{guest, imaging, turn};
use crate::instance::work::End;
use crate::scheduler::{Request, may_rebuild};

pub const DEFINITION: Definition = Definition {
    name: "rebuild",
    steps: &[
        Step { name: "check_host", run: |work| check_host(work).boxed(), undo: None },
        Step { name: "prepare_host", run: |work| prepare_host(work).boxed(), undo: None },
        Step { name: "write_volume", run: |work| write_volume(work).boxed(), undo: None },
        Step { name: "respawn", run: |work| respawn(work).boxed(), undo: None },
    ],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    work.context.passwords.forget(work.running.process);
    turn::conclude(work, outcome, End::Rebuilt, End::RebuildFailed)
}

/// Nova schedules a rebuild with another image onto the server's own host, and asks only some filters.
async fn check_host(work: &Work) -> Result<Output, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    if matches!(work.running.task, Task::Rebuild { other_image: true, .. }) {
        let context = &work.context;
        let request =
            Request::of_build(&server.request, &work.running.excluded, &context.server_options.availability_zone);
        may_rebuild(&context.views, placed.host, &request, context.scheduler.options())
            .map_err(|reasons| StepError::fatal(500, &reasons.message(), &reasons.counts()))?;
    }
    Ok(Output::Nothing)
}

async fn prepare_host(work: &Work) -> Result<Output, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    turn::advance(work, WorkStage::AtWork).await?;
    guest::prepare(work, placed.host, &server).await?;
    Ok(Output::Nothing)
}

/// The root disk, if it is a volume that an image is to be written to.
fn root_to_write(server: &Alive) -> Option<VolumeId> {
    let asked = matches!(server.ongoing, Some(Ongoing::Rebuild { reimage: true, .. }));
    let root = server.disks.iter().map(|disk| &disk.device).find(|device| device.is_root() && device.is_volume());
    root.filter(|_| asked).and_then(|device| device.volume)
}

async fn write_volume(work: &Work) -> Result<Output, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    let (Some(volume), Some(image)) = (root_to_write(&server), &server.boot_image) else { return Ok(Output::Nothing) };
    turn::advance(work, WorkStage::Disks).await?;
    match work.driver(placed.host)?.stop(work.instance_id(), guest::graceful(work, &server)).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
        Err(error) if error.is_transient() => return Err(StepError::Again(error.to_string())),
        Err(error) => return Err(imaging::final_word(error.into())),
    }
    let (project, volumes) = (&server.request.project, &work.context.volumes);
    let process = ProcessId::derive(work.running.process.0, "write-volume");
    volumes.reimage(volume, image.id, project, process, work.meta.clone()).await?;
    loop {
        let now = volumes.find(volume, project, true).await?;
        match now.status.as_str() {
            "downloading" => {}
            status if status.starts_with("error") => {
                return Err(StepError::fatal(500, "Failed to rebuild volume backed instance.", status));
            }
            _ => return Ok(Output::Nothing),
        }
        // Nobody waits for it any more; what is being written is written to its end.
        turn::still_mine(work).await?;
        tokio::time::sleep(work.context.options.volume_pause).await;
    }
}

async fn respawn(work: &Work) -> Result<Output, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    turn::advance(work, WorkStage::Spawning).await?;
    let renew = match work.running.task {
        Task::Rebuild { preserve_ephemeral: true, .. } => Renew::Root,
        _ => Renew::All,
    };
    guest::reshape(work, placed.host, &server, renew, None).await?;
    // Nova: started once, then as it was.
    if matches!(server.phase, Phase::Stopped { .. }) {
        work.driver(placed.host)?.stop(work.instance_id(), StopMode::Hard).await?;
    }
    Ok(Output::Nothing)
}
