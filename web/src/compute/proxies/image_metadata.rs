//! `/images/{image_id}/metadata` until 2.38: an image's properties. Source: nova
//! `api/openstack/compute/image_metadata.py`.

use chronova_actors::ports::{ImageInfo, PortError, PropertyChange};
use serde_json::json;

use super::images::{find, properties};
use super::{images, refused};
use crate::answers::no_content;
use crate::compute::answers::server_parts as answers;
use crate::compute::bodies::server_parts as bodies;
use crate::compute::quotas;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

const ALL: &str = "/images/{image_id}/metadata";
const ONE: &str = "/images/{image_id}/metadata/{id}";

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("image_metadata.index", ALL, handler!(index)).until(2, 38).answers(answers::metadata),
    post("image_metadata.create", ALL, handler!(create))
        .until(2, 38)
        .body(bodies::server_metadata_create_body)
        .answers(answers::metadata),
    put("image_metadata.update_all", ALL, handler!(update_all))
        .until(2, 38)
        .body(bodies::server_metadata_create_body)
        .answers(answers::metadata),
    get("image_metadata.show", ONE, handler!(show)).until(2, 38).answers(answers::metadata_item),
    put("image_metadata.update", ONE, handler!(update))
        .until(2, 38)
        .body(bodies::server_metadata_update_body)
        .answers(answers::metadata_item),
    delete("image_metadata.delete", ONE, handler!(remove)).until(2, 38).answers(no_content),
];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({"metadata": properties(&find(&ctx, "image_id").await?)})))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let all = properties(&find(&ctx, "image_id").await?);
    let key = ctx.param("id");
    let value = all.get(key).ok_or_else(no_item)?;
    Ok(Reply::ok(json!({"meta": {key: value}})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    set(&ctx, &ctx.parse::<bodies::MetadataBody>()?.metadata, false).await
}

async fn update_all(ctx: Ctx) -> Result<Reply, Fault> {
    set(&ctx, &ctx.parse::<bodies::MetadataBody>()?.metadata, true).await
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let bodies::MetadataItemBody { meta } = ctx.parse()?;
    let Some((key, value)) = meta.iter().find(|(key, _)| key == ctx.param("id")) else {
        return Err(Fault::bad_request("Request body and URI mismatch"));
    };
    set(&ctx, &meta, false).await?;
    Ok(Reply::ok(json!({"meta": {key: value}})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "image_id").await?;
    let name = ctx.param("id").to_owned();
    if !found.properties.iter().any(|(key, _)| *key == name) {
        return Err(no_item());
    }
    change(&ctx, &found, PropertyChange { remove: vec![name], set: vec![] }).await?;
    Ok(Reply::empty(204))
}

fn no_item() -> Fault {
    Fault::not_found("Metadata item was not found")
}

/// Sets the items in `wanted`. The image keeps its other items, unless `replace` is true.
async fn set(ctx: &Ctx, wanted: &[(String, String)], replace: bool) -> Result<Reply, Fault> {
    let found = find(ctx, "image_id").await?;
    let there = &found.properties;
    let stays = there.iter().filter(|(key, _)| !wanted.iter().any(|(name, _)| name == key)).map(|(key, _)| key.clone());
    let others: Vec<String> = stays.collect();
    let count = wanted.len() + if replace { 0 } else { others.len() };
    check_limit(ctx, count)?;
    let remove = if replace { others } else { Vec::new() };
    change(ctx, &found, PropertyChange { remove, set: wanted.to_vec() }).await?;
    Ok(Reply::ok(json!({"metadata": properties(&find(ctx, "image_id").await?)})))
}

fn check_limit(ctx: &Ctx, count: usize) -> Result<(), Fault> {
    let limit = match &ctx.caller().project {
        Some(project) => quotas::limit(ctx, project, "metadata_items")?,
        None => quotas::default(ctx, "metadata_items")?,
    };
    match usize::try_from(limit).is_ok_and(|limit| count > limit) {
        true => Err(Fault::forbidden("Image metadata limit exceeded")),
        false => Ok(()),
    }
}

async fn change(ctx: &Ctx, found: &ImageInfo, change: PropertyChange) -> Result<(), Fault> {
    let id = found.id;
    images(ctx)?.change_properties(id, change, &ctx.service_caller()).await.map_err(|error| match error {
        PortError::Forbidden(_) => Fault::forbidden(format!("Not authorized for image {id}.")),
        other => refused(other),
    })
}
