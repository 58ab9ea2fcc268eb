//! `evacuate`: a server leaves a host that is down. Source: nova `api/openstack/compute/evacuate.py`.

use chronova_actors::instance::EvacuationRequest;
use chronova_actors::instance::actions::{self, ServerAction};
use chronova_events::ids::ProcessId;
use serde_json::json;

use super::change::{asker, send};
use super::create;
use super::lookup::{PermittedServer, find};
use crate::compute::answers::servers as answers;
use crate::compute::bodies::server_actions as bodies;
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action};
use crate::schema::is_true;

pub(in crate::compute) const ROUTES: &[Route] =
    &[action("evacuate.evacuate", "/servers/{id}/action", "evacuate", handler!(evacuate))
        .policy_on_target("os_compute_api:os-evacuate")
        .body(bodies::evacuate_body)
        .answers(answers::evacuate)];

async fn evacuate(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let asker = asker(&ctx, &found);
    let (host, forced) = destination(&ctx, &found)?;
    let on_shared_storage = on_shared_storage(&ctx)?;
    actions::admit(found.server()?, ServerAction::Evacuate, asker)
        .map_err(|reject| reject::instance_reject(found.id, reject))?;
    only_from_hosts_that_are_down(&ctx, &found)?;
    let (process, stop) = (ProcessId::random(), versions::evacuated_servers_are_stopped(ctx.version));
    let begin = EvacuationRequest::Begin { process, host, forced, on_shared_storage, stop, asker };
    send(&ctx, &found, begin).await?;
    Ok(answer(&ctx, on_shared_storage))
}

/// The requested host, and whether the evacuation skips the scheduler. Before 2.29, an evacuation to a requested host
/// always skips the scheduler.
fn destination(ctx: &Ctx, found: &PermittedServer) -> Result<(Option<String>, bool), Fault> {
    let body = ctx.action_body();
    let host = body["host"].as_str().map(str::to_owned);
    let said = versions::evacuation_can_be_forced(ctx.version) && is_true(&body["force"]);
    let Some(name) = &host else {
        return match said {
            true => Err(Fault::bad_request("Can't force to a non-provided destination")),
            false => Ok((None, false)),
        };
    };
    if ctx.views()?.hosts.read(|hosts| hosts.named(name).is_none()) {
        return Err(Fault::not_found(format!("Compute host {name} not found.")));
    }
    if found.server()?.placement.as_ref().is_some_and(|placed| placed.hostname == *name) {
        return Err(Fault::bad_request("The target host can't be the same one."));
    }
    Ok((host, said || !versions::evacuation_asks_the_scheduler(ctx.version)))
}

/// `onSharedStorage` of the body; `None` from 2.14 on, where the control plane detects it.
fn on_shared_storage(ctx: &Ctx) -> Result<Option<bool>, Fault> {
    let body = ctx.action_body();
    if versions::evacuation_finds_shared_storage(ctx.version) {
        return Ok(None);
    }
    let shared = is_true(&body["onSharedStorage"]);
    match shared && body.get("adminPass").is_some() {
        true => Err(Fault::bad_request("admin password can't be changed on existing disk")),
        false => Ok(Some(shared)),
    }
}

fn only_from_hosts_that_are_down(ctx: &Ctx, found: &PermittedServer) -> Result<(), Fault> {
    let Some(placed) = &found.server()?.placement else { return Ok(()) };
    let known = |hosts: &chronova_projections::hosts::Hosts| {
        hosts.get(placed.host).is_some_and(chronova_events::host::KnownHost::answers)
    };
    match ctx.views()?.hosts.read(known) {
        true => Err(Fault::bad_request(format!("Compute service of {} is still in use.", placed.hostname))),
        false => Ok(()),
    }
}

/// In versions that show passwords, the answer has the new password. On shared storage the disk does not change, and so
/// the password does not change either.
fn answer(ctx: &Ctx, on_shared_storage: Option<bool>) -> Reply {
    if versions::evacuation_finds_shared_storage(ctx.version) {
        return Reply::empty(200);
    }
    let password = create::new_password(ctx, ctx.action_body()["adminPass"].as_str());
    Reply::ok(match (password, on_shared_storage) {
        (Some(_), Some(true)) => json!({"adminPass": null}),
        (Some(password), _) => json!({"adminPass": password}),
        (None, _) => json!({}),
    })
}
