//! The bodies and queries of quotas, limits and usage.

use std::collections::BTreeMap;

use crate::schema::typed;
use crate::schema::{Schema, loose_boolean, many, non_negative_integer, object, opt, query, quota_limit, req, string};
use serde::Deserialize;
use serde_json::{Map, Value};

pub fn limits_index_query() -> Schema {
    query([many("tenant_id", string())]).strict_since(2, 75)
}

pub fn quota_sets_show_query() -> Schema {
    query([many("user_id", string())]).strict_since(2, 75)
}

pub fn quota_sets_defaults_query() -> Schema {
    query([])
}

pub fn quota_sets_update_body() -> Schema {
    object([req(
        "quota_set",
        object([
            opt("instances", quota_limit()),
            opt("cores", quota_limit()),
            opt("ram", quota_limit()),
            opt("floating_ips", quota_limit()).until(2, 35),
            opt("fixed_ips", quota_limit()).until(2, 35),
            opt("metadata_items", quota_limit()),
            opt("key_pairs", quota_limit()),
            opt("security_groups", quota_limit()).until(2, 35),
            opt("security_group_rules", quota_limit()).until(2, 35),
            opt("injected_files", quota_limit()).until(2, 56),
            opt("injected_file_content_bytes", quota_limit()).until(2, 56),
            opt("injected_file_path_bytes", quota_limit()).until(2, 56),
            opt("server_groups", quota_limit()),
            opt("server_group_members", quota_limit()),
            opt("force", loose_boolean()),
        ]),
    )])
}

pub fn quota_classes_update_body() -> Schema {
    object([req(
        "quota_class_set",
        object([
            opt("instances", quota_limit()),
            opt("cores", quota_limit()),
            opt("ram", quota_limit()),
            opt("floating_ips", quota_limit()).until(2, 49),
            opt("fixed_ips", quota_limit()).until(2, 49),
            opt("metadata_items", quota_limit()),
            opt("key_pairs", quota_limit()),
            opt("security_groups", quota_limit()).until(2, 49),
            opt("security_group_rules", quota_limit()).until(2, 49),
            opt("injected_files", quota_limit()).until(2, 56),
            opt("injected_file_content_bytes", quota_limit()).until(2, 56),
            opt("injected_file_path_bytes", quota_limit()).until(2, 56),
            opt("server_groups", quota_limit()),
            opt("server_group_members", quota_limit()),
        ]),
    )])
}

pub fn simple_tenant_usage_index_query() -> Schema {
    query([
        many("start", string()),
        many("end", string()),
        many("detailed", string()),
        many("limit", non_negative_integer()).since(2, 40),
        many("marker", string()).since(2, 40),
    ])
    .strict_since(2, 75)
}

pub fn simple_tenant_usage_show_query() -> Schema {
    query([
        many("start", string()),
        many("end", string()),
        many("limit", non_negative_integer()).since(2, 40),
        many("marker", string()).since(2, 40),
    ])
    .strict_since(2, 75)
}

/// Limits that are set for a project.
#[derive(Debug, Deserialize)]
pub struct QuotaSetBody {
    /// Whether limits below the current usage are accepted.
    #[serde(default, deserialize_with = "typed::flag")]
    pub force: bool,
    #[serde(flatten)]
    pub limits: Map<String, Value>,
}

/// Limits as integers or as their digits, by the name of the resource, sorted.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct QuotaClassBody {
    pub limits: BTreeMap<String, QuotaLimit>,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct QuotaLimit(#[serde(deserialize_with = "typed::number")] pub i64);
