//! The bodies and queries for creating, listing and changing servers.

use serde::Deserialize;
use serde_json::json;

use super::printable;
use crate::schema::typed::SentField;
use crate::schema::{
    Schema, any, array, base64, choice, date_time, flavor_positive, hostname, ip_address, ipv4, ipv6, loose_boolean,
    many, metadata, name, non_negative_integer, null, null_or, object, one_of, opt, positive_integer, regex, req,
    string, tag, tags, uuid, uuid_or_empty,
};

/// The sort keys of lists of servers.
const SORTED_BY: &[&str] = &[
    "access_ip_v4",
    "access_ip_v6",
    "auto_disk_config",
    "availability_zone",
    "config_drive",
    "created_at",
    "display_description",
    "display_name",
    "host",
    "hostname",
    "image_ref",
    "instance_type_id",
    "kernel_id",
    "key_name",
    "launch_index",
    "launched_at",
    "locked_by",
    "node",
    "power_state",
    "progress",
    "project_id",
    "ramdisk_id",
    "root_device_name",
    "task_state",
    "terminated_at",
    "updated_at",
    "user_id",
    "uuid",
    "vm_state",
];

/// Sort keys that Nova accepts until 2.74. Nova ignores all of them except `locked`.
pub(in crate::compute) const NOT_SORTED_BY: &[&str] = &[
    "architecture",
    "cell_name",
    "cleaned",
    "default_ephemeral_device",
    "default_swap_device",
    "deleted",
    "deleted_at",
    "disable_terminate",
    "ephemeral_gb",
    "ephemeral_key_uuid",
    "id",
    "key_data",
    "launched_on",
    "locked",
    "memory_mb",
    "os_type",
    "reservation_id",
    "root_gb",
    "shutdown_terminate",
    "user_data",
    "vcpus",
    "vm_mode",
];

fn sort_keys(lists: &[&[&str]]) -> Schema {
    string().with("enum", json!(lists.concat()))
}

pub fn index_query() -> Schema {
    object([
        many("user_id", string()),
        many("project_id", string()),
        many("tenant_id", string()),
        many("launch_index", string()),
        many("image_ref", string()),
        many("image", string()),
        many("kernel_id", regex()),
        many("ramdisk_id", regex()),
        many("hostname", regex()),
        many("key_name", regex()),
        many("power_state", regex()),
        many("vm_state", string()),
        many("task_state", string()),
        many("host", string()),
        many("node", regex()),
        many("flavor", regex()),
        many("reservation_id", regex()),
        many("launched_at", regex()),
        many("terminated_at", regex()),
        many("availability_zone", regex()),
        many("name", regex()),
        many("display_name", regex()),
        many("description", regex()),
        many("display_description", regex()),
        many("locked_by", regex()),
        many("uuid", string()),
        many("root_device_name", regex()),
        many("config_drive", regex()),
        many("access_ip_v4", regex()),
        many("access_ip_v6", regex()),
        many("auto_disk_config", regex()),
        many("progress", regex()),
        many("sort_key", sort_keys(&[SORTED_BY, NOT_SORTED_BY]).from(2, 75, sort_keys(&[SORTED_BY, &["locked"]]))),
        many("sort_dir", string()),
        many("all_tenants", string()),
        many("soft_deleted", string()),
        many("deleted", string()),
        many("status", string()),
        many("changes-since", date_time()),
        many("ip", regex()),
        many("ip6", regex()),
        many("created_at", regex()),
        many("block_device_mapping", string()),
        many("services", string()),
        many("metadata", string()),
        many("system_metadata", string()),
        many("info_cache", string()),
        many("security_groups", string()),
        many("pci_devices", string()),
        many("limit", non_negative_integer()),
        many("marker", string()),
        many("tags", regex()).since(2, 26),
        many("tags-any", regex()).since(2, 26),
        many("not-tags", regex()).since(2, 26),
        many("not-tags-any", regex()).since(2, 26),
        many("changes-before", date_time()).since(2, 66),
        many("locked", string()).since(2, 73),
    ])
    .pattern_property("^_", array(string()))
    .open()
    .strict_since(2, 75)
}

/// The hints to the scheduler. `os:scheduler_hints` and `OS-SCH-HNT:scheduler_hints` have the same form.
fn scheduler_hints() -> Schema {
    object([
        opt("group", one_of([array(uuid()), uuid()])),
        opt("different_host", one_of([uuid(), array(uuid())])),
        opt("same_host", any().types(["string", "array"]).with("items", json!({"type": "string", "format": "uuid"}))),
        opt("query", any().types(["string", "object"])),
        opt("target_cell", name()),
        opt("different_cell", any().types(["string", "array"]).with("items", json!({"type": "string"}))),
        opt("build_near_host_ip", ip_address()),
        opt("cidr", string().pattern("^/[0-9a-f.:]+$")),
    ])
    .open()
}

pub fn create_body() -> Schema {
    object([
        req(
            "server",
            object([
                req("name", name()),
                opt("imageRef", uuid_or_empty()),
                req("flavorRef", any().types(["string", "integer"]).min_length(1)),
                opt("adminPass", string()),
                opt("metadata", metadata()),
                opt(
                    "networks",
                    array(object([
                        opt("fixed_ip", ip_address()),
                        opt("port", null_or(uuid())),
                        opt("uuid", string()),
                        opt("tag", tag()).since(2, 32),
                    ])),
                )
                .until(2, 36),
                req(
                    "networks",
                    one_of([
                        array(object([
                            opt("fixed_ip", ip_address()),
                            opt("port", null_or(uuid())),
                            opt("uuid", uuid()),
                        ])),
                        choice(["none", "auto"]),
                    ])
                    .from(
                        2,
                        42,
                        one_of([
                            array(object([
                                opt("fixed_ip", ip_address()),
                                opt("port", null_or(uuid())),
                                opt("uuid", uuid()),
                                opt("tag", tag()),
                            ])),
                            choice(["none", "auto"]),
                        ]),
                    ),
                )
                .since(2, 37),
                opt("OS-DCF:diskConfig", choice(["AUTO", "MANUAL"])),
                opt("accessIPv4", ipv4()),
                opt("accessIPv6", ipv6()),
                opt("personality", array(object([opt("path", string()), opt("contents", base64())]))).until(2, 56),
                opt("availability_zone", name()),
                opt(
                    "block_device_mapping",
                    array(object([
                        opt("virtual_name", string().max_length(255)),
                        opt("volume_id", uuid()),
                        opt("snapshot_id", uuid()),
                        opt("volume_size", flavor_positive()),
                        opt("device_name", string().min_length(1).max_length(255).pattern("^[a-zA-Z0-9._/-]*$")),
                        opt("delete_on_termination", loose_boolean()),
                        opt("no_device", any()),
                        opt("connection_info", string().max_length(16_777_215)),
                    ])),
                ),
                opt(
                    "block_device_mapping_v2",
                    array(object([
                        opt("virtual_name", string().max_length(255)),
                        opt("volume_id", uuid()),
                        opt("snapshot_id", uuid()),
                        opt("volume_size", flavor_positive()),
                        opt("device_name", string().min_length(1).max_length(255).pattern("^[a-zA-Z0-9._/-]*$")),
                        opt("delete_on_termination", loose_boolean()),
                        opt("no_device", any()),
                        opt("connection_info", string().max_length(16_777_215)),
                        opt("source_type", choice(["volume", "image", "snapshot", "blank"])),
                        opt("uuid", string().min_length(1).max_length(255).pattern("^[a-zA-Z0-9._-]*$")),
                        opt("image_id", uuid()),
                        opt("destination_type", choice(["local", "volume"])),
                        opt("guest_format", string().max_length(255)),
                        opt("device_type", string().max_length(255)),
                        opt("disk_bus", string().max_length(255)),
                        opt("boot_index", any().types(["integer", "string", "null"]).pattern("^-?[0-9]+$")),
                        opt("tag", tag()).since(2, 32).until(2, 32),
                        opt("tag", tag()).since(2, 42),
                        opt("volume_type", null_or(string().min_length(0).max_length(255))).since(2, 67),
                    ])),
                ),
                opt("config_drive", loose_boolean()),
                opt("key_name", name()),
                opt("min_count", positive_integer()),
                opt("max_count", positive_integer()),
                opt("return_reservation_id", loose_boolean()),
                opt("security_groups", array(object([opt("name", name())]))),
                opt("user_data", string().format("base64").max_length(65535)),
                opt("description", null_or(printable().min_length(0).max_length(255))).since(2, 19),
                opt("tags", tags()).since(2, 52),
                opt(
                    "trusted_image_certificates",
                    null_or(array(string().min_length(1)).min_items(1).max_items(50).unique_items()),
                )
                .since(2, 63),
                opt("host", hostname()).since(2, 74),
                opt("hypervisor_hostname", hostname()).since(2, 74),
                opt(
                    "hostname",
                    string().pattern("^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$").min_length(2).max_length(63).from(
                        2,
                        94,
                        hostname(),
                    ),
                )
                .since(2, 90),
            ]),
        ),
        opt("os:scheduler_hints", scheduler_hints()),
        opt("OS-SCH-HNT:scheduler_hints", scheduler_hints()),
    ])
}

pub fn update_body() -> Schema {
    object([req(
        "server",
        object([
            opt("name", name()),
            opt("OS-DCF:diskConfig", choice(["AUTO", "MANUAL"])),
            opt("accessIPv4", ipv4()),
            opt("accessIPv6", ipv6()),
            opt("description", null_or(printable().min_length(0).max_length(255))).since(2, 19),
            opt(
                "hostname",
                string().pattern("^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$").min_length(2).max_length(63).from(
                    2,
                    94,
                    hostname(),
                ),
            )
            .since(2, 90),
            opt("pinned_availability_zone", one_of([string().min_length(1).max_length(255), null()])).since(2, 104),
        ]),
    )])
}

/// Changes of a server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServerUpdateBody {
    pub name: Option<String>,
    /// `null` removes the description.
    pub description: SentField<String>,
    pub hostname: Option<String>,
    #[serde(rename = "OS-DCF:diskConfig")]
    pub disk_config: Option<String>,
    #[serde(rename = "accessIPv4")]
    pub access_ip_v4: Option<String>,
    #[serde(rename = "accessIPv6")]
    pub access_ip_v6: Option<String>,
    pub pinned_availability_zone: SentField<String>,
}
