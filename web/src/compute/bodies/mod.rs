//! The schemas of the Compute API's bodies and query strings, at each microversion.
//!
//! One function per operation, named after it. Operations with the same schema share a function.

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

/// The query schema of operations without parameters. These operations ignore unknown parameters until 2.101 and refuse
/// them from 2.102 on.
pub fn no_query() -> Schema {
    query([]).strict_since(2, 102)
}

/// The query schema of operations that refuse unknown parameters at every version. These are the operations on shares,
/// which exist since 2.97.
pub fn strict_no_query() -> Schema {
    object([])
}

/// A description: any printable text, including spaces. As in Nova, characters above U+FFFF are refused.
pub(super) fn printable() -> Schema {
    string().pattern(r"^[^\p{C}\p{Zl}\p{Zp}\x{10000}-\x{10FFFF}]*$")
}
