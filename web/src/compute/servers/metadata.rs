//! `/servers/{server_id}/metadata`.

use chronova_actors::instance::{Change, InstanceCommand};
use chronova_events::instance::{Pairs, status};
use serde_json::{Value, json};

use super::change::{asker, send};
use super::{Found, find};
use crate::compute::bodies::{no_query, server_parts as bodies};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

const ALL: &str = "/servers/{server_id}/metadata";
const ONE: &str = "/servers/{server_id}/metadata/{id}";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("server_metadata.index", ALL, handler!(index))
        .policy_on_target("os_compute_api:server-metadata:index")
        .query(no_query),
    post("server_metadata.create", ALL, handler!(create))
        .policy_on_target("os_compute_api:server-metadata:create")
        .body(bodies::server_metadata_create_body),
    put("server_metadata.update_all", ALL, handler!(update_all))
        .policy_on_target("os_compute_api:server-metadata:update_all")
        .body(bodies::server_metadata_create_body),
    get("server_metadata.show", ONE, handler!(show))
        .policy_on_target("os_compute_api:server-metadata:show")
        .query(no_query),
    put("server_metadata.update", ONE, handler!(update))
        .policy_on_target("os_compute_api:server-metadata:update")
        .body(bodies::server_metadata_update_body),
    delete("server_metadata.delete", ONE, handler!(remove)).policy_on_target("os_compute_api:server-metadata:delete"),
];

fn object(pairs: &Pairs) -> Value {
    Value::Object(pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect())
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    Ok(Reply::ok(json!({"metadata": object(&found.server()?.request.metadata)})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let key = ctx.param("id");
    let value = found.server()?.request.metadata.iter().find(|(known, _)| known == key);
    let (key, value) = value.ok_or_else(|| Fault::not_found("Metadata item was not found"))?;
    Ok(Reply::ok(json!({"meta": {key: value}})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let merged = merge(&found.server()?.request.metadata, &ctx.body["metadata"]);
    replace(&ctx, &found, "update metadata", merged.clone()).await?;
    Ok(Reply::ok(json!({"metadata": object(&merged)})))
}

async fn update_all(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let wanted = merge(&Pairs::new(), &ctx.body["metadata"]);
    replace(&ctx, &found, "update metadata", wanted.clone()).await?;
    Ok(Reply::ok(json!({"metadata": object(&wanted)})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let meta = &ctx.body["meta"];
    if meta.get(ctx.param("id")).is_none() {
        return Err(Fault::bad_request("Request body and URI mismatch"));
    }
    let merged = merge(&found.server()?.request.metadata, meta);
    replace(&ctx, &found, "update metadata", merged).await?;
    Ok(Reply::ok(json!({"meta": meta})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let mut rest = found.server()?.request.metadata.clone();
    let before = rest.len();
    rest.retain(|(key, _)| key != ctx.param("id"));
    if rest.len() == before {
        return Err(Fault::not_found("Metadata item was not found"));
    }
    replace(&ctx, &found, "delete metadata", rest).await?;
    Ok(Reply::empty(204))
}

/// Sorted by key, as events keep it.
fn merge(now: &Pairs, changes: &Value) -> Pairs {
    let mut merged = now.clone();
    for (key, value) in changes.as_object().into_iter().flatten() {
        merged.retain(|(known, _)| known != key);
        merged.push((key.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    merged.sort();
    merged
}

async fn replace(ctx: &Ctx, found: &Found, action: &str, metadata: Pairs) -> Result<(), Fault> {
    settled(found, action)?;
    let limit = crate::compute::quotas::limit(ctx, &found.server()?.request.project, "metadata_items")?;
    if usize::try_from(limit).is_ok_and(|limit| metadata.len() > limit) {
        return Err(Fault::forbidden(format!("Maximum number of metadata items exceeds {limit}")));
    }
    let changes = vec![Change::Metadata(metadata)];
    send(ctx, found, InstanceCommand::Change { changes, asker: asker(ctx, found) }).await
}

/// Metadata and tags are changed only of servers that are built.
pub(super) fn settled(found: &Found, action: &str) -> Result<(), Fault> {
    let Some(shown) = status::of(&found.row.instance) else { return Ok(()) };
    let (attribute, value) = match (shown.vm_state, shown.task_state) {
        ("active" | "stopped" | "paused" | "suspended", None) => return Ok(()),
        ("active" | "stopped" | "paused" | "suspended", Some(task)) => ("task_state", task),
        (state, _) => ("vm_state", state),
    };
    Err(Fault::conflict(format!("Cannot '{action}' instance {} while it is in {attribute} {value}", found.id)))
}
