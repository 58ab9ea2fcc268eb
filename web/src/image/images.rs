//! `/v2/images`: creating, listing, showing, updating and deleting images.

use std::sync::Arc;

use chronova_actors::services::embedded::image::ImageCommand;
use chronova_events::ids::{ImageId, ProjectId};
use chronova_events::image::{ImageAttributes, ImageCreated, ImageRecord, Visibility};
use serde_json::{Map, Value, json};

use super::access::{command, make, permitted, target};
use super::{answers, filters, patch, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::paging::PageRequest;
use crate::policy::PolicyTarget;
use crate::query::Query;
use crate::reply::Reply;
use crate::route::{Route, delete, get, patch as patch_route, post};

pub(super) const ROUTES: &[Route] = &[
    get("images.index", "/images", handler!(index)).policy("get_images").answers(answers::images).as_of(),
    post("images.create", "/images", handler!(create))
        .policy_on_target("add_image")
        .any_body()
        .answers(answers::image_created),
    get("images.show", "/images/{image_id}", handler!(show))
        .policy_on_target("get_image")
        .answers(answers::image_shown)
        .as_of(),
    patch_route("images.update", "/images/{image_id}", handler!(update))
        .policy_on_target("modify_image")
        .any_body()
        .answers(answers::image_shown),
    delete("images.delete", "/images/{image_id}", handler!(remove))
        .policy_on_target("delete_image")
        .answers(no_content),
    get("images.tasks", "/images/{image_id}/tasks", handler!(tasks))
        .policy_on_target("get_image")
        .answers(answers::tasks),
];

/// Glance's `limit_param_default` and `api_limit_max`.
const DEFAULT_PAGE: usize = 25;
const LARGEST_PAGE: u64 = 1_000;

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let all = ctx.views()?.images.read(chronova_projections::images::ImagesView::all);
    let mut images = filters::apply(&ctx, all)?;
    filters::sort(&ctx.query, &mut images)?;
    let (images, more) = page(&ctx.query)?.cut(images, |image: &Arc<ImageRecord>| image.id.to_string())?;
    let mut body = Map::new();
    body.insert("images".to_owned(), images.iter().map(|image| views::image(image)).collect());
    body.insert("first".to_owned(), json!(address(&ctx.page_query(), None)));
    if let Some(last) = images.last().filter(|_| more) {
        body.insert("next".to_owned(), json!(address(&ctx.page_query(), Some(&last.id.to_string()))));
    }
    body.insert("schema".to_owned(), json!("/v2/schemas/images"));
    Ok(Reply::ok(Value::Object(body)))
}

fn page(query: &Query) -> Result<PageRequest, Fault> {
    let asked = PageRequest::of(query, LARGEST_PAGE)?;
    Ok(if asked.limited { asked } else { PageRequest { limit: DEFAULT_PAGE, ..asked } })
}

/// The address of a page. As in Glance, it begins below the service's root.
fn address(query: &Query, marker: Option<&str>) -> String {
    let mut pairs: Vec<(&str, &str)> =
        query.pairs().iter().map(|(k, v)| (k.as_str(), v.as_str())).filter(|(key, _)| *key != "marker").collect();
    pairs.extend(marker.map(|marker| ("marker", marker)));
    if pairs.is_empty() { "/v2/images".to_owned() } else { format!("/v2/images?{}", Query::encode(pairs)) }
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, _) = permitted(&ctx)?;
    Ok(Reply::ok(views::image(&image)))
}

async fn tasks(ctx: Ctx) -> Result<Reply, Fault> {
    permitted(&ctx)?;
    Ok(Reply::ok(json!({"tasks": []})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, attributes) = announced(&ctx)?;
    let owner = attributes.owner.as_ref().map_or("", ProjectId::as_str).to_owned();
    let own = PolicyTarget::of(ctx.caller()).with("owner", owner).with("visibility", attributes.visibility.as_str());
    let permit = ctx.authorize(&own)?;
    patch::check_visibility(&ctx, attributes.visibility, &own)?;
    make(&ctx, &permit, ImageCreated { image, attributes }).await?;
    let made = ctx.views()?.images.read(|images| images.get(image));
    let made = made.ok_or_else(|| super::fault::not_found(&image.to_string()))?;
    let location = ctx.links.to_self("images", &image.to_string());
    Ok(Reply::json(201, views::image(&made)).header("Location", location).header("OpenStack-image-import-methods", ""))
}

/// The attributes in the body of a new image.
fn announced(ctx: &Ctx) -> Result<(ImageId, ImageAttributes), Fault> {
    let Value::Object(body) = &ctx.body else {
        return Err(Fault::bad_request("Provided object does not match schema 'image': a JSON object is required"));
    };
    let mut image = ImageId::random();
    let mut attributes = ImageAttributes {
        name: None,
        owner: ctx.caller().project.clone(),
        visibility: Visibility::Shared,
        disk_format: None,
        container_format: None,
        min_disk_gib: 0,
        min_ram_mib: 0,
        protected: false,
        hidden: false,
        tags: Vec::new(),
        properties: Vec::new(),
    };
    for (key, value) in body {
        if key == "id" {
            let text = value.as_str().unwrap_or_default();
            image = text.parse().map_err(|_| patch::schema_fault(key, "it is not a UUID"))?;
        } else {
            patch::parse(ctx, key, Some(value))?.put_into(&mut attributes);
        }
    }
    Ok((image, attributes))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    let changes = patch::changes(&ctx, &target(&ctx, &image))?;
    command(&ctx, &permit, image.id, super::access::change(&ctx, changes)).await?;
    let changed = ctx.views()?.images.read(|images| images.get(image.id));
    let changed = changed.ok_or_else(|| super::fault::not_found(&image.id.to_string()))?;
    Ok(Reply::ok(views::image(&changed)))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let (image, permit) = permitted(&ctx)?;
    command(&ctx, &permit, image.id, ImageCommand::Delete).await?;
    super::access::remove_file(&ctx, image.id).await;
    Ok(Reply::empty(204))
}
