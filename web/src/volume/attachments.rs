//! `/attachments` (3.27): reserve a volume for a server, connect it to a host, complete the attachment.

use std::sync::Arc;

use chronova_actors::services::embedded::volume::{NewAttachment, VolumeCommand};
use chronova_events::ids::{AttachmentId, InstanceId, VolumeId};
use chronova_events::volume::{AttachMode, Attachment, VolumeRecord};
use serde_json::{Value, json};

use super::access::{command, no_volume, release, shown, target, visible};
use super::bodies::{AttachmentCreateBody, AttachmentUpdateBody, Connector};
use super::views::attachment as views;
use super::{answers, bodies, listing};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, action, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("attachments.index", "/attachments", handler!(index))
        .policy("volume:get_all")
        .since(3, 27)
        .answers(answers::attachments)
        .as_of(),
    get("attachments.detail", "/attachments/detail", handler!(detail))
        .policy("volume:get_all")
        .since(3, 27)
        .answers(answers::attachments_in_detail)
        .as_of(),
    post("attachments.create", "/attachments", handler!(create))
        .policy_on_target("volume:attachment_create")
        .body(bodies::create_attachment)
        .since(3, 27)
        .answers(answers::attachment_shown),
    get("attachments.show", "/attachments/{attachment_id}", handler!(show))
        .policy_on_target("volume:get")
        .since(3, 27)
        .answers(answers::attachment_shown)
        .as_of(),
    put("attachments.update", "/attachments/{attachment_id}", handler!(update))
        .policy_on_target("volume:attachment_update")
        .body(bodies::update_attachment)
        .since(3, 27)
        .answers(answers::attachment_shown),
    delete("attachments.delete", "/attachments/{attachment_id}", handler!(remove))
        .policy_on_target("volume:attachment_delete")
        .since(3, 27)
        .answers(answers::attachments_left),
    action("attachments.os-complete", "/attachments/{attachment_id}/action", "os-complete", handler!(complete))
        .policy_on_target("volume:attachment_complete")
        .since(3, 44)
        .answers(no_content),
];

fn no_attachment(id: &str) -> String {
    format!("Volume attachment could not be found with filter: attachment_id = {id}.")
}

/// The attachment of the path, its volume, and the permit that the route's rule gives for the volume.
fn permitted(ctx: &Ctx) -> Result<(Arc<VolumeRecord>, AttachmentId, Permit), Fault> {
    let id = ctx.id::<AttachmentId>("attachment_id", no_attachment)?;
    let found = ctx.views()?.volumes.read(|view| view.of_attachment(id));
    let caller = ctx.caller();
    let own = |volume: &Arc<VolumeRecord>| caller.is_admin || caller.project.as_ref() == Some(&volume.created.project);
    let volume = found.filter(own).ok_or_else(|| Fault::not_found(no_attachment(ctx.param("attachment_id"))))?;
    let permit = ctx.authorize(&target(&volume))?;
    Ok((volume, id, permit))
}

fn known(volume: &VolumeRecord, id: AttachmentId) -> Result<&Attachment, Fault> {
    volume.attachments.get(&id).ok_or_else(|| Fault::not_found(no_attachment(&id.to_string())))
}

/// An attachment as this caller sees it. It has the connection information once a host is connected.
fn view(ctx: &Ctx, volume: &VolumeRecord, id: AttachmentId) -> Result<Value, Fault> {
    let attachment = known(volume, id)?;
    let way = attachment.host.is_some().then(|| ctx.app.volumes().map(|all| all.way_to(volume, attachment.mode)));
    Ok(views::shown(volume.created.volume, id, attachment, way.transpose()?.as_ref()))
}

fn rows(ctx: &Ctx, detailed: bool) -> Result<Vec<Value>, Fault> {
    let all = listing::all_projects(ctx)?;
    let own = ctx.caller().project.clone();
    let found = match (all, own) {
        (false, None) => Vec::new(),
        (all, own) => ctx.views()?.volumes.read(|view| view.of(own.as_ref().filter(|_| !all))),
    };
    let mut rows = Vec::new();
    for volume in &found {
        for (id, attachment) in &volume.attachments {
            rows.push(match detailed {
                true => view(ctx, volume, *id)?,
                false => views::listed(volume.created.volume, *id, attachment),
            });
        }
    }
    let wanted = ctx.query.last("instance_id").map(str::to_owned);
    rows.retain(|row| wanted.as_ref().is_none_or(|wanted| row["instance"] == json!(wanted)));
    let mut rows = listing::filter(rows, &ctx.query);
    listing::sort(&mut rows, &ctx.query)?;
    Ok(rows)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    listing::page(&ctx, "attachments", "attachments", rows(&ctx, false)?)
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    listing::page(&ctx, "attachments", "attachments/detail", rows(&ctx, true)?)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, id, _) = permitted(&ctx)?;
    Ok(Reply::ok(json!({"attachment": view(&ctx, &volume, id)?})))
}

/// The host that a connector names. As in Cinder, a connector need not name a host. A client that gives only its
/// initiator or its address gets the connection, too.
fn place(connector: Connector) -> AttachmentPlace {
    let mode = match connector.mode.as_deref() {
        Some("ro") => Some(AttachMode::ReadOnly),
        Some("rw") => Some(AttachMode::ReadWrite),
        _ => None,
    };
    (connector.host.unwrap_or_default(), connector.mountpoint, mode)
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let body: AttachmentCreateBody = ctx.parse_at("attachment")?;
    let text = body.volume_uuid.as_str();
    let volume: VolumeId = text.parse().map_err(|_| Fault::not_found(no_volume(text)))?;
    let permit = ctx.authorize(&target(&*visible(&ctx, volume)?))?;
    let instance = body.instance_uuid.and_then(|text| text.parse::<InstanceId>().ok());
    let mode = if body.mode.as_deref() == Some("ro") { AttachMode::ReadOnly } else { AttachMode::ReadWrite };
    let attachment = AttachmentId::random();
    let attach = match body.connector.map(place) {
        Some(place) => connected(&ctx, (attachment, instance, mode), place)?,
        None => VolumeCommand::Reserve { attachment, instance, mode },
    };
    command(&ctx, &permit, volume, attach).await?;
    Ok(Reply::ok(json!({"attachment": view(&ctx, &*visible(&ctx, volume)?, attachment)?})))
}

type AttachmentPlace = (String, Option<String>, Option<AttachMode>);

/// The command that reserves the volume and connects it to the host at once.
fn connected(
    ctx: &Ctx,
    (attachment, instance, reserved_mode): (AttachmentId, Option<InstanceId>, AttachMode),
    (host, device, mode): AttachmentPlace,
) -> Result<VolumeCommand, Fault> {
    let (mode, shared) = (mode.unwrap_or(reserved_mode), ctx.app.volumes()?.options.shared);
    let new = NewAttachment { attachment, instance, reserved_mode, host, device, mode, shared };
    Ok(VolumeCommand::ReserveAndConnect(Box::new(new)))
}

async fn connect(
    ctx: &Ctx,
    permit: &Permit,
    volume: VolumeId,
    attachment: AttachmentId,
    at: (&str, Option<&str>),
    mode: AttachMode,
) -> Result<(), Fault> {
    let service = ctx.app.volumes()?;
    let connected = service.connection(volume, attachment, at, mode, dispatch::meta(permit)).await;
    shown(ctx, connected.map(|(_, position)| position)).await
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, id, permit) = permitted(&ctx)?;
    let (host, device, mode) = place(ctx.parse_at::<AttachmentUpdateBody>("attachment")?.connector);
    let mode = mode.unwrap_or(known(&volume, id)?.mode);
    let volume = volume.created.volume;
    connect(&ctx, &permit, volume, id, (&host, device.as_deref()), mode).await?;
    Ok(Reply::ok(json!({"attachment": view(&ctx, &*visible(&ctx, volume)?, id)?})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, attachment, permit) = permitted(&ctx)?;
    let id = volume.created.volume;
    release(&ctx, &permit, id, attachment).await?;
    let left = visible(&ctx, id)?;
    let left: Vec<Value> =
        left.attachments.iter().map(|(other, attachment)| views::listed(id, *other, attachment)).collect();
    Ok(Reply::ok(json!({"attachments": left})))
}

async fn complete(ctx: Ctx) -> Result<Reply, Fault> {
    let (volume, attachment, permit) = permitted(&ctx)?;
    command(&ctx, &permit, volume.created.volume, VolumeCommand::Complete { attachment }).await?;
    Ok(Reply::empty(204))
}
