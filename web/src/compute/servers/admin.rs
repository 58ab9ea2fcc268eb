//! Administration and debugging of a server: its state, network information, crash dump, counters and password.

use chronova_actors::instance::InstanceRequest;
use chronova_actors::instance::actions::{ServerAction, check_state};
use chronova_events::ids::ProcessId;
use chronova_events::instance::{DeclaredState, Power};
use chronova_hypervisor::driver::DriverError;
use serde_json::json;

use super::change::{asker, send};
use super::lookup::find;
use crate::answers::{accepted, no_content};
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::{no_query, server_actions as bodies};
use crate::compute::views::diagnostics;
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get};

const PATH: &str = "/servers/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    action("admin_actions.os-resetState", PATH, "os-resetState", handler!(reset_state))
        .policy_on_target("os_compute_api:os-admin-actions:reset_state")
        .body(bodies::admin_actions_os_reset_state_body)
        .answers(accepted),
    action("admin_actions.injectNetworkInfo", PATH, "injectNetworkInfo", handler!(inject_network_info))
        .policy_on_target("os_compute_api:os-admin-actions:inject_network_info")
        .body(bodies::admin_actions_inject_network_info_body)
        .answers(accepted),
    action("servers.trigger_crash_dump", PATH, "trigger_crash_dump", handler!(trigger_crash_dump))
        .since(2, 17)
        .policy_on_target("os_compute_api:servers:trigger_crash_dump")
        .body(bodies::servers_trigger_crash_dump_body)
        .answers(accepted),
    get("server_diagnostics.index", "/servers/{server_id}/diagnostics", handler!(diagnose))
        .leader()
        .policy_on_target("os_compute_api:os-server-diagnostics")
        .query(no_query)
        .answers(answers::diagnosed),
    get("server_password.index", "/servers/{server_id}/os-server-password", handler!(password))
        .reads_secret()
        .policy_on_target("os_compute_api:os-server-password:show")
        .query(no_query)
        .answers(answers::password),
    delete("server_password.clear", "/servers/{server_id}/os-server-password", handler!(clear_password))
        .policy_on_target("os_compute_api:os-server-password:clear")
        .answers(no_content),
];

/// Declares the server's state. Neither a lock nor the present state prevents this.
async fn reset_state(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let state = match ctx.action_body()["state"].as_str() {
        Some("active") => DeclaredState::Active,
        _ => DeclaredState::Error,
    };
    send(&ctx, &found, InstanceRequest::DeclareState { state }).await?;
    Ok(Reply::empty(202))
}

async fn inject_network_info(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    send(&ctx, &found, InstanceRequest::InjectNetworkInfo { asker: asker(&ctx, &found) }).await?;
    Ok(Reply::empty(202))
}

pub(super) async fn trigger_crash_dump(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let command = InstanceRequest::TriggerCrashDump { process: ProcessId::random(), asker: asker(&ctx, &found) };
    send(&ctx, &found, command).await?;
    Ok(Reply::empty(202))
}

fn not_seen(id: chronova_events::ids::InstanceId, error: DriverError) -> Fault {
    match error {
        DriverError::NoSuchGuest(_) | DriverError::Failed { .. } => not_running(id, Power::Shutdown),
        DriverError::Unsupported(_) => Fault::not_implemented("The requested functionality is not supported."),
        other => Fault::conflict(format!("Instance {id} is not ready")).caused_by(other),
    }
}

async fn diagnose(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let server = found.server()?;
    check_state(server, ServerAction::Diagnose).map_err(|reject| reject::instance_reject(found.id, reject))?;
    if server.power() != Power::Running {
        return Err(not_running(found.id, server.power()));
    }
    let host = super::actions::host(&ctx, &found)?;
    let seen = host.diagnostics(found.id).await.map_err(|error| not_seen(found.id, error))?;
    let now = ctx.queries()?.clock.now();
    Ok(Reply::ok(match versions::diagnostics_are_standard(ctx.version) {
        true => diagnostics::standard(&seen, server, now),
        false => diagnostics::of_libvirt(&seen),
    }))
}

/// The refusal of diagnostics, with Nova's name of the power state (`power_state.STATE_MAP`).
fn not_running(id: impl std::fmt::Display, power: Power) -> Fault {
    let state = match power {
        Power::NoState => "pending",
        Power::Running => "running",
        Power::Paused => "paused",
        Power::Shutdown => "shutdown",
        Power::Crashed => "crashed",
        Power::Suspended => "suspended",
    };
    Fault::conflict(format!("Cannot 'get_diagnostics' instance {id} while it is in power state {state}"))
}

/// The password that a guest has encrypted and posted to the metadata service.
async fn password(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    Ok(Reply::ok(json!({"password": found.server()?.guest_password.as_deref().unwrap_or_default()})))
}

/// Removes the posted password. The password inside the guest does not change, and the guest may post another one
/// later.
async fn clear_password(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    send(&ctx, &found, InstanceRequest::ClearGuestPassword).await?;
    Ok(Reply::empty(204))
}
