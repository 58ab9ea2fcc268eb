//! Quotas, limits and usage.

use super::{list, one};
use crate::answers::{Answers, ok};
use crate::schema::{Property, Schema, any_of, array, object, opt, req, shape};

/// The limits of a quota set. `limit` is the schema of each limit.
fn quota_set(limit: fn() -> Schema) -> Schema {
    object([
        req("cores", limit()),
        req("instances", limit()),
        req("key_pairs", limit()),
        req("metadata_items", limit()),
        req("ram", limit()),
        req("server_groups", limit()),
        req("server_group_members", limit()),
        req("fixed_ips", limit()).until(2, 35),
        req("floating_ips", limit()).until(2, 35),
        req("security_groups", limit()).until(2, 35),
        req("security_group_rules", limit()).until(2, 35),
        req("injected_files", limit()).until(2, 56),
        req("injected_file_content_bytes", limit()).until(2, 56),
        req("injected_file_path_bytes", limit()).until(2, 56),
    ])
}

fn id() -> Property {
    req("id", shape::string())
}

pub fn show() -> Answers {
    ok(one("quota_set", quota_set(shape::integer).plus([id()])))
}

pub fn detail() -> Answers {
    let line =
        || object([req("limit", shape::integer()), req("in_use", shape::integer()), req("reserved", shape::integer())]);
    ok(one("quota_set", quota_set(line).plus([id()])))
}

pub fn update() -> Answers {
    ok(one("quota_set", quota_set(shape::integer)))
}

fn quota_class() -> Schema {
    object([
        req("cores", shape::integer()),
        req("instances", shape::integer()),
        req("key_pairs", shape::integer()),
        req("metadata_items", shape::integer()),
        req("ram", shape::integer()),
        req("server_groups", shape::integer()).since(2, 50),
        req("server_group_members", shape::integer()).since(2, 50),
        req("fixed_ips", shape::integer()).until(2, 49),
        req("floating_ips", shape::integer()).until(2, 49),
        req("security_groups", shape::integer()).until(2, 49),
        req("security_group_rules", shape::integer()).until(2, 49),
        req("injected_files", shape::integer()).until(2, 56),
        req("injected_file_content_bytes", shape::integer()).until(2, 56),
        req("injected_file_path_bytes", shape::integer()).until(2, 56),
    ])
}

pub fn class() -> Answers {
    ok(one("quota_class_set", quota_class().plus([id()])))
}

pub fn update_class() -> Answers {
    ok(one("quota_class_set", quota_class()))
}

pub fn limits() -> Answers {
    let absolute = object([
        req("maxTotalInstances", shape::integer()),
        req("maxTotalCores", shape::integer()),
        req("maxTotalRAMSize", shape::integer()),
        req("maxTotalFloatingIps", shape::integer()).until(2, 35),
        req("maxTotalKeypairs", shape::integer()),
        req("maxServerMeta", shape::integer()),
        req("maxImageMeta", shape::integer()).until(2, 38),
        req("maxSecurityGroups", shape::integer()).until(2, 35),
        req("maxSecurityGroupRules", shape::integer()).until(2, 35),
        req("maxPersonality", shape::integer()).until(2, 56),
        req("maxPersonalitySize", shape::integer()).until(2, 56),
        req("maxServerGroups", shape::integer()),
        req("maxServerGroupMembers", shape::integer()),
        req("totalRAMUsed", shape::integer()),
        req("totalCoresUsed", shape::integer()),
        req("totalInstancesUsed", shape::integer()),
        req("totalFloatingIpsUsed", shape::integer()).until(2, 35),
        req("totalSecurityGroupsUsed", shape::integer()).until(2, 35),
        req("totalServerGroupsUsed", shape::integer()),
    ]);
    ok(one("limits", object([req("rate", array(object([]).open())), req("absolute", absolute)])))
}

fn server_usage() -> Schema {
    object([
        req("instance_id", shape::uuid()),
        req("name", shape::string()),
        req("hours", shape::number()),
        req("flavor", shape::string()),
        req("vcpus", shape::integer()),
        req("memory_mb", shape::integer()),
        req("local_gb", shape::integer()),
        req("tenant_id", shape::string()),
        req("started_at", shape::time_or_null()),
        req("ended_at", shape::time_or_null()),
        req("state", shape::string()),
        req("uptime", shape::integer()),
    ])
}

fn project_usage(servers: Property) -> Schema {
    object([
        req("total_hours", shape::number()),
        req("total_local_gb_usage", shape::number()),
        req("total_memory_mb_usage", shape::number()),
        req("total_vcpus_usage", shape::number()),
        req("tenant_id", shape::string()),
        req("start", shape::time()),
        req("stop", shape::time()),
        servers,
    ])
}

/// A usage shows its servers only if the query has `detailed=1`.
pub fn usages() -> Answers {
    let usage = project_usage(opt("server_usages", array(server_usage())));
    ok(list("tenant_usages", usage).plus([opt("tenant_usages_links", shape::links()).since(2, 40)]))
}

/// A project without servers shows an empty object.
pub fn usage() -> Answers {
    let usage = project_usage(req("server_usages", array(server_usage())));
    let links = opt("tenant_usage_links", shape::links()).since(2, 40);
    ok(one("tenant_usage", any_of([usage, object([])])).plus([links]))
}
