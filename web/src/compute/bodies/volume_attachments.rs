//! Volumes of a server: attached, changed, exchanged.

use crate::schema::{Schema, any, loose_boolean, object, opt, query, req, tag, uuid};

fn device() -> Schema {
    any().types(["string", "null"]).pattern("(^/dev/x{0,1}[a-z]{0,1}d{0,1})([a-z]+)[0-9]*$")
}

pub fn create_body() -> Schema {
    object([req(
        "volumeAttachment",
        object([
            req("volumeId", uuid()),
            opt("device", device()),
            opt("tag", tag()).since(2, 49),
            opt("delete_on_termination", loose_boolean()).since(2, 79),
        ]),
    )])
}

pub fn update_body() -> Schema {
    object([req(
        "volumeAttachment",
        object([
            req("volumeId", uuid()),
            opt("device", device()).since(2, 85),
            opt("tag", tag()).since(2, 85),
            opt("delete_on_termination", loose_boolean()).since(2, 85),
            opt("serverId", uuid()).since(2, 85),
            opt("id", uuid()).since(2, 85),
        ]),
    )])
}

/// Anything is ignored, at every version.
pub fn show_query() -> Schema {
    query([])
}
