//! Bodies of flavors, their extra specs and their access lists.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value, json};

use super::printable;
use crate::schema::typed;
use crate::schema::{
    Schema, any, choice, flavor_non_negative, flavor_positive, loose_boolean, many, name, non_negative_integer,
    null_or, object, opt, query, req, string,
};

pub fn flavors_index_query() -> Schema {
    query([
        many("limit", non_negative_integer()),
        many("marker", string()),
        many("is_public", string()),
        many("minRam", string()),
        many("minDisk", string()),
        many(
            "sort_key",
            choice([
                "created_at",
                "description",
                "disabled",
                "ephemeral_gb",
                "flavorid",
                "id",
                "is_public",
                "memory_mb",
                "name",
                "root_gb",
                "rxtx_factor",
                "swap",
                "updated_at",
                "vcpu_weight",
                "vcpus",
            ])
            .from(
                2,
                102,
                choice([
                    "created_at",
                    "description",
                    "disabled",
                    "ephemeral_gb",
                    "flavorid",
                    "id",
                    "is_public",
                    "memory_mb",
                    "name",
                    "root_gb",
                    "swap",
                    "updated_at",
                    "vcpu_weight",
                    "vcpus",
                ]),
            ),
        ),
        many("sort_dir", choice(["asc", "desc"])),
        many("name", string()).since(2, 102),
    ])
    .strict_since(2, 75)
}

pub fn flavors_create_body() -> Schema {
    object([req(
        "flavor",
        object([
            req("name", name()),
            opt(
                "id",
                any()
                    .types(["string", "number", "null"])
                    .min_length(1)
                    .max_length(255)
                    .pattern("^(?! )[a-zA-Z0-9. _-]+(?<! )$"),
            ),
            req("ram", flavor_positive()),
            req("vcpus", flavor_positive()),
            req("disk", flavor_non_negative()),
            opt("OS-FLV-EXT-DATA:ephemeral", flavor_non_negative()),
            opt("swap", flavor_non_negative()),
            opt(
                "rxtx_factor",
                any()
                    .types(["number", "string"])
                    .pattern(r"^[0-9]+(\.[0-9]+)?$")
                    .with("exclusiveMinimum", json!(0))
                    .with("maximum", json!(3.40282e38)),
            )
            .until(2, 101),
            opt("os-flavor-access:is_public", loose_boolean()),
            opt("description", null_or(printable().min_length(0).max_length(65535))).since(2, 55),
        ]),
    )])
}

pub fn flavors_update_body() -> Schema {
    object([req("flavor", object([req("description", null_or(printable().min_length(0).max_length(65535)))]))])
}

pub fn flavor_access_add_tenant_access_body() -> Schema {
    object([req("addTenantAccess", object([req("tenant", string().min_length(1).max_length(255))]))])
}

pub fn flavor_access_remove_tenant_access_body() -> Schema {
    object([req("removeTenantAccess", object([req("tenant", string().min_length(1).max_length(255))]))])
}

pub fn flavors_extraspecs_create_body() -> Schema {
    object([req(
        "extra_specs",
        object([]).pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", any().types(["string", "number"]).max_length(255)),
    )])
}

pub fn flavors_extraspecs_update_body() -> Schema {
    object([])
        .pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", any().types(["string", "number"]).max_length(255))
        .min_properties(1)
        .max_properties(1)
}

/// A new flavor.
#[derive(Debug, Deserialize)]
pub struct FlavorCreateBody {
    pub name: String,
    /// A number is read as its digits. Without an id, or with `auto`, the service generates one.
    #[serde(default, deserialize_with = "flavor_id")]
    pub id: Option<String>,
    #[serde(deserialize_with = "typed::number")]
    pub vcpus: u32,
    #[serde(deserialize_with = "typed::number")]
    pub ram: u32,
    #[serde(deserialize_with = "typed::number")]
    pub disk: u32,
    #[serde(default, rename = "OS-FLV-EXT-DATA:ephemeral", deserialize_with = "typed::number")]
    pub ephemeral: u32,
    #[serde(default, deserialize_with = "typed::number")]
    pub swap: u32,
    #[serde(default, deserialize_with = "factor")]
    pub rxtx_factor: Option<f64>,
    #[serde(default, rename = "os-flavor-access:is_public", deserialize_with = "typed::some_flag")]
    pub public: Option<bool>,
    #[serde(default)]
    pub description: Option<String>,
}

fn flavor_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Null => None,
        Value::String(id) if id == "auto" => None,
        Value::String(id) => Some(id),
        other => Some(other.to_string()),
    })
}

fn factor<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => text.parse().map(Some).map_err(D::Error::custom),
        value => Ok(value.as_f64()),
    }
}

#[derive(Debug, Deserialize)]
pub struct FlavorUpdateBody {
    pub description: Option<String>,
}

/// The extra specs, with each value as it was sent: a text or a number.
#[derive(Debug, Deserialize)]
pub struct ExtraSpecsBody {
    pub extra_specs: Map<String, Value>,
}
