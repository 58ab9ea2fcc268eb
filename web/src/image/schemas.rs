//! `/v2/schemas`: the schemas of images, members and namespaces of metadata, for clients that are generated from them.

use serde_json::{Value, json};

use super::answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[
    get("schemas.image", "/schemas/image", handler!(image)).answers(answers::schema),
    get("schemas.images", "/schemas/images", handler!(images)).answers(answers::schema),
    get("schemas.member", "/schemas/member", handler!(member)).answers(answers::schema),
    get("schemas.members", "/schemas/members", handler!(members)).answers(answers::schema),
    get("schemas.namespace", "/schemas/metadefs/namespace", handler!(namespace)).answers(answers::schema),
    get("schemas.namespaces", "/schemas/metadefs/namespaces", handler!(namespaces)).answers(answers::schema),
];

/// Name, types, description, and whether clients can only read the attribute.
const IMAGE: [(&str, &[&str], &str, bool); 23] = [
    ("id", &["string"], "An identifier for the image", false),
    ("name", &["null", "string"], "Descriptive name for the image", false),
    ("status", &["string"], "Status of the image", true),
    ("visibility", &["string"], "Scope of image accessibility", false),
    ("protected", &["boolean"], "If true, image will not be deletable.", false),
    ("os_hidden", &["boolean"], "If true, image will not appear in default image list response.", false),
    ("checksum", &["null", "string"], "md5 hash of image contents.", true),
    ("os_hash_algo", &["null", "string"], "Algorithm to calculate the os_hash_value", true),
    ("os_hash_value", &["null", "string"], "Hexdigest of the image contents using os_hash_algo", true),
    ("owner", &["null", "string"], "Owner of the image", false),
    ("size", &["null", "integer"], "Size of image file in bytes", true),
    ("virtual_size", &["null", "integer"], "Virtual size of image in bytes", true),
    ("container_format", &["null", "string"], "Format of the container", false),
    ("disk_format", &["null", "string"], "Format of the disk", false),
    ("created_at", &["string"], "Date and time of image registration", true),
    ("updated_at", &["string"], "Date and time of the last image modification", true),
    ("tags", &["array"], "List of strings related to the image", false),
    ("min_ram", &["integer"], "Amount of ram (in MB) required to boot image.", false),
    ("min_disk", &["integer"], "Amount of disk space (in GB) required to boot image.", false),
    ("self", &["string"], "An image self url", true),
    ("file", &["string"], "An image file url", true),
    ("schema", &["string"], "An image schema url", true),
    ("direct_url", &["string"], "URL to access the image file kept in external store", true),
];

const MEMBER: [(&str, &[&str], &str, bool); 6] = [
    ("member_id", &["string"], "An identifier for the image member (tenantId)", false),
    ("image_id", &["string"], "An identifier for the image", false),
    ("status", &["string"], "The status of this image member", false),
    ("created_at", &["string"], "Date and time of image member creation", false),
    ("updated_at", &["string"], "Date and time of last modification of image member", false),
    ("schema", &["string"], "", false),
];

/// A namespace of definitions of metadata. There are none, but clients read the schema before they ask for the list.
const NAMESPACE: [(&str, &[&str], &str, bool); 10] = [
    ("namespace", &["string"], "The unique namespace text.", false),
    ("display_name", &["string"], "The user friendly name for the namespace. Used by UI if available.", false),
    ("description", &["string"], "Provides a user friendly description of the namespace.", false),
    ("visibility", &["string"], "Scope of namespace accessibility.", false),
    ("protected", &["boolean"], "If true, namespace will not be deletable.", false),
    ("owner", &["string"], "Owner of the namespace.", false),
    ("created_at", &["string"], "Date and time of namespace creation", true),
    ("updated_at", &["string"], "Date and time of the last namespace modification", true),
    ("self", &["string"], "", true),
    ("schema", &["string"], "", true),
];

fn schema(name: &str, properties: &[(&str, &[&str], &str, bool)], open: bool) -> Value {
    let properties: serde_json::Map<String, Value> = properties
        .iter()
        .map(|(name, types, description, read_only)| {
            let kind = if let [one] = types { json!(one) } else { json!(types) };
            let mut property = json!({"type": kind, "description": description});
            if *read_only {
                property["readOnly"] = json!(true);
            }
            if *types == ["array"] {
                property["items"] = json!({"type": "string", "maxLength": 255});
            }
            ((*name).to_owned(), property)
        })
        .collect();
    let mut schema = json!({"name": name, "properties": properties});
    if open {
        schema["additionalProperties"] = json!({"type": "string"});
        schema["links"] = json!([
            {"rel": "self", "href": "{self}"},
            {"rel": "enclosure", "href": "{file}"},
            {"rel": "describedby", "href": "{schema}"},
        ]);
    }
    schema
}

fn collection(name: &str, items: &Value) -> Value {
    let mut properties = serde_json::Map::new();
    properties.insert(name.to_owned(), json!({"type": "array", "items": items}));
    properties.insert("schema".to_owned(), json!({"type": "string"}));
    for link in ["first", "next"] {
        properties.insert(link.to_owned(), json!({"type": "string"}));
    }
    json!({
        "name": name,
        "properties": properties,
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    })
}

async fn image(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(schema("image", &IMAGE, true)))
}

async fn images(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(collection("images", &schema("image", &IMAGE, true))))
}

async fn member(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(schema("member", &MEMBER, false)))
}

async fn members(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(collection("members", &schema("member", &MEMBER, false))))
}

async fn namespace(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(schema("namespace", &NAMESPACE, false)))
}

async fn namespaces(_: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(collection("namespaces", &schema("namespace", &NAMESPACE, false))))
}
