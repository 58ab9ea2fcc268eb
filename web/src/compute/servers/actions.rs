//! `POST /servers/{id}/action`: power, locks, soft-deleted servers, and the console log.

use chronova_actors::hosts::readings::HostReadings;
use chronova_actors::instance::InstanceRequest;
use chronova_events::ids::ProcessId;
use chronova_events::instance::{Locked, PowerAction};
use chronova_hypervisor::driver::DriverError;
use serde_json::{Value, json};

use super::change::{asker, send};
use super::lookup::{PermittedServer, find};
use crate::answers::accepted;
use crate::compute::answers::servers as answers;
use crate::compute::bodies::server_actions as bodies;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, action};
use crate::schema::to_integer;

const PATH: &str = "/servers/{id}/action";

pub(in crate::compute) const ROUTES: &[Route] = &[
    action("servers.os-start", PATH, "os-start", handler!(start))
        .policy_on_target("os_compute_api:servers:start")
        .body(bodies::start_body)
        .answers(accepted),
    action("servers.os-stop", PATH, "os-stop", handler!(stop))
        .policy_on_target("os_compute_api:servers:stop")
        .body(bodies::stop_body)
        .answers(accepted),
    action("servers.reboot", PATH, "reboot", handler!(reboot))
        .policy_on_target("os_compute_api:servers:reboot")
        .body(bodies::reboot_body)
        .answers(accepted),
    action("pause_server.pause", PATH, "pause", handler!(pause))
        .policy_on_target("os_compute_api:os-pause-server:pause")
        .body(bodies::pause_server_pause_body)
        .answers(accepted),
    action("pause_server.unpause", PATH, "unpause", handler!(unpause))
        .policy_on_target("os_compute_api:os-pause-server:unpause")
        .body(bodies::pause_server_unpause_body)
        .answers(accepted),
    action("suspend_server.suspend", PATH, "suspend", handler!(suspend))
        .policy_on_target("os_compute_api:os-suspend-server:suspend")
        .body(bodies::suspend_server_suspend_body)
        .answers(accepted),
    action("suspend_server.resume", PATH, "resume", handler!(resume))
        .policy_on_target("os_compute_api:os-suspend-server:resume")
        .body(bodies::suspend_server_resume_body)
        .answers(accepted),
    action("deferred_delete.restore", PATH, "restore", handler!(super::change::restore))
        .policy_on_target("os_compute_api:os-deferred-delete:restore")
        .body(bodies::deferred_delete_restore_body)
        .answers(accepted),
    action("deferred_delete.forceDelete", PATH, "forceDelete", handler!(super::change::force_delete))
        .policy_on_target("os_compute_api:os-deferred-delete:force")
        .body(bodies::deferred_delete_force_delete_body)
        .answers(accepted),
    action("lock_server.lock", PATH, "lock", handler!(lock))
        .policy_on_target("os_compute_api:os-lock-server:lock")
        .body(bodies::lock_server_lock_body)
        .answers(accepted),
    action("lock_server.unlock", PATH, "unlock", handler!(unlock))
        .policy_on_target("os_compute_api:os-lock-server:unlock")
        .body(bodies::lock_server_unlock_body)
        .answers(accepted),
    action("console_output.os-getConsoleOutput", PATH, "os-getConsoleOutput", handler!(console_output))
        .policy_on_target("os_compute_api:os-console-output")
        .body(bodies::console_output_get_console_output_body)
        .answers(answers::console_output),
];

async fn power(ctx: &Ctx, action: PowerAction) -> Result<Reply, Fault> {
    let found = find(ctx, "id")?;
    let command = InstanceRequest::Power { process: ProcessId::random(), action, asker: asker(ctx, &found) };
    send(ctx, &found, command).await?;
    Ok(Reply::empty(202))
}

pub(super) async fn start(ctx: Ctx) -> Result<Reply, Fault> {
    power(&ctx, PowerAction::Start).await
}

pub(super) async fn stop(ctx: Ctx) -> Result<Reply, Fault> {
    power(&ctx, PowerAction::Stop).await
}

pub(super) async fn reboot(ctx: Ctx) -> Result<Reply, Fault> {
    let hard = ctx.action_body()["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("HARD"));
    power(&ctx, if hard { PowerAction::RebootHard } else { PowerAction::RebootSoft }).await
}

async fn pause(ctx: Ctx) -> Result<Reply, Fault> {
    power(&ctx, PowerAction::Pause).await
}

async fn unpause(ctx: Ctx) -> Result<Reply, Fault> {
    power(&ctx, PowerAction::Unpause).await
}

async fn suspend(ctx: Ctx) -> Result<Reply, Fault> {
    power(&ctx, PowerAction::Suspend).await
}

async fn resume(ctx: Ctx) -> Result<Reply, Fault> {
    power(&ctx, PowerAction::Resume).await
}

async fn lock(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    // The lock is an administrator's if the caller's project does not own the server.
    let by_admin = ctx.caller().project.as_ref() != Some(&found.server()?.request.project);
    let lock = Locked {
        by_admin,
        reason: ctx.action_body()["locked_reason"].as_str().map(str::to_owned),
        request_id: Some(ctx.requester.request_id.clone()),
    };
    send(&ctx, &found, InstanceRequest::Lock { lock }).await?;
    Ok(Reply::empty(202))
}

async fn unlock(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    if found.server()?.lock.as_ref().is_some_and(|lock| lock.by_admin) {
        ctx.authorize_rule("os_compute_api:os-lock-server:unlock:unlock_override", &found.target)?;
    }
    let by_admin = asker(&ctx, &found).overrides_lock;
    send(&ctx, &found, InstanceRequest::Unlock { by_admin }).await?;
    Ok(Reply::empty(202))
}

/// The largest part of a console log that Nova reads.
const MOST_OF_A_LOG: usize = 102_400;

async fn console_output(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    let host = host(&ctx, &found)?;
    let bytes = host.console_log(found.id, MOST_OF_A_LOG).await.map_err(|error| unreadable(&found, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = match ctx.action_body().get("length") {
        None | Some(Value::Null) => None,
        // -1 means the whole log, like an absent length.
        Some(length) => to_integer(length).and_then(|length| usize::try_from(length).ok()),
    };
    Ok(Reply::ok(json!({"output": tail(&text, lines)})))
}

/// The server's host. Refuses the request if the server has no host, or if the host does not answer.
pub(super) fn host(ctx: &Ctx, found: &PermittedServer) -> Result<HostReadings, Fault> {
    let not_ready = || Fault::conflict(format!("Instance {} is not ready", found.id));
    let placed = found.server()?.placement.as_ref().ok_or_else(not_ready)?;
    ctx.queries()?.host(placed.host).ok_or_else(not_ready)
}

fn unreadable(found: &PermittedServer, error: DriverError) -> Fault {
    match error {
        DriverError::NoSuchGuest(_) => Fault::conflict(format!("Instance {} is not ready", found.id)),
        DriverError::Unsupported(_) => {
            Fault::not_implemented("Unable to get console log, functionality not implemented").caused_by(error)
        }
        other => Fault::not_found("Guest does not have a console available.").caused_by(other),
    }
}

/// The last `lines` lines. As in Nova, the text after the last line break is a line, even if it is empty.
fn tail(text: &str, lines: Option<usize>) -> &str {
    let Some(lines) = lines else { return text };
    if lines == 0 {
        return "";
    }
    match text.rmatch_indices('\n').nth(lines - 1) {
        Some((at, _)) => &text[at + 1..],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_log() {
        let log = "one\ntwo\nthree\n";
        assert_eq!(tail(log, None), log);
        assert_eq!(tail(log, Some(2)), "three\n");
        assert_eq!(tail(log, Some(3)), "two\nthree\n");
        assert_eq!(tail(log, Some(9)), log);
        assert_eq!(tail(log, Some(0)), "");
        assert_eq!(tail("one\ntwo", Some(1)), "two");
    }
}
