//! The bodies of external events.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::schema::{Schema, array, choice, object, opt, req, string, uuid};

/// The kinds of events, in the order in which microversions added them.
const NAMES: [&str; 8] = [
    "network-changed",
    "network-vif-plugged",
    "network-vif-unplugged",
    "network-vif-deleted",
    "volume-extended",
    "power-update",
    "accelerator-request-bound",
    "volume-reimaged",
];

fn names_of(many: usize) -> Schema {
    string().with("enum", json!(NAMES[..many]))
}

pub fn create_body() -> Schema {
    let names = names_of(4).from(2, 51, names_of(5)).from(2, 76, names_of(6)).from(2, 82, names_of(7)).from(
        2,
        93,
        names_of(NAMES.len()),
    );
    let event = object([
        req("name", names),
        req("server_uuid", uuid()),
        opt("status", choice(["failed", "completed", "in-progress"])),
        opt("tag", string().max_length(255)),
    ]);
    object([req("events", array(event).min_items(1))])
}

#[derive(Debug, Deserialize)]
pub struct ExternalEventsBody {
    pub events: Vec<ExternalEvent>,
}

/// An external event about a server.
#[derive(Debug, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct ExternalEvent {
    pub name: String,
    pub server_uuid: String,
    pub tag: Option<String>,
    /// The event as it was sent, which the answer repeats.
    pub sent: Map<String, Value>,
}

impl From<Map<String, Value>> for ExternalEvent {
    fn from(sent: Map<String, Value>) -> Self {
        let text = |key: &str| sent.get(key).and_then(Value::as_str).map(str::to_owned);
        let (name, server_uuid) = (text("name").unwrap_or_default(), text("server_uuid").unwrap_or_default());
        Self { name, server_uuid, tag: text("tag"), sent }
    }
}
