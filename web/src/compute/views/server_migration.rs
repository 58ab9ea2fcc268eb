//! A live migration that is under way, as its server shows it.

use std::sync::Arc;

use chronova_events::instance::LiveProgress;
use chronova_projections::migrations::Migration;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};

/// A migration about to be shown.
#[derive(Debug)]
pub struct ServerMigrationView {
    pub row: Arc<Migration>,
    /// The address of the destination.
    pub dest_ip: Option<String>,
    pub progress: LiveProgress,
    /// `os_compute_api:servers:migrations:index:host`
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
    field("id", |v: &ServerMigrationView| json!(v.row.number)),
    field("uuid", |v: &ServerMigrationView| json!(v.row.id)).since(2, 59),
    field("server_uuid", |v: &ServerMigrationView| json!(v.row.instance)),
    field("status", |v: &ServerMigrationView| json!(v.row.status.word())),
    field("source_compute", source),
    field("source_node", source),
    field("dest_compute", target),
    field("dest_node", target),
    field("dest_host", |v: &ServerMigrationView| if v.hosts { json!(v.dest_ip) } else { Value::Null }),
    field("memory_total_bytes", |v: &ServerMigrationView| json!(v.progress.memory_total)),
    field("memory_processed_bytes", |v: &ServerMigrationView| json!(v.progress.memory_processed)),
    field("memory_remaining_bytes", |v: &ServerMigrationView| json!(v.progress.memory_remaining)),
    field("disk_total_bytes", |v: &ServerMigrationView| json!(v.progress.disk_total)),
    field("disk_processed_bytes", |v: &ServerMigrationView| json!(v.progress.disk_processed)),
    field("disk_remaining_bytes", |v: &ServerMigrationView| json!(v.progress.disk_remaining)),
    field("created_at", |v: &ServerMigrationView| json!(v.row.created_at.iso_micros())),
    field("updated_at", |v: &ServerMigrationView| json!(v.row.updated_at.iso_micros())),
    field("user_id", |v: &ServerMigrationView| json!(v.row.user)).since(2, 80),
    field("project_id", |v: &ServerMigrationView| json!(v.row.project)).since(2, 80),
]);
