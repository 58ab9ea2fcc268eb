//! A volume attachment's fields, and the microversions that have them.

use chronova_events::ids::InstanceId;
use chronova_events::instance::BlockDevice;
use serde_json::json;

use crate::fields::{FieldTable, field};
use crate::schema::shape;

/// A volume of a server about to be shown.
#[derive(Debug)]
pub struct AttachmentView {
    pub server: InstanceId,
    pub device: BlockDevice,
}

/// `GET /servers/{id}/os-volume_attachments`. Until 2.88 the volume's id serves as the attachment's id.
pub static ATTACHMENT: FieldTable<AttachmentView> = FieldTable::new(&[
    field("id", shape::uuid, |v: &AttachmentView| json!(v.device.volume)).until(2, 88),
    field("volumeId", shape::uuid, |v: &AttachmentView| json!(v.device.volume)),
    field("serverId", shape::uuid, |v: &AttachmentView| json!(v.server)),
    field("device", shape::string, |v: &AttachmentView| json!(v.device.device_name))
        .when(|v| v.device.device_name.is_some()),
    field("tag", shape::string_or_null, |v: &AttachmentView| json!(v.device.tag)).since(2, 70),
    field("delete_on_termination", shape::boolean, |v: &AttachmentView| json!(v.device.delete_on_termination))
        .since(2, 79),
    field("attachment_id", shape::uuid, |v: &AttachmentView| json!(v.device.attachment)).since(2, 89),
    field("bdm_uuid", shape::uuid, |v: &AttachmentView| json!(v.device.id)).since(2, 89),
]);
