//! `PUT /servers/{id}` and `DELETE /servers/{id}`.

use chronova_actors::instance::{Asker, Change, InstanceAggregate, InstanceCommand};
use chronova_events::ids::ProcessId;
use chronova_events::instance::DiskConfig;
use serde_json::{Value, json};

use super::Found;
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
    dispatch::send::<InstanceAggregate>(ctx.house()?, &found.permit, &found.id, command)
        .await
        .map(|_| ())
        .map_err(|error| reject::instance(found.id, error))
}

pub(super) async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let found = super::find(&ctx, "id")?;
    let changes = changes(&ctx, &found)?;
    // Nova changes locked servers' names all the same.
    let asker = Asker { overrides_lock: true };
    send(&ctx, &found, InstanceCommand::Change { changes, asker }).await?;
    let sees = super::sees(&ctx, true, versions::update_answers_briefly(ctx.version));
    Ok(Reply::ok(json!({"server": super::render(&ctx, found.id, &sees)?})))
}

fn changes(ctx: &Ctx, found: &Found) -> Result<Vec<Change>, Fault> {
    let server = &ctx.body["server"];
    let now = &found.server()?.request;
    let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut changes = Vec::new();
    if let Some(name) = text("name") {
        changes.push(Change::Name(name.trim().to_owned()));
    }
    if let Some(description) = server.get("description") {
        changes.push(Change::Description(description.as_str().map(str::to_owned)));
    }
    if let Some(hostname) = text("hostname") {
        changes.push(Change::Hostname(hostname));
    }
    if let Some(config) = text("OS-DCF:diskConfig") {
        changes.push(Change::DiskConfig(if config == "MANUAL" { DiskConfig::Manual } else { DiskConfig::Auto }));
    }
    if server.get("accessIPv4").is_some() || server.get("accessIPv6").is_some() {
        changes.push(Change::AccessAddresses {
            v4: text("accessIPv4").or_else(|| now.access_ip_v4.clone()),
            v6: text("accessIPv6").or_else(|| now.access_ip_v6.clone()),
        });
    }
    if let Some(zone) = server.get("pinned_availability_zone")
        && zone.as_str() != now.availability_zone.as_deref()
    {
        return Err(Fault::not_implemented(
            "Changing a server's pinned availability zone is not implemented by this release.",
        ));
    }
    Ok(changes)
}

pub(super) async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let found = super::find(&ctx, "id")?;
    let command = InstanceCommand::Delete { process: ProcessId::random(), asker: asker(&ctx, &found) };
    send(&ctx, &found, command).await?;
    Ok(Reply::empty(204))
}
