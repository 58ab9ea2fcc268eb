//! The tables of Nova and Placement that an adoption reads.

/// A table that an adoption reads. Every supported release has it. A database without such a table is refused. An
/// account does not see a table that it may not read, and such a table would otherwise count as empty.
#[derive(Debug, Clone, Copy)]
pub struct NovaTableUse {
    pub name: &'static str,
    /// The columns that every supported release has.
    pub needed: &'static [&'static str],
    /// The columns that Nova's services write every few seconds. The log has none of them, so a change of them does not
    /// matter.
    pub restless: &'static [&'static str],
}

const fn needs(name: &'static str, needed: &'static [&'static str]) -> NovaTableUse {
    NovaTableUse { name, needed, restless: &[] }
}

/// A table whose columns are all optional.
const fn any(name: &'static str) -> NovaTableUse {
    needs(name, &[])
}

/// The tables of `nova_api`.
pub const API_TABLES: &[NovaTableUse] = &[
    needs("cell_mappings", &["uuid", "name", "database_connection"]),
    needs("flavors", &["flavorid", "name", "vcpus", "memory_mb", "root_gb"]),
    any("flavor_extra_specs"),
    any("flavor_projects"),
    any("key_pairs"),
    any("quotas"),
    any("quota_classes"),
    any("project_user_quotas"),
    any("aggregates"),
    any("aggregate_hosts"),
    any("aggregate_metadata"),
    any("instance_groups"),
    any("instance_group_policy"),
    any("instance_group_member"),
    any("build_requests"),
    needs("instance_mappings", &["instance_uuid", "cell_id"]),
    needs("request_specs", &["instance_uuid", "spec"]),
];

/// The tables of a cell.
pub const CELL_TABLES: &[NovaTableUse] = &[
    needs("instances", &["uuid", "deleted", "vm_state", "task_state", "power_state", "host", "node", "project_id"]),
    needs("instance_extra", &["instance_uuid", "flavor"]),
    NovaTableUse {
        name: "instance_info_caches",
        needed: &["instance_uuid", "network_info"],
        restless: &["updated_at"],
    },
    any("instance_metadata"),
    any("instance_system_metadata"),
    any("instance_faults"),
    any("instance_actions"),
    any("instance_actions_events"),
    needs("block_device_mapping", &["instance_uuid", "destination_type", "source_type", "volume_id"]),
    any("tags"),
    any("virtual_interfaces"),
    needs("migrations", &["instance_uuid", "status", "source_compute", "dest_compute"]),
    NovaTableUse {
        name: "services",
        needed: &["host", "binary", "disabled"],
        restless: &["updated_at", "report_count", "last_seen_up"],
    },
    NovaTableUse {
        name: "compute_nodes",
        needed: &["uuid", "host", "hypervisor_hostname", "hypervisor_type"],
        restless: &[
            "updated_at",
            "vcpus_used",
            "memory_mb_used",
            "local_gb_used",
            "free_ram_mb",
            "free_disk_gb",
            "current_workload",
            "running_vms",
            "disk_available_least",
            "stats",
            "metrics",
        ],
    },
];

/// The tables of Placement.
pub const PLACEMENT_TABLES: &[NovaTableUse] = &[
    needs("resource_providers", &["uuid", "name", "generation"]),
    needs("inventories", &["resource_provider_id", "resource_class_id", "total"]),
    needs("allocations", &["consumer_id", "resource_provider_id", "resource_class_id", "used"]),
    needs("consumers", &["uuid", "project_id", "user_id"]),
    any("consumer_types"),
    any("placement_aggregates"),
    any("projects"),
    any("resource_classes"),
    any("resource_provider_aggregates"),
    any("resource_provider_traits"),
    any("traits"),
    any("users"),
];
