//! Bodies for attaching, changing and swapping a server's volumes.

use crate::schema::typed::{self, SentField};
use crate::schema::{Schema, any, loose_boolean, object, opt, query, req, tag, uuid};
use serde::Deserialize;

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

/// Unknown parameters are ignored at every version.
pub fn show_query() -> Schema {
    query([])
}

/// A volume to attach, or changes of an attached volume.
#[derive(Debug, Deserialize)]
pub struct VolumeAttachmentBody {
    #[serde(rename = "volumeId")]
    pub volume: String,
    #[serde(default)]
    pub tag: SentField<String>,
    #[serde(default, deserialize_with = "typed::some_flag")]
    pub delete_on_termination: Option<bool>,
    #[serde(default)]
    pub device: SentField<String>,
    #[serde(rename = "serverId")]
    pub server: Option<String>,
    pub id: Option<String>,
}
