//! The bodies and queries of hypervisors, services and hosts.

use serde_json::json;

use crate::schema::{
    Schema, array, choice, date_time, hostname, loose_boolean, many, non_negative_integer, object, opt, query, req,
    single, string,
};

pub fn hypervisors_index_query() -> Schema {
    query([
        opt("limit", array(non_negative_integer()).from(2, 53, array(non_negative_integer()).max_items(1)))
            .since(2, 33),
        opt("marker", array(string()).from(2, 53, array(string()).max_items(1))).since(2, 33),
        single("hypervisor_hostname_pattern", hostname()).since(2, 53),
        single("with_servers", loose_boolean()).since(2, 53),
    ])
    .strict_since(2, 53)
}

pub fn hypervisors_show_query() -> Schema {
    query([single("with_servers", loose_boolean()).since(2, 53)]).strict_since(2, 53)
}

pub fn services_index_query() -> Schema {
    query([many("host", string()), many("binary", string())]).strict_since(2, 75)
}

pub fn services_update_body() -> Schema {
    object([
        req("host", hostname()).until(2, 52),
        req("binary", string().min_length(1).max_length(255)).until(2, 52),
        opt("disabled_reason", string().min_length(1).max_length(255)),
        opt("forced_down", loose_boolean()).since(2, 11),
        opt("status", choice(["enabled", "disabled"])).since(2, 53),
    ])
}

pub fn migrations_index_query() -> Schema {
    query([
        many("hidden", string()),
        many("host", string()),
        many("instance_uuid", string()),
        many("source_compute", string()),
        many("status", string()),
        many("migration_type", string()),
        single("limit", non_negative_integer()).since(2, 59),
        single("marker", string()).since(2, 59),
        single("changes-since", date_time()).since(2, 59),
        single("changes-before", date_time()).since(2, 66),
        single("user_id", string()).since(2, 80),
        single("project_id", string()).since(2, 80),
    ])
    .strict_since(2, 59)
}

pub fn hosts_index_query() -> Schema {
    query([many("zone", string())])
}

pub fn hosts_update_body() -> Schema {
    let switch = || choice(["enable", "disable", "Enable", "Disable", "ENABLE", "DISABLE"]);
    object([opt("status", switch()), opt("maintenance_mode", switch())])
        .with("anyOf", json!([{"required": ["status"]}, {"required": ["maintenance_mode"]}]))
}
