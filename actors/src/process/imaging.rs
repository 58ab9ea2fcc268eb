//! Steps that snapshots, backups and shelving share. They make an image from a guest's disk.
//!
//! The image already exists without data, so that the API's answer could have its id. The driver first copies the disk
//! into one file on its host. The step `upload` then sends that file to the image service.

use chronova_events::ids::ImageId;
use chronova_events::instance::{Alive, WorkStage};
use chronova_hypervisor::capability::{DiskSnapshots, Needed as _};
use chronova_hypervisor::driver::DriverError;
use chronova_hypervisor::guest::{ImageFormat, Quiesce};

use super::definition::{StepError, StepRun};
use super::{guest, turn};
use crate::coordination::host_turns::HostTurn;
use crate::ports::PortError;

/// Waits for one of the host's snapshot permits (`max_concurrent_snapshots`). The server is read after the wait,
/// because it may have been deleted meanwhile.
async fn snapshot_permit(work: &StepRun) -> Result<(Alive, Option<HostTurn>), StepError> {
    let server = turn::still_mine(work).await?;
    let member = server.placement.as_ref().and_then(|placed| work.context.fleet.member(placed.host));
    let Some(member) = member else { return Ok((server, None)) };
    let turn = member.turns.snapshot().await;
    Ok((turn::still_mine(work).await?, turn))
}

/// Copies the disk on the server's host.
pub(super) async fn copy_disk(work: &StepRun, image: ImageId) -> Result<(), StepError> {
    let (server, _turn) = snapshot_permit(work).await?;
    let placed = server.placement.as_ref().ok_or_else(no_host)?;
    turn::advance(work, WorkStage::PendingUpload).await?;
    let driver = work.driver(placed.host)?;
    let snapshots = driver.snapshots().needed().map_err(StepError::only_here)?;
    // The image keeps the format of its creation, even if the option has changed since.
    let format = guest::image_format(&work.context.images.format_of(image, &work.meta).await?);
    let copied = async {
        let (instance, quiesce) = (work.instance_id(), quiesce(&server));
        if format == ImageFormat::Raw
            && work.context.images.takes_placed()
            && snapshots.place_copy(instance, image, quiesce).await?
        {
            return Ok(());
        }
        snapshots.copy_root(instance, image, format, quiesce).await.map(drop)
    };
    match copied.await {
        Ok(()) => Ok(()),
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error @ (DriverError::NoAgent | DriverError::Failed { call: QUIESCE, .. })) => Err(no_rest(work, &error)),
        Err(error) => Err(StepError::only_here(error)),
    }
}

/// The name of the call in the error of a driver that could not quiesce a guest.
const QUIESCE: &str = "quiesce";

/// Nova's `QemuGuestAgentNotEnabled` and `InstanceQuiesceFailed`. Users see the fault. The driver's text about a failed
/// quiesce may have paths and addresses of the host, so that text is only in the text log.
pub(super) fn no_rest(work: &StepRun, error: &DriverError) -> StepError {
    if matches!(error, DriverError::NoAgent) {
        return StepError::fatal(400, &error.to_string(), "");
    }
    tracing::warn!(instance = %work.instance_id(), %error, "a guest cannot be quiesced");
    StepError::fatal(409, "Failed to quiesce instance: the guest agent did not freeze its file systems.", "")
}

/// Sends the copy to the image service.
pub(super) async fn upload(work: &StepRun, image: ImageId) -> Result<(), StepError> {
    let (server, _turn) = snapshot_permit(work).await?;
    let placed = server.placement.as_ref().ok_or_else(no_host)?;
    turn::advance(work, WorkStage::Uploading).await?;
    let driver = work.driver(placed.host)?;
    let snapshots = driver.snapshots().needed().map_err(StepError::only_here)?;
    if work.context.images.takes_placed() && adopt(work, image, snapshots).await? {
        return Ok(());
    }
    let bytes = match snapshots.read_copy(work.instance_id(), image).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_transient() => return Err(StepError::again(error)),
        Err(error) => return Err(StepError::only_here(error)),
    };
    Ok(work.context.images.upload(image, bytes, work.meta.clone()).await?)
}

/// Lets the image service take a copy that is in its storage already. `false`: there is no such copy. If the service
/// takes only uploads, the copy is made again on the host.
async fn adopt(work: &StepRun, image: ImageId, snapshots: &dyn DiskSnapshots) -> Result<bool, StepError> {
    let here = |error: DriverError| match error.is_transient() {
        true => StepError::again(error),
        false => StepError::only_here(error),
    };
    let instance = work.instance_id();
    let Some(placed) = snapshots.placed_copy(instance, image).await.map_err(here)? else { return Ok(false) };
    match work.context.images.adopt(image, &placed, work.meta.clone()).await {
        Ok(()) => Ok(true),
        Err(PortError::Forbidden(reason)) => {
            tracing::warn!(%instance, reason, "an image is uploaded, although the service's storage has it");
            // The placed copy is removed last, because a repeated step comes here again only while it exists.
            snapshots.copy_root(instance, image, ImageFormat::Raw, Quiesce::No).await.map_err(here)?;
            snapshots.remove_placed_copy(instance, image).await.map_err(here)?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Undoes [`copy_disk`]. The image itself is deleted afterwards.
pub(super) async fn undo_copy(work: &StepRun, image: ImageId) -> Result<(), StepError> {
    drop_copy(work, image).await?;
    // The deletion of the server does not remove the copy in the image service's storage. So this undo removes it even
    // if the server is deleted.
    let Some(placed) = work.known_server().await?.and_then(|server| server.placement) else { return Ok(()) };
    if !work.context.images.takes_placed() || !work.host_answers(placed.host)? {
        return Ok(());
    }
    let driver = work.driver(placed.host)?;
    let Some(snapshots) = driver.snapshots() else { return Ok(()) };
    match snapshots.remove_placed_copy(work.instance_id(), image).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::again(error)),
    }
}

/// Removes the copy from the host. If the host does not answer, a reconciler removes it later: see
/// [`crate::reconcile::leftovers`].
pub(super) async fn drop_copy(work: &StepRun, image: ImageId) -> Result<(), StepError> {
    let Some(placed) = work.server().await?.and_then(|server| server.placement) else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    let driver = work.driver(placed.host)?;
    let Some(snapshots) = driver.snapshots() else { return Ok(()) };
    match snapshots.remove_copy(work.instance_id(), image).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::again(error)),
    }
}

/// Deletes an image that failed, or that is not needed any more. A protected image stays.
pub(super) async fn drop_image(work: &StepRun, image: ImageId) -> Result<(), StepError> {
    match work.context.images.delete(image, work.meta.clone()).await {
        Ok(()) | Err(PortError::NotFound(_)) => Ok(()),
        Err(error @ PortError::Unavailable(_)) => Err(StepError::again(error)),
        Err(error) => {
            tracing::warn!(%image, %error, "deleting an unused image failed");
            Ok(())
        }
    }
}

/// As in Nova, a guest with an agent is quiesced if possible. If the image requires quiescing, the copy fails without
/// it.
fn quiesce(server: &Alive) -> Quiesce {
    match (requires_rest(server), is_set(server, "hw_qemu_guest_agent")) {
        (true, _) => Quiesce::Required,
        (false, true) => Quiesce::IfPossible,
        (false, false) => Quiesce::No,
    }
}

/// Whether the server's image requires a quiesced guest (`os_require_quiesce`).
pub(super) fn requires_rest(server: &Alive) -> bool {
    is_set(server, "os_require_quiesce")
}

/// Whether an image property is true, as oslo reads it.
pub(crate) fn is_set(server: &Alive, property: &str) -> bool {
    let properties = server.hardware_image().into_iter().flat_map(|image| image.properties.iter());
    let value = properties.into_iter().find(|(name, _)| name == property).map(|(_, value)| value.to_ascii_lowercase());
    value.is_some_and(|value| matches!(value.trim(), "1" | "t" | "true" | "on" | "y" | "yes"))
}

pub(super) fn no_host() -> StepError {
    StepError::fatal(500, "The server has no host.", "")
}
