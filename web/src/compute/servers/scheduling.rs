//! `GET /servers/{id}/chronova:scheduling`: the reasons why a server got its host, or why it got no host. Nova has no
//! such operation. It is for administrators.

use chronova_actors::scheduler::history;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::HostId;
use chronova_events::instance::{CheckRecord, RefusedHost, Scheduled, WeighedHost};
use serde_json::{Value, json};

use super::lookup::find_where;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::reply::Reply;

pub(super) async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find_where(&ctx, "id", true)?;
    let queries = ctx.queries()?;
    let head = queries.log.head();
    let decisions = history::decisions(queries.log.as_ref(), found.id, head).await.map_err(Fault::internal)?;
    // Only the best hosts are recorded with their weights, so the chosen one may not be among them.
    let name = |id: HostId| queries.views.hosts.read(|hosts| hosts.get(id).map(|host| host.hostname.clone()));
    let shown: Vec<Value> = decisions.iter().map(|(at, decision)| decision_json(*at, decision, name)).collect();
    Ok(Reply::ok(json!({"chronova:scheduling": {"server_id": found.id.to_string(), "decisions": shown}})))
}

fn decision_json(at: Timestamp, decision: &Scheduled, name: impl Fn(HostId) -> Option<String>) -> Value {
    let wanted: serde_json::Map<String, Value> =
        decision.wanted.iter().map(|(class, amount)| (class.clone(), json!(amount))).collect();
    let weighed = |host: HostId| decision.weighed.iter().find(|weighed| weighed.host == host);
    let chosen =
        decision.chosen.and_then(|host| weighed(host).map(|weighed| weighed.hostname.clone()).or_else(|| name(host)));
    json!({
        "at": at.to_string(),
        "attempt": decision.attempt,
        "resources": wanted,
        "required": decision.required,
        "hosts": decision.hosts,
        "checks": decision.checks.iter().map(check_json).collect::<Vec<_>>(),
        "weighed": decision.weighed.iter().map(weighed_json).collect::<Vec<_>>(),
        "chosen": chosen,
        "alternates": decision.alternates,
        "lost": decision.lost.iter().map(refused_json).collect::<Vec<_>>(),
    })
}

fn check_json(check: &CheckRecord) -> Value {
    let refused: Vec<Value> = check.refused.iter().map(refused_json).collect();
    json!({"name": check.name, "left": check.left, "refused": refused})
}

fn refused_json(refused: &RefusedHost) -> Value {
    json!({"host": refused.hostname, "reason": refused.reason})
}

fn weighed_json(weighed: &WeighedHost) -> Value {
    let parts: Vec<Value> = weighed
        .parts
        .iter()
        .map(|part| json!({"weigher": part.weigher, "value": part.value, "weight": part.weight}))
        .collect();
    json!({"host": weighed.hostname, "weight": weighed.weight, "weighers": parts})
}
