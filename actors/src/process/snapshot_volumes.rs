//! Part of [`super::snapshot`]: creates snapshots of a volume-backed server's volumes. The image has no data, and its
//! block device mapping names the snapshots.
//!
//! The ids of the snapshots derive from the process, so that the image can name the snapshots before they exist.
//!
//! The guest agent quiesces a running guest from the first copy to the last, so that all copies are of one moment.
//! Nova: `snapshot_volume_backed` and `unquiesce_instance`. The guest is unquiesced even if a copy fails. After a
//! crash, the step runs again, or its undo runs. Both unquiesce the guest in the end.

use std::time::Duration;

use chronova_events::ids::{BlockDeviceId, ImageId, ProcessId, SnapshotId, VolumeId};
use chronova_events::instance::{Alive, BlockDevice, DiskWork, status};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::DriverError;

use super::definition::{StepError, StepRun};
use super::{imaging, turn};
use crate::ports::{NewSnapshot, PortError, ServiceCaller};

/// The pause between polls, as in Nova's `_wait_for_snapshots_completion`. It is short, because the guest is quiesced
/// meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// The id of the snapshot that the process creates from the volume of this device.
pub fn snapshot_of(process: ProcessId, device: BlockDeviceId) -> SnapshotId {
    SnapshotId::derive(process.0, &format!("snapshot-{device}"))
}

/// The volumes that an image of the server has. A volume that is still being attached is left out.
pub fn volumes(server: &Alive) -> impl Iterator<Item = (&BlockDevice, VolumeId)> {
    let has = |work: Option<DiskWork>| !matches!(work, Some(DiskWork::Attaching(_)));
    let disks = server.disks.iter().filter(move |disk| disk.device.is_volume() && has(disk.work));
    disks.filter_map(|disk| Some((&disk.device, disk.device.volume?)))
}

/// Whether an image of the server is impossible now. This is so if the server runs, and its own image requires a
/// quiesced guest but declares no guest agent.
pub fn cannot_rest(server: &Alive) -> bool {
    let runs = status::of_alive(server).vm_state == "active";
    runs && imaging::requires_rest(server) && !imaging::is_set(server, "hw_qemu_guest_agent")
}

/// Requests a snapshot of every volume, and waits until all are available.
pub(super) async fn take(work: &StepRun, image: ImageId) -> Result<(), StepError> {
    let server = turn::still_mine(work).await?;
    let at_rest = quiesce_guest(work, &server).await?;
    let copied = copy_all(work, &server, image).await;
    if at_rest {
        unquiesce_guest(work, &server).await?;
    }
    copied
}

/// Quiesces a running guest if possible, and returns whether the guest is quiesced. If the image requires quiescing, a
/// failure is fatal.
async fn quiesce_guest(work: &StepRun, server: &Alive) -> Result<bool, StepError> {
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
        // The guest may be quiesced, so the step is retried.
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error) if imaging::requires_rest(server) => Err(imaging::no_rest(work, &error)),
        Err(error) => {
            tracing::info!(instance = %work.instance_id(), %error, "copying the guest's volumes without quiescing it");
            Ok(false)
        }
    }
}

/// Unquiesces the guest. If its agent died meanwhile, nothing can be done, but the copies are valid.
async fn unquiesce_guest(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    let Some(placed) = &server.placement else { return Ok(()) };
    let driver = work.driver(placed.host)?;
    let Some(agent) = driver.guest_agent() else { return Ok(()) };
    match agent.thaw(work.instance_id()).await {
        Ok(()) | Err(DriverError::NoAgent) => Ok(()),
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error) => {
            tracing::error!(instance = %work.instance_id(), %error, "unquiescing the guest failed");
            Ok(())
        }
    }
}

async fn copy_all(work: &StepRun, server: &Alive, image: ImageId) -> Result<(), StepError> {
    let project = &server.request.project;
    let name = format!("snapshot for {}", name_of(work, image).await?);
    for (device, volume) in volumes(server) {
        // A server may copy any volume that it has. If the volume belongs to another project, an administrator attached
        // it.
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

/// The image's name, or its id if it has none.
async fn name_of(work: &StepRun, image: ImageId) -> Result<String, StepError> {
    let Some(images) = work.context.images.resources() else { return Ok(image.to_string()) };
    let caller = ServiceCaller { meta: work.meta.clone(), ..ServiceCaller::system("snapshot") };
    match images.show(image, &caller).await {
        Ok(known) => Ok(known.name.unwrap_or_else(|| image.to_string())),
        Err(error @ PortError::Unavailable(_)) => Err(error.into()),
        Err(_) => Ok(image.to_string()),
    }
}

/// Whether the process has waited long enough. A snapshot of an outside service may be created for ever, and the server
/// must be free again.
fn is_overdue(work: &StepRun) -> bool {
    let waited = work.context.clock.now().0.saturating_sub(work.running.started_at.0);
    u64::try_from(waited).is_ok_and(|micros| Duration::from_micros(micros) >= work.context.options.snapshot_patience)
}

/// Waits for a snapshot.
async fn await_snapshot(work: &StepRun, server: &Alive, snapshot: SnapshotId) -> Result<(), StepError> {
    loop {
        let now = work.context.volumes.find_snapshot(snapshot, &server.request.project, true).await?;
        match now.status.as_str() {
            "available" => return Ok(()),
            "creating" if !is_overdue(work) => {}
            other => {
                let message = format!("Snapshot {snapshot} of volume {} is in {other}.", now.volume);
                return Err(StepError::fatal(500, "The volumes of the server could not be copied.", message));
            }
        }
        // This fails if another process has overtaken the snapshot.
        turn::still_mine(work).await?;
        tokio::time::sleep(work.context.options.volume_pause.min(LOOK)).await;
    }
}

/// Deletes the created snapshots. A snapshot that is still being created must be finished first. If that takes too
/// long, the snapshot stays, because the volume service does not delete an unfinished snapshot.
pub(super) async fn drop(work: &StepRun) -> Result<(), StepError> {
    let Some(server) = work.known_server().await? else { return Ok(()) };
    // A crash may have come before the guest was unquiesced. If the host is down, this step can do nothing: the host's
    // agent unquiesces the guest when the host is back (`hosts/unquiesce.rs`).
    if let Some(placed) = &server.placement
        && work.host_answers(placed.host)?
    {
        unquiesce_guest(work, &server).await?;
    }
    for disk in &server.disks {
        let snapshot = snapshot_of(work.running.process, disk.device.id);
        match work.context.volumes.find_snapshot(snapshot, &server.request.project, true).await {
            Err(PortError::NotFound(_)) => continue,
            Err(error) => return Err(StepError::again(error)),
            Ok(now) if now.status == "creating" && is_overdue(work) => {
                let (instance, volume) = (work.instance_id(), now.volume);
                tracing::warn!(%instance, %snapshot, %volume, "a snapshot is still being created and stays");
                continue;
            }
            Ok(now) if now.status == "creating" => {
                return Err(StepError::again(format!("snapshot {snapshot} is still being created")));
            }
            Ok(_) => {}
        }
        if let Err(error) = work.context.volumes.delete_snapshot(snapshot, work.meta.clone()).await {
            return Err(StepError::again(error));
        }
    }
    Ok(())
}
