//! A live migration that is under way, as `/servers/{server_id}/migrations` shows it.

use std::sync::Arc;

use chronova_events::instance::LiveProgress;
use chronova_projections::migrations::Migration;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};
use crate::schema::shape;

/// A migration about to be shown.
#[derive(Debug)]
pub struct ServerMigrationView {
    pub row: Arc<Migration>,
    /// The address of the destination.
    pub dest_ip: Option<String>,
    pub progress: LiveProgress,
    /// Whether the caller may see the hosts: the rule `os_compute_api:servers:migrations:index:host`, for the list and
    /// for one migration.
    pub hosts: bool,
}

fn source(view: &ServerMigrationView) -> Value {
    if view.hosts { json!(view.row.source.hostname) } else { Value::Null }
}

fn target(view: &ServerMigrationView) -> Value {
    match (&view.row.target, view.hosts) {
        (Some(target), true) => json!(target.hostname),
        _ => Value::Null,
    }
}

pub static SERVER_MIGRATION: FieldTable<ServerMigrationView> = FieldTable::new(&[
    field("id", shape::integer, |v: &ServerMigrationView| json!(v.row.number)),
    field("uuid", shape::uuid, |v: &ServerMigrationView| json!(v.row.id)).since(2, 59),
    field("server_uuid", shape::uuid, |v: &ServerMigrationView| json!(v.row.instance)),
    field("status", shape::string, |v: &ServerMigrationView| json!(v.row.status.word())),
    field("source_compute", shape::string_or_null, source),
    field("source_node", shape::string_or_null, source),
    field("dest_compute", shape::string_or_null, target),
    field("dest_node", shape::string_or_null, target),
    field(
        "dest_host",
        shape::string_or_null,
        |v: &ServerMigrationView| if v.hosts { json!(v.dest_ip) } else { Value::Null },
    ),
    field("memory_total_bytes", shape::integer, |v: &ServerMigrationView| json!(v.progress.memory_total)),
    field("memory_processed_bytes", shape::integer, |v: &ServerMigrationView| json!(v.progress.memory_processed)),
    field("memory_remaining_bytes", shape::integer, |v: &ServerMigrationView| json!(v.progress.memory_remaining)),
    field("disk_total_bytes", shape::integer, |v: &ServerMigrationView| json!(v.progress.disk_total)),
    field("disk_processed_bytes", shape::integer, |v: &ServerMigrationView| json!(v.progress.disk_processed)),
    field("disk_remaining_bytes", shape::integer, |v: &ServerMigrationView| json!(v.progress.disk_remaining)),
    field("created_at", shape::time, |v: &ServerMigrationView| json!(v.row.created_at.iso_micros())),
    field("updated_at", shape::time, |v: &ServerMigrationView| json!(v.row.updated_at.iso_micros())),
    field("user_id", shape::string_or_null, |v: &ServerMigrationView| json!(v.row.user)).since(2, 80),
    field("project_id", shape::string_or_null, |v: &ServerMigrationView| json!(v.row.project)).since(2, 80),
]);
