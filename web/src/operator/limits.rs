//! `GET /chronova/v1/limits`: the quota limits that are set here, under Nova's legacy names, and the resource classes
//! of the flavors. `chronova manage limits` copies the limits to Keystone.

use chronova_events::ids::ProjectId;
use serde_json::json;

use super::answers;
use crate::compute::quotas;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[get("operator.limits.show", "/limits", handler!(show))
    .leader()
    .policy("chronova:limits:show")
    .answers(answers::limits)];

/// With `project_id`, the limits of this project, too. With `servers=false`, flavors that only servers still have do
/// not count.
async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let project = ctx.query.first("project_id").map(ProjectId::new);
    let of_servers = ctx.query.first("servers") != Some("false");
    let own = project.as_ref().map(|project| quotas::own_limits(&ctx, project)).transpose()?;
    Ok(Reply::ok(json!({"limits": {
        "defaults": quotas::default_of_each(&ctx)?,
        "project": own,
        "resource_classes": ctx.queries()?.requested_classes(project.as_ref(), of_servers),
    }})))
}
