//! A migration's fields, and the microversions that have them.

use std::sync::Arc;

use chronova_projections::migrations::Migration;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};
use crate::schema::shape;

/// A migration about to be shown.
#[derive(Debug)]
pub struct MigrationView {
    pub row: Arc<Migration>,
    /// The number of the old flavor; `None` if it was deleted, and for evacuations.
    pub old_flavor: Option<u64>,
    pub new_flavor: Option<u64>,
    /// The address of the destination.
    pub dest_ip: Option<String>,
    /// `os_compute_api:os-migrations:index:host`
    pub hosts: bool,
}

fn source(view: &MigrationView) -> Value {
    if view.hosts { json!(view.row.source.hostname) } else { Value::Null }
}

fn target(view: &MigrationView) -> Value {
    match (&view.row.target, view.hosts) {
        (Some(target), true) => json!(target.hostname),
        _ => Value::Null,
    }
}

pub static MIGRATION: FieldTable<MigrationView> = FieldTable::new(&[
    field("id", shape::integer, |v: &MigrationView| json!(v.row.number)),
    field("uuid", shape::uuid, |v: &MigrationView| json!(v.row.id)).since(2, 59),
    field("instance_uuid", shape::uuid, |v: &MigrationView| json!(v.row.instance)),
    field("status", shape::string, |v: &MigrationView| json!(v.row.status.word())),
    field("migration_type", shape::string, |v: &MigrationView| json!(v.row.kind_word())).since(2, 23),
    field("source_compute", shape::string_or_null, source),
    field("source_node", shape::string_or_null, source),
    field("dest_compute", shape::string_or_null, target),
    field("dest_node", shape::string_or_null, target),
    field("dest_host", shape::string_or_null, |v: &MigrationView| if v.hosts { json!(v.dest_ip) } else { Value::Null }),
    field("old_instance_type_id", shape::integer_or_null, |v: &MigrationView| json!(v.old_flavor)),
    field("new_instance_type_id", shape::integer_or_null, |v: &MigrationView| json!(v.new_flavor)),
    field("created_at", shape::time, |v: &MigrationView| json!(v.row.created_at.iso_micros())),
    field("updated_at", shape::time, |v: &MigrationView| json!(v.row.updated_at.iso_micros())),
    field("user_id", shape::string_or_null, |v: &MigrationView| json!(v.row.user)).since(2, 80),
    field("project_id", shape::string_or_null, |v: &MigrationView| json!(v.row.project)).since(2, 80),
]);
