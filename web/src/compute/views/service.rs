//! A service's fields, and the microversions that have them.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::HostId;
use serde_json::json;

use crate::fields::{FieldTable, field};

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

pub static SERVICE: FieldTable<ServiceView> = FieldTable::new(&[
    field("id", |v: &ServiceView| json!(v.number)).until(2, 52),
    field("id", |v: &ServiceView| json!(v.id)).since(2, 53),
    field("binary", |v: &ServiceView| json!(v.binary)),
    field("host", |v: &ServiceView| json!(v.host)),
    field("zone", |v: &ServiceView| json!(v.zone)),
    field("status", |v: &ServiceView| json!(if v.enabled { "enabled" } else { "disabled" })),
    field("state", |v: &ServiceView| json!(if v.up { "up" } else { "down" })),
    field("updated_at", |v: &ServiceView| json!(v.updated_at.iso_micros())),
    field("disabled_reason", |v: &ServiceView| json!(v.disabled_reason)),
    field("forced_down", |v: &ServiceView| json!(v.forced_down)).since(2, 11),
]);
