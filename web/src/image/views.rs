//! The views of images and their members.

use chronova_events::ids::ProjectId;
use chronova_events::image::{ImageMember, ImageRecord};
use serde_json::{Map, Value, json};

/// An image. As in Glance, its properties are beside its attributes.
pub(super) fn image(image: &ImageRecord) -> Value {
    let attributes = &image.attributes;
    let stored = image.content.stored();
    let mut shown: Map<String, Value> =
        attributes.properties.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let own = json!({
        "name": attributes.name,
        "disk_format": attributes.disk_format,
        "container_format": attributes.container_format,
        "visibility": attributes.visibility.as_str(),
        "size": stored.map(|stored| stored.size),
        "virtual_size": stored.and_then(|stored| stored.virtual_size),
        "status": image.content.status(),
        "checksum": stored.map(|stored| &stored.checksum),
        "protected": attributes.protected,
        "min_ram": attributes.min_ram_mib,
        "min_disk": attributes.min_disk_gib,
        "owner": attributes.owner,
        "os_hidden": attributes.hidden,
        "os_hash_algo": stored.map(|_| "sha512"),
        "os_hash_value": stored.map(|stored| &stored.sha512),
        "id": image.id,
        "created_at": image.created_at.iso_seconds(),
        "updated_at": image.updated_at.iso_seconds(),
        "tags": attributes.tags,
        "self": format!("/v2/images/{}", image.id),
        "file": format!("/v2/images/{}/file", image.id),
        "schema": "/v2/schemas/image",
    });
    if let Value::Object(own) = own {
        shown.extend(own);
    }
    Value::Object(shown)
}

pub(super) fn member(image: &ImageRecord, project: &ProjectId, member: &ImageMember) -> Value {
    json!({
        "member_id": project,
        "image_id": image.id,
        "status": member.status.as_str(),
        "created_at": member.created_at.iso_seconds(),
        "updated_at": member.updated_at.iso_seconds(),
        "schema": "/v2/schemas/member",
    })
}
