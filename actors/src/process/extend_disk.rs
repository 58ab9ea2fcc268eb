//! Makes the disk of a running guest as large as its volume, which has grown: Cinder's event `volume-extended`.
//!
//! | step | does |
//! |---|---|
//! | `resize_disk` | tells the running guest the volume's size |
//!
//! The step has no undo, because the volume has grown even if the guest does not see it. A guest that is off sees the
//! size when it starts.

use chronova_events::ids::VolumeId;
use chronova_events::process::{ProcessOutcome, StepOutput, Task};
use chronova_hypervisor::capability::Needed as _;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::definition::{Definition, StepError, StepRun, steps};
use super::disks;

pub const DEFINITION: Definition = Definition {
    name: "extend_disk",
    steps: steps! {
        "resize_disk" => resize;
    },
    undoes: true,
    max_attempts: |_| 1,
    conclude,
};

/// The server does not change; the process's record has the result.
fn conclude(_: &StepRun, _: ProcessOutcome) -> BoxFuture<'_, Result<(), StepError>> {
    async { Ok(()) }.boxed()
}

fn volume(work: &StepRun) -> Result<VolumeId, StepError> {
    match work.running.task {
        Task::ExtendDisk { volume, .. } => Ok(volume),
        _ => Err(StepError::fatal(500, "This process extends no disk.", "")),
    }
}

async fn resize(work: &StepRun) -> Result<StepOutput, StepError> {
    let (volume, server) = (volume(work)?, work.server().await?);
    let Some(server) = server else { return Ok(StepOutput::Nothing) };
    // The volume may be detached by now.
    let connection = server.disk_of(volume).and_then(|disk| disk.device.connection.clone());
    let (Some(placed), Some(connection)) = (&server.placement, connection) else { return Ok(StepOutput::Nothing) };
    let size = work.context.volumes.find(volume, &server.request.project, true).await?.size_gb;
    let driver = work.driver(placed.host)?;
    let resized = driver.volume_attachment().needed()?.resize_disk(
        work.instance_id(),
        connection.disk_key(),
        u64::from(size) << 30,
    );
    disks::told_or_gone(resized.await)?;
    Ok(StepOutput::Nothing)
}
