//! Parts that the views of several resources share.

use std::sync::Arc;

use chronova_actors::ports::{NetworkPlane, is_carried_by_plane};
use chronova_events::envelope::Timestamp;
use chronova_events::network::{FLOATING_IP_OWNER, FixedAddress, Port};
use chronova_events::router::{GATEWAY_OWNER, INTERFACE_OWNER};
use serde_json::{Value, json};

use crate::ctx::Ctx;

pub(super) fn time(at: Timestamp) -> String {
    at.iso_seconds()
}

/// How long a port may be `BUILD` after its last change, in microseconds.
const PLUGGING: i64 = 60 * 1_000_000;

/// The program that carries the traffic between hosts. `None` for a past moment, because the program keeps no past.
pub(in crate::network) fn plane(ctx: &Ctx) -> Option<Arc<dyn NetworkPlane>> {
    ctx.queries().ok().filter(|_| !ctx.is_past()).and_then(|queries| queries.networks.plane())
}

/// The status of a port. The port of a floating address has `N/A`. Other ports without `admin_state_up` are `DOWN`. The
/// port of a router is `ACTIVE`, because routers are on no host. Other ports are `DOWN` unless a device on a host uses
/// them.
pub(super) fn port_status(ctx: &Ctx, row: &Port) -> &'static str {
    let binding = row.binding();
    match binding.owner.as_str() {
        FLOATING_IP_OWNER => "N/A",
        INTERFACE_OWNER | GATEWAY_OWNER if row.settings().admin_state_up => "ACTIVE",
        _ if row.settings().admin_state_up && !binding.device.is_empty() && !binding.host.is_empty() => used(ctx, row),
        _ => "DOWN",
    }
}

/// The status of a port that a device on a host uses. If a program carries the traffic between hosts, the port is
/// `ACTIVE` while that program carries the port's traffic. Until then the port is `BUILD` for up to a minute after its
/// last change, and `DOWN` afterwards.
fn used(ctx: &Ctx, row: &Port) -> &'static str {
    let plane = plane(ctx).filter(|_| is_carried_by_plane(&row.settings().vnic_type));
    let (Some(plane), Ok(queries)) = (plane, ctx.queries()) else { return "ACTIVE" };
    match queries.clock.now().0 - row.updated_at.0 {
        _ if plane.carries(row.created.port) => "ACTIVE",
        ..PLUGGING => "BUILD",
        _ => "DOWN",
    }
}

pub(super) fn fixed_ips(addresses: &[FixedAddress]) -> Vec<Value> {
    addresses.iter().map(|fixed| json!({"subnet_id": fixed.subnet, "ip_address": fixed.address})).collect()
}
