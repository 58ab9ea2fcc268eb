//! The caller's access to volumes.

use std::sync::Arc;

use chronova_actors::services::embedded::volume::VolumeCommand;
use chronova_actors::services::embedded::volume::service::VolumeError;
use chronova_events::envelope::Position;
use chronova_events::ids::{AttachmentId, VolumeId};
use chronova_events::volume::VolumeRecord;

use super::faults;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::{Permit, PolicyTarget};

pub(super) fn no_volume(id: &str) -> String {
    format!("Volume {id} could not be found.")
}

/// The attributes of a volume that policy rules may use.
pub(super) fn target(volume: &VolumeRecord) -> PolicyTarget {
    PolicyTarget::owned(&volume.created.project, &volume.created.user)
}

/// The volume, if the caller may see it.
pub(super) fn visible(ctx: &Ctx, id: VolumeId) -> Result<Arc<VolumeRecord>, Fault> {
    let found = ctx.views()?.volumes.read(|view| view.get(id));
    let caller = ctx.caller();
    let own = |volume: &Arc<VolumeRecord>| caller.is_admin || caller.project.as_ref() == Some(&volume.created.project);
    found.filter(own).ok_or_else(|| Fault::not_found(no_volume(&id.to_string())))
}

/// The volume of the path, and the permit that the route's rule gives for this volume.
pub(super) fn permitted(ctx: &Ctx) -> Result<(Arc<VolumeRecord>, Permit), Fault> {
    let id = ctx.id::<VolumeId>("volume_id", no_volume)?;
    let volume = visible(ctx, id)?;
    let permit = ctx.authorize(&target(&volume))?;
    Ok((volume, permit))
}

/// Sends a command to the volume in the caller's name. When this returns, [`shown`] has waited for the read models.
pub(super) async fn command(ctx: &Ctx, permit: &Permit, volume: VolumeId, command: VolumeCommand) -> Result<(), Fault> {
    let committed = ctx.app.volumes()?.command(volume, command, dispatch::meta(permit)).await;
    shown(ctx, committed.map(|done| done.position)).await
}

/// Ends an attachment. A service may end any attachment. Other callers may not end one while a server uses the volume.
pub(super) async fn release(
    ctx: &Ctx,
    permit: &Permit,
    volume: VolumeId,
    attachment: AttachmentId,
) -> Result<(), Fault> {
    if ctx.caller().has_role("service") {
        return command(ctx, permit, volume, VolumeCommand::Release { attachment }).await;
    }
    let accepted = ctx.app.volumes()?.release_unused(volume, attachment, dispatch::meta(permit)).await;
    shown(ctx, accepted).await
}

/// Waits until the read models show the accepted change, for a limited time (see [`dispatch::shown`]).
pub(super) async fn shown(ctx: &Ctx, accepted: Result<Position, VolumeError>) -> Result<(), Fault> {
    dispatch::shown(ctx.dispatch()?, accepted.map_err(faults::of)?).await;
    Ok(())
}
