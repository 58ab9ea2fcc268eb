//! `/v2/images/{image_id}/actions`: deactivating and reactivating images.

use chronova_actors::services::embedded::image::ImageCommand;

use super::access::{command, permitted};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, post};

pub(super) const ROUTES: &[Route] = &[
    post("images.deactivate", "/images/{image_id}/actions/deactivate", handler!(deactivate))
        .policy_on_target("deactivate")
        .answers(no_content),
    post("images.reactivate", "/images/{image_id}/actions/reactivate", handler!(reactivate))
        .policy_on_target("reactivate")
        .answers(no_content),
];

async fn deactivate(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    command(&ctx, &permit, image.id, ImageCommand::Deactivate).await?;
    Ok(Reply::empty(204))
}

async fn reactivate(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    command(&ctx, &permit, image.id, ImageCommand::Reactivate).await?;
    Ok(Reply::empty(204))
}
