//! The properties of an image of a volume-backed server. They name the snapshots for the disks of a new server.
//!
//! Source: nova `compute/api.py` (`snapshot_volume_backed`) and `block_device.py` (`snapshot_from_bdm`).

use chronova_events::ids::ProcessId;
use chronova_events::instance::{Alive, BlockDevice, BlockLocation, BlockSource, SortedPairs};
use serde_json::{Value, json};

use super::server_images::set;
use crate::instance::disks;
use crate::process::snapshot_volumes;

/// Properties that a volume inherits from its image, and that describe the disks of that image.
const OF_OTHER_DISKS: [&str; 3] = ["block_device_mapping", "bdm_v2", "root_device_name"];

/// The number of snapshots that an image of the server needs.
pub(super) fn volume_count(server: &Alive) -> u64 {
    snapshot_volumes::volumes(server).count() as u64
}

/// Nova's `QemuGuestAgentNotEnabled`.
pub(super) fn cannot_rest(server: &Alive) -> bool {
    snapshot_volumes::cannot_rest(server)
}

/// Replaces the properties about disks by those of the server's disks, with the snapshots that `process` creates.
pub(super) fn properties_of_volumes(properties: &mut SortedPairs, server: &Alive, process: ProcessId) {
    properties.retain(|(key, _)| !OF_OTHER_DISKS.contains(&key.as_str()));
    set(properties, "root_device_name", &disks::root_name(server));
    set(properties, "block_device_mapping", &mapping(server, process).to_string());
    set(properties, "bdm_v2", "True");
}

/// The block device mapping of the server's disks. It names a snapshot in place of each volume. It has every field of
/// Nova's mappings.
fn mapping(server: &Alive, process: ProcessId) -> Value {
    let local = server.disks.iter().map(|disk| &disk.device).filter(|device| device.place == BlockLocation::Local);
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
