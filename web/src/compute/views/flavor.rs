//! A flavor's fields, and the microversions that have them.

use std::sync::Arc;

use chronova_events::flavor::Flavor;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};
use crate::links::Links;
use crate::schema::{Schema, any_of, integer, shape, string};

/// A flavor about to be shown.
#[derive(Debug)]
pub struct FlavorView {
    pub flavor: Arc<Flavor>,
    pub links: Arc<Links>,
    /// `os_compute_api:os-flavor-extra-specs:index`
    pub extra_specs: bool,
}

pub fn extra_specs(flavor: &Flavor) -> Value {
    Value::Object(flavor.extra_specs.iter().map(|(key, value)| (key.clone(), json!(value))).collect())
}

fn links(view: &FlavorView) -> Value {
    view.links.pair("flavors", view.flavor.definition.flavor.as_str())
}

fn description(view: &FlavorView) -> Value {
    json!(view.flavor.definition.description)
}

/// Before 2.75 a flavor without swap shows an empty string.
fn swap_or_empty() -> Schema {
    any_of([integer(), string().max_length(0)])
}

/// `GET /flavors/detail`, and every answer with one flavor.
pub static FLAVOR: FieldTable<FlavorView> = FieldTable::new(&[
    field("id", shape::string, |v: &FlavorView| json!(v.flavor.definition.flavor)),
    field("name", shape::string, |v: &FlavorView| json!(v.flavor.definition.name)),
    field("ram", shape::integer, |v: &FlavorView| json!(v.flavor.definition.memory_mib)),
    field("disk", shape::integer, |v: &FlavorView| json!(v.flavor.definition.root_gib)),
    field("swap", swap_or_empty, |v: &FlavorView| match v.flavor.definition.swap_mib {
        0 => json!(""),
        size => json!(size),
    })
    .until(2, 74),
    field("swap", shape::integer, |v: &FlavorView| json!(v.flavor.definition.swap_mib)).since(2, 75),
    field("OS-FLV-EXT-DATA:ephemeral", shape::integer, |v: &FlavorView| json!(v.flavor.definition.ephemeral_gib)),
    field("OS-FLV-DISABLED:disabled", shape::boolean, |v: &FlavorView| json!(v.flavor.definition.disabled))
        .until(2, 101),
    field("vcpus", shape::integer, |v: &FlavorView| json!(v.flavor.definition.vcpus)),
    field("os-flavor-access:is_public", shape::boolean, |v: &FlavorView| json!(v.flavor.definition.public)),
    field("rxtx_factor", shape::number, |v: &FlavorView| json!(v.flavor.definition.rxtx_factor)).until(2, 101),
    field("links", shape::links, links),
    field("description", shape::string_or_null, description).since(2, 55),
    field("extra_specs", shape::pairs, |v: &FlavorView| extra_specs(&v.flavor)).since(2, 61).when(|v| v.extra_specs),
]);

/// `GET /flavors`
pub static BRIEF: FieldTable<FlavorView> = FieldTable::new(&[
    field("id", shape::string, |v: &FlavorView| json!(v.flavor.definition.flavor)),
    field("name", shape::string, |v: &FlavorView| json!(v.flavor.definition.name)),
    field("links", shape::links, links),
    field("description", shape::string_or_null, description).since(2, 55),
]);
