//! What of a server whose root disk is a volume is another thing than of others: its images, and what may be done to it.
//! Source: nova `compute/api.py` (`snapshot_volume_backed`, `_check_volume_status`) and `block_device.py`
//! (`snapshot_from_bdm`).

use chronova_actors::instance::disks;
use chronova_actors::ports::{ImageDraft, PortError, VolumeInfo};
use chronova_actors::process::snapshot_volumes;
use chronova_events::ids::{ImageId, ProcessId};
use chronova_events::instance::{Alive, BlockDevice, BlockPlace, BlockSource, Pairs};
use serde_json::{Value, json};

use super::properties::{NOT_INHERITED, set};
use crate::compute::servers::found::Found;
use crate::compute::servers::volumes::look_up;
use crate::ctx::Ctx;
use crate::fault::Fault;

/// Of the image that the volume's content came from; what is said anew of the disks is not taken over.
const SAID_ANEW: [&str; 3] = ["block_device_mapping", "bdm_v2", "root_device_name"];

/// An image without bytes, whose properties say of what snapshots the disks are to be made.
pub(super) async fn draft(
    ctx: &Ctx,
    found: &Found,
    name: &str,
    metadata: Pairs,
    process: ProcessId,
) -> Result<ImageDraft, Fault> {
    let server = found.server()?;
    check_room(ctx, server).await?;
    check_rest(server)?;
    let base = server.hardware_image();
    let mut properties: Pairs = base.map(|image| image.properties.clone()).unwrap_or_default();
    properties.retain(|(key, _)| !NOT_INHERITED.contains(&key.as_str()) && !SAID_ANEW.contains(&key.as_str()));
    set(&mut properties, "root_device_name", &disks::root_name(server));
    set(&mut properties, "block_device_mapping", &mapping(server, process).to_string());
    set(&mut properties, "bdm_v2", "True");
    for (key, value) in metadata {
        set(&mut properties, &key, &value);
    }
    properties.sort();
    Ok(ImageDraft {
        image: ImageId::random(),
        name: name.to_owned(),
        owner: ctx.caller().project.clone().unwrap_or_else(|| server.request.project.clone()),
        // What has no bytes cannot be said to be anything else.
        format: "raw".to_owned(),
        // Not the flavor's disk, which a server on a volume has nothing of.
        min_disk_gib: base.map_or(0, |image| image.min_disk_gib),
        min_memory_mib: base.map_or(0, |image| image.min_memory_mib),
        properties,
    })
}

/// Looked at beforehand, so that not some of the volumes are copied and others not.
async fn check_room(ctx: &Ctx, server: &Alive) -> Result<(), Fault> {
    let wanted = snapshot_volumes::volumes(server).count() as u64;
    match ctx.queries()?.volumes.snapshots_left(&server.request.project).await {
        Ok(Some(left)) if wanted > left => Err(Fault::forbidden("Quota exceeded for resources: snapshots")),
        Ok(_) => Ok(()),
        Err(error) => Err(no_answer(&error)),
    }
}

/// Nova's `QemuGuestAgentNotEnabled`, said before anything is begun.
fn check_rest(server: &Alive) -> Result<(), Fault> {
    match snapshot_volumes::cannot_rest(server) {
        true => Err(Fault::bad_request("QEMU guest agent is not enabled")),
        false => Ok(()),
    }
}

fn no_answer(error: &PortError) -> Fault {
    Fault::unavailable("The volume service does not answer.").caused_by(error)
}

/// The disks, volumes as their snapshots: with every field that Nova's mappings have.
fn mapping(server: &Alive, process: ProcessId) -> Value {
    let local = server.disks.iter().map(|disk| &disk.device).filter(|device| device.place == BlockPlace::Local);
    let local = local.map(|device| one(device, &Value::Null));
    let volumes = snapshot_volumes::volumes(server);
    let volumes = volumes.map(|(device, _)| one(device, &json!(snapshot_volumes::snapshot_of(process, device.id))));
    local.chain(volumes).collect()
}

fn one(device: &BlockDevice, snapshot: &Value) -> Value {
    let is_volume = !snapshot.is_null();
    let (source, image) = match device.source {
        _ if is_volume => ("snapshot", Value::Null),
        BlockSource::Image(image) => ("image", json!(image)),
        _ => ("blank", Value::Null),
    };
    json!({
        "source_type": source,
        "destination_type": if is_volume { "volume" } else { "local" },
        "guest_format": if is_volume { None } else { device.guest_format.as_ref() },
        "device_type": device.device_type,
        "disk_bus": device.disk_bus,
        "boot_index": device.boot_index,
        "device_name": device.device_name,
        "delete_on_termination": device.delete_on_termination,
        "snapshot_id": snapshot,
        "volume_id": null,
        "volume_size": device.size,
        "image_id": image,
        "no_device": null,
        "tag": null,
        "volume_type": device.volume_type,
        "encrypted": null,
        "encryption_secret_uuid": null,
        "encryption_format": null,
        "encryption_options": null,
    })
}

/// The volumes that the server has, which all have to be in use. Nova's `InvalidVolume`, whose status is the action's.
pub(super) async fn in_use(ctx: &Ctx, found: &Found, refused: fn(String) -> Fault) -> Result<Vec<VolumeInfo>, Fault> {
    let mut all = Vec::new();
    for volume in found.server()?.disks.iter().filter_map(|disk| disk.device.volume) {
        let info = look_up(ctx, found, volume).await?;
        if info.status != "in-use" {
            return Err(refused(format!(
                "Invalid volume: volume '{volume}' status must be 'in-use'. Currently in '{}' status",
                info.status
            )));
        }
        all.push(info);
    }
    Ok(all)
}
