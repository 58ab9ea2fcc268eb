//! `/v2/images/{image_id}/members`: the projects to which the owner offers a shared image.

use std::sync::Arc;

use chronova_actors::services::embedded::image::ImageCommand;
use chronova_events::ids::ProjectId;
use chronova_events::image::{ImageRecord, MemberStatus, Visibility};
use serde_json::{Value, json};

use super::access::{command, permitted, target, visible};
use super::answers;
use super::fault::not_found;
use super::views;
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("members.index", "/images/{image_id}/members", handler!(index))
        .policy_on_target("get_members")
        .answers(answers::members)
        .as_of(),
    post("members.create", "/images/{image_id}/members", handler!(create))
        .policy_on_target("add_member")
        .any_body()
        .answers(answers::member_shown),
    get("members.show", "/images/{image_id}/members/{member_id}", handler!(show))
        .policy_on_target("get_member")
        .answers(answers::member_shown)
        .as_of(),
    put("members.update", "/images/{image_id}/members/{member_id}", handler!(update))
        .policy_on_target("modify_member")
        .any_body()
        .answers(answers::member_shown),
    delete("members.delete", "/images/{image_id}/members/{member_id}", handler!(remove))
        .policy_on_target("delete_member")
        .answers(no_content),
];

fn is_owner(ctx: &Ctx, image: &ImageRecord) -> bool {
    ctx.caller().is_admin || (ctx.caller().project.is_some() && ctx.caller().project == image.attributes.owner)
}

/// Whether the caller sees a member. Administrators and the image's owner see all members. A member project sees only
/// itself.
fn sees(ctx: &Ctx, image: &ImageRecord, member: &ProjectId) -> bool {
    is_owner(ctx, image) || ctx.caller().project.as_ref() == Some(member)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, _) = permitted(&ctx)?;
    if image.attributes.visibility != Visibility::Shared {
        return Err(Fault::forbidden("Only shared images have members."));
    }
    let seen = image.members.iter().filter(|(project, _)| sees(&ctx, &image, project));
    let members: Vec<Value> = seen.map(|(project, member)| views::member(&image, project, member)).collect();
    Ok(Reply::ok(json!({"members": members, "schema": "/v2/schemas/members"})))
}

fn reply(ctx: &Ctx, image: &ImageRecord, member: &ProjectId) -> Result<Reply, Fault> {
    let image = ctx.views()?.images.read(|images| images.get(image.id));
    let shown = image.as_ref().and_then(|image| Some(views::member(image, member, image.members.get(member)?)));
    let image_id = ctx.param("image_id");
    shown
        .map(Reply::ok)
        .ok_or_else(|| Fault::not_found(format!("{member} not found in the member list of the image {image_id}.")))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, _) = permitted(&ctx)?;
    let member = ProjectId::new(ctx.param("member_id"));
    if !sees(&ctx, &image, &member) {
        return Err(not_found(ctx.param("image_id")));
    }
    reply(&ctx, &image, &member)
}

/// A string of a body that no schema has validated.
fn text<'a>(body: &'a Value, key: &str) -> Option<&'a str> {
    body.get(key).and_then(Value::as_str)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    let member = match text(&ctx.body, "member").map(str::trim) {
        Some(member) if !member.is_empty() && member.len() <= 255 => ProjectId::new(member),
        _ => return Err(Fault::bad_request("Expected a member in the form: {\"member\": \"image_id\"}")),
    };
    command(&ctx, &permit, image.id, ImageCommand::Invite(member.clone())).await?;
    reply(&ctx, &image, &member)
}

/// By the default policy, only administrators and the member project may accept or reject the image.
async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let member = ProjectId::new(ctx.param("member_id"));
    let image: Arc<ImageRecord> =
        visible(&ctx).or_else(|fault| ctx.authorize(&PolicyTarget::default()).and(Err(fault)))?;
    let permit = ctx.authorize(&target(&ctx, &image).with("member_id", member.as_str()))?;
    let status = text(&ctx.body, "status").and_then(MemberStatus::parse);
    let status = status.ok_or_else(|| {
        Fault::bad_request(
            "Expected a status in the form: {\"status\": \"status\"}, one of pending, accepted, rejected",
        )
    })?;
    command(&ctx, &permit, image.id, ImageCommand::Answer { member: member.clone(), status }).await?;
    reply(&ctx, &image, &member)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    let member = ProjectId::new(ctx.param("member_id"));
    command(&ctx, &permit, image.id, ImageCommand::RemoveMember(member)).await?;
    Ok(Reply::empty(204))
}
