//! The views of volumes, snapshots, attachments and types, and the microversions that change them.

pub(super) mod attachment;
pub(super) mod snapshot;
pub(super) mod types;
pub(super) mod volume;

use chronova_events::envelope::Timestamp;
use serde_json::{Map, Value};

/// Names and values as an object.
pub(super) fn pairs(pairs: &[(String, String)]) -> Value {
    let map: Map<String, Value> = pairs.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
    Value::Object(map)
}

/// Cinder's times have microseconds and no zone.
pub(super) fn time(at: Timestamp) -> String {
    at.iso_micros()
}
