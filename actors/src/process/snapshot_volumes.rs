//! An image of a server whose root disk is a volume: snapshots of its volumes, and an image without bytes that says of
//! what snapshots the disks of a server made from it are made. Part of [`super::snapshot`].
//!
//! The ids of the snapshots follow from the process, so that whoever asks can name them in the image before they are made.

use chronova_events::ids::{BlockDeviceId, ImageId, ProcessId, SnapshotId, VolumeId};
use chronova_events::instance::{Alive, BlockDevice, DiskWork};

use super::definition::{StepError, Work};
use super::{imaging, turn};
use crate::ports::{NewSnapshot, PortError};

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

/// Asks for a snapshot of every volume, and waits until all are there.
pub(super) async fn take(work: &Work, image: ImageId) -> Result<(), StepError> {
    let server = turn::still_mine(work).await?;
    // One that was to be brought to rest first is not copied otherwise, and a guest cannot be kept at rest over as many
    // copies as it has volumes.
    if imaging::is_set(&server, "os_require_quiesce") {
        let message = format!("Quiescing is not supported in instance {}: its disks are volumes", work.instance_id());
        return Err(StepError::fatal(400, &message, ""));
    }
    let project = &server.request.project;
    let known = work.house.views.images.read(|images| images.get(image));
    let name = known.and_then(|known| known.attributes.name.clone()).unwrap_or_else(|| image.to_string());
    let name = format!("snapshot for {name}");
    for (device, volume) in volumes(&server) {
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
        work.house.volumes.create_snapshot(wanted, work.meta.clone()).await?;
    }
    for (device, _) in volumes(&server) {
        await_snapshot(work, &server, snapshot_of(work.running.process, device.id)).await?;
    }
    Ok(())
}

/// However long the copy takes: its own process ends it.
async fn await_snapshot(work: &Work, server: &Alive, snapshot: SnapshotId) -> Result<(), StepError> {
    loop {
        let now = work.house.volumes.find_snapshot(snapshot, &server.request.project, true).await?;
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
        tokio::time::sleep(work.house.options.volume_pause).await;
    }
}

/// Deletes what was made; one that is being made has to be there first.
pub(super) async fn drop(work: &Work) -> Result<(), StepError> {
    let Some(server) = work.known_server().await? else { return Ok(()) };
    for disk in &server.disks {
        let snapshot = snapshot_of(work.running.process, disk.device.id);
        match work.house.volumes.find_snapshot(snapshot, &server.request.project, true).await {
            Err(PortError::NotFound(_)) => continue,
            Err(error) => return Err(StepError::Again(error.to_string())),
            Ok(now) if now.status == "creating" => {
                return Err(StepError::Again(format!("snapshot {snapshot} is being made")));
            }
            Ok(_) => {}
        }
        if let Err(error) = work.house.volumes.delete_snapshot(snapshot, work.meta.clone()).await {
            return Err(StepError::Again(error.to_string()));
        }
    }
    Ok(())
}
