//! A server group's fields, and the microversions that have them.

use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::server_group::ServerGroup;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};
use crate::schema::{Schema, array, object, opt, shape};

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

fn rules_shape() -> Schema {
    object([opt("max_server_per_host", shape::integer())])
}

fn members() -> Schema {
    array(shape::uuid())
}

pub static SERVER_GROUP: FieldTable<ServerGroupView> = FieldTable::new(&[
    field("id", shape::uuid, |v: &ServerGroupView| json!(v.group.definition.group)),
    field("name", shape::string, |v: &ServerGroupView| json!(v.group.definition.name)),
    field("policies", shape::strings, |v: &ServerGroupView| json!([v.group.definition.policy.name()])).until(2, 63),
    field("policy", shape::string, |v: &ServerGroupView| json!(v.group.definition.policy.name())).since(2, 64),
    field("rules", rules_shape, rules).since(2, 64),
    field("metadata", shape::pairs, |_| json!({})).until(2, 63),
    field("members", members, |v: &ServerGroupView| json!(v.members)),
    field("project_id", shape::string, |v: &ServerGroupView| json!(v.group.definition.project)).since(2, 13),
    field("user_id", shape::string, |v: &ServerGroupView| json!(v.group.definition.user)).since(2, 13),
]);
