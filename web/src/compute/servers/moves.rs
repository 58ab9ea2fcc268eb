//! Moves of servers: resize, cold migration, confirm and revert.

use chronova_actors::instance::MoveRequest;
use chronova_actors::instance::actions::ServerAction;
use chronova_actors::operations::server_moves::ResizeRequest;
use chronova_events::ids::ProcessId;
use chronova_events::instance::DiskConfig;
use serde_json::Value;

use super::change::{asker, call, send};
use super::create::visible_flavor;
use super::lookup::find;
use crate::answers::{accepted, no_content};
use crate::compute::bodies::server_actions as bodies;
use crate::compute::{quotas, reject, versions};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action};

const PATH: &str = "/servers/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    action("servers.resize", PATH, "resize", handler!(resize))
        .policy_on_target("os_compute_api:servers:resize")
        .body(bodies::servers_resize_body)
        .answers(accepted),
    action("servers.confirmResize", PATH, "confirmResize", handler!(confirm))
        .policy_on_target("os_compute_api:servers:confirm_resize")
        .body(bodies::servers_confirm_resize_body)
        .answers(no_content),
    action("servers.revertResize", PATH, "revertResize", handler!(revert))
        .policy_on_target("os_compute_api:servers:revert_resize")
        .body(bodies::servers_revert_resize_body)
        .answers(accepted),
    action("migrate_server.migrate", PATH, "migrate", handler!(migrate))
        .policy_on_target("os_compute_api:os-migrate-server:migrate")
        .body(bodies::migrate_server_migrate_body)
        .answers(accepted),
];

pub(super) async fn resize(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let call = call(&ctx, &found)?;
    call.admit(ServerAction::Resize).map_err(|reject| reject::instance_reject(found.id, reject))?;
    let request = resize_request(&ctx)?;
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.resize(meta, call, request).await
    });
    asked.await.map_err(|reject| reject::server_move(found.id, reject))?;
    Ok(Reply::empty(202))
}

fn resize_request(ctx: &Ctx) -> Result<ResizeRequest, Fault> {
    let body = ctx.action_body();
    let id = match &body["flavorRef"] {
        Value::String(id) => id.clone(),
        other => other.to_string(),
    };
    // As in `POST /servers`, the flavor may be given as a link, which ends with its id.
    let id = id.rsplit('/').next().unwrap_or_default();
    let disk_config = body["OS-DCF:diskConfig"].as_str().map(|config| match config {
        "MANUAL" => DiskConfig::Manual,
        _ => DiskConfig::Auto,
    });
    let (flavor, defaults) = (visible_flavor(ctx, ctx.queries()?, id)?, quotas::default_limits(ctx)?);
    Ok(ResizeRequest { flavor, disk_config, defaults })
}

async fn migrate(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let named = || ctx.action_body().get("host").and_then(Value::as_str).map(str::to_owned);
    let host = versions::migrate_names_a_host(ctx.version).then(named).flatten();
    if host.is_some() {
        ctx.authorize_rule("os_compute_api:os-migrate-server:migrate:host", &found.target)?;
    }
    let call = call(&ctx, &found)?;
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.migrate(meta, call, host).await
    });
    asked.await.map_err(|reject| reject::server_move(found.id, reject))?;
    Ok(Reply::empty(202))
}

pub(super) async fn confirm(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (process, asker) = (ProcessId::random(), asker(&ctx, &found));
    send(&ctx, &found, MoveRequest::Confirm { process, asker }).await?;
    Ok(Reply::empty(204))
}

pub(super) async fn revert(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (call, defaults) = (call(&ctx, &found)?, quotas::default_limits(&ctx)?);
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.revert(meta, call, defaults).await
    });
    asked.await.map_err(|reject| reject::server_move(found.id, reject))?;
    Ok(Reply::empty(202))
}
