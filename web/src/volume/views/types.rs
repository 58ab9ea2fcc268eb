//! A volume type's fields.

use chronova_events::volume_type::VolumeType;
use serde_json::{Map, Value, json};

use super::pairs;

pub(in crate::volume) fn shown(kind: &VolumeType, with_specs: bool, with_qos: bool) -> Value {
    let mut map = Map::new();
    map.insert("id".to_owned(), json!(kind.id));
    map.insert("name".to_owned(), json!(kind.name));
    map.insert("is_public".to_owned(), json!(kind.public));
    map.insert("description".to_owned(), json!(kind.description));
    if with_specs {
        map.insert("extra_specs".to_owned(), pairs(&kind.extra_specs));
    }
    if with_qos {
        map.insert("qos_specs_id".to_owned(), Value::Null);
    }
    map.insert("os-volume-type-access:is_public".to_owned(), json!(kind.public));
    Value::Object(map)
}
