//! The schemas of the image service's answers.

use crate::answers::{Answers, json, no_content, ok, other};
use crate::schema::{Schema, any, array, object, opt, req, shape};

const BYTES: &str = "application/octet-stream";

/// Every other key is a property of the image.
fn image() -> Schema {
    let own = object([
        req("id", shape::uuid()),
        req("name", shape::string_or_null()),
        req("disk_format", shape::string_or_null()),
        req("container_format", shape::string_or_null()),
        req("visibility", shape::string()),
        req("size", shape::integer_or_null()),
        req("virtual_size", shape::integer_or_null()),
        req("status", shape::string()),
        req("checksum", shape::string_or_null()),
        req("protected", shape::boolean()),
        req("min_ram", shape::integer()),
        req("min_disk", shape::integer()),
        req("owner", shape::string_or_null()),
        req("os_hidden", shape::boolean()),
        req("os_hash_algo", shape::string_or_null()),
        req("os_hash_value", shape::string_or_null()),
        req("created_at", shape::time()),
        req("updated_at", shape::time()),
        req("tags", shape::strings()),
        req("self", shape::string()),
        req("file", shape::string()),
        req("schema", shape::string()),
    ]);
    own.others(shape::string())
}

pub(super) fn images() -> Answers {
    ok(object([
        req("images", array(image())),
        req("first", shape::string()),
        opt("next", shape::string()),
        req("schema", shape::string()),
    ]))
}

pub(super) fn image_created() -> Answers {
    json(201, image()).header("Location").header("OpenStack-image-import-methods")
}

pub(super) fn image_shown() -> Answers {
    ok(image())
}

/// There are no definitions of metadata.
pub(super) fn metadef_namespaces() -> Answers {
    ok(object([
        req("namespaces", array(object([]).open())),
        req("first", shape::string()),
        req("schema", shape::string()),
    ]))
}

pub(super) fn metadef_resource_types() -> Answers {
    ok(object([req("resource_types", array(object([]).open()))]))
}

/// There are no tasks.
pub(super) fn tasks() -> Answers {
    ok(object([req("tasks", array(object([]).open()))]))
}

/// 204 for an image without data, and 206 for a part of the data.
pub(super) fn downloaded() -> Answers {
    let part = other(206, BYTES).header("Content-Range");
    other(200, BYTES).header("Content-MD5").or(no_content()).or(part)
}

fn member() -> Schema {
    object([
        req("member_id", shape::string()),
        req("image_id", shape::uuid()),
        req("status", shape::string()),
        req("created_at", shape::time()),
        req("updated_at", shape::time()),
        req("schema", shape::string()),
    ])
}

pub(super) fn members() -> Answers {
    ok(object([req("members", array(member())), req("schema", shape::string())]))
}

pub(super) fn member_shown() -> Answers {
    ok(member())
}

pub(super) fn import_methods() -> Answers {
    let methods =
        object([req("description", shape::string()), req("type", shape::string()), req("value", shape::strings())]);
    ok(object([req("import-methods", methods)]))
}

pub(super) fn stores() -> Answers {
    let store =
        object([req("id", shape::string()), req("description", shape::string()), opt("default", shape::string())]);
    ok(object([req("stores", array(store))]))
}

/// A JSON Schema.
pub(super) fn schema() -> Answers {
    let link = object([req("rel", shape::string()), req("href", shape::string())]);
    ok(object([
        req("name", shape::string()),
        req("properties", object([]).open()),
        opt("additionalProperties", any()),
        opt("links", array(link)),
    ]))
}
