//! Moves of servers: another flavor, another host; confirmed or reverted.

use chronova_actors::instance::InstanceCommand;
use chronova_actors::instance::actions::{self, Action};
use chronova_actors::instance::moving::MoveCommand;
use chronova_actors::quota::{QuotaAggregate, QuotaCommand};
use chronova_events::ids::ProcessId;
use chronova_events::instance::{Alive, DiskConfig, FlavorSnapshot};
use serde_json::Value;

use super::change::{asker, send};
use super::create::visible_flavor;
use super::found::{Found, find};
use super::topology;
use crate::compute::bodies::server_actions as bodies;
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action};

const PATH: &str = "/servers/{id}/action";
const GIB: u64 = 1 << 30;

pub(in crate::compute) const ROUTES: &[Route] = &[
    action("servers.resize", PATH, "resize", handler!(resize))
        .policy_on_target("os_compute_api:servers:resize")
        .body(bodies::servers_resize_body),
    action("servers.confirmResize", PATH, "confirmResize", handler!(confirm))
        .policy_on_target("os_compute_api:servers:confirm_resize")
        .body(bodies::servers_confirm_resize_body),
    action("servers.revertResize", PATH, "revertResize", handler!(revert))
        .policy_on_target("os_compute_api:servers:revert_resize")
        .body(bodies::servers_revert_resize_body),
    action("migrate_server.migrate", PATH, "migrate", handler!(migrate))
        .policy_on_target("os_compute_api:os-migrate-server:migrate")
        .body(bodies::migrate_server_migrate_body),
];

async fn tell(ctx: &Ctx, found: &Found, command: MoveCommand) -> Result<(), Fault> {
    send(ctx, found, InstanceCommand::Move(Box::new(command))).await
}

pub(super) async fn resize(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (server, asker) = (found.server()?, asker(&ctx, &found));
    actions::admit(server, Action::Resize, asker).map_err(|reject| reject::instance_reject(found.id, reject))?;
    let flavor = wanted_flavor(&ctx, server)?;
    let disk_config = ctx.action_body()["OS-DCF:diskConfig"].as_str().map(|config| match config {
        "MANUAL" => DiskConfig::Manual,
        _ => DiskConfig::Auto,
    });
    widen(&ctx, &found, &flavor).await?;
    // Refused after all, the room goes back by itself: the server is not as large as what it holds.
    let (process, flavor) = (ProcessId::random(), Box::new(flavor));
    tell(&ctx, &found, MoveCommand::Resize { process, flavor, disk_config, asker }).await?;
    Ok(Reply::empty(202))
}

/// What Nova checks of a new flavor before it accepts it.
fn wanted_flavor(ctx: &Ctx, server: &Alive) -> Result<FlavorSnapshot, Fault> {
    let id = match &ctx.action_body()["flavorRef"] {
        Value::String(id) => id.clone(),
        other => other.to_string(),
    };
    // Links are accepted as names of flavors, as when servers are created.
    let id = id.rsplit('/').next().unwrap_or_default();
    let (flavor, now) = (visible_flavor(ctx, ctx.queries()?, id)?, &server.request.flavor);
    let volume_backed = server.is_volume_backed();
    if flavor.root_gib == 0 && now.root_gib != 0 && !volume_backed {
        return Err(Fault::bad_request(
            "Server disk was unable to be resized because: Resize to zero disk flavor is not allowed.",
        ));
    }
    if flavor.id == now.id {
        return Err(Fault::bad_request("When resizing, instances must change flavor!"));
    }
    if let Some(image) = server.hardware_image() {
        if image.min_memory_mib > flavor.memory_mib {
            return Err(Fault::bad_request("Flavor's memory is too small for requested image."));
        }
        let (disk, least) = (u64::from(flavor.root_gib) * GIB, u64::from(image.min_disk_gib) * GIB);
        if disk > 0 && least > disk && !volume_backed {
            return Err(Fault::bad_request(format!(
                "Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is {disk} \
                 bytes, minimum size is {least} bytes."
            )));
        }
    }
    topology::check(&flavor, server.hardware_image())?;
    Ok(flavor)
}

/// Room for the larger of both flavors, until the move is confirmed or reverted.
async fn widen(ctx: &Ctx, found: &Found, flavor: &FlavorSnapshot) -> Result<(), Fault> {
    let project = &found.server()?.request.project;
    let widen = QuotaCommand::Widen {
        project: project.clone(),
        instance: found.id,
        cores: flavor.vcpus,
        memory_mib: flavor.memory_mib,
        defaults: crate::compute::quotas::default_limits(ctx)?,
    };
    let sent = dispatch::send::<QuotaAggregate>(ctx.dispatch()?, &found.permit, project, widen).await;
    sent.map(|_| ()).map_err(reject::quota)
}

async fn migrate(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let host = match versions::migrate_names_a_host(ctx.version) {
        true => ctx.action_body().get("host").and_then(Value::as_str).map(str::to_owned),
        false => None,
    };
    if let Some(host) = &host {
        ctx.authorize_rule("os_compute_api:os-migrate-server:migrate:host", &found.target)?;
        if ctx.views()?.hosts.read(|hosts| hosts.named(host).is_none()) {
            return Err(Fault::bad_request(format!("Compute host {host} could not be found.")));
        }
        if found.server()?.placement.as_ref().is_some_and(|placed| placed.hostname == *host) {
            return Err(Fault::bad_request("Cannot migrate to the host where the server exists."));
        }
    }
    let (process, asker) = (ProcessId::random(), asker(&ctx, &found));
    tell(&ctx, &found, MoveCommand::Migrate { process, host, asker }).await?;
    Ok(Reply::empty(202))
}

pub(super) async fn confirm(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (process, asker) = (ProcessId::random(), asker(&ctx, &found));
    tell(&ctx, &found, MoveCommand::Confirm { process, asker }).await?;
    Ok(Reply::empty(204))
}

pub(super) async fn revert(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (process, asker) = (ProcessId::random(), asker(&ctx, &found));
    tell(&ctx, &found, MoveCommand::Revert { process, asker }).await?;
    Ok(Reply::empty(202))
}
