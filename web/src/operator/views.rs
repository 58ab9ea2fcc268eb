//! How a host and its drain are shown.

use std::collections::BTreeSet;

use chronova_actors::house::House;
use chronova_events::host::{Drain, KnownHost};
use chronova_events::ids::InstanceId;
use serde_json::{Value, json};

/// A line of the list.
pub(super) fn brief(house: &House, host: &KnownHost) -> Value {
    json!({
        "id": host.id.to_string(),
        "name": host.hostname,
        "up": host.answers(),
        "enabled": host.enabled,
        "disabled_reason": host.disabled_reason,
        "maintenance": host.maintenance.as_ref().map(|maintenance| {
            json!({"reason": maintenance.reason, "since": maintenance.since.to_string()})
        }),
        "servers": house.views.servers.read(|servers| servers.on_host(host.id).count()),
        "draining": host.draining().is_some(),
    })
}

/// Everything.
pub(super) fn whole(house: &House, host: &KnownHost) -> Value {
    let mut shown = brief(house, host);
    shown["drain"] = host.drain.as_ref().map_or(Value::Null, |shown| drain(house, host, shown));
    shown
}

/// `running`; `cancelling`, while the last ones arrive; `cancelled`; `done`, when nothing is left; `incomplete`, when some
/// stay.
fn status(drain: &Drain) -> &'static str {
    match (drain.ended_at, drain.cancelled, drain.stays.is_empty()) {
        (None, false, _) => "running",
        (None, true, _) => "cancelling",
        (Some(_), true, _) => "cancelled",
        (Some(_), false, true) => "done",
        (Some(_), false, false) => "incomplete",
    }
}

pub(super) fn drain(house: &House, host: &KnownHost, drain: &Drain) -> Value {
    let leaving: Vec<Value> = drain
        .leaving
        .iter()
        .map(|(id, leaving)| {
            let row = house.views.migrations.read(|view| view.of_process(leaving.migration).cloned());
            let progress = house.departures.progress(leaving.migration);
            json!({
                "server": id.to_string(),
                "name": name(house, *id),
                "how": leaving.how.word(),
                "migration": row.as_ref().map(|row| row.number),
                "status": row.as_ref().map(|row| row.status.word()),
                "memory_total_bytes": progress.map(|progress| progress.memory_total),
                "memory_remaining_bytes": progress.map(|progress| progress.memory_remaining),
            })
        })
        .collect();
    let left = drain.left.iter().map(|(id, to)| json!({"server": id.to_string(), "name": name(house, *id), "to": to}));
    let stays = drain
        .stays
        .iter()
        .map(|(id, reason)| json!({"server": id.to_string(), "name": name(house, *id), "reason": reason}));
    json!({
        "id": drain.process.to_string(),
        "status": status(drain),
        "parallel": drain.parallel,
        "requested_at": drain.requested_at.to_string(),
        "ended_at": drain.ended_at.map(|at| at.to_string()),
        "waiting": waiting(house, host, drain),
        "leaving": leaving,
        "left": left.collect::<Vec<Value>>(),
        "stays": stays.collect::<Vec<Value>>(),
    })
}

/// Servers that are there and of which nothing was said yet.
fn waiting(house: &House, host: &KnownHost, drain: &Drain) -> usize {
    if drain.ended_at.is_some() {
        return 0;
    }
    let told: BTreeSet<&InstanceId> = drain.leaving.keys().chain(drain.stays.keys()).collect();
    house.views.servers.read(|servers| servers.on_host(host.id).filter(|row| !told.contains(&row.id)).count())
}

fn name(house: &House, id: InstanceId) -> Option<String> {
    house.views.servers.read(|servers| servers.get(id).and_then(|row| row.server()).map(|it| it.request.name.clone()))
}
