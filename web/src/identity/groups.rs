//! `/v3/groups`: Chronova has no groups, so lists are empty and ids are not found.

use super::answers;
use super::listing;
use crate::answers::refused;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::policy::PolicyTarget;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("groups.index", "/groups", handler!(index)).policy_on_target("identity:list_groups").answers(answers::groups),
    get("groups.show", "/groups/{id}", handler!(show)).policy_on_target("identity:get_group").answers(refused),
    get("users.groups", "/users/{user_id}/groups", handler!(of_user))
        .policy_on_target("identity:list_groups_for_user")
        .answers(answers::groups),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let domain = ctx.query.last("domain_id").unwrap_or_default().to_owned();
    ctx.authorize(&PolicyTarget::default().with("target.group.domain_id", domain))?;
    Ok(listing::reply(&ctx, "groups", vec![], &[]))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&PolicyTarget::default())?;
    Err(Fault::not_found(format!("Could not find group: {}.", ctx.param("id"))))
}

async fn of_user(ctx: Ctx) -> Result<Reply, Fault> {
    let user = ctx.param("user_id").to_owned();
    ctx.authorize(&PolicyTarget::default().with("user_id", user.clone()).with("target.user.id", user))?;
    Ok(listing::reply(&ctx, "groups", vec![], &[]))
}
