//! `/servers/{server_id}/os-volume_attachments`.
//!
//! Source: nova `api/openstack/compute/volume_attachments.py`, `compute/api.py`. What can be known beforehand is refused at
//! once and in Nova's order; the rest is a process (`attach_volume`, `detach_volume`, `swap_volume`), whose failure is in
//! the server's actions.
//!
//! An exchange is an administrator's or a service's matter. Nova leaves it to Cinder's migrations alone; here there is no
//! migration of volumes apart from it, so it is done for whoever may ask.

use chronova_actors::instance::actions::{Action, admit};
use chronova_actors::instance::{InstanceCommand, InstanceReject, VolumeCommand};
use chronova_actors::ports::VolumeInfo;
use chronova_events::ids::{AttachmentId, BlockDeviceId, ProcessId, VolumeId};
use chronova_events::instance::{BlockDevice, BlockPlace, BlockSource, Disk, status};
use serde_json::{Value, json};

use super::change::{asker, send};
use super::found::{Found, find};
use crate::compute::bodies::server_parts;
use crate::compute::bodies::volume_attachments::{self as bodies, VolumeAttachmentBody};
use crate::compute::views::attachment::{ATTACHMENT, AttachmentView};
use crate::compute::{reject, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};
use crate::schema::typed::Sent;

const ALL: &str = "/servers/{server_id}/os-volume_attachments";
const ONE: &str = "/servers/{server_id}/os-volume_attachments/{id}";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("volume_attachments.index", ALL, handler!(index))
        .policy_on_target("os_compute_api:os-volumes-attachments:index")
        .query(server_parts::volume_attachments_index_query),
    post("volume_attachments.create", ALL, handler!(create))
        .policy_on_target("os_compute_api:os-volumes-attachments:create")
        .body(bodies::create_body),
    get("volume_attachments.show", ONE, handler!(show))
        .policy_on_target("os_compute_api:os-volumes-attachments:show")
        .query(bodies::show_query),
    put("volume_attachments.update", ONE, handler!(update))
        .policy_on_target("os_compute_api:os-volumes-attachments:swap")
        .until(2, 84)
        .body(bodies::update_body),
    put("volume_attachments.update", ONE, handler!(update))
        .policy_on_target("os_compute_api:os-volumes-attachments:update")
        .since(2, 85)
        .body(bodies::update_body),
    delete("volume_attachments.delete", ONE, handler!(remove))
        .policy_on_target("os_compute_api:os-volumes-attachments:delete"),
];

/// The disks that are volumes, as this version shows them.
fn shown(ctx: &Ctx, found: &Found) -> Result<Vec<Disk>, Fault> {
    let complete = |disk: &&Disk| disk.device.attachment.is_some() || !versions::attachments_have_ids(ctx.version);
    let disks = found.server()?.disks.iter().filter(|disk| disk.device.volume.is_some());
    Ok(disks.filter(complete).cloned().collect())
}

fn render(ctx: &Ctx, found: &Found, disk: &Disk) -> Value {
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

/// The volume, as the caller's project sees it.
pub(super) async fn look_up(ctx: &Ctx, found: &Found, id: VolumeId) -> Result<VolumeInfo, Fault> {
    let project = &found.server()?.request.project;
    let seen = ctx.queries()?.volumes.find(id, project, ctx.caller().is_admin).await;
    seen.map_err(|error| reject::volume(id, error))
}

fn wanted_volume(ctx: &Ctx) -> Result<(VolumeId, VolumeAttachmentBody), Fault> {
    let wish: VolumeAttachmentBody = ctx.parse_at("volumeAttachment")?;
    let id = wish.volume.parse().map_err(|_| reject::no_volume(&wish.volume))?;
    Ok((id, wish))
}

fn allow(ctx: &Ctx, found: &Found, action: Action) -> Result<(), Fault> {
    admit(found.server()?, action, asker(ctx, found)).map_err(|reject| reject::instance_reject(found.id, reject))
}

/// Until 2.19 a shelved server is in no state for it, before anything else is looked at.
fn check_shelved(ctx: &Ctx, found: &Found, action: Action) -> Result<(), Fault> {
    let value = status::of_alive(found.server()?).vm_state;
    if versions::shelved_servers_take_volumes(ctx.version) || !matches!(value, "shelved" | "shelved_offloaded") {
        return Ok(());
    }
    let refused = InstanceReject::NotInState { action: action.name(), attribute: "vm_state", value };
    Err(reject::instance_reject(found.id, refused))
}

/// Whether nobody has it who would have to give it up first.
fn check_free(found: &Found, volume: &VolumeInfo) -> Result<(), Fault> {
    let holders: Vec<String> =
        volume.attachments.iter().filter_map(|attachment| attachment.instance).map(|id| id.to_string()).collect();
    if !volume.multiattach && !holders.is_empty() {
        return Err(Fault::bad_request(format!(
            "Invalid volume: volume {} is already attached to instances: {}",
            volume.id,
            holders.join(" ")
        )));
    }
    match found.server()?.disk_of(volume.id).is_some() {
        true => Err(Fault::bad_request(format!("Invalid volume: volume {} already attached", volume.id))),
        false => Ok(()),
    }
}

/// Nova: nobody can be asked what the host will be able to do, as there is none.
fn check_away(found: &Found, volume: &VolumeInfo, wish: &VolumeAttachmentBody) -> Result<(), Fault> {
    let refused = |words| Err(Fault::bad_request(words));
    match found.server()?.is_offloaded() {
        true if wish.tag != Sent::Nothing => {
            refused("Tagged volume attachment is not supported for shelved-offloaded instances.")
        }
        true if volume.multiattach => {
            refused("Attaching multiattach volumes is not supported for shelved-offloaded instances.")
        }
        _ => Ok(()),
    }
}

/// `[cinder] cross_az_attach`
fn check_zone(ctx: &Ctx, found: &Found, volume: &VolumeInfo) -> Result<(), Fault> {
    let (server, options) = (found.server()?, &ctx.queries()?.server_options);
    let placed = server.placement.as_ref().map(|placed| &placed.availability_zone);
    let own = placed.or(server.request.availability_zone.as_ref()).unwrap_or(&options.availability_zone);
    if ctx.app.compute.config.cross_az_attach || *own == volume.availability_zone {
        return Ok(());
    }
    Err(Fault::bad_request(format!(
        "Invalid volume: Instance {} and volume {} are not in the same availability_zone. Instance is in {own}. Volume is \
         in {}",
        found.id, volume.id, volume.availability_zone
    )))
}

/// Only one host may reach it, and that has to be the server's.
fn check_reach(ctx: &Ctx, found: &Found, volume: &VolumeInfo) -> Result<(), Fault> {
    let here = found.server()?.placement.as_ref().map(|placed| placed.host);
    let (Some(only), Some(here)) = (volume.host, here) else { return Ok(()) };
    if only == here {
        return Ok(());
    }
    let name = ctx.queries()?.views.hosts.read(|hosts| hosts.get(only).map(|host| host.hostname.clone()));
    let name = name.unwrap_or_else(|| only.to_string());
    Err(Fault::bad_request(format!(
        "Invalid volume: volume {} is reached from host {name} only, and the server is on another one.",
        volume.id
    )))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let (id, wish) = wanted_volume(&ctx)?;
    check_shelved(&ctx, &found, Action::AttachVolume)?;
    allow(&ctx, &found, Action::AttachVolume)?;
    let volume = look_up(&ctx, &found, id).await?;
    check_free(&found, &volume)?;
    check_away(&found, &volume, &wish)?;
    if volume.multiattach && !versions::volumes_may_be_shared(ctx.version) {
        return Err(reject::multiattach());
    }
    check_zone(&ctx, &found, &volume)?;
    reject::reservable(&volume).map_err(Fault::bad_request)?;
    check_reach(&ctx, &found, &volume)?;
    let device = wished(wish, &volume);
    let process = ProcessId::random();
    let limit = ctx.app.compute.config.max_disk_devices;
    let asker = asker(&ctx, &found);
    let command = VolumeCommand::Attach { process, device: Box::new(device), limit, asker };
    send(&ctx, &found, InstanceCommand::Volume(command)).await?;
    if versions::volumes_are_attached_in_the_background(ctx.version) {
        return Ok(Reply::empty(202));
    }
    Ok(Reply::ok(json!({"volumeAttachment": accepted(&ctx, &found, id)?})))
}

fn wished(wish: VolumeAttachmentBody, volume: &VolumeInfo) -> BlockDevice {
    BlockDevice {
        id: BlockDeviceId::random(),
        source: BlockSource::Volume(volume.id),
        place: BlockPlace::Volume,
        boot_index: None,
        size: Some(volume.size_gb),
        guest_format: None,
        device_type: None,
        disk_bus: None,
        device_name: None,
        delete_on_termination: wish.delete_on_termination.unwrap_or(false),
        tag: wish.tag.mentioned().flatten(),
        volume_type: None,
        volume: Some(volume.id),
        attachment: Some(AttachmentId::random()),
        connection: None,
    }
}

/// Nova forgot about 2.89 here; from 2.101 on there is no answer to put it into.
fn accepted(ctx: &Ctx, found: &Found, volume: VolumeId) -> Result<Value, Fault> {
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

/// A server on no host does not use its volumes; they are only kept for it.
fn check_detachable(found: &Found, volume: &VolumeInfo) -> Result<(), Fault> {
    match volume.status != "in-use" && !found.server()?.is_offloaded() {
        true => Err(Fault::bad_request(format!("Invalid volume: {}", reject::NOT_DETACHABLE))),
        false => Ok(()),
    }
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let id: VolumeId = ctx.id("id", |text| format!("Volume {text} could not be found."))?;
    check_shelved(&ctx, &found, Action::DetachVolume)?;
    let volume = look_up(&ctx, &found, id).await?;
    let disk = found.server()?.disk_of(id).ok_or_else(|| reject::not_attached(found.id, id))?;
    if disk.device.is_root() {
        return Err(Fault::bad_request("Cannot detach a root device volume"));
    }
    allow(&ctx, &found, Action::DetachVolume)?;
    check_detachable(&found, &volume)?;
    let command = VolumeCommand::Detach { process: ProcessId::random(), volume: id, asker: asker(&ctx, &found) };
    send(&ctx, &found, InstanceCommand::Volume(command)).await?;
    Ok(Reply::empty(202))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (new, wish) = wanted_volume(&ctx)?;
    let old = ctx.param("id").to_owned();
    let exchange = old != new.to_string();
    let found = find(&ctx, "server_id")?;
    if !versions::attachments_can_be_changed(ctx.version) {
        return swap(&ctx, &found, &old, new).await;
    }
    if exchange {
        ctx.authorize_rule("os_compute_api:os-volumes-attachments:swap", &found.target)?;
    }
    change(&ctx, &found, &old, wish).await?;
    if exchange { swap(&ctx, &found, &old, new).await } else { Ok(Reply::empty(202)) }
}

/// Nothing but the deletion can be changed; the rest may be said as it is.
async fn change(ctx: &Ctx, found: &Found, id: &str, wish: VolumeAttachmentBody) -> Result<(), Fault> {
    let unknown = || Fault::not_found(format!("No volume Block Device Mapping with id {id}."));
    let volume: VolumeId = id.parse().map_err(|_| unknown())?;
    let device = &found.server()?.disk_of(volume).ok_or_else(unknown)?.device;
    let server = found.id.to_string();
    let same = [
        ("id", wish.id.is_none_or(|said| said == id)),
        ("serverId", wish.server.is_none_or(|said| said == server)),
        ("device", wish.device.mentioned().is_none_or(|said| said == device.device_name)),
        ("tag", wish.tag.mentioned().is_none_or(|said| said == device.tag)),
    ];
    if let Some((key, _)) = same.into_iter().find(|(_, same)| !same) {
        return Err(Fault::bad_request(format!("The {key} property is not mutable")));
    }
    if let Some(delete_on_termination) = wish.delete_on_termination {
        let command = VolumeCommand::SetDeletion { volume, delete_on_termination };
        send(ctx, found, InstanceCommand::Volume(command)).await?;
    }
    Ok(())
}

async fn swap(ctx: &Ctx, found: &Found, old: &str, new: VolumeId) -> Result<Reply, Fault> {
    let old: VolumeId = old.parse().map_err(|_| reject::no_volume(old))?;
    let old_volume = look_up(ctx, found, old).await?;
    // The one in the path is not found, the one in the body is a mistake.
    let new_volume = look_up(ctx, found, new).await.map_err(|fault| match fault.status {
        404 => Fault::bad_request(fault.message),
        _ => fault,
    })?;
    allow(ctx, found, Action::SwapVolume)?;
    let invalid = |reason: &str| Err(Fault::bad_request(format!("Invalid volume: {reason}")));
    if old_volume.attachments.iter().all(|attachment| attachment.instance != Some(found.id)) {
        return invalid("Old volume is attached to a different instance.");
    }
    if !new_volume.attachments.is_empty() {
        return invalid("New volume must be detached in order to swap.");
    }
    if new_volume.size_gb < old_volume.size_gb {
        return invalid("New volume must be the same size or larger.");
    }
    if old_volume.status != "in-use" {
        return invalid(reject::NOT_DETACHABLE);
    }
    if old_volume.attachments.len() > 1 {
        return Err(Fault::bad_request(
            "Swapping multi-attach volumes with more than one read/write attachment is not supported.",
        ));
    }
    check_reach(ctx, found, &new_volume)?;
    let (process, new_attachment) = (ProcessId::random(), AttachmentId::random());
    let command = VolumeCommand::Swap { process, old, new, new_attachment, asker: asker(ctx, found) };
    send(ctx, found, InstanceCommand::Volume(command)).await?;
    Ok(Reply::empty(202))
}
