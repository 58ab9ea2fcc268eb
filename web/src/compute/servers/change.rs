//! `PUT /servers/{id}` and `DELETE /servers/{id}`.

use chronova_actors::instance::actions::{self, Action};
use chronova_actors::instance::{Asker, Change, InstanceAggregate, InstanceCommand};
use chronova_actors::quota::{QuotaAggregate, QuotaCommand};
use chronova_events::ids::ProcessId;
use chronova_events::instance::DiskConfig;
use serde_json::json;

use super::found::{Found, find, one_spelling};
use super::viewer::{render, sees};
use crate::compute::bodies::servers::ServerUpdateBody;
use crate::compute::reject;
use crate::compute::versions;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::reply::Reply;

/// Who asks, for decisions about locked servers.
pub(super) fn asker(ctx: &Ctx, found: &Found) -> Asker {
    Asker { overrides_lock: ctx.allows("os_compute_api:os-lock-server:unlock:unlock_override", &found.target) }
}

/// Sends a command about a server that was found.
pub(super) async fn send(ctx: &Ctx, found: &Found, command: InstanceCommand) -> Result<(), Fault> {
    dispatch::send::<InstanceAggregate>(ctx.dispatch()?, &found.permit, &found.id, command)
        .await
        .map(|_| ())
        .map_err(|error| reject::instance(found.id, error))
}

pub(super) async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let changes = changes(&ctx, &found)?;
    // Nova changes locked servers' names all the same.
    let asker = Asker { overrides_lock: true };
    send(&ctx, &found, InstanceCommand::Change { changes, asker }).await?;
    let sees = sees(&ctx, true, versions::update_answers_briefly(ctx.version))?;
    Ok(Reply::ok(json!({"server": render(&ctx, found.id, &sees).await?})))
}

fn changes(ctx: &Ctx, found: &Found) -> Result<Vec<Change>, Fault> {
    let body: ServerUpdateBody = ctx.parse_at("server")?;
    let now = &found.server()?.request;
    let mut changes = Vec::new();
    if let Some(name) = body.name {
        changes.push(Change::Name(name.trim().to_owned()));
    }
    if let Some(description) = body.description.mentioned() {
        changes.push(Change::Description(description));
    }
    if let Some(hostname) = body.hostname {
        changes.push(Change::Hostname(hostname));
    }
    if let Some(config) = body.disk_config {
        changes.push(Change::DiskConfig(if config == "MANUAL" { DiskConfig::Manual } else { DiskConfig::Auto }));
    }
    if body.access_ip_v4.is_some() || body.access_ip_v6.is_some() {
        changes.push(Change::AccessAddresses {
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

/// The room in the quota is taken first, as for a new server.
pub(super) async fn restore(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (server, asker) = (found.server()?, asker(&ctx, &found));
    let refused = |error| reject::instance_reject(found.id, error);
    actions::admit(server, Action::Restore, asker).map_err(refused)?;
    let project = server.request.project.clone();
    let reserve = QuotaCommand::Reserve {
        project: project.clone(),
        instances: vec![found.id],
        cores: server.request.flavor.vcpus,
        memory_mib: server.request.flavor.memory_mib,
        defaults: crate::compute::quotas::default_limits(&ctx)?,
    };
    dispatch::send::<QuotaAggregate>(ctx.dispatch()?, &found.permit, &project, reserve).await.map_err(reject::quota)?;
    // Refused after all, the room goes back by itself: nobody holds it.
    send(&ctx, &found, InstanceCommand::Restore { process: ProcessId::random(), asker }).await?;
    Ok(Reply::empty(202))
}

/// Nova's `forceDelete`: whatever the server does, and for good.
pub(super) async fn force_delete(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let command = InstanceCommand::Delete { process: ProcessId::random(), force: true, asker: asker(&ctx, &found) };
    send(&ctx, &found, command).await?;
    Ok(Reply::empty(202))
}

pub(super) async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (process, asker) = (ProcessId::random(), asker(&ctx, &found));
    let command = match ctx.queries()?.server_options.reclaim_interval.is_zero() {
        true => InstanceCommand::Delete { process, force: false, asker },
        false => InstanceCommand::SoftDelete { process, asker },
    };
    send(&ctx, &found, command).await?;
    Ok(Reply::empty(204))
}
