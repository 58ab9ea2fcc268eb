//! The views of a host and its drain.

use std::collections::BTreeSet;

use chronova_actors::operations::Queries;
use chronova_actors::services::external::cinder::connections::initiator;
use chronova_events::host::{Drain, KnownHost};
use chronova_events::ids::InstanceId;
use serde_json::{Value, json};

/// A host in the list.
pub(super) fn brief(queries: &Queries, host: &KnownHost) -> Value {
    json!({
        "id": host.id.to_string(),
        "name": host.hostname,
        "up": host.answers(),
        "enabled": host.enabled,
        "disabled_reason": host.disabled_reason,
        "maintenance": host.maintenance.as_ref().map(|maintenance| {
            json!({"reason": maintenance.reason, "since": maintenance.since.to_string()})
        }),
        "servers": queries.views.servers.read(|servers| servers.on_host(host.id).count()),
        "draining": host.draining().is_some(),
    })
}

/// A single host, with its drain.
pub(super) fn whole(queries: &Queries, host: &KnownHost) -> Value {
    let mut shown = brief(queries, host);
    shown["cpu_arch"] = json!(host.capabilities.cpu_arch);
    shown["host_ip"] = json!(host.capabilities.host_ip);
    shown["initiator"] = json!(initiator(&host.hostname));
    shown["drain"] = host.drain.as_ref().map_or(Value::Null, |shown| drain(queries, host, shown));
    shown
}

/// The drain's status: `running`, `cancelling` (the last moves are ending), `cancelled`, `done` (no server is left) or
/// `incomplete` (some servers stay).
fn status(drain: &Drain) -> &'static str {
    match (drain.ended_at, drain.cancelled, drain.stays.is_empty()) {
        (None, false, _) => "running",
        (None, true, _) => "cancelling",
        (Some(_), true, _) => "cancelled",
        (Some(_), false, true) => "done",
        (Some(_), false, false) => "incomplete",
    }
}

pub(super) fn drain(queries: &Queries, host: &KnownHost, drain: &Drain) -> Value {
    let leaving: Vec<Value> = drain
        .leaving
        .iter()
        .map(|(id, leaving)| {
            let row = queries.views.migrations.read(|view| view.of_process(leaving.migration).cloned());
            let progress = queries.progress(leaving.migration);
            json!({
                "server": id.to_string(),
                "name": name(queries, *id),
                "how": leaving.how.word(),
                "migration": row.as_ref().map(|row| row.number),
                "status": row.as_ref().map(|row| row.status.word()),
                "memory_total_bytes": progress.map(|progress| progress.memory_total),
                "memory_remaining_bytes": progress.map(|progress| progress.memory_remaining),
            })
        })
        .collect();
    let left =
        drain.left.iter().map(|(id, to)| json!({"server": id.to_string(), "name": name(queries, *id), "to": to}));
    let stays = drain
        .stays
        .iter()
        .map(|(id, reason)| json!({"server": id.to_string(), "name": name(queries, *id), "reason": reason}));
    json!({
        "id": drain.process.to_string(),
        "status": status(drain),
        "parallel": drain.parallel,
        "requested_at": drain.requested_at.to_string(),
        "ended_at": drain.ended_at.map(|at| at.to_string()),
        "waiting": waiting(queries, host, drain),
        "leaving": leaving,
        "left": left.collect::<Vec<Value>>(),
        "stays": stays.collect::<Vec<Value>>(),
    })
}

/// The number of servers that the drain has not handled yet. For these servers it has recorded neither a move nor a
/// reason to stay. The number is 0 after the end of the drain.
fn waiting(queries: &Queries, host: &KnownHost, drain: &Drain) -> usize {
    if drain.ended_at.is_some() {
        return 0;
    }
    let listed: BTreeSet<&InstanceId> = drain.leaving.keys().chain(drain.stays.keys()).collect();
    queries.views.servers.read(|servers| servers.on_host(host.id).filter(|row| !listed.contains(&row.id)).count())
}

fn name(queries: &Queries, id: InstanceId) -> Option<String> {
    queries.views.servers.read(|servers| servers.get(id).and_then(|row| row.server()).map(|it| it.request.name.clone()))
}
