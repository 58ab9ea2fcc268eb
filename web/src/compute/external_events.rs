//! `POST /os-server-external-events`: events about servers from the network, volume, accelerator and bare-metal
//! services.
//!
//! The answer has a code for each event. 200: the event was accepted. 400: the event lacks the tag that its kind needs.
//! 404: there is no such server. 422: the server has no host. The answer itself has status 207 if any event has another
//! code than 200. The kinds and their effects:
//!
//! | kind | does |
//! |---|---|
//! | `network-changed` | the server's addresses are refreshed |
//! | `network-vif-plugged` | a process that waits for the port continues, or fails if the event says so |
//! | `network-vif-deleted` | the guest loses the interface |
//! | `volume-extended` | the running guest sees the new size of the volume |
//! | `power-update` | the server is started or stopped, if its state allows it |
//! | others | accepted without effect, as in Nova when no operation waits for the event |
//!
//! Source: nova `api/openstack/compute/server_external_events.py`, `compute/manager.py`.

use chronova_actors::instance::{CallerRights, InstanceRequest, InstanceRoot, InstanceVolumeRequest};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{Alive, Phase, Power, PowerAction};
use serde_json::{Value, json};

use super::bodies::external_events::{self as bodies, ExternalEvent};
use crate::compute::answers::others as answers;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, post};

pub(super) const ROUTES: &[Route] =
    &[post("server_external_events.create", "/os-server-external-events", handler!(create))
        .policy("os_compute_api:os-server-external-events:create")
        .body(bodies::create_body)
        .answers(answers::external_events)];

const TAG_REQUIRED: &[&str] = &["volume-extended", "power-update", "accelerator-request-bound"];

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut shown = Vec::new();
    let mut accepted = Vec::new();
    for event in ctx.parse::<bodies::ExternalEventsBody>()?.events {
        let code = judge(&ctx, &event)?;
        shown.push(answered(&event, code));
        if code == 200 {
            accepted.push(event);
        }
    }
    let all = shown.len() == accepted.len();
    for event in &accepted {
        act(&ctx, event).await?;
    }
    Ok(Reply::json(if all { 200 } else { 207 }, json!({"events": shown})))
}

fn server(ctx: &Ctx, event: &ExternalEvent) -> Result<Option<(InstanceId, Alive)>, Fault> {
    let Ok(id) = event.server_uuid.parse::<InstanceId>() else { return Ok(None) };
    let row = ctx.queries()?.views.servers.read(|servers| servers.get(id).cloned());
    Ok(row.and_then(|row| row.instance.alive().cloned()).map(|server| (id, server)))
}

fn judge(ctx: &Ctx, event: &ExternalEvent) -> Result<u16, Fault> {
    let Some((_, server)) = server(ctx, event)? else { return Ok(404) };
    let untagged = event.tag.is_none() && TAG_REQUIRED.contains(&event.name.as_str());
    Ok(match (untagged, server.placement.is_some()) {
        (true, _) => 400,
        (false, true) => 200,
        (false, false) => 422,
    })
}

fn answered(event: &ExternalEvent, code: u16) -> Value {
    let mut shown = event.sent.clone();
    shown.insert("status".to_owned(), json!(if code == 200 { "completed" } else { "failed" }));
    shown.insert("code".to_owned(), json!(code));
    Value::Object(shown)
}

async fn act(ctx: &Ctx, event: &ExternalEvent) -> Result<(), Fault> {
    let Some((id, server)) = server(ctx, event)? else { return Ok(()) };
    let tag = event.tag.as_deref().unwrap_or_default();
    let process = ProcessId::random();
    match event.name.as_str() {
        "network-changed" => {
            dispatch::refresh_interfaces(ctx.dispatch()?, &ctx.permit()?, id).await;
            Ok(())
        }
        "network-vif-plugged" => {
            if let Ok(port) = tag.parse() {
                let plugged = event.sent.get("status").and_then(Value::as_str) != Some("failed");
                ctx.queries()?.networks.heard_of(port, plugged);
            }
            Ok(())
        }
        "network-vif-deleted" => match tag.parse() {
            Ok(port) => send(ctx, id, InstanceRequest::LoseNic { process, port }).await,
            Err(_) => Ok(()),
        },
        "volume-extended" => match tag.parse() {
            Ok(volume) => send(ctx, id, InstanceVolumeRequest::Extend { process, volume }.into()).await,
            Err(_) => Ok(()),
        },
        "power-update" => match power(tag, &server) {
            // The event comes from another service, so the owner's lock on the server does not forbid the action.
            Some(action) => {
                send(ctx, id, InstanceRequest::Power { process, action, asker: CallerRights { overrides_lock: true } })
                    .await
            }
            None => Ok(()),
        },
        kind => {
            tracing::debug!(server = %id, kind, tag, "ignoring an external event");
            Ok(())
        }
    }
}

/// The power action of `tag`. `None` if the tag is unknown, or the server's state does not allow the action.
fn power(tag: &str, server: &Alive) -> Option<PowerAction> {
    let rests = server.ongoing.is_none();
    match (tag, server.phase) {
        ("POWER_ON", Phase::Stopped { power: Power::Shutdown }) if rests => Some(PowerAction::Start),
        ("POWER_OFF", Phase::Active { power: Power::Running }) if rests => Some(PowerAction::Stop),
        _ => None,
    }
}

/// The server may have changed its state meanwhile. Then the event was accepted, but has no effect.
async fn send(ctx: &Ctx, id: InstanceId, request: InstanceRequest) -> Result<(), Fault> {
    match dispatch::send::<InstanceRoot>(ctx.dispatch()?, &ctx.permit()?, &id, request).await {
        Err(error) if error.rejection().is_none() => Err(super::reject::instance(id, error)),
        _ => Ok(()),
    }
}
