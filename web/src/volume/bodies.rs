//! What requests look like.

use serde_json::json;

use crate::microversion::{Microversion, v};
use crate::schema::{Schema, any, choice, object, opt, req, string};

/// A name or a description: up to 255 characters, or none.
fn text() -> Schema {
    any().types(["string", "null"]).max_length(255)
}

fn uuid_or_none() -> Schema {
    any().types(["string", "null"]).format("uuid")
}

/// A size as a number or as its digits.
fn size() -> Schema {
    any()
        .types(["integer", "string", "null"])
        .pattern("^[0-9]+$")
        .with("minimum", json!(1))
        .with("maximum", json!(i32::MAX))
}

/// Names and values of metadata.
pub(super) fn pairs() -> Schema {
    any()
        .types(["object", "null"])
        .pattern_property("^[a-zA-Z0-9-_:. /]{1,255}$", string().max_length(255))
        .with("additionalProperties", json!(false))
}

fn flag() -> Schema {
    any().types(["boolean", "string", "null"])
}

pub(super) fn create_volume() -> Schema {
    object([
        req(
            "volume",
            object([
                opt("name", text()),
                opt("display_name", text()),
                opt("description", text()),
                opt("display_description", text()),
                opt("size", size()),
                opt("source_volid", uuid_or_none()),
                opt("snapshot_id", uuid_or_none()),
                opt("volume_type", text()),
                opt("metadata", pairs()),
                opt("consistencygroup_id", text()),
                opt("group_id", text()),
                opt("backup_id", text()),
                opt("availability_zone", text()),
                opt("imageRef", any().types(["string", "null"]).max_length(255)),
                opt("image_id", any().types(["string", "null"]).max_length(255)),
                opt("multiattach", flag()),
                opt("project_id", any()),
                opt("user_id", any()),
                opt("source_replica", any()),
                opt("status", any()),
                opt("attach_status", any()),
            ]),
        ),
        opt("OS-SCH-HNT:scheduler_hints", any().types(["object", "null"])),
    ])
}

pub(super) fn update_volume() -> Schema {
    object([req(
        "volume",
        object([
            opt("name", text()),
            opt("display_name", text()),
            opt("description", text()),
            opt("display_description", text()),
            opt("metadata", pairs()),
        ])
        .min_properties(1),
    )])
}

pub(super) fn metadata() -> Schema {
    object([req("metadata", pairs())])
}

pub(super) fn meta_item() -> Schema {
    object([req("meta", pairs())]).open()
}

pub(super) fn create_snapshot() -> Schema {
    object([req(
        "snapshot",
        object([
            opt("name", text()),
            opt("display_name", text()),
            opt("description", text()),
            opt("display_description", text()),
            req("volume_id", string().format("uuid")),
            opt("force", flag()),
            opt("metadata", pairs()),
        ]),
    )])
}

pub(super) fn update_snapshot() -> Schema {
    object([req(
        "snapshot",
        object([
            opt("name", text()),
            opt("display_name", text()),
            opt("description", text()),
            opt("display_description", text()),
        ])
        .min_properties(1),
    )])
}

pub(super) fn create_attachment() -> Schema {
    object([req(
        "attachment",
        object([
            opt("instance_uuid", uuid_or_none()),
            opt("connector", any().types(["object", "null"])),
            req("volume_uuid", string().format("uuid")),
            opt("mode", choice(["rw", "ro"])).since(3, 54),
        ]),
    )])
}

pub(super) fn update_attachment() -> Schema {
    object([req("attachment", object([req("connector", any().types(["object"]).min_properties(1))]))])
}

pub(super) fn create_type() -> Schema {
    object([req(
        "volume_type",
        object([
            req("name", string().min_length(1).max_length(255)),
            opt("description", text()),
            opt("extra_specs", specs_object()),
            opt("os-volume-type-access:is_public", flag()),
        ]),
    )])
}

pub(super) fn update_type() -> Schema {
    object([req(
        "volume_type",
        object([opt("name", text()), opt("description", text()), opt("is_public", flag())]).min_properties(1),
    )])
}

fn specs_object() -> Schema {
    any()
        .types(["object", "null"])
        .pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", any().types(["string", "null"]).max_length(255))
        .with("additionalProperties", json!(false))
}

pub(super) fn create_specs() -> Schema {
    object([req("extra_specs", specs_object())])
}

pub(super) fn update_spec() -> Schema {
    object([])
        .pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", any().types(["string", "null"]).max_length(255))
        .min_properties(1)
        .max_properties(1)
}

pub(super) fn update_quota() -> Schema {
    object([req("quota_set", object([]).open())])
}

/// From this version on a snapshot of a volume in use needs no `force`.
pub(super) fn snapshots_of_used_volumes(version: Microversion) -> bool {
    version.at_least(v(3, 66))
}

/// From this version on a volume can be extended while a server has it.
pub(super) fn extends_used_volumes(version: Microversion) -> bool {
    version.at_least(v(3, 42))
}
