//! `/v3/services`, `/v3/endpoints`, `/v3/regions`: the catalogue, which clients can only read.

use serde_json::{Value, json};

use super::answers;
use super::listing;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("services.index", "/services", handler!(services)).policy("identity:list_services").answers(answers::services),
    get("services.show", "/services/{id}", handler!(service))
        .policy("identity:get_service")
        .answers(answers::service_shown),
    get("endpoints.index", "/endpoints", handler!(endpoints))
        .policy("identity:list_endpoints")
        .answers(answers::endpoints),
    get("endpoints.show", "/endpoints/{id}", handler!(endpoint))
        .policy("identity:get_endpoint")
        .answers(answers::endpoint_shown),
    get("regions.index", "/regions", handler!(regions)).policy("identity:list_regions").answers(answers::regions),
    get("regions.show", "/regions/{id}", handler!(region)).policy("identity:get_region").answers(answers::region_shown),
];

async fn services(ctx: Ctx) -> Result<Reply, Fault> {
    let items = ctx.app.identity()?.catalogue.services(&ctx.links);
    Ok(listing::reply(&ctx, "services", items, &["name", "type"]))
}

async fn service(ctx: Ctx) -> Result<Reply, Fault> {
    one(&ctx, "service", ctx.app.identity()?.catalogue.services(&ctx.links))
}

async fn endpoints(ctx: Ctx) -> Result<Reply, Fault> {
    let items = ctx.app.identity()?.catalogue.endpoints(&ctx.links);
    Ok(listing::reply(&ctx, "endpoints", items, &["interface", "service_id", "region_id", "region"]))
}

async fn endpoint(ctx: Ctx) -> Result<Reply, Fault> {
    one(&ctx, "endpoint", ctx.app.identity()?.catalogue.endpoints(&ctx.links))
}

async fn regions(ctx: Ctx) -> Result<Reply, Fault> {
    let items = ctx.app.identity()?.catalogue.regions(&ctx.links);
    Ok(listing::reply(&ctx, "regions", items, &["parent_region_id"]))
}

async fn region(ctx: Ctx) -> Result<Reply, Fault> {
    one(&ctx, "region", ctx.app.identity()?.catalogue.regions(&ctx.links))
}

fn one(ctx: &Ctx, kind: &str, items: Vec<Value>) -> Result<Reply, Fault> {
    let id = ctx.param("id");
    let found = items.into_iter().find(|item| item["id"] == id);
    let found = found.ok_or_else(|| Fault::not_found(format!("Could not find {kind}: {id}.")))?;
    Ok(Reply::ok(json!({kind: found})))
}
