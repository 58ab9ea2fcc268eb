//! A snapshot's fields.

use chronova_events::volume::{SnapshotStatus, VolumeSnapshot};
use serde_json::json;

use super::{pairs, time};
use crate::fields::{FieldTable, field};
use crate::schema::shape;

/// The fields in short lists and in the answer to a creation.
pub(in crate::volume) static LISTED: FieldTable<VolumeSnapshot> = FieldTable::new(&[
    field("id", shape::uuid, |s: &VolumeSnapshot| json!(s.requested.snapshot)),
    field("name", shape::string, |s: &VolumeSnapshot| json!(s.name)),
    field("description", shape::string_or_null, |s: &VolumeSnapshot| json!(s.description)),
    field("status", shape::string, |s: &VolumeSnapshot| json!(s.status.as_str())),
    field("size", shape::integer, |s: &VolumeSnapshot| json!(s.size_gb)),
    field("volume_id", shape::uuid, |s: &VolumeSnapshot| json!(s.requested.volume)),
    field("metadata", shape::pairs, |s: &VolumeSnapshot| pairs(&s.metadata)),
    field("created_at", shape::time, |s: &VolumeSnapshot| json!(time(s.created_at))),
    field("updated_at", shape::time, |s: &VolumeSnapshot| json!(time(s.updated_at))),
    field("user_id", shape::string, |s: &VolumeSnapshot| json!(s.requested.user)).since(3, 41),
    field("consumes_quota", shape::boolean, |_| json!(true)).since(3, 65),
]);

fn progress(snapshot: &VolumeSnapshot) -> &'static str {
    if snapshot.status == SnapshotStatus::Available { "100%" } else { "0%" }
}

/// The fields of a single snapshot and in detailed lists.
pub(in crate::volume) static SHOWN: FieldTable<VolumeSnapshot> = FieldTable::new(&[
    field("id", shape::uuid, |s: &VolumeSnapshot| json!(s.requested.snapshot)),
    field("name", shape::string, |s: &VolumeSnapshot| json!(s.name)),
    field("description", shape::string_or_null, |s: &VolumeSnapshot| json!(s.description)),
    field("status", shape::string, |s: &VolumeSnapshot| json!(s.status.as_str())),
    field("size", shape::integer, |s: &VolumeSnapshot| json!(s.size_gb)),
    field("volume_id", shape::uuid, |s: &VolumeSnapshot| json!(s.requested.volume)),
    field("metadata", shape::pairs, |s: &VolumeSnapshot| pairs(&s.metadata)),
    field("created_at", shape::time, |s: &VolumeSnapshot| json!(time(s.created_at))),
    field("updated_at", shape::time, |s: &VolumeSnapshot| json!(time(s.updated_at))),
    field("os-extended-snapshot-attributes:progress", shape::string, |s: &VolumeSnapshot| json!(progress(s))),
    field("os-extended-snapshot-attributes:project_id", shape::string, |s: &VolumeSnapshot| json!(s.requested.project)),
    field("group_snapshot_id", shape::string_or_null, |_| json!(null)).since(3, 14),
    field("user_id", shape::string, |s: &VolumeSnapshot| json!(s.requested.user)).since(3, 41),
    field("consumes_quota", shape::boolean, |_| json!(true)).since(3, 65),
]);
