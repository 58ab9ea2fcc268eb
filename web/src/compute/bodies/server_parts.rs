//! What belongs to a server: metadata, tags, addresses, interfaces, volumes, actions.

use crate::schema::{
    Schema, date_time, many, metadata, non_negative_integer, null, object, query, req, single, string, tags,
};

pub fn server_metadata_create_body() -> Schema {
    object([req("metadata", metadata())])
}

pub fn server_metadata_update_body() -> Schema {
    object([req(
        "meta",
        object([])
            .pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", string().max_length(255))
            .min_properties(1)
            .max_properties(1),
    )])
}

pub fn server_tags_index_query() -> Schema {
    query([])
}

pub fn server_tags_update_body() -> Schema {
    null()
}

pub fn server_tags_update_all_body() -> Schema {
    object([req("tags", tags())])
}

pub fn volume_attachments_index_query() -> Schema {
    query([many("limit", non_negative_integer()), many("offset", non_negative_integer())]).strict_since(2, 75)
}

pub fn instance_actions_index_query() -> Schema {
    query([
        single("limit", non_negative_integer()).since(2, 58),
        single("marker", string()).since(2, 58),
        single("changes-since", date_time()).since(2, 58),
        single("changes-before", date_time()).since(2, 66),
    ])
    .strict_since(2, 58)
}
