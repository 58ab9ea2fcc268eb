//! The embedded volume service: the part of Cinder's v3 API that clients need.
//!
//! One file per resource; each has a table, and this list of tables is all that the dispatcher knows. What may happen to
//! volumes is the business of `chronova_actors::volume`; here is who may do what, and how it is said.
//!
//! Invariant: a volume, snapshot or attachment that the caller may not see does not exist (404).

mod actions;
mod around;
mod attach_actions;
mod attachments;
mod bodies;
mod faults;
mod listing;
mod metadata;
mod quotas;
mod snapshots;
mod type_parts;
mod types;
mod views;
mod volumes;

use std::sync::Arc;

use chronova_actors::volume::VolumeCommand;
use chronova_events::envelope::Position;
use chronova_events::ids::VolumeId;
use chronova_events::volume::VolumeRecord;

use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::{Permit, Target};
use crate::route::Route;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[
    actions::ROUTES,
    around::ROUTES,
    attach_actions::ROUTES,
    attachments::ROUTES,
    metadata::ROUTES,
    quotas::ROUTES,
    snapshots::ROUTES,
    type_parts::ROUTES,
    types::ROUTES,
    volumes::ROUTES,
];

fn no_volume(id: &str) -> String {
    format!("Volume {id} could not be found.")
}

/// What policy rules may ask of a volume.
fn target(volume: &VolumeRecord) -> Target {
    Target::owned(&volume.created.project, &volume.created.user)
}

/// The volume, if the caller may see it.
fn visible(ctx: &Ctx, id: VolumeId) -> Result<Arc<VolumeRecord>, Fault> {
    let found = ctx.house()?.views.volumes.read(|view| view.get(id));
    let caller = ctx.caller();
    let own = |volume: &Arc<VolumeRecord>| caller.is_admin || caller.project.as_ref() == Some(&volume.created.project);
    found.filter(own).ok_or_else(|| Fault::not_found(no_volume(&id.to_string())))
}

/// The volume of the path and the permit of the route's rule on it.
fn permitted(ctx: &Ctx) -> Result<(Arc<VolumeRecord>, Permit), Fault> {
    let id = ctx.id::<VolumeId>("volume_id", no_volume)?;
    let volume = visible(ctx, id)?;
    let permit = ctx.authorize(&target(&volume))?;
    Ok((volume, permit))
}

/// Has the volume decide, in the caller's name; what happened is shown when this returns.
async fn command(ctx: &Ctx, permit: &Permit, volume: VolumeId, command: VolumeCommand) -> Result<(), Fault> {
    let committed = ctx.app.volumes()?.command(volume, command, dispatch::meta(permit)).await;
    shown(ctx, committed.map(|done| done.position)).await
}

/// Waits until the read models show what was accepted.
async fn shown(
    ctx: &Ctx,
    accepted: Result<Position, chronova_actors::volume::service::VolumeError>,
) -> Result<(), Fault> {
    dispatch::shown(ctx.house()?, accepted.map_err(faults::of)?).await;
    Ok(())
}
