//! An attachment's fields. All these fields exist since 3.27, the version that added attachments.

use chronova_actors::ports::Connection;
use chronova_events::ids::{AttachmentId, VolumeId};
use chronova_events::volume::{AttachMode, Attachment};
use serde_json::{Value, json};

use super::time;

pub(in crate::volume) const fn mode(mode: AttachMode) -> &'static str {
    match mode {
        AttachMode::ReadWrite => "rw",
        AttachMode::ReadOnly => "ro",
    }
}

/// An attachment in a short list.
pub(in crate::volume) fn listed(volume: VolumeId, id: AttachmentId, attachment: &Attachment) -> Value {
    json!({
        "status": attachment.status(),
        "instance": attachment.instance,
        "id": id,
        "volume_id": volume,
    })
}

/// A single attachment. Only a connected attachment has connection information.
pub(in crate::volume) fn shown(
    volume: VolumeId,
    id: AttachmentId,
    attachment: &Attachment,
    host_connection: Option<&Connection>,
) -> Value {
    json!({
        "status": attachment.status(),
        "instance": attachment.instance,
        "id": id,
        "volume_id": volume,
        "attached_at": attachment.attached_at.map_or_else(String::new, time),
        "detached_at": "",
        "attach_mode": mode(attachment.mode),
        "connection_info": host_connection.map_or_else(|| json!({}), |known| connection_info(known, id)),
    })
}

fn connection_info(host_connection: &Connection, attachment: AttachmentId) -> Value {
    let mut info = connection(host_connection);
    let Value::Object(data) = info["data"].take() else { return info };
    let mut flat = data;
    flat.insert("driver_volume_type".to_owned(), info["driver_volume_type"].take());
    flat.insert("attachment_id".to_owned(), json!(attachment));
    Value::Object(flat)
}

/// The connection information of a volume, in the older form.
pub(in crate::volume) fn connection(host_connection: &Connection) -> Value {
    json!({
        "driver_volume_type": "libvirt",
        "data": {
            "pool": host_connection.pool,
            "volume": host_connection.volume,
            "volume_id": host_connection.serial,
            "format": host_connection.format,
            "access_mode": if host_connection.readonly { "ro" } else { "rw" },
            "encrypted": false,
            "qos_specs": null,
            "discard": true,
            "cacheable": false,
        },
    })
}
