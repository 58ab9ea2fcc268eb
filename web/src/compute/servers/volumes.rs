//! `/servers/{server_id}/os-volume_attachments`.
//!
//! Source: nova `api/openstack/compute/volume_attachments.py`. The use cases are in
//! [`chronova_actors::operations::server_volumes`].
//!
//! By default only administrators and services may swap a volume. The swap is a part of Cinder's migration of an attached
//! volume: Cinder's account requests it, and waits for its end. Chronova's own volume service migrates no volumes, so
//! callers with the right request the swap directly.

use chronova_actors::instance::InstanceVolumeRequest;
use chronova_actors::operations::server_volumes::{AttachVolumeRequest, VolumeTerms};
use chronova_events::ids::VolumeId;
use chronova_events::instance::{BlockDevice, InstanceDisk};
use serde_json::{Value, json};

use super::change::{call, send};
use super::lookup::{PermittedServer, find};
use crate::answers::accepted;
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::server_parts;
use crate::compute::bodies::volume_attachments::{self as bodies, VolumeAttachmentBody};
use crate::compute::views::attachment::{ATTACHMENT, AttachmentView};
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};
use crate::schema::typed::SentField;

const ALL: &str = "/servers/{server_id}/os-volume_attachments";
const ONE: &str = "/servers/{server_id}/os-volume_attachments/{id}";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("volume_attachments.index", ALL, handler!(index))
        .policy_on_target("os_compute_api:os-volumes-attachments:index")
        .query(server_parts::volume_attachments_index_query)
        .answers(answers::volumes)
        .as_of(),
    post("volume_attachments.create", ALL, handler!(create))
        .policy_on_target("os_compute_api:os-volumes-attachments:create")
        .body(bodies::create_body)
        .answers(answers::volume_attached),
    get("volume_attachments.show", ONE, handler!(show))
        .policy_on_target("os_compute_api:os-volumes-attachments:show")
        .query(bodies::show_query)
        .answers(answers::volume)
        .as_of(),
    put("volume_attachments.update", ONE, handler!(update))
        .policy_on_target("os_compute_api:os-volumes-attachments:swap")
        .until(2, 84)
        .body(bodies::update_body)
        .answers(accepted),
    put("volume_attachments.update", ONE, handler!(update))
        .policy_on_target("os_compute_api:os-volumes-attachments:update")
        .since(2, 85)
        .body(bodies::update_body)
        .answers(accepted),
    delete("volume_attachments.delete", ONE, handler!(remove))
        .policy_on_target("os_compute_api:os-volumes-attachments:delete")
        .answers(accepted),
];

/// The disks that are volumes, as this version shows them.
fn shown(ctx: &Ctx, found: &PermittedServer) -> Result<Vec<InstanceDisk>, Fault> {
    let complete =
        |disk: &&InstanceDisk| disk.device.attachment.is_some() || !versions::attachments_have_ids(ctx.version);
    let disks = found.server()?.disks.iter().filter(|disk| disk.device.volume.is_some());
    Ok(disks.filter(complete).cloned().collect())
}

fn render(ctx: &Ctx, found: &PermittedServer, disk: &InstanceDisk) -> Value {
    let view = AttachmentView { server: found.id, device: disk.device.clone() };
    ATTACHMENT.render(&view, ctx.version)
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let number = |key: &str| ctx.query.first(key).and_then(|text| text.parse::<usize>().ok());
    let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let most = usize::try_from(ctx.app.config.max_limit).unwrap_or(usize::MAX);
    let disks = shown(&ctx, &found)?;
    let page = disks.iter().skip(number("offset").unwrap_or(0)).take(limit.min(most));
    let list: Vec<Value> = page.map(|disk| render(&ctx, &found, disk)).collect();
    Ok(Reply::ok(json!({"volumeAttachments": list})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let volume = ctx.param("id");
    let disks = shown(&ctx, &found)?;
    let disk = disks.iter().find(|disk| disk.device.volume.is_some_and(|id| id.to_string() == volume));
    let disk = disk.ok_or_else(|| reject::not_attached(found.id, volume))?;
    Ok(Reply::ok(json!({"volumeAttachment": render(&ctx, &found, disk)})))
}

fn wanted_volume(ctx: &Ctx) -> Result<(VolumeId, VolumeAttachmentBody), Fault> {
    let body: VolumeAttachmentBody = ctx.parse_at("volumeAttachment")?;
    let id = body.volume.parse().map_err(|_| reject::no_volume(&body.volume))?;
    Ok((id, body))
}

/// Whether this version of the API accepts shelved servers and multiattach volumes.
fn terms(ctx: &Ctx) -> VolumeTerms {
    VolumeTerms {
        shelved_servers: versions::shelved_servers_take_volumes(ctx.version),
        shared_volumes: versions::volumes_may_be_shared(ctx.version),
    }
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let (volume, body) = wanted_volume(&ctx)?;
    let request = attachment(&ctx, volume, body);
    let call = call(&ctx, &found)?;
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.attach_volume(meta, call, request).await
    });
    asked.await.map_err(|reject| reject::server_volume(found.id, reject))?;
    if versions::volumes_are_attached_in_the_background(ctx.version) {
        return Ok(Reply::empty(202));
    }
    Ok(Reply::ok(json!({"volumeAttachment": requested_attachment(&ctx, &found, volume)?})))
}

fn attachment(ctx: &Ctx, volume: VolumeId, body: VolumeAttachmentBody) -> AttachVolumeRequest {
    let config = &ctx.app.compute.config;
    AttachVolumeRequest {
        volume,
        tagged: body.tag != SentField::Nothing,
        tag: body.tag.mentioned().flatten(),
        delete_on_termination: body.delete_on_termination.unwrap_or(false),
        terms: terms(ctx),
        most_disks: config.max_disk_devices,
        across_zones: config.cross_az_attach,
    }
}

/// The answer to a request to attach a volume, until 2.100. As in Nova, this answer has the same ids before and after
/// 2.89.
fn requested_attachment(ctx: &Ctx, found: &PermittedServer, volume: VolumeId) -> Result<Value, Fault> {
    let row = ctx.views()?.servers.read(|servers| servers.get(found.id).cloned());
    let device = row.as_ref().and_then(|row| row.server()).and_then(|server| server.disk_of(volume)).cloned();
    let device = device.map(|disk| disk.device);
    let of = |read: fn(&BlockDevice) -> Value| device.as_ref().map_or(Value::Null, read);
    let mut shown = json!({
        "id": volume,
        "serverId": found.id,
        "volumeId": volume,
        "device": of(|device| json!(device.device_name)),
    });
    if versions::attachments_have_tags(ctx.version) {
        shown["tag"] = of(|device| json!(device.tag));
    }
    if versions::attachments_show_deletion(ctx.version) {
        shown["delete_on_termination"] = of(|device| json!(device.delete_on_termination));
    }
    Ok(shown)
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let volume: VolumeId = ctx.id("id", |text| format!("Volume {text} could not be found."))?;
    let (call, terms) = (call(&ctx, &found)?, terms(&ctx));
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.detach_volume(meta, call, volume, terms).await
    });
    asked.await.map_err(|reject| reject::server_volume(found.id, reject))?;
    Ok(Reply::empty(202))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (new, body) = wanted_volume(&ctx)?;
    let old = ctx.param("id").to_owned();
    let exchange = old != new.to_string();
    let found = find(&ctx, "server_id")?;
    if !versions::attachments_can_be_changed(ctx.version) {
        return swap(&ctx, &found, &old, new).await;
    }
    if exchange {
        ctx.authorize_rule("os_compute_api:os-volumes-attachments:swap", &found.target)?;
    }
    change(&ctx, &found, &old, body).await?;
    if exchange { swap(&ctx, &found, &old, new).await } else { Ok(Reply::empty(202)) }
}

/// Only `delete_on_termination` can change. The other keys may be sent with their current values.
async fn change(ctx: &Ctx, found: &PermittedServer, id: &str, body: VolumeAttachmentBody) -> Result<(), Fault> {
    let unknown = || Fault::not_found(format!("No volume Block Device Mapping with id {id}."));
    let volume: VolumeId = id.parse().map_err(|_| unknown())?;
    let device = &found.server()?.disk_of(volume).ok_or_else(unknown)?.device;
    let server = found.id.to_string();
    let same = [
        ("id", body.id.is_none_or(|said| said == id)),
        ("serverId", body.server.is_none_or(|said| said == server)),
        ("device", body.device.mentioned().is_none_or(|said| said == device.device_name)),
        ("tag", body.tag.mentioned().is_none_or(|said| said == device.tag)),
    ];
    if let Some((key, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(Fault::bad_request(format!("The {key} property is not mutable")));
    }
    if let Some(delete_on_termination) = body.delete_on_termination {
        let command = InstanceVolumeRequest::SetDeletion { volume, delete_on_termination };
        send(ctx, found, command).await?;
    }
    Ok(())
}

async fn swap(ctx: &Ctx, found: &PermittedServer, old: &str, new: VolumeId) -> Result<Reply, Fault> {
    let old: VolumeId = old.parse().map_err(|_| reject::no_volume(old))?;
    let call = call(ctx, found)?;
    let asked = dispatch::perform(ctx.dispatch()?, &found.permit, async |operations, meta| {
        operations.swap_volume(meta, call, (old, new)).await
    });
    asked.await.map_err(|reject| reject::server_volume(found.id, reject))?;
    Ok(Reply::empty(202))
}
