//! An action's fields, and those of its events, with the microversions that have them.

use std::sync::Arc;

use chronova_events::ids::{InstanceId, ProjectId};
use chronova_projections::servers::{ActionStep, InstanceAction};
use serde_json::{Value, json};

use super::host_id;
use crate::fields::{FieldTable, field};

/// An action about to be shown.
#[derive(Debug)]
pub struct ActionView {
    pub instance: InstanceId,
    pub action: Arc<InstanceAction>,
    /// The rendered events; `None` in lists, and when the caller may not see them.
    pub events: Option<Value>,
}

/// The id of the request that began the action. Nova has one for its own periodic tasks, too, so an action that no user
/// requested has an id that derives from its process.
pub fn request_id(action: &InstanceAction) -> Option<String> {
    let asked = action.request_id.as_ref().map(|id| id.as_str().to_owned());
    asked.or_else(|| action.process.map(|process| format!("req-{process}")))
}

/// `os-instance-actions`
pub static ACTION: FieldTable<ActionView> = FieldTable::new(&[
    field("action", |v: &ActionView| json!(v.action.name)),
    field("instance_uuid", |v: &ActionView| json!(v.instance)),
    field("request_id", |v: &ActionView| json!(request_id(&v.action))),
    field("user_id", |v: &ActionView| json!(v.action.user)),
    field("project_id", |v: &ActionView| json!(v.action.project)),
    field("start_time", |v: &ActionView| json!(v.action.started_at.iso_micros())),
    field("message", |v: &ActionView| json!(v.action.message)),
    field("updated_at", |v: &ActionView| json!(v.action.updated_at.iso_micros())).since(2, 58),
    field("events", |v: &ActionView| json!(v.events)).when(|v| v.events.is_some()),
]);

/// An event of an action about to be shown.
#[derive(Debug)]
pub struct EventView {
    pub step: ActionStep,
    pub project: ProjectId,
    /// The compute host, or the host of the control plane.
    pub hostname: String,
    /// `os_compute_api:os-instance-actions:events`
    pub full: bool,
    /// `os_compute_api:os-instance-actions:events:details`
    pub details: bool,
}

fn result(view: &EventView) -> Value {
    match view.step.succeeded {
        Some(true) => json!("Success"),
        Some(false) => json!("Error"),
        None => Value::Null,
    }
}

/// One step of an action.
pub static EVENT: FieldTable<EventView> = FieldTable::new(&[
    field("event", |v: &EventView| json!(v.step.step)),
    field("start_time", |v: &EventView| json!(v.step.started_at.iso_micros())),
    field("finish_time", |v: &EventView| {
        json!(v.step.finished_at.map(chronova_events::envelope::Timestamp::iso_micros))
    }),
    field("result", result),
    // Chronova has no Python tracebacks; the details describe the failure.
    field("traceback", |_| Value::Null).when(|v| v.full),
    field("host", |v: &EventView| json!(v.hostname)).since(2, 62).when(|v| v.full),
    field("hostId", |v: &EventView| json!(host_id(&v.project, &v.hostname))).since(2, 62),
    field("details", |v: &EventView| json!(v.step.details)).since(2, 84).when(|v| v.details),
]);
