//! An image of a server whose root disk is a volume: snapshots of its volumes, and an image without bytes that says of
//! what snapshots the disks of a server made from it are made. Part of [`super::snapshot`].
//!
//! The ids of the snapshots follow from the process, so that whoever asks can name them in the image before they are made.
//!
//! A guest that runs is held still by the agent inside it from before the first copy until the last one is there, so that
//! all of them are of one moment: Nova's `snapshot_volume_backed` and `unquiesce_instance`. It is let go whatever becomes of
//! the copies; after a crash the step is done again, which holds it still and lets it go again, or is undone, which lets it
//! go.

use std::time::Duration;

use chronova_events::ids::{BlockDeviceId, ImageId, ProcessId, SnapshotId, VolumeId};
use chronova_events::instance::{Alive, BlockDevice, DiskWork, status};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::DriverError;

use super::definition::{StepError, Work};
use super::{imaging, turn};
use crate::ports::{NewSnapshot, PortError};

/// How often it is looked at most: a guest is held still meanwhile. Nova's `_wait_for_snapshots_completion`.
const LOOK: Duration = Duration::from_millis(500);

/// The snapshot that a process makes of one of a server's volumes.
pub fn snapshot_of(process: ProcessId, device: BlockDeviceId) -> SnapshotId {
    SnapshotId::derive(process.0, &format!("snapshot-{device}"))
}

/// The volumes that an image of the server holds: those that the guest has.
pub fn volumes(server: &Alive) -> impl Iterator<Item = (&BlockDevice, VolumeId)> {
    let has = |work: Option<DiskWork>| !matches!(work, Some(DiskWork::Attaching(_)));
    let disks = server.disks.iter().filter(move |disk| disk.device.is_volume() && has(disk.work));
    disks.filter_map(|disk| Some((&disk.device, disk.device.volume?)))
}

/// Whether no image can be made of the server, as it is now: its image lets no copy be made of a guest that is not at rest,
/// and says of no agent that could bring it there.
pub fn cannot_rest(server: &Alive) -> bool {
    let runs = status::of_alive(server).vm_state == "active";
    runs && imaging::requires_rest(server) && !imaging::is_set(server, "hw_qemu_guest_agent")
}

/// Asks for a snapshot of every volume, and waits until all are there.
pub(super) async fn take(work: &Work, image: ImageId) -> Result<(), StepError> {
    let server = turn::still_mine(work).await?;
    let at_rest = come_to_rest(work, &server).await?;
    let copied = copy_all(work, &server, image).await;
    if at_rest {
        let_go(work, &server).await?;
    }
    copied
}

/// Holds a guest that runs still, if it lets itself be; one whose image asks for it has to. Whether it is at rest.
async fn come_to_rest(work: &Work, server: &Alive) -> Result<bool, StepError> {
    let Some(placed) = server.placement.as_ref().filter(|_| status::of_alive(server).vm_state == "active") else {
        return Ok(false);
    };
    let driver = work.driver(placed.host)?;
    let frozen = match driver.guest_agent().needed() {
        Ok(agent) => agent.freeze(work.instance_id()).await,
        Err(error) => Err(error),
    };
    match frozen {
        Ok(()) => Ok(true),
        // It may be at rest.
        Err(error) if error.is_transient() => Err(StepError::Again(error.to_string())),
        Err(error) if imaging::requires_rest(server) => Err(imaging::no_rest(&error)),
        Err(error) => {
            tracing::info!(instance = %work.instance_id(), %error, "volumes are copied without bringing the guest to rest");
            Ok(false)
        }
    }
}

/// A guest whose agent died at rest cannot be helped: the copies are good.
async fn let_go(work: &Work, server: &Alive) -> Result<(), StepError> {
    let Some(placed) = &server.placement else { return Ok(()) };
    let driver = work.driver(placed.host)?;
    let Some(agent) = driver.guest_agent() else { return Ok(()) };
    match agent.thaw(work.instance_id()).await {
        Ok(()) | Err(DriverError::NoAgent) => Ok(()),
        Err(error) if error.is_transient() => Err(StepError::Again(error.to_string())),
        Err(error) => {
            tracing::error!(instance = %work.instance_id(), %error, "the guest's file systems cannot be released");
            Ok(())
        }
    }
}

async fn copy_all(work: &Work, server: &Alive, image: ImageId) -> Result<(), StepError> {
    let project = &server.request.project;
    let known = work.context.views.images.read(|images| images.get(image));
    let name = known.and_then(|known| known.attributes.name.clone()).unwrap_or_else(|| image.to_string());
    let name = format!("snapshot for {name}");
    for (device, volume) in volumes(server) {
        // What the server has been given it may copy, be it another project's: an administrator gave it.
        let wanted = NewSnapshot {
            snapshot: snapshot_of(work.running.process, device.id),
            volume,
            project: project.clone(),
            user: server.request.user.clone(),
            name: name.clone(),
            description: None,
            force: true,
            metadata: vec![],
        };
        work.context.volumes.create_snapshot(wanted, true, work.meta.clone()).await?;
    }
    for (device, _) in volumes(server) {
        await_snapshot(work, server, snapshot_of(work.running.process, device.id)).await?;
    }
    Ok(())
}

/// However long the copy takes: its own process ends it.
async fn await_snapshot(work: &Work, server: &Alive, snapshot: SnapshotId) -> Result<(), StepError> {
    loop {
        let now = work.context.volumes.find_snapshot(snapshot, &server.request.project, true).await?;
        match now.status.as_str() {
            "available" => return Ok(()),
            "creating" => {}
            other => {
                let message = format!("Snapshot {snapshot} of volume {} is in {other}.", now.volume);
                return Err(StepError::fatal(500, "The volumes of the server could not be copied.", &message));
            }
        }
        // Nobody waits for the image any more.
        turn::still_mine(work).await?;
        tokio::time::sleep(work.context.options.volume_pause.min(LOOK)).await;
    }
}

/// Deletes what was made; one that is being made has to be there first.
pub(super) async fn drop(work: &Work) -> Result<(), StepError> {
    let Some(server) = work.known_server().await? else { return Ok(()) };
    // A crash may have come before it was let go. Nobody lets go of a guest whose host is down: it is gone, or comes back
    // with a host that answers.
    if let Some(placed) = &server.placement
        && work.host_answers(placed.host)?
    {
        let_go(work, &server).await?;
    }
    for disk in &server.disks {
        let snapshot = snapshot_of(work.running.process, disk.device.id);
        match work.context.volumes.find_snapshot(snapshot, &server.request.project, true).await {
            Err(PortError::NotFound(_)) => continue,
            Err(error) => return Err(StepError::Again(error.to_string())),
            Ok(now) if now.status == "creating" => {
                return Err(StepError::Again(format!("snapshot {snapshot} is being made")));
            }
            Ok(_) => {}
        }
        if let Err(error) = work.context.volumes.delete_snapshot(snapshot, work.meta.clone()).await {
            return Err(StepError::Again(error.to_string()));
        }
    }
    Ok(())
}
