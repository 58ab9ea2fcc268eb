//! `/chronova/v1/servers/{server}`: a server with records that no other API shows, for `chronova manage`.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_actors::aggregate::CommandError;
use chronova_actors::instance::{CallerRights, InstanceReject, InstanceRequest, InstanceRoot};
use chronova_actors::operations::refresh_attachment::RefreshAttachmentReject;
use chronova_actors::operations::{Operations, ServerCall};
use chronova_actors::ports::PortError;
use chronova_events::ids::{InstanceId, VolumeId};
use chronova_events::instance::{Alive, BlockConnection, BlockLocation, BlockSource, Instance, InstanceDisk, status};
use chronova_projections::servers::ServerRow;
use serde_json::{Value, json};

use super::answers;
use super::bodies::{ConnectorBody, ImagePropertiesBody};
use crate::compute::reject;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get, put};

pub(super) const ROUTES: &[Route] = &[
    get("operator.servers.show", "/servers/{server}", handler!(show))
        .leader()
        .policy("chronova:servers:show")
        .answers(answers::server),
    put("operator.image_properties.set", "/servers/{server}/image-properties", handler!(set_image_properties))
        .any_body()
        .policy("chronova:image_properties:set")
        .answers(answers::server),
    put("operator.volume_attachments.refresh", "/servers/{server}/attachments/{volume}", handler!(refresh_attachment))
        .any_body()
        .policy("chronova:volume_attachments:refresh")
        .answers(answers::server),
];

/// The server of the path, deleted or not.
pub(super) fn find(ctx: &Ctx) -> Result<Arc<ServerRow>, Fault> {
    let id: InstanceId = ctx.id("server", no_server)?;
    let row = ctx.queries()?.views.servers.read(|servers| servers.get(id).cloned());
    row.filter(|row| row.server().is_some()).ok_or_else(|| Fault::not_found(no_server(&id.to_string())))
}

pub(super) fn no_server(id: &str) -> String {
    format!("Instance {id} could not be found.")
}

pub(super) async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let row = find(&ctx)?;
    let server = row.server().ok_or_else(|| Fault::not_found(no_server(&row.id.to_string())))?;
    Ok(Reply::ok(json!({"server": recorded(&row, server)})))
}

fn recorded(row: &ServerRow, server: &Alive) -> Value {
    let shown = status::of(&row.instance);
    let image: BTreeMap<&String, &String> = server
        .hardware_image()
        .into_iter()
        .flat_map(|image| &image.properties)
        .map(|(key, value)| (key, value))
        .collect();
    let disks = server.disks.iter().filter(|disk| disk.device.volume.is_some());
    json!({
        "id": row.id.to_string(),
        "name": server.request.name,
        "project_id": server.request.project,
        "user_id": server.request.user,
        "deleted": matches!(row.instance, Instance::Deleted(_)),
        "vm_state": shown.as_ref().map(|shown| shown.vm_state),
        "task_state": shown.as_ref().and_then(|shown| shown.task_state),
        "host": server.placement.as_ref().map(|placed| &placed.hostname),
        // The machine type is recorded with the first host, and an adopted server may have none.
        "had_host": server.placement.is_some() || server.machine_type.is_some() || server.launched_at.is_some(),
        "locked": server.lock.is_some(),
        "machine_type": server.machine_type(),
        "image_properties": image,
        "block_device_mappings": disks.map(|disk| mapping(row.id, disk)).collect::<Vec<Value>>(),
    })
}

async fn set_image_properties(ctx: Ctx) -> Result<Reply, Fault> {
    let row = find(&ctx)?;
    let properties = ImagePropertiesBody::of(&ctx)?.0;
    let request = InstanceRequest::SetImageProperties { properties };
    let sent = dispatch::send::<InstanceRoot>(ctx.dispatch()?, &ctx.permit()?, &row.id, request).await;
    sent.map_err(|error| reject::instance(row.id, error))?;
    show(ctx).await
}

/// Replaces the attachment of a volume by a new one. The server must be off. Answers when the server has the new
/// attachment.
async fn refresh_attachment(ctx: Ctx) -> Result<Reply, Fault> {
    let (row, host) = (find(&ctx)?, ConnectorBody::of(&ctx)?.host);
    let server = row.instance.alive().ok_or_else(|| Fault::not_found(no_server(&row.id.to_string())))?;
    let volume: VolumeId = ctx.id("volume", |id| format!("Volume {id} could not be found."))?;
    // A locked server refuses this request from everybody, even from administrators.
    let call = ServerCall { id: row.id, server, asker: CallerRights { overrides_lock: false }, is_admin: true };
    let use_case = async |operations: &Operations, meta| operations.refresh_attachment(meta, call, volume, &host).await;
    let done = dispatch::perform(ctx.dispatch()?, &ctx.permit()?, use_case).await;
    done.map_err(|reject| not_refreshed(&row, reject))?;
    show(ctx).await
}

/// The keys of the faults tell `chronova manage` the exit code.
fn not_refreshed(row: &ServerRow, reject: RefreshAttachmentReject) -> Fault {
    match reject {
        RefreshAttachmentReject::Server(error) => {
            let not_attached = matches!(error, CommandError::Rejected(InstanceReject::VolumeNotAttached { .. }));
            let fault = reject::instance(row.id, error);
            if not_attached { fault.key("volumeNotAttached") } else { fault }
        }
        RefreshAttachmentReject::OtherHost { own } => {
            Fault::conflict(format!("The compute host in the connector does not match the instance host '{own}'."))
                .key("hostConflict")
        }
        RefreshAttachmentReject::NotInUse(status) => {
            Fault::bad_request(format!("The volume is {status}: it must be in-use."))
        }
        RefreshAttachmentReject::Volume(PortError::Unavailable(cause)) => {
            Fault::unavailable("The volume service does not answer.").caused_by(cause)
        }
        RefreshAttachmentReject::Volume(error) => Fault::bad_request(error.to_string()),
        RefreshAttachmentReject::Unavailable(cause) => Fault::of_log(&cause),
        RefreshAttachmentReject::Failed(fault) => Fault::new(500, fault.message).caused_by(fault.details),
        RefreshAttachmentReject::NotYet => {
            Fault::unavailable("The new attachment takes long: `chronova inspect` shows its process.")
        }
    }
}

/// A mapping with the names of Nova's `BlockDeviceMapping`.
fn mapping(server: InstanceId, disk: &InstanceDisk) -> Value {
    let device = &disk.device;
    let (source, image, snapshot) = match &device.source {
        BlockSource::Blank => ("blank", None, None),
        BlockSource::Image(id) => ("image", Some(id.to_string()), None),
        BlockSource::Snapshot(id) => ("snapshot", None, Some(id.to_string())),
        BlockSource::Volume(_) => ("volume", None, None),
    };
    json!({
        "uuid": device.id.to_string(),
        "instance_uuid": server.to_string(),
        "source_type": source,
        "destination_type": match device.place { BlockLocation::Local => "local", BlockLocation::Volume => "volume" },
        "boot_index": device.boot_index,
        "delete_on_termination": device.delete_on_termination,
        "device_name": device.device_name,
        "device_type": device.device_type,
        "disk_bus": device.disk_bus,
        "guest_format": device.guest_format,
        "image_id": image,
        "snapshot_id": snapshot,
        "tag": device.tag,
        "volume_id": device.volume.map(|id| id.to_string()),
        "volume_size": device.size,
        "volume_type": device.volume_type,
        "attachment_id": device.attachment.map(|id| id.to_string()),
        "connection_info": device.connection.as_ref().map(connection),
    })
}

fn connection(connection: &BlockConnection) -> Value {
    json!({
        "driver_volume_type": "libvirt_pool",
        "serial": connection.serial,
        "multiattach": connection.shareable,
        "data": {
            "pool": connection.pool,
            "volume": connection.volume,
            "format": connection.format,
            "access_mode": if connection.readonly { "ro" } else { "rw" },
        },
    })
}
