//! A server group's fields, and the microversions that have them.

use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::server_group::ServerGroup;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};

/// A group about to be shown.
#[derive(Debug)]
pub struct ServerGroupView {
    pub group: Arc<ServerGroup>,
    /// The members that are not deleted.
    pub members: Vec<InstanceId>,
}

fn rules(view: &ServerGroupView) -> Value {
    match view.group.definition.max_server_per_host {
        Some(most) => json!({"max_server_per_host": most}),
        None => json!({}),
    }
}

pub static SERVER_GROUP: FieldTable<ServerGroupView> = FieldTable::new(&[
    field("id", |v: &ServerGroupView| json!(v.group.definition.group)),
    field("name", |v: &ServerGroupView| json!(v.group.definition.name)),
    field("policies", |v: &ServerGroupView| json!([v.group.definition.policy.name()])).until(2, 63),
    field("policy", |v: &ServerGroupView| json!(v.group.definition.policy.name())).since(2, 64),
    field("rules", rules).since(2, 64),
    field("metadata", |_| json!({})).until(2, 63),
    field("members", |v: &ServerGroupView| json!(v.members)),
    field("project_id", |v: &ServerGroupView| json!(v.group.definition.project)).since(2, 13),
    field("user_id", |v: &ServerGroupView| json!(v.group.definition.user)).since(2, 13),
]);
