//! A snapshot's fields.

use chronova_events::volume::{SnapshotStatus, VolumeSnapshot};
use serde_json::json;

use super::{pairs, time};
use crate::fields::{FieldTable, field};

/// The fields in short lists and in the answer to a creation.
pub(in crate::volume) static LISTED: FieldTable<VolumeSnapshot> = FieldTable::new(&[
    field("id", |s: &VolumeSnapshot| json!(s.requested.snapshot)),
    field("name", |s: &VolumeSnapshot| json!(s.name)),
    field("description", |s: &VolumeSnapshot| json!(s.description)),
    field("status", |s: &VolumeSnapshot| json!(s.status.as_str())),
    field("size", |s: &VolumeSnapshot| json!(s.size_gb)),
    field("volume_id", |s: &VolumeSnapshot| json!(s.requested.volume)),
    field("metadata", |s: &VolumeSnapshot| pairs(&s.metadata)),
    field("created_at", |s: &VolumeSnapshot| json!(time(s.created_at))),
    field("updated_at", |s: &VolumeSnapshot| json!(time(s.updated_at))),
    field("user_id", |s: &VolumeSnapshot| json!(s.requested.user)).since(3, 41),
    field("consumes_quota", |_| json!(true)).since(3, 65),
]);

fn progress(snapshot: &VolumeSnapshot) -> &'static str {
    if snapshot.status == SnapshotStatus::Available { "100%" } else { "0%" }
}

/// The fields of a single snapshot and in detailed lists.
pub(in crate::volume) static SHOWN: FieldTable<VolumeSnapshot> = FieldTable::new(&[
    field("id", |s: &VolumeSnapshot| json!(s.requested.snapshot)),
    field("name", |s: &VolumeSnapshot| json!(s.name)),
    field("description", |s: &VolumeSnapshot| json!(s.description)),
    field("status", |s: &VolumeSnapshot| json!(s.status.as_str())),
    field("size", |s: &VolumeSnapshot| json!(s.size_gb)),
    field("volume_id", |s: &VolumeSnapshot| json!(s.requested.volume)),
    field("metadata", |s: &VolumeSnapshot| pairs(&s.metadata)),
    field("created_at", |s: &VolumeSnapshot| json!(time(s.created_at))),
    field("updated_at", |s: &VolumeSnapshot| json!(time(s.updated_at))),
    field("os-extended-snapshot-attributes:progress", |s: &VolumeSnapshot| json!(progress(s))),
    field("os-extended-snapshot-attributes:project_id", |s: &VolumeSnapshot| json!(s.requested.project)),
    field("group_snapshot_id", |_| json!(null)).since(3, 14),
    field("user_id", |s: &VolumeSnapshot| json!(s.requested.user)).since(3, 41),
    field("consumes_quota", |_| json!(true)).since(3, 65),
]);
