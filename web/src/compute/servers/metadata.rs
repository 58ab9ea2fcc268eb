//! `/servers/{server_id}/metadata`.

use chronova_actors::instance::{InstanceChange, InstanceRequest, MetadataChange};
use chronova_events::instance::SortedPairs;
use serde_json::{Value, json};

use super::change::{asker, send};
use super::lookup::{PermittedServer, find};
use crate::answers::no_content;
use crate::compute::answers::server_parts as answers;
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
        .query(no_query)
        .answers(answers::metadata)
        .as_of(),
    post("server_metadata.create", ALL, handler!(create))
        .policy_on_target("os_compute_api:server-metadata:create")
        .body(bodies::server_metadata_create_body)
        .answers(answers::metadata),
    put("server_metadata.update_all", ALL, handler!(update_all))
        .policy_on_target("os_compute_api:server-metadata:update_all")
        .body(bodies::server_metadata_create_body)
        .answers(answers::metadata),
    get("server_metadata.show", ONE, handler!(show))
        .policy_on_target("os_compute_api:server-metadata:show")
        .query(no_query)
        .answers(answers::metadata_item)
        .as_of(),
    put("server_metadata.update", ONE, handler!(update))
        .policy_on_target("os_compute_api:server-metadata:update")
        .body(bodies::server_metadata_update_body)
        .answers(answers::metadata_item),
    delete("server_metadata.delete", ONE, handler!(remove))
        .policy_on_target("os_compute_api:server-metadata:delete")
        .answers(no_content),
];

fn object(pairs: &SortedPairs) -> Value {
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
    let limit = most(&ctx, &found)?;
    let pairs = sorted(ctx.parse::<bodies::MetadataBody>()?.metadata);
    change(&ctx, &found, MetadataChange::Set { pairs, limit }).await?;
    Ok(Reply::ok(json!({"metadata": object(&now(&ctx)?)})))
}

async fn update_all(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let limit = most(&ctx, &found)?;
    let pairs = sorted(ctx.parse::<bodies::MetadataBody>()?.metadata);
    let answer = json!({"metadata": object(&pairs)});
    change(&ctx, &found, MetadataChange::Replace { pairs, limit }).await?;
    Ok(Reply::ok(answer))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    let bodies::MetadataItemBody { meta: pairs } = ctx.parse()?;
    if !pairs.iter().any(|(key, _)| key == ctx.param("id")) {
        return Err(Fault::bad_request("Request body and URI mismatch"));
    }
    let limit = most(&ctx, &found)?;
    let answer = json!({"meta": object(&pairs)});
    change(&ctx, &found, MetadataChange::Set { pairs, limit }).await?;
    Ok(Reply::ok(answer))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "server_id")?;
    change(&ctx, &found, MetadataChange::Remove { key: ctx.param("id").to_owned() }).await?;
    Ok(Reply::empty(204))
}

/// Sorts the metadata as events store it.
fn sorted(mut pairs: SortedPairs) -> SortedPairs {
    pairs.sort();
    pairs
}

/// The answer shows the metadata in the read model, because another request may have added items meanwhile.
fn now(ctx: &Ctx) -> Result<SortedPairs, Fault> {
    Ok(find(ctx, "server_id")?.server()?.request.metadata.clone())
}

/// The metadata quota of the server's project; `None` means no limit.
fn most(ctx: &Ctx, found: &PermittedServer) -> Result<Option<usize>, Fault> {
    let limit = crate::compute::quotas::limit(ctx, &found.server()?.request.project, "metadata_items")?;
    Ok(usize::try_from(limit).ok())
}

async fn change(ctx: &Ctx, found: &PermittedServer, change: MetadataChange) -> Result<(), Fault> {
    let changes = vec![InstanceChange::Metadata(change)];
    send(ctx, found, InstanceRequest::Change { changes, asker: asker(ctx, found) }).await
}
