//! A volume's fields.

use std::sync::Arc;

use chronova_events::volume::{Attachment, VolumeRecord, VolumeSource};
use serde_json::{Value, json};

use super::{pairs, time};
use crate::fields::{FieldTable, field};
use crate::schema::{Schema, array, object, req, shape};

/// A volume, and the fields of it that this caller sees.
pub(in crate::volume) struct VolumeView {
    pub volume: Arc<VolumeRecord>,
    pub type_name: Option<String>,
    pub links: Value,
    pub pool: String,
    /// Whether to show the fields for administrators, such as the host and the migration status.
    pub inner: bool,
    pub image_metadata: bool,
}

impl VolumeView {
    fn id(&self) -> String {
        self.volume.created.volume.to_string()
    }
}

fn attachments(view: &VolumeView) -> Value {
    let shown = |(id, attachment): (&chronova_events::ids::AttachmentId, &Attachment)| {
        json!({
            "server_id": attachment.instance,
            "attachment_id": id,
            "attached_at": attachment.attached_at.map(time),
            "host_name": attachment.host.as_ref().filter(|_| view.inner),
            "volume_id": view.volume.created.volume,
            "device": attachment.device,
            "id": view.volume.created.volume,
        })
    };
    view.volume.attachments.iter().filter(|(_, attachment)| attachment.complete).map(shown).collect()
}

fn attachments_shape() -> Schema {
    array(object([
        req("server_id", shape::uuid_or_null()),
        req("attachment_id", shape::uuid()),
        req("attached_at", shape::time_or_null()),
        req("host_name", shape::string_or_null()),
        req("volume_id", shape::uuid()),
        req("device", shape::string_or_null()),
        req("id", shape::uuid()),
    ]))
}

fn source(view: &VolumeView) -> (Value, Value) {
    match view.volume.created.source {
        VolumeSource::Snapshot { snapshot, .. } => (json!(snapshot), Value::Null),
        VolumeSource::Volume(volume) => (Value::Null, json!(volume)),
        VolumeSource::Blank | VolumeSource::Image(_) => (Value::Null, Value::Null),
    }
}

/// `host@backend#pool`, Cinder's form of a volume's host.
fn host(view: &VolumeView) -> Value {
    json!(view.volume.place.as_ref().map(|(_, hostname)| format!("{hostname}@chronova#{}", view.pool)))
}

fn image_metadata(view: &VolumeView) -> Value {
    view.volume.image.as_ref().map_or(Value::Null, |image| pairs(&image.extra))
}

fn has_image_metadata(view: &VolumeView) -> bool {
    view.image_metadata && view.volume.image.as_ref().is_some_and(|image| !image.extra.is_empty())
}

/// The fields that short lists show.
pub(in crate::volume) const LISTED: [&str; 3] = ["id", "name", "links"];

/// The fields of a single volume and in detailed lists.
pub(in crate::volume) static SHOWN: FieldTable<VolumeView> = FieldTable::new(&[
    field("id", shape::uuid, |v: &VolumeView| json!(v.id())),
    field("status", shape::string, |v: &VolumeView| json!(v.volume.status.as_str())),
    field("size", shape::integer, |v: &VolumeView| json!(v.volume.size_gb)),
    field("availability_zone", shape::string, |v: &VolumeView| json!(v.volume.created.availability_zone)),
    field("created_at", shape::time, |v: &VolumeView| json!(time(v.volume.created_at))),
    field("updated_at", shape::time, |v: &VolumeView| json!(time(v.volume.updated_at))),
    field("name", shape::string, |v: &VolumeView| json!(v.volume.name)),
    field("description", shape::string_or_null, |v: &VolumeView| json!(v.volume.description)),
    field("volume_type", shape::string_or_null, |v: &VolumeView| json!(v.type_name)),
    field("snapshot_id", shape::uuid_or_null, |v: &VolumeView| source(v).0),
    field("source_volid", shape::uuid_or_null, |v: &VolumeView| source(v).1),
    field("metadata", shape::pairs, |v: &VolumeView| pairs(&v.volume.metadata)),
    field("links", shape::links, |v: &VolumeView| v.links.clone()),
    field("user_id", shape::string, |v: &VolumeView| json!(v.volume.created.user)),
    field("bootable", shape::string, |v: &VolumeView| json!(if v.volume.bootable { "true" } else { "false" })),
    field("encrypted", shape::boolean, |_| json!(false)),
    field("replication_status", shape::string_or_null, |_| Value::Null),
    field("consistencygroup_id", shape::string_or_null, |_| Value::Null),
    field("multiattach", shape::boolean, |v: &VolumeView| json!(v.volume.created.multiattach)),
    field("attachments", attachments_shape, attachments),
    field("migration_status", shape::string_or_null, |_| Value::Null),
    field("os-vol-host-attr:host", shape::string_or_null, host).when(|v| v.inner),
    field("os-vol-mig-status-attr:migstat", shape::string_or_null, |_| Value::Null).when(|v| v.inner),
    field("os-vol-mig-status-attr:name_id", shape::string_or_null, |_| Value::Null).when(|v| v.inner),
    field("os-vol-tenant-attr:tenant_id", shape::string, |v: &VolumeView| json!(v.volume.created.project)),
    field("volume_image_metadata", shape::pairs, image_metadata).when(has_image_metadata),
    field("group_id", shape::string_or_null, |_| Value::Null).since(3, 13),
    field("provider_id", shape::string_or_null, |_| Value::Null).since(3, 21).when(|v| v.inner),
    field("service_uuid", shape::string_or_null, |_| Value::Null).since(3, 48),
    field("shared_targets", shape::boolean, |_| json!(false)).since(3, 48),
    field("cluster_name", shape::string_or_null, |_| Value::Null).since(3, 61).when(|v| v.inner),
    field("volume_type_id", shape::uuid_or_null, |v: &VolumeView| json!(v.volume.created.volume_type)).since(3, 63),
    field("consumes_quota", shape::boolean, |_| json!(true)).since(3, 65),
]);
