//! `/volumes/{id}/action`: the actions that attach and detach volumes. They are older than the attachments API.

use chronova_actors::services::embedded::volume::{NewAttachment, VolumeCommand};
use chronova_events::ids::{AttachmentId, InstanceId};
use chronova_events::volume::{AttachMode, VolumeRecord};
use serde_json::{Value, json};

use super::access::{command, permitted, release};
use super::actions::PATH;
use super::answers;
use super::views;
use crate::answers::accepted;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, action};

pub(super) const ROUTES: &[Route] = &[
    action("volumes.os-attach", PATH, "os-attach", handler!(attach))
        .policy_on_target("volume_extension:volume_actions:attach")
        .answers(accepted),
    action("volumes.os-detach", PATH, "os-detach", handler!(detach))
        .policy_on_target("volume_extension:volume_actions:detach")
        .answers(accepted),
    action("volumes.os-force_detach", PATH, "os-force_detach", handler!(detach))
        .policy_on_target("volume_extension:volume_admin_actions:force_detach")
        .answers(accepted),
    action("volumes.os-reserve", PATH, "os-reserve", handler!(reserve))
        .policy_on_target("volume_extension:volume_actions:reserve")
        .answers(accepted),
    action("volumes.os-unreserve", PATH, "os-unreserve", handler!(unreserve))
        .policy_on_target("volume_extension:volume_actions:unreserve")
        .answers(accepted),
    action("volumes.os-begin_detaching", PATH, "os-begin_detaching", handler!(begin_detaching))
        .policy_on_target("volume_extension:volume_actions:begin_detaching")
        .answers(accepted),
    action("volumes.os-roll_detaching", PATH, "os-roll_detaching", handler!(roll_detaching))
        .policy_on_target("volume_extension:volume_actions:roll_detaching")
        .answers(accepted),
    action("volumes.os-initialize_connection", PATH, "os-initialize_connection", handler!(initialize))
        .policy_on_target("volume_extension:volume_actions:initialize_connection")
        .answers(answers::connection),
    action("volumes.os-terminate_connection", PATH, "os-terminate_connection", handler!(terminate))
        .policy_on_target("volume_extension:volume_actions:terminate_connection")
        .answers(accepted),
];

/// Sends one command without any parameters.
async fn plain(ctx: &Ctx, wanted: VolumeCommand) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(ctx)?;
    command(ctx, &permit, volume.created.volume, wanted).await?;
    Ok(Reply::empty(202))
}

async fn reserve(ctx: Ctx) -> Result<Reply, Fault> {
    plain(&ctx, VolumeCommand::Keep).await
}

async fn unreserve(ctx: Ctx) -> Result<Reply, Fault> {
    plain(&ctx, VolumeCommand::LetGo).await
}

async fn begin_detaching(ctx: Ctx) -> Result<Reply, Fault> {
    plain(&ctx, VolumeCommand::BeginDetaching).await
}

async fn roll_detaching(ctx: Ctx) -> Result<Reply, Fault> {
    plain(&ctx, VolumeCommand::RollDetaching).await
}

/// The body of an attachment in the older form.
struct OldAttachment {
    instance: Option<InstanceId>,
    host: String,
    device: Option<String>,
    mode: AttachMode,
}

fn old_attachment(body: &Value) -> Result<OldAttachment, Fault> {
    let instance = match body["instance_uuid"].as_str() {
        Some(text) => Some(text.parse().map_err(|_| Fault::bad_request("Invalid input received: instance_uuid"))?),
        None => None,
    };
    let host = body["host_name"].as_str().map(str::to_owned);
    if instance.is_none() && host.is_none() {
        return Err(Fault::bad_request("Invalid request to attach volume to an invalid target"));
    }
    let mode = match body["mode"].as_str().unwrap_or("rw") {
        "rw" => AttachMode::ReadWrite,
        "ro" => AttachMode::ReadOnly,
        _ => {
            return Err(Fault::bad_request(
                "Invalid request to attach volume with an invalid mode. Attaching mode should be 'rw' or 'ro'",
            ));
        }
    };
    let device = body["mountpoint"].as_str().map(str::to_owned);
    Ok(OldAttachment { instance, host: host.unwrap_or_default(), device, mode })
}

/// Records the reservation, the connection and the completion in one append, because the client has already attached
/// the volume.
async fn attach(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let OldAttachment { instance, host, device, mode } = old_attachment(ctx.action_body())?;
    let (attachment, reserved_mode) = (AttachmentId::random(), mode);
    // With this action a client reports where it has attached the volume. The service does not check the place.
    let new = NewAttachment { attachment, instance, reserved_mode, host, device, mode, shared: true };
    command(&ctx, &permit, volume.created.volume, VolumeCommand::RecordAttached(Box::new(new))).await?;
    Ok(Reply::empty(202))
}

/// The attachment that the body names, or else the only attachment. `None` if the volume has no attachment.
fn named_attachment(volume: &VolumeRecord, body: &Value) -> Result<Option<AttachmentId>, Fault> {
    match (body["attachment_id"].as_str(), volume.attachments.len()) {
        (Some(text), _) => {
            let known = text.parse().ok().filter(|id| volume.attachments.contains_key(id));
            let missing = || {
                Fault::not_found(format!("Volume attachment could not be found with filter: attachment_id = {text}."))
            };
            known.map(Some).ok_or_else(missing)
        }
        (None, 0 | 1) => Ok(volume.attachments.keys().next().copied()),
        (None, _) => Err(Fault::bad_request(
            "Invalid volume: Detach volume failed: More than one attachment, but no attachment_id provided.",
        )),
    }
}

async fn detach(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    if let Some(attachment) = named_attachment(&volume, ctx.action_body())? {
        release(&ctx, &permit, volume.created.volume, attachment).await?;
    }
    Ok(Reply::empty(202))
}

fn connector(ctx: &Ctx) -> Result<&Value, Fault> {
    let connector = &ctx.action_body()["connector"];
    connector.is_object().then_some(connector).ok_or_else(|| {
        Fault::bad_request("Invalid input for field/attribute connector: 'connector' is a required property")
    })
}

async fn initialize(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, permit) = permitted(&ctx)?;
    let host = connector(&ctx)?["host"].as_str().unwrap_or_default().to_owned();
    check_host(&ctx, &volume, &host)?;
    log_request(&permit);
    let connection = ctx.app.volumes()?.way_to(&volume, AttachMode::ReadWrite);
    Ok(Reply::ok(json!({"connection_info": views::attachment::connection(&connection)})))
}

/// A connection to a volume needs no preparation, so no event records the request. The debug log names the request.
fn log_request(permit: &Permit) {
    tracing::debug!(request = %dispatch::meta(permit).correlation, "a host connects to or disconnects from a volume");
}

fn check_host(ctx: &Ctx, volume: &VolumeRecord, host: &str) -> Result<(), Fault> {
    let shared = ctx.app.volumes()?.options.shared;
    match &volume.place {
        Some((_, on)) if !shared && on != host && !host.is_empty() => Err(Fault::bad_request(format!(
            "Invalid volume: Volume {} is on host {on} and cannot be reached from host {host}.",
            volume.created.volume
        ))),
        _ => Ok(()),
    }
}

async fn terminate(ctx: Ctx) -> Result<Reply, Fault> {
    let (_, permit) = permitted(&ctx)?;
    connector(&ctx)?;
    log_request(&permit);
    Ok(Reply::empty(202))
}
