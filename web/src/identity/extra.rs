//! Attributes that Keystone does not know. As in Keystone, they are stored with the resource.

use chronova_events::identity::ExtraAttributes;
use serde_json::{Map, Value};

/// The attributes of a body that are not `known`, as JSON text, sorted by name.
pub(super) fn extra(body: &Map<String, Value>, known: &[&str]) -> ExtraAttributes {
    let mut extra: ExtraAttributes = body
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.to_string()))
        .collect();
    extra.sort();
    extra
}
