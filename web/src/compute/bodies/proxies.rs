//! Bodies and queries of the proxy operations for the image and network services.

use crate::schema::typed;
use crate::schema::{
    Schema, any, choice, loose_boolean, many, non_negative_integer, null_or, object, opt, positive_integer, query, req,
    string,
};
use serde::Deserialize;
use serde_json::Value;

pub fn images_query() -> Schema {
    query([
        opt("name", any()),
        opt("status", any()),
        opt("changes-since", any()),
        opt("server", any()),
        opt("type", any()),
        opt("minRam", any()),
        opt("minDisk", any()),
        opt("marker", any()),
        many("limit", positive_integer()),
        many("page_size", positive_integer()),
        many("offset", positive_integer()),
    ])
    .pattern_property("^property-.*$", any())
}

/// Any parameters, because Nova ignores unknown parameters here.
pub fn image_query() -> Schema {
    query([])
}

pub fn volumes_query() -> Schema {
    query([many("limit", non_negative_integer()), many("offset", non_negative_integer())])
}

/// A number of GiB, or a string with its digits.
fn volume_size() -> Schema {
    any().types(["integer", "string"]).pattern("^[0-9]+$").min(1)
}

pub fn volume_body() -> Schema {
    object([req(
        "volume",
        object([
            opt("volume_type", string()),
            opt("metadata", object([]).open()),
            opt("snapshot_id", string()),
            req("size", volume_size()),
            opt("availability_zone", string()),
            opt("display_name", string()),
            opt("display_description", string()),
        ]),
    )])
}

pub fn snapshot_body() -> Schema {
    object([req(
        "snapshot",
        object([
            req("volume_id", string()),
            opt("force", loose_boolean()),
            opt("display_name", string()),
            opt("display_description", string()),
        ]),
    )])
}

pub fn assisted_snapshot_body() -> Schema {
    let text = || string().min_length(1);
    object([req(
        "snapshot",
        object([
            req("volume_id", text()),
            req(
                "create_info",
                object([
                    req("snapshot_id", text()),
                    req("type", choice(["qcow2"])),
                    req("new_file", text()),
                    opt("id", text()),
                ]),
            ),
        ]),
    )])
}

pub fn assisted_snapshot_query() -> Schema {
    query([many("delete_info", string())]).strict_since(2, 75)
}

pub fn security_groups_query() -> Schema {
    query([
        many("limit", non_negative_integer()),
        many("offset", non_negative_integer()),
        many("all_tenants", string()),
    ])
}

pub fn security_group_body() -> Schema {
    let text = || string().min_length(0).max_length(255);
    object([req("security_group", object([req("name", text()), req("description", text())]).open())]).open()
}

pub fn security_group_rule_body() -> Schema {
    object([req(
        "security_group_rule",
        object([
            opt("group_id", null_or(string().format("uuid"))),
            req("parent_group_id", string().format("uuid")),
            opt("to_port", any()),
            opt("from_port", any()),
            opt("ip_protocol", any()),
            opt("cidr", any()),
        ])
        .open(),
    )])
    .open()
}

pub fn add_security_group_body() -> Schema {
    object([req("addSecurityGroup", object([req("name", string().min_length(1))]))]).open()
}

pub fn remove_security_group_body() -> Schema {
    object([req("removeSecurityGroup", object([req("name", string().min_length(1))]))]).open()
}

/// Accepts anything; the body is ignored.
pub fn anything() -> Schema {
    any()
}

pub fn floating_ip_pools_query() -> Schema {
    query([])
}

pub fn floating_ip_body() -> Schema {
    null_or(object([opt("pool", null_or(string()))]).silent())
}

/// A snapshot that a volume driver makes with the help of the server's host.
#[derive(Debug, Deserialize)]
pub struct AssistedSnapshotBody {
    pub volume_id: String,
}

/// The pool of a new floating address.
#[derive(Debug, Deserialize)]
pub struct FloatingIpPoolBody {
    pub pool: Option<String>,
}

/// A new volume in Nova's form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProxyVolumeBody {
    pub display_name: Option<String>,
    pub display_description: Option<String>,
    /// The size in GiB.
    #[serde(deserialize_with = "typed::integer")]
    pub size: Option<i64>,
    pub snapshot_id: Option<String>,
    pub volume_type: Option<String>,
    pub availability_zone: Option<String>,
    #[serde(deserialize_with = "typed::pairs")]
    pub metadata: Vec<(String, String)>,
}

/// A new snapshot in Nova's form.
#[derive(Debug, Deserialize)]
pub struct ProxySnapshotBody {
    pub volume_id: String,
    pub display_name: Option<String>,
    pub display_description: Option<String>,
    #[serde(default, deserialize_with = "typed::flag")]
    pub force: bool,
}

/// Name and description of a security group.
#[derive(Debug, Deserialize)]
pub struct SecurityGroupBody {
    pub name: String,
    pub description: String,
}

/// A rule of a security group. Ports are numbers or their digits.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SecurityGroupRuleBody {
    pub parent_group_id: String,
    /// The security group whose members may send.
    pub group_id: Option<String>,
    #[serde(deserialize_with = "typed::text")]
    pub ip_protocol: Option<String>,
    pub from_port: Option<Value>,
    pub to_port: Option<Value>,
    /// The address range that may send.
    #[serde(deserialize_with = "typed::text")]
    pub cidr: Option<String>,
}
