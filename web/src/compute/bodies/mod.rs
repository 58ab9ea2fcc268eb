//! The schemas of the Compute API's bodies and query strings, at each microversion.
//!
//! One function per operation, named after it. Operations that share a form share the function.

pub mod aggregates;
pub mod external_events;
pub mod flavors;
pub mod hosts;
pub mod keypairs;
pub mod proxies;
pub mod quotas;
pub mod server_actions;
pub mod server_groups;
pub mod server_parts;
pub mod server_work;
pub mod servers;
pub mod volume_attachments;

use crate::schema::{Schema, object, query, string};

/// Operations without parameters ignore unknown ones until 2.101 and refuse them from 2.102 on.
pub fn no_query() -> Schema {
    query([]).strict_since(2, 102)
}

/// Operations from after 2.102 never ignored unknown parameters.
pub fn strict_no_query() -> Schema {
    object([])
}

/// Any text that prints, spaces included: descriptions. Characters outside of the basic plane do not count as such in
/// Nova, which collected the ones that do up to U+FFFF.
pub(super) fn printable() -> Schema {
    string().pattern(r"^[^\p{C}\p{Zl}\p{Zp}\x{10000}-\x{10FFFF}]*$")
}
