//! `createImage` and `createBackup`. The use cases are in [`chronova_actors::operations::server_images`].

use chronova_actors::instance::actions::ServerAction;
use chronova_actors::operations::server_images::ServerImageRequest;
use chronova_events::ids::ImageId;
use chronova_events::instance::{Rotation, SortedPairs};
use serde_json::{Value, json};

use super::requests::{admit, pairs};
use crate::compute::servers::change::call;
use crate::compute::servers::lookup::find;
use crate::compute::{quotas, reject, versions};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::reply::Reply;
use crate::schema::to_integer;

pub(super) async fn create_image(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let request = request(&ctx)?;
    admit(&ctx, &found, ServerAction::CreateImage)?;
    if found.server()?.is_volume_backed() {
        ctx.authorize_rule("os_compute_api:servers:create_image:allow_volume_backed", &found.target)?;
    }
    let (image, call) = (request.image, call(&ctx, &found)?);
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.create_image(meta, call, request).await
    });
    asked.await.map_err(|reject| reject::server_image(found.id, reject))?;
    let location = format!("{}/image/images/{image}", ctx.links.host);
    Ok(answer(&ctx, image, Some(location)))
}

pub(super) async fn create_backup(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (request, rotation) = (request(&ctx)?, rotation(ctx.action_body()));
    let (image, kept, call) = (request.image, rotation.keep > 0, call(&ctx, &found)?);
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.create_backup(meta, call, request, rotation).await
    });
    asked.await.map_err(|reject| reject::server_image(found.id, reject))?;
    let location = kept.then(|| ctx.links.to_self("images", &image.to_string()));
    Ok(answer(&ctx, image, location))
}

fn request(ctx: &Ctx) -> Result<ServerImageRequest, Fault> {
    let body = ctx.action_body();
    Ok(ServerImageRequest {
        image: ImageId::random(),
        name: body["name"].as_str().unwrap_or_default().trim().to_owned(),
        project: ctx.caller().project.clone(),
        user: ctx.caller().user.clone(),
        metadata: metadata(ctx, body)?,
    })
}

fn rotation(body: &Value) -> Rotation {
    let kind = body["backup_type"].as_str().unwrap_or_default().to_owned();
    let keep = to_integer(&body["rotation"]).and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX);
    Rotation { kind, keep }
}

fn answer(ctx: &Ctx, image: ImageId, location: Option<String>) -> Reply {
    if versions::images_are_named_in_the_body(ctx.version) {
        return Reply::json(202, json!({"image_id": image}));
    }
    match location {
        Some(location) => Reply::empty(202).header("Location", location),
        None => Reply::empty(202),
    }
}

/// The requested properties of the image. In some versions the metadata quota limits their number.
fn metadata(ctx: &Ctx, body: &Value) -> Result<SortedPairs, Fault> {
    let metadata = pairs(body.get("metadata"));
    if versions::image_metadata_counts_for_quota(ctx.version)
        && let Some(project) = &ctx.caller().project
    {
        let limit = quotas::limit(ctx, project, "metadata_items")?;
        if usize::try_from(limit).is_ok_and(|limit| metadata.len() > limit) {
            return Err(Fault::forbidden("Image metadata limit exceeded"));
        }
    }
    Ok(metadata)
}
