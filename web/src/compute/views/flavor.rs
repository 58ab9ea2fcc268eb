//! A flavor's fields, and the microversions that have them.

use std::sync::Arc;

use chronova_events::flavor::Flavor;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};
use crate::links::Links;

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

/// `GET /flavors/detail`, and every answer with one flavor.
pub static FLAVOR: FieldTable<FlavorView> = FieldTable::new(&[
    field("id", |v: &FlavorView| json!(v.flavor.definition.flavor)),
    field("name", |v: &FlavorView| json!(v.flavor.definition.name)),
    field("ram", |v: &FlavorView| json!(v.flavor.definition.memory_mib)),
    field("disk", |v: &FlavorView| json!(v.flavor.definition.root_gib)),
    // Before 2.75 a flavor without swap shows an empty string.
    field("swap", |v: &FlavorView| match v.flavor.definition.swap_mib {
        0 => json!(""),
        size => json!(size),
    })
    .until(2, 74),
    field("swap", |v: &FlavorView| json!(v.flavor.definition.swap_mib)).since(2, 75),
    field("OS-FLV-EXT-DATA:ephemeral", |v: &FlavorView| json!(v.flavor.definition.ephemeral_gib)),
    field("OS-FLV-DISABLED:disabled", |v: &FlavorView| json!(v.flavor.definition.disabled)).until(2, 101),
    field("vcpus", |v: &FlavorView| json!(v.flavor.definition.vcpus)),
    field("os-flavor-access:is_public", |v: &FlavorView| json!(v.flavor.definition.public)),
    field("rxtx_factor", |v: &FlavorView| json!(v.flavor.definition.rxtx_factor)).until(2, 101),
    field("links", links),
    field("description", description).since(2, 55),
    field("extra_specs", |v: &FlavorView| extra_specs(&v.flavor)).since(2, 61).when(|v| v.extra_specs),
]);

/// `GET /flavors`
pub static BRIEF: FieldTable<FlavorView> = FieldTable::new(&[
    field("id", |v: &FlavorView| json!(v.flavor.definition.flavor)),
    field("name", |v: &FlavorView| json!(v.flavor.definition.name)),
    field("links", links),
    field("description", description).since(2, 55),
]);
