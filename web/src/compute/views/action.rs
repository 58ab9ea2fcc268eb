//! An action's fields, and those of its events, with the microversions that have them.

use std::sync::Arc;

use chronova_events::ids::{InstanceId, ProjectId};
use chronova_projections::servers::{ActionStep, InstanceAction};
use serde_json::{Value, json};

use super::host_id;
use crate::fields::{FieldTable, field};
use crate::schema::{Schema, array, shape};

/// An action about to be shown.
#[derive(Debug)]
pub struct ActionView {
    pub instance: InstanceId,
    pub action: Arc<InstanceAction>,
    /// The rendered events; `None` in lists, and when the caller may not see them.
    pub events: Option<Value>,
}

/// The id of the request that began the action. As in Nova, an action that no user requested also has such an id, which
/// is derived from the action's process.
pub fn request_id(action: &InstanceAction) -> Option<String> {
    let asked = action.request_id.as_ref().map(|id| id.as_str().to_owned());
    asked.or_else(|| action.process.map(|process| format!("req-{process}")))
}

fn events() -> Schema {
    array(EVENT.shape())
}

/// `os-instance-actions`
pub static ACTION: FieldTable<ActionView> = FieldTable::new(&[
    field("action", shape::string, |v: &ActionView| json!(v.action.name)),
    field("instance_uuid", shape::uuid, |v: &ActionView| json!(v.instance)),
    field("request_id", shape::string_or_null, |v: &ActionView| json!(request_id(&v.action))),
    field("user_id", shape::string_or_null, |v: &ActionView| json!(v.action.user)),
    field("project_id", shape::string_or_null, |v: &ActionView| json!(v.action.project)),
    field("start_time", shape::time, |v: &ActionView| json!(v.action.started_at.iso_micros())),
    field("message", shape::string_or_null, |v: &ActionView| json!(v.action.message)),
    field("updated_at", shape::time, |v: &ActionView| json!(v.action.updated_at.iso_micros())).since(2, 58),
    field("events", events, |v: &ActionView| json!(v.events)).when(|v| v.events.is_some()),
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

fn result_shape() -> Schema {
    shape::string_or_null().one_among(json!(["Success", "Error", null]))
}

/// One step of an action.
pub static EVENT: FieldTable<EventView> = FieldTable::new(&[
    field("event", shape::string, |v: &EventView| json!(v.step.step)),
    field("start_time", shape::time, |v: &EventView| json!(v.step.started_at.iso_micros())),
    field("finish_time", shape::time_or_null, |v: &EventView| {
        json!(v.step.finished_at.map(chronova_events::envelope::Timestamp::iso_micros))
    }),
    field("result", result_shape, result),
    // Chronova has no Python tracebacks; the details describe the failure.
    field("traceback", shape::string_or_null, |_| Value::Null).when(|v| v.full),
    field("host", shape::string, |v: &EventView| json!(v.hostname)).since(2, 62).when(|v| v.full),
    field("hostId", shape::string, |v: &EventView| json!(host_id(&v.project, &v.hostname))).since(2, 62),
    field("details", shape::string_or_null, |v: &EventView| json!(v.step.details)).since(2, 84).when(|v| v.details),
]);
