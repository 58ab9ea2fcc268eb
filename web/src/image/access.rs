//! The caller's access to images.

use std::sync::Arc;

use chronova_actors::aggregate::{CommandError, Committed};
use chronova_actors::services::embedded::image::{ImageChange, ImageCommand, ImageRoot, PropertyLimit, access};
use chronova_events::ids::ImageId;
use chronova_events::image::{ImageCreated, ImageRecord};
use chronova_projections::images::is_visible;

use super::fault::{self, not_found};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::policy::{Permit, PolicyTarget};

/// The image of the path, if the caller may see it.
pub(super) fn visible(ctx: &Ctx) -> Result<Arc<ImageRecord>, Fault> {
    let id = ctx.id::<ImageId>("image_id", |id| format!("No image found with ID {id}"))?;
    visible_by_id(ctx, id)?.ok_or_else(|| not_found(ctx.param("image_id")))
}

pub(crate) fn visible_by_id(ctx: &Ctx, id: ImageId) -> Result<Option<Arc<ImageRecord>>, Fault> {
    let found = ctx.views()?.images.read(|images| images.get(id));
    let caller = ctx.caller();
    Ok(found.filter(|image| is_visible(image, caller.project.as_ref(), caller.is_admin)))
}

/// Removes the file of a deleted image. A failure is only logged, because the next start removes leftover files.
pub(crate) async fn remove_file(ctx: &Ctx, image: ImageId) {
    let Ok(images) = ctx.app.images() else { return };
    if let Err(error) = images.files.remove(image).await {
        tracing::warn!(%image, %error, "removing the file of a deleted image failed");
    }
}

/// The attributes of an image that policy rules may use.
pub(super) fn target(ctx: &Ctx, image: &ImageRecord) -> PolicyTarget {
    PolicyTarget::default().with_all(&access::attributes(image, ctx.caller().project.as_ref()))
}

/// The image of the path, and the permit that the route's rule gives for this image.
pub(super) fn permitted(ctx: &Ctx) -> Result<(Arc<ImageRecord>, Permit), Fault> {
    let found = visible(ctx)?;
    let permit = ctx.authorize(&target(ctx, &found))?;
    Ok((found, permit))
}

pub(crate) async fn command(
    ctx: &Ctx,
    permit: &Permit,
    image: ImageId,
    command: ImageCommand,
) -> Result<Committed, Fault> {
    let dispatch = ctx.app.dispatch()?;
    dispatch::send::<ImageRoot>(dispatch, permit, &image, command).await.map_err(|error| fault::of(image, error))
}

/// The command for changes of an image, with the operator's limit of properties.
pub(super) fn change(ctx: &Ctx, changes: Vec<ImageChange>) -> ImageCommand {
    ImageCommand::Change(changes, property_limit(ctx))
}

/// Some tests have image records without the service that stores the bytes.
fn property_limit(ctx: &Ctx) -> PropertyLimit {
    ctx.app.images().map(|images| images.property_limit()).unwrap_or_default()
}

/// Creates an image, if the owner's quota allows one more.
pub(super) async fn make(ctx: &Ctx, permit: &Permit, created: ImageCreated) -> Result<(), Fault> {
    let (image, owner) = (created.image, created.attributes.owner.as_ref());
    let _turn = match ctx.app.images() {
        Ok(images) => {
            let turn = images.turn(owner).await;
            turn.map_err(|reject| fault::of(image, CommandError::Rejected(reject)))?
        }
        // Some tests have image records without the service that stores the bytes.
        Err(_) => None,
    };
    command(ctx, permit, image, ImageCommand::Create(created, property_limit(ctx))).await.map(drop)
}

/// Creates an image. Another service will upload its bytes.
pub(crate) async fn announce(ctx: &Ctx, permit: &Permit, created: ImageCreated) -> Result<(), Fault> {
    make(ctx, permit, created).await
}

/// Deletes a created image that will get no bytes.
pub(crate) async fn withdraw(ctx: &Ctx, permit: &Permit, image: ImageId) {
    if let Err(error) = command(ctx, permit, image, ImageCommand::Delete).await {
        tracing::warn!(%image, %error, "cannot remove an image that will get no bytes");
    }
}
