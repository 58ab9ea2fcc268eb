//! A service's fields, and the microversions that have them.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::HostId;
use serde_json::json;

use crate::fields::{FieldTable, field};
use crate::schema::{Schema, choice, shape};

/// A service about to be shown: `nova-compute` of a host, or a service of the control plane.
#[derive(Debug, Clone)]
pub struct ServiceView {
    pub id: HostId,
    pub number: u64,
    pub binary: &'static str,
    pub host: String,
    pub zone: String,
    pub enabled: bool,
    pub disabled_reason: Option<String>,
    pub up: bool,
    pub forced_down: bool,
    /// The later one of two times: the host's last heartbeat and its last event. For the control plane's own services,
    /// the present time.
    pub updated_at: Timestamp,
}

pub(in crate::compute) fn status_shape() -> Schema {
    choice(["enabled", "disabled"])
}

fn state_shape() -> Schema {
    choice(["up", "down"])
}

pub static SERVICE: FieldTable<ServiceView> = FieldTable::new(&[
    field("id", shape::integer, |v: &ServiceView| json!(v.number)).until(2, 52),
    field("id", shape::uuid, |v: &ServiceView| json!(v.id)).since(2, 53),
    field("binary", shape::string, |v: &ServiceView| json!(v.binary)),
    field("host", shape::string, |v: &ServiceView| json!(v.host)),
    field("zone", shape::string, |v: &ServiceView| json!(v.zone)),
    field("status", status_shape, |v: &ServiceView| json!(if v.enabled { "enabled" } else { "disabled" })),
    field("state", state_shape, |v: &ServiceView| json!(if v.up { "up" } else { "down" })),
    field("updated_at", shape::time, |v: &ServiceView| json!(v.updated_at.iso_micros())),
    field("disabled_reason", shape::string_or_null, |v: &ServiceView| json!(v.disabled_reason)),
    field("forced_down", shape::boolean, |v: &ServiceView| json!(v.forced_down)).since(2, 11),
]);
