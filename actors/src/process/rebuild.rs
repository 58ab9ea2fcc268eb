//! Makes a server anew on its host: other disks, the same id, ports and claim.
//!
//! | step | does |
//! |---|---|
//! | `check_host` | where the image is another one: whether the host may run it |
//! | `prepare_host` | image into the host's cache; networks and filters on the host |
//! | `respawn` | disks made anew, another definition, start; off again if the server was off |
//!
//! There is no way back: the old disks are gone with the second step. What fails leaves the server in error, from where
//! it can be rebuilt again.

use chronova_events::instance::{Phase, WorkStage};
use chronova_events::process::{Outcome, Output, Task};
use chronova_hypervisor::driver::StopMode;
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
        Step { name: "respawn", run: |work| respawn(work).boxed(), undo: None },
    ],
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

fn conclude(work: &Work, outcome: Outcome) -> BoxFuture<'_, Result<(), StepError>> {
    turn::conclude(work, outcome, End::Rebuilt, End::RebuildFailed)
}

/// Nova schedules a rebuild with another image onto the server's own host, and asks only some filters.
async fn check_host(work: &Work) -> Result<Output, StepError> {
    let server = turn::still_mine(work).await?;
    let placed = server.placement.as_ref().ok_or_else(imaging::no_host)?;
    if matches!(work.running.task, Task::Rebuild { other_image: true, .. }) {
        let options = &work.house.options;
        let request = Request::of_build(&server.request, &work.running.excluded, &options.availability_zone);
        may_rebuild(&work.house.views, placed.host, &request, &options.scheduler)
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
