//! The bodies of key pairs.

use crate::schema::{Schema, all_of, choice, many, name, non_negative_integer, object, opt, query, req, string};
use serde::Deserialize;

pub fn index_query() -> Schema {
    query([
        many("user_id", string()).since(2, 10),
        many("limit", non_negative_integer()).since(2, 35),
        many("marker", string()).since(2, 35),
    ])
    .strict_since(2, 75)
}

pub fn show_query() -> Schema {
    query([many("user_id", string()).since(2, 10)]).strict_since(2, 75)
}

pub fn create_body() -> Schema {
    object([req(
        "keypair",
        object([
            req(
                "name",
                all_of([name(), string().pattern(r"^[_\- a-zA-Z0-9]+$").min_length(1).max_length(255)]).from(
                    2,
                    92,
                    all_of([name(), string().pattern(r"^[_\-\@\. a-zA-Z0-9]+$").min_length(1).max_length(255)]),
                ),
            ),
            opt("type", choice(["ssh", "x509"])).since(2, 2),
            opt("public_key", string()).until(2, 91),
            req("public_key", string()).since(2, 92),
            opt("user_id", string()).since(2, 10),
        ]),
    )])
}

/// A key pair to import or generate.
#[derive(Debug, Deserialize)]
pub struct KeypairBody {
    pub name: String,
    /// `ssh` or `x509`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// `None` requests a generated key pair.
    pub public_key: Option<String>,
    pub user_id: Option<String>,
}
