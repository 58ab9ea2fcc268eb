//! The bodies of a server's parts: metadata, tags, addresses, interfaces, volumes, actions.

use crate::schema::typed;
use crate::schema::{
    Schema, any, array, choice, date_time, ip_address, many, metadata, non_negative_integer, object, opt, query, req,
    single, string, tag, tags, uuid,
};
use serde::Deserialize;

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

pub fn attach_interfaces_create_body() -> Schema {
    let address = object([req("ip_address", ip_address())]);
    object([opt(
        "interfaceAttachment",
        object([
            opt("net_id", uuid()),
            opt("port_id", uuid()),
            opt("fixed_ips", array(address).min_items(1).max_items(1)),
            opt("tag", tag()).since(2, 49),
        ]),
    )])
}

pub fn multinic_add_fixed_ip_body() -> Schema {
    let network = any().types(["string", "number"]).min_length(1).max_length(36);
    object([req("addFixedIp", object([req("networkId", network)]))])
}

pub fn multinic_remove_fixed_ip_body() -> Schema {
    object([req("removeFixedIp", object([req("address", ip_address())]))])
}

pub fn remote_consoles_create_body() -> Schema {
    let protocol =
        choice(["vnc", "spice", "serial", "rdp"]).from(2, 8, choice(["vnc", "spice", "serial", "rdp", "mks"]));
    let kind = choice(["novnc", "xvpvnc", "spice-html5", "serial", "rdp-html5"])
        .from(2, 8, choice(["novnc", "xvpvnc", "spice-html5", "serial", "rdp-html5", "webmks"]))
        .from(2, 99, choice(["novnc", "xvpvnc", "spice-html5", "serial", "rdp-html5", "webmks", "spice-direct"]));
    object([req("remote_console", object([req("protocol", protocol), req("type", kind)]))])
}

pub fn server_shares_create_body() -> Schema {
    let name = string().min_length(1).max_length(255).pattern("^[a-zA-Z0-9-]*$");
    object([req("share", object([req("share_id", uuid()), opt("tag", name)]))])
        .with("title", serde_json::json!("Server shares"))
}

/// The lookup of a console's token refuses unknown parameters from 2.99 on. The other operations refuse them from 2.102
/// on.
pub fn console_auth_tokens_show_query() -> Schema {
    query([]).strict_since(2, 99)
}

/// A requested console.
#[derive(Debug, Deserialize)]
pub struct RemoteConsoleBody {
    pub protocol: String,
    #[serde(rename = "type")]
    pub kind: String,
}

/// Metadata, in the order in which it was sent.
#[derive(Debug, Deserialize)]
pub struct MetadataBody {
    #[serde(deserialize_with = "typed::pairs")]
    pub metadata: Vec<(String, String)>,
}

/// One item of metadata.
#[derive(Debug, Deserialize)]
pub struct MetadataItemBody {
    #[serde(deserialize_with = "typed::pairs")]
    pub meta: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
pub struct ServerTagsBody {
    pub tags: Vec<String>,
}

/// A requested interface. An empty request means the project's only network.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct InterfaceBody {
    pub net_id: Option<String>,
    pub port_id: Option<String>,
    fixed_ips: Vec<FixedIpBody>,
    pub tag: Option<String>,
}

#[derive(Debug, Deserialize)]
struct FixedIpBody {
    ip_address: String,
}

impl InterfaceBody {
    /// The requested address. The schema allows at most one.
    pub fn fixed_ip(&self) -> Option<String> {
        self.fixed_ips.first().map(|fixed| fixed.ip_address.clone())
    }
}
