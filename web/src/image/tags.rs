//! `/v2/images/{image_id}/tags/{tag}`.

use chronova_actors::services::embedded::image::ImageChange;

use super::access::{self, command, permitted};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, put};

pub(super) const ROUTES: &[Route] = &[
    put("images.tags.add", "/images/{image_id}/tags/{tag}", handler!(add))
        .policy_on_target("modify_image")
        .answers(no_content),
    delete("images.tags.remove", "/images/{image_id}/tags/{tag}", handler!(remove))
        .policy_on_target("modify_image")
        .answers(no_content),
];

async fn add(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    let tag = ctx.param("tag").to_owned();
    if tag.chars().count() > 255 {
        return Err(Fault::bad_request("A tag may have 255 characters."));
    }
    command(&ctx, &permit, image.id, access::change(&ctx, vec![ImageChange::AddTag(tag)])).await?;
    Ok(Reply::empty(204))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    let tag = ctx.param("tag").to_owned();
    command(&ctx, &permit, image.id, access::change(&ctx, vec![ImageChange::RemoveTag(tag)])).await?;
    Ok(Reply::empty(204))
}
