//! Parts that the views of several resources share.

use chronova_events::envelope::Timestamp;
use chronova_events::network::{FLOATING_IP_OWNER, FixedAddress, Port};
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER};
use serde_json::{Value, json};

pub(super) fn time(at: Timestamp) -> String {
    at.iso_seconds()
}

/// The status of a port. The port of a floating address has `N/A`. Other ports without `admin_state_up` are `DOWN`. The
/// port of a router is `ACTIVE`, because routers are on no host. Other ports are `ACTIVE` if a device on a host uses
/// them, and otherwise `DOWN`.
pub(super) fn port_status(row: &Port) -> &'static str {
    let binding = row.binding();
    match binding.owner.as_str() {
        FLOATING_IP_OWNER => "N/A",
        INTERFACE_OWNER | GATEWAY_OWNER if row.settings().admin_state_up => "ACTIVE",
        _ if row.settings().admin_state_up && !binding.device.is_empty() && !binding.host.is_empty() => "ACTIVE",
        _ => "DOWN",
    }
}

pub(super) fn fixed_ips(addresses: &[FixedAddress]) -> Vec<Value> {
    addresses.iter().map(|fixed| json!({"subnet_id": fixed.subnet, "ip_address": fixed.address})).collect()
}
