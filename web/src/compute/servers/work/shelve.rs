//! `shelve`, `shelveOffload`, `unshelve`. Source: nova `compute/api.py` and `api/openstack/compute/shelve.py`.

use chronova_actors::instance::WorkRequest;
use chronova_actors::instance::actions::ServerAction;
use chronova_events::ids::ProcessId;
use chronova_events::instance::{Alive, UnshelveRequested, status};

use super::requests::{admit, ask};
use crate::compute::servers::change::{asker, call};
use crate::compute::servers::lookup::{PermittedServer, find};
use crate::compute::{reject, versions, zones};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::reply::Reply;

pub(super) async fn shelve(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let (project, user) = (ctx.caller().project.clone(), ctx.caller().user.clone());
    let call = call(&ctx, &found)?;
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.shelve(meta, call, project, user).await
    });
    asked.await.map_err(|reject| reject::server_image(found.id, reject))?;
    Ok(Reply::empty(202))
}

pub(super) async fn offload(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let offload = WorkRequest::Offload { process: ProcessId::random(), asker: asker(&ctx, &found) };
    ask(&ctx, &found, offload).await?;
    Ok(Reply::empty(202))
}

pub(super) async fn unshelve(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    admit(&ctx, &found, ServerAction::Unshelve)?;
    let request = destination(&ctx, &found, found.server()?).await?;
    ask(&ctx, &found, WorkRequest::Unshelve { request, asker: asker(&ctx, &found) }).await?;
    Ok(Reply::empty(202))
}

/// The requested destination. Since 2.77 the body can name a zone. Since 2.91 it can also name a host, and a zone of
/// `null` means any zone.
async fn destination(ctx: &Ctx, found: &PermittedServer, server: &Alive) -> Result<UnshelveRequested, Fault> {
    let (body, queries) = (ctx.action_body(), ctx.queries()?);
    // Until 2.76 Nova ignores the body.
    let said = |key: &str| body.get(key).filter(|_| versions::unshelving_has_a_destination(ctx.version));
    let (zone, host) = (said("availability_zone"), said("host").and_then(|host| host.as_str()));
    if (zone.is_some() || host.is_some()) && !server.is_offloaded() {
        let state = status::of_alive(server).vm_state;
        return Err(Fault::conflict(format!(
            "Specifying an availability zone or a host when unshelving server \"{}\" with status \"{state}\" is not \
             supported. The server status must be SHELVED_OFFLOADED.",
            found.id
        )));
    }
    let wanted = zone.and_then(|zone| zone.as_str());
    if wanted.is_some_and(|zone| !zones::takes_servers(queries, zone)) {
        return Err(Fault::bad_request("The requested availability zone is not available"));
    }
    if let Some(wanted) = wanted {
        check_volumes(ctx, server, wanted).await?;
    }
    let zone = match zone {
        Some(_) => wanted.map(str::to_owned),
        None => server.request.availability_zone.clone(),
    };
    if let Some(name) = host {
        ctx.authorize_rule("os_compute_api:os-shelve:unshelve_to_host", &found.target)?;
        let known = queries.views.hosts.read(|hosts| hosts.named(name).map(|host| host.id));
        let known = known.ok_or_else(|| Fault::bad_request(format!("Compute host {name} could not be found.")))?;
        if let Some(zone) = &zone
            && zones::of_host(queries, &queries.views, known) != *zone
        {
            return Err(Fault::conflict(format!("Host \"{name}\" is not in the availability zone \"{zone}\".")));
        }
    }
    let process = ProcessId::random();
    Ok(UnshelveRequested { process, availability_zone: zone, host: host.map(str::to_owned) })
}

/// If `[cinder] cross_az_attach` is false, the server's volumes must be in the requested zone.
async fn check_volumes(ctx: &Ctx, server: &Alive, zone: &str) -> Result<(), Fault> {
    if ctx.app.compute.config.cross_az_attach {
        return Ok(());
    }
    for volume in server.disks.iter().filter_map(|disk| disk.device.volume) {
        let found = ctx.queries()?.volumes.find(volume, &server.request.project, true).await;
        let theirs = found.map_err(|error| reject::volume(volume, error))?.availability_zone;
        if theirs != zone {
            return Err(Fault::conflict(reject::other_zone(&format!(
                "The specified availability zone does not match the volume {volume} attached to the server. Specified \
                 availability zone is {zone}. Volume is in {theirs}."
            ))));
        }
    }
    Ok(())
}
