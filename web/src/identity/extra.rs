//! Attributes that Keystone does not know and keeps all the same.

use chronova_events::identity::Extra;
use serde_json::{Map, Value};

/// What a body says beyond what is `known`, as JSON text, sorted by name.
pub(super) fn extra(body: &Map<String, Value>, known: &[&str]) -> Extra {
    let mut extra: Extra = body
        .iter()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.to_string()))
        .collect();
    extra.sort();
    extra
}
