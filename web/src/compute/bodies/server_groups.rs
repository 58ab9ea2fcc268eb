//! The bodies of server groups.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::schema::{Schema, any, choice, many, name, non_negative_integer, object, opt, query, req, string};

pub fn index_query() -> Schema {
    query([
        many("all_projects", string()),
        many("limit", non_negative_integer()),
        many("offset", non_negative_integer()),
    ])
    .strict_since(2, 75)
}

/// A list that holds exactly one of `policies`.
fn one_of_these(policies: &[&str]) -> Schema {
    any()
        .with("type", json!("array"))
        .with("prefixItems", json!([{"type": "string", "enum": policies}]))
        .unique_items()
        .min_items(1)
        .max_items(1)
        .with("additionalItems", json!(false))
}

pub fn create_body() -> Schema {
    let hard = one_of_these(&["anti-affinity", "affinity"]);
    let all = one_of_these(&["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"]);
    let most = any().types(["integer", "string"]).pattern("^[0-9]*$").min(1).min_length(1);
    object([req(
        "server_group",
        object([
            req("name", name()),
            req("policies", hard.from(2, 15, all)).until(2, 63),
            req("policy", choice(["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"])).since(2, 64),
            opt("rules", object([opt("max_server_per_host", most)])).since(2, 64),
        ]),
    )])
}

/// A new server group.
#[derive(Debug, Deserialize)]
pub struct ServerGroupBody {
    pub name: String,
    policy: Option<String>,
    /// Until 2.63: a list with one policy.
    #[serde(default)]
    policies: Vec<String>,
    #[serde(default)]
    pub rules: ServerGroupRules,
}

#[derive(Debug, Default, Deserialize)]
pub struct ServerGroupRules {
    /// An integer or its digits.
    pub max_server_per_host: Option<Value>,
}

impl ServerGroupBody {
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_ref().or(self.policies.first()).map(String::as_str)
    }
}
