//! The schemas of the Compute API's answers. One file per family of resources, as in `bodies`. The fields of resources
//! are in `views`, whose tables are schemas too.

pub mod aggregates;
pub mod consoles;
pub mod flavors;
pub mod hosts;
pub mod keypairs;
pub mod moves;
pub mod others;
pub mod proxies;
pub mod quotas;
pub mod server_groups;
pub mod server_parts;
pub mod servers;

use crate::schema::{Schema, array, object, opt, req, shape};

/// `{"flavor": {...}}`
fn one(name: &'static str, resource: Schema) -> Schema {
    object([req(name, resource)])
}

/// `{"flavors": [...]}`
fn list(name: &'static str, resource: Schema) -> Schema {
    one(name, array(resource))
}

/// A list with the link to the next page, if there is one: `{"flavors": [...], "flavors_links": [...]}`.
fn page(name: &'static str, resource: Schema, links: &'static str) -> Schema {
    list(name, resource).plus([opt(links, shape::links())])
}
