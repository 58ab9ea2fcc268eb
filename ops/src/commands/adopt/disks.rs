//! The disks of a server, from Nova's block device mappings.
//!
//! The disks stay where they are. A volume is identified by its serial in the domain, which is the volume's id, as in
//! Nova.

use chronova_events::ids::{AttachmentId, BlockDeviceId, ImageId, SnapshotId, VolumeId};
use chronova_events::instance::{BlockConnection, BlockDevice, BlockLocation, BlockSource};

use super::{REPAIR_ROW, Unadoptable};
use crate::nova::rows::NovaRow;

/// Reads all devices of the server. A row with `no_device` only suppresses a device of the image.
pub(super) fn devices(rows: &[NovaRow<'_>]) -> Result<Vec<BlockDevice>, Unadoptable> {
    let there = |row: &&NovaRow<'_>| !row.is_deleted() && !row.flag("no_device");
    rows.iter().filter(there).map(device).collect()
}

/// Refuses a volume that is still being attached. Nova writes the device's row first, and the connection last.
pub(super) fn are_connected(devices: &[BlockDevice]) -> Result<(), Unadoptable> {
    let open = devices.iter().find(|device| device.connection.is_none() && device.volume.is_some());
    match open.and_then(|device| device.volume) {
        None => Ok(()),
        Some(volume) => {
            let reason = format!("its volume {volume} is being attached (block_device_mapping has no connection_info)");
            Err(Unadoptable::new(reason, "wait until it is attached, or detach it"))
        }
    }
}

fn device(row: &NovaRow<'_>) -> Result<BlockDevice, Unadoptable> {
    if row.flag("encrypted") {
        let reason = format!("its disk {} is encrypted", row.text("device_name").unwrap_or("?"));
        return Err(Unadoptable::new(reason, "detach the volume, or leave the server out"));
    }
    let place = match row.required("destination_type")? {
        "local" => BlockLocation::Local,
        "volume" => BlockLocation::Volume,
        _ => return Err(row.wrong("destination_type", "`local` or `volume`").into()),
    };
    let volume = row.uuid("volume_id")?.map(VolumeId);
    if place == BlockLocation::Volume && volume.is_none() {
        return Err(Unadoptable::new("no volume was created for its disk", "delete the server, or leave it out"));
    }
    let text = |column: &str| row.words(column).map(str::to_owned);
    Ok(BlockDevice {
        id: BlockDeviceId(row.required_uuid("uuid")?),
        source: source(row, volume)?,
        place,
        boot_index: row.number("boot_index")?.and_then(|index| u32::try_from(index).ok()),
        size: row.count("volume_size")?.and_then(|size| u32::try_from(size).ok()),
        guest_format: text("guest_format"),
        device_type: text("device_type"),
        disk_bus: text("disk_bus"),
        device_name: text("device_name"),
        delete_on_termination: row.flag("delete_on_termination"),
        tag: text("tag"),
        volume_type: text("volume_type"),
        volume,
        attachment: row.uuid("attachment_id")?.map(AttachmentId),
        connection: match volume {
            Some(volume) => connection(row, volume)?,
            None => None,
        },
    })
}

fn source(row: &NovaRow<'_>, volume: Option<VolumeId>) -> Result<BlockSource, Unadoptable> {
    let id = |column: &str, wanted| row.uuid(column)?.ok_or_else(|| row.wrong(column, wanted));
    Ok(match row.required("source_type")? {
        "blank" => BlockSource::Blank,
        "image" => BlockSource::Image(ImageId(id("image_id", "the id of an image")?)),
        // Nova removes the snapshot's id as soon as the volume exists.
        "snapshot" => match (row.uuid("snapshot_id")?, volume) {
            (Some(snapshot), _) => BlockSource::Snapshot(SnapshotId(snapshot)),
            (None, Some(volume)) => BlockSource::Volume(volume),
            (None, None) => return Err(row.wrong("snapshot_id", "the id of a snapshot").into()),
        },
        "volume" => BlockSource::Volume(VolumeId(id("volume_id", "the id of a volume")?)),
        _ => return Err(row.wrong("source_type", "blank, image, snapshot or volume").into()),
    })
}

/// Reads how the host reaches the volume; `None` if the row has no connection, as for a server on no host.
fn connection(row: &NovaRow<'_>, volume: VolumeId) -> Result<Option<BlockConnection>, Unadoptable> {
    let Some(info) = row.json("connection_info")? else { return Ok(None) };
    let driver = info["driver_volume_type"].as_str().unwrap_or("none");
    if driver != "rbd" {
        let reason = format!("its volume {volume} is connected by {driver}: only rbd can be taken over");
        return Err(Unadoptable::new(reason, "detach the volume, or leave the server out"));
    }
    let name = info["data"]["name"].as_str().unwrap_or_default();
    let Some((pool, image)) = name.split_once('/') else {
        return Err(Unadoptable::new(format!("the name of its volume {volume} in Ceph is `{name}`"), REPAIR_ROW));
    };
    Ok(Some(BlockConnection {
        pool: pool.to_owned(),
        volume: image.to_owned(),
        format: "raw".to_owned(),
        serial: info["serial"].as_str().map_or_else(|| volume.to_string(), str::to_owned),
        readonly: info["data"]["access_mode"] == "ro",
        shareable: info["multiattach"].as_bool().unwrap_or(false),
    }))
}
