//! The bodies of work on a server: images, rebuild, rescue, shelve, password.

use super::printable;
use crate::schema::{
    Schema, any, array, base64, choice, hostname, ipv4, ipv6, loose_boolean, metadata, name, null, null_or, object,
    one_of, opt, req, string, uuid,
};

pub fn create_image_body() -> Schema {
    object([req("createImage", object([req("name", name()), opt("metadata", metadata())]))])
}

pub fn create_backup_body() -> Schema {
    object([req(
        "createBackup",
        object([
            req("name", name()),
            req("backup_type", string()),
            req("rotation", any().types(["integer", "string"]).pattern("^[0-9]*$").min(0).min_length(1)),
            opt("metadata", metadata()),
        ]),
    )])
}

pub fn rebuild_body() -> Schema {
    object([req(
        "rebuild",
        object([
            opt("name", name()),
            req("imageRef", uuid()),
            opt("adminPass", string()),
            opt("metadata", metadata()),
            opt("preserve_ephemeral", loose_boolean()),
            opt("OS-DCF:diskConfig", choice(["AUTO", "MANUAL"])),
            opt("accessIPv4", ipv4()),
            opt("accessIPv6", ipv6()),
            opt("personality", array(object([opt("path", string()), opt("contents", base64())]))).until(2, 56),
            opt("description", null_or(printable().min_length(0).max_length(255))).since(2, 19),
            opt("key_name", one_of([string().min_length(1).max_length(255), null()])).since(2, 54),
            opt("user_data", null_or(string().format("base64").max_length(65535))).since(2, 57),
            opt(
                "trusted_image_certificates",
                null_or(array(string().min_length(1)).min_items(1).max_items(50).unique_items()),
            )
            .since(2, 63),
            opt(
                "hostname",
                string().pattern("^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$").min_length(2).max_length(63).from(
                    2,
                    94,
                    hostname(),
                ),
            )
            .since(2, 90),
        ]),
    )])
}

pub fn rescue_body() -> Schema {
    object([req("rescue", null_or(object([opt("adminPass", string()), opt("rescue_image_ref", uuid())])))])
}

pub fn unrescue_body() -> Schema {
    object([req("unrescue", any())])
}

pub fn shelve_body() -> Schema {
    object([req("shelve", any())])
}

pub fn shelve_offload_body() -> Schema {
    object([req("shelveOffload", any())])
}

pub fn unshelve_body() -> Schema {
    object([req(
        "unshelve",
        any().from(2, 77, null_or(object([req("availability_zone", name())]))).from(
            2,
            91,
            null_or(object([opt("availability_zone", null_or(string())), opt("host", string())])),
        ),
    )])
}

pub fn change_password_body() -> Schema {
    object([req("changePassword", object([req("adminPass", string())]))])
}
