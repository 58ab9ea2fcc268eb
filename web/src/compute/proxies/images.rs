//! `/images` until 2.35. Source: nova `api/openstack/compute/images.py` and its view.

use chronova_actors::ports::{ImageInfo, ImageListRequest, PortError};
use chronova_events::ids::ImageId;
use serde_json::{Map, Value, json};

use super::{images, refused};
use crate::answers::no_content;
use crate::compute::answers::proxies as answers;
use crate::compute::bodies::proxies as bodies;
use crate::compute::paging;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get};

pub(in crate::compute) const ROUTES: &[Route] = &[
    get("images.index", "/images", handler!(index)).until(2, 35).query(bodies::images_query).answers(answers::images),
    get("images.detail", "/images/detail", handler!(detail))
        .until(2, 35)
        .query(bodies::images_query)
        .answers(answers::images_in_detail),
    get("images.show", "/images/{id}", handler!(show))
        .until(2, 35)
        .query(bodies::image_query)
        .answers(answers::image_shown),
    delete("images.delete", "/images/{id}", handler!(remove)).until(2, 35).answers(no_content),
];

/// The image that the path parameter names, if the caller may see it.
pub(super) async fn find(ctx: &Ctx, parameter: &str) -> Result<ImageInfo, Fault> {
    let unknown = || Fault::not_found("Image not found.");
    let id: ImageId = ctx.param(parameter).parse().map_err(|_| unknown())?;
    images(ctx)?.show(id, &ctx.service_caller()).await.map_err(|error| match error {
        PortError::NotFound(_) => unknown(),
        other => refused(other),
    })
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "images", brief).await
}

async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "images/detail", full).await
}

async fn list(ctx: &Ctx, collection: &str, shown: fn(&Ctx, &ImageInfo) -> Value) -> Result<Reply, Fault> {
    let wanted = filters(ctx)?;
    let parameter = |name: &str| ctx.query.last(name).map(str::to_owned);
    let request = ImageListRequest { visibility: parameter("visibility"), member_status: parameter("member_status") };
    let mut images = images(ctx)?.list(&request, &ctx.service_caller()).await.map_err(refused)?;
    images.retain(|found| wanted.iter().all(|holds| holds(found)));
    let page = paging::cut(ctx, images, |found, marker| found.id.to_string() == marker)?;
    let mut reply = Map::new();
    reply.insert("images".to_owned(), page.items.iter().map(|found| shown(ctx, found)).collect());
    if let (true, Some(last)) = (page.more && ctx.query.has("limit"), page.items.last()) {
        paging::link(ctx, &mut reply, "images_links", collection, &last.id.to_string());
    }
    Ok(Reply::ok(Value::Object(reply)))
}

type ImagePredicate = Box<dyn Fn(&ImageInfo) -> bool>;

/// The filters of the query; unknown filters are ignored.
fn filters(ctx: &Ctx) -> Result<Vec<ImagePredicate>, Fault> {
    let mut all: Vec<ImagePredicate> = Vec::new();
    for (key, value) in ctx.query.pairs() {
        let value = value.clone();
        let holds: ImagePredicate = match key.as_str() {
            "name" => Box::new(move |found| found.name.as_deref() == Some(&*value)),
            "status" => Box::new(move |found| found.status.eq_ignore_ascii_case(&value)),
            "changes-since" => {
                let since = chrono::DateTime::parse_from_rfc3339(&value)
                    .map_err(|_| Fault::bad_request(format!("Invalid time value: {value}")))?;
                Box::new(move |found| found.updated_at.0 >= since.timestamp_micros())
            }
            "minRam" => Box::new(move |found| found.min_memory_mib.to_string() == value),
            "minDisk" => Box::new(move |found| found.min_disk_gib.to_string() == value),
            "server" => {
                let server = value.rsplit('/').next().unwrap_or_default().to_owned();
                Box::new(move |found| property(found, "instance_uuid") == Some(&*server))
            }
            "type" => Box::new(move |found| property(found, "image_type") == Some(&*value)),
            key => match key.strip_prefix("property-").map(str::to_owned) {
                Some(name) => Box::new(move |found| property(found, &name) == Some(&*value)),
                None => continue,
            },
        };
        all.push(holds);
    }
    Ok(all)
}

fn property<'a>(found: &'a ImageInfo, name: &str) -> Option<&'a str> {
    found.properties.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id").await?;
    Ok(Reply::ok(json!({"image": full(&ctx, &found)})))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id").await?;
    images(&ctx)?.delete(found.id, &ctx.service_caller()).await.map_err(|error| match error {
        PortError::Forbidden(_) => Fault::forbidden("You are not allowed to delete the image."),
        other => refused(other),
    })?;
    Ok(Reply::empty(204))
}

fn brief(ctx: &Ctx, found: &ImageInfo) -> Value {
    json!({"id": found.id, "name": found.name, "links": links(ctx, found)})
}

fn full(ctx: &Ctx, found: &ImageInfo) -> Value {
    let (status, progress) = status(&found.status);
    let mut shown = json!({
        "id": found.id,
        "name": found.name,
        "minRam": found.min_memory_mib,
        "minDisk": found.min_disk_gib,
        "metadata": properties(found),
        "created": found.created_at.iso_seconds(),
        "updated": found.updated_at.iso_seconds(),
        "status": status,
        "progress": progress,
        "OS-EXT-IMG-SIZE:size": found.size.unwrap_or(0),
        "links": links(ctx, found),
    });
    if let Some(server) = property(found, "instance_uuid") {
        shown["server"] = json!({"id": server, "links": ctx.links.pair("servers", server)});
    }
    if let Some(auto) = property(found, "auto_disk_config") {
        let auto = crate::schema::is_true(&Value::from(auto));
        shown["OS-DCF:diskConfig"] = json!(if auto { "AUTO" } else { "MANUAL" });
    }
    shown
}

pub(super) fn properties(found: &ImageInfo) -> Value {
    Value::Object(found.properties.iter().map(|(key, value)| (key.clone(), json!(value))).collect())
}

/// Nova's name for a status of the image service, and its progress in percent.
fn status(status: &str) -> (&'static str, u8) {
    match status {
        "active" => ("ACTIVE", 100),
        "queued" => ("SAVING", 25),
        "saving" => ("SAVING", 50),
        "deleted" | "pending_delete" => ("DELETED", 0),
        "killed" => ("ERROR", 0),
        _ => ("UNKNOWN", 0),
    }
}

fn links(ctx: &Ctx, found: &ImageInfo) -> Value {
    let id = found.id.to_string();
    let mut links = ctx.links.pair("images", &id);
    if let Some(links) = links.as_array_mut() {
        let href = format!("{}/image/images/{id}", ctx.links.host);
        links.push(json!({"rel": "alternate", "type": "application/vnd.openstack.image", "href": href}));
    }
    links
}

#[cfg(test)]
mod tests {
    use super::status;

    #[test]
    fn every_status_of_an_image_has_a_word() {
        let words = ["queued", "saving", "active", "killed", "deleted", "pending_delete", "deactivated"].map(status);
        let expected = [
            ("SAVING", 25),
            ("SAVING", 50),
            ("ACTIVE", 100),
            ("ERROR", 0),
            ("DELETED", 0),
            ("DELETED", 0),
            ("UNKNOWN", 0),
        ];
        assert_eq!(words, expected);
    }
}
