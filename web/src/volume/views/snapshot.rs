//! A snapshot's fields.

use chronova_events::volume::{Snapshot, SnapshotStatus};
use serde_json::json;

use super::{pairs, time};
use crate::fields::{FieldTable, field};

/// In short lists, and what its creation answers.
pub(in crate::volume) static LISTED: FieldTable<Snapshot> = FieldTable::new(&[
    field("id", |s: &Snapshot| json!(s.requested.snapshot)),
    field("name", |s: &Snapshot| json!(s.name)),
    field("description", |s: &Snapshot| json!(s.description)),
    field("status", |s: &Snapshot| json!(s.status.as_str())),
    field("size", |s: &Snapshot| json!(s.size_gb)),
    field("volume_id", |s: &Snapshot| json!(s.requested.volume)),
    field("metadata", |s: &Snapshot| pairs(&s.metadata)),
    field("created_at", |s: &Snapshot| json!(time(s.created_at))),
    field("updated_at", |s: &Snapshot| json!(time(s.updated_at))),
    field("user_id", |s: &Snapshot| json!(s.requested.user)).since(3, 41),
    field("consumes_quota", |_| json!(true)).since(3, 65),
]);

fn progress(snapshot: &Snapshot) -> &'static str {
    if snapshot.status == SnapshotStatus::Available { "100%" } else { "0%" }
}

/// By itself, and in detailed lists.
pub(in crate::volume) static SHOWN: FieldTable<Snapshot> = FieldTable::new(&[
    field("id", |s: &Snapshot| json!(s.requested.snapshot)),
    field("name", |s: &Snapshot| json!(s.name)),
    field("description", |s: &Snapshot| json!(s.description)),
    field("status", |s: &Snapshot| json!(s.status.as_str())),
    field("size", |s: &Snapshot| json!(s.size_gb)),
    field("volume_id", |s: &Snapshot| json!(s.requested.volume)),
    field("metadata", |s: &Snapshot| pairs(&s.metadata)),
    field("created_at", |s: &Snapshot| json!(time(s.created_at))),
    field("updated_at", |s: &Snapshot| json!(time(s.updated_at))),
    field("os-extended-snapshot-attributes:progress", |s: &Snapshot| json!(progress(s))),
    field("os-extended-snapshot-attributes:project_id", |s: &Snapshot| json!(s.requested.project)),
    field("group_snapshot_id", |_| json!(null)).since(3, 14),
    field("user_id", |s: &Snapshot| json!(s.requested.user)).since(3, 41),
    field("consumes_quota", |_| json!(true)).since(3, 65),
]);
