//! The bodies of host aggregates.

use serde::Deserialize;
use serde_json::json;

use crate::schema::typed::{self, SentField};
use crate::schema::{Schema, any, array, az_name, hostname, name, null, object, one_of, opt, req, string, uuid};

fn zone() -> Schema {
    one_of([az_name(), null()])
}

pub fn create_body() -> Schema {
    object([req("aggregate", object([req("name", name()), opt("availability_zone", zone())]))])
}

pub fn update_body() -> Schema {
    let spaced = string().format("name_with_leading_trailing_spaces").min_length(1).max_length(255);
    object([req(
        "aggregate",
        object([opt("name", spaced), opt("availability_zone", zone())])
            .with("anyOf", json!([{"required": ["name"]}, {"required": ["availability_zone"]}])),
    )])
}

pub fn add_host_body() -> Schema {
    object([req("add_host", object([req("host", hostname())]))])
}

pub fn remove_host_body() -> Schema {
    object([req("remove_host", object([req("host", hostname())]))])
}

pub fn set_metadata_body() -> Schema {
    let value = any().types(["string", "null"]).max_length(255);
    object([req(
        "set_metadata",
        object([req("metadata", object([]).pattern_property("^[a-zA-Z0-9-_:. ]{1,255}$", value))]),
    )])
}

pub fn images_body() -> Schema {
    object([req("cache", array(object([req("id", uuid())])).types(["array"]).min_items(1))])
}

/// A new host aggregate.
#[derive(Debug, Deserialize)]
pub struct AggregateCreateBody {
    name: String,
    #[serde(default, deserialize_with = "typed::trimmed")]
    pub availability_zone: Option<String>,
}

impl AggregateCreateBody {
    pub fn name(&self) -> String {
        self.name.trim().to_owned()
    }
}

/// Changes of a host aggregate.
#[derive(Debug, Deserialize)]
pub struct AggregateUpdateBody {
    #[serde(default, deserialize_with = "typed::trimmed")]
    pub name: Option<String>,
    /// `null` removes the zone.
    #[serde(default)]
    pub availability_zone: SentField<String>,
}

/// Images to cache on the hosts of an aggregate.
#[derive(Debug, Deserialize)]
pub struct CacheImagesBody {
    pub cache: Vec<CacheImage>,
}

#[derive(Debug, Deserialize)]
pub struct CacheImage {
    pub id: String,
}
