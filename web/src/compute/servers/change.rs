//! `PUT /servers/{id}` and `DELETE /servers/{id}`.

use chronova_actors::instance::{CallerRights, InstanceChange, InstanceRequest, InstanceRoot};
use chronova_actors::operations::ServerCall;
use chronova_events::ids::ProcessId;
use chronova_events::instance::DiskConfig;
use serde_json::json;

use super::lookup::{PermittedServer, find, one_spelling};
use super::viewer::{render, sees};
use crate::compute::bodies::servers::ServerUpdateBody;
use crate::compute::{quotas, reject, versions};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::reply::Reply;

/// The caller's rights, for decisions about locked servers.
pub(super) fn asker(ctx: &Ctx, found: &PermittedServer) -> CallerRights {
    CallerRights { overrides_lock: ctx.allows("os_compute_api:os-lock-server:unlock:unlock_override", &found.target) }
}

/// A call of a use case in `actors/src/operations` about a found server.
pub(super) fn call<'a>(ctx: &Ctx, found: &'a PermittedServer) -> Result<ServerCall<'a>, Fault> {
    let (server, is_admin) = (found.server()?, ctx.caller().is_admin);
    Ok(ServerCall { id: found.id, server, asker: asker(ctx, found), is_admin })
}

/// Sends a request about a found server.
pub(super) async fn send(ctx: &Ctx, found: &PermittedServer, request: impl Into<InstanceRequest>) -> Result<(), Fault> {
    dispatch::send::<InstanceRoot>(ctx.dispatch()?, &found.permit, &found.id, request.into())
        .await
        .map(|_| ())
        .map_err(|error| reject::instance(found.id, error))
}

pub(super) async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let changes = changes(&ctx, &found)?;
    // As in Nova, a lock does not prevent these changes.
    let asker = CallerRights { overrides_lock: true };
    let server = (found.id, &found.server()?.request.project);
    let changed = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.change_server(meta, server, changes, asker).await
    });
    changed.await.map_err(|reject| reject::server_change(found.id, reject))?;
    let sees = sees(&ctx, true, versions::update_answers_briefly(ctx.version))?;
    Ok(Reply::ok(json!({"server": render(&ctx, found.id, &sees).await?})))
}

fn changes(ctx: &Ctx, found: &PermittedServer) -> Result<Vec<InstanceChange>, Fault> {
    let body: ServerUpdateBody = ctx.parse_at("server")?;
    let now = &found.server()?.request;
    let mut changes = Vec::new();
    if let Some(name) = body.name {
        changes.push(InstanceChange::Name(name.trim().to_owned()));
    }
    if let Some(description) = body.description.mentioned() {
        changes.push(InstanceChange::Description(description));
    }
    if let Some(hostname) = body.hostname {
        changes.push(InstanceChange::Hostname(hostname));
    }
    if let Some(config) = body.disk_config {
        changes.push(InstanceChange::DiskConfig(if config == "MANUAL" {
            DiskConfig::Manual
        } else {
            DiskConfig::Auto
        }));
    }
    if body.access_ip_v4.is_some() || body.access_ip_v6.is_some() {
        changes.push(InstanceChange::AccessAddresses {
            v4: body.access_ip_v4.map(one_spelling).or_else(|| now.access_ip_v4.clone()),
            v6: body.access_ip_v6.map(one_spelling).or_else(|| now.access_ip_v6.clone()),
        });
    }
    if let Some(zone) = body.pinned_availability_zone.mentioned()
        && zone != now.availability_zone
    {
        return Err(Fault::not_implemented(
            "Changing a server's pinned availability zone is not implemented by this release.",
        ));
    }
    Ok(changes)
}

pub(super) async fn restore(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (call, defaults) = (call(&ctx, &found)?, quotas::default_limits(&ctx)?);
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.restore(meta, call, defaults).await
    });
    asked.await.map_err(|reject| reject::server_move(found.id, reject))?;
    Ok(Reply::empty(202))
}

/// Nova's `forceDelete`: deletes a server in any state, without a soft delete.
pub(super) async fn force_delete(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let command = InstanceRequest::Delete { process: ProcessId::random(), force: true, asker: asker(&ctx, &found) };
    send(&ctx, &found, command).await?;
    Ok(Reply::empty(202))
}

pub(super) async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (process, asker) = (ProcessId::random(), asker(&ctx, &found));
    let command = match ctx.queries()?.server_options.reclaim_interval.is_zero() {
        true => InstanceRequest::Delete { process, force: false, asker },
        false => InstanceRequest::SoftDelete { process, asker },
    };
    send(&ctx, &found, command).await?;
    Ok(Reply::empty(204))
}
