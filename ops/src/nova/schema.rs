//! The tables of Nova and Placement that an adoption reads.

/// A table that an adoption reads.
#[derive(Debug, Clone, Copy)]
pub struct NovaTableUse {
    pub name: &'static str,
    /// The columns without which the database is one of another release. If there are none, the table may be missing.
    pub needed: &'static [&'static str],
    /// The columns that Nova's services write every few seconds. The log has none of them, so a change of them does not
    /// matter.
    pub restless: &'static [&'static str],
}

const fn needs(name: &'static str, needed: &'static [&'static str]) -> NovaTableUse {
    NovaTableUse { name, needed, restless: &[] }
}

const fn may_have(name: &'static str) -> NovaTableUse {
    needs(name, &[])
}

/// The tables of `nova_api`.
pub const API_TABLES: &[NovaTableUse] = &[
    needs("cell_mappings", &["uuid", "name", "database_connection"]),
    needs("flavors", &["flavorid", "name", "vcpus", "memory_mb", "root_gb"]),
    may_have("flavor_extra_specs"),
    may_have("flavor_projects"),
    may_have("key_pairs"),
    may_have("quotas"),
    may_have("quota_classes"),
    may_have("project_user_quotas"),
    may_have("aggregates"),
    may_have("aggregate_hosts"),
    may_have("aggregate_metadata"),
    may_have("instance_groups"),
    may_have("instance_group_policy"),
    may_have("instance_group_member"),
    may_have("build_requests"),
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
    may_have("instance_metadata"),
    may_have("instance_system_metadata"),
    may_have("instance_faults"),
    may_have("instance_actions"),
    may_have("instance_actions_events"),
    needs("block_device_mapping", &["instance_uuid", "destination_type", "source_type", "volume_id"]),
    may_have("tags"),
    may_have("virtual_interfaces"),
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
    may_have("consumer_types"),
    may_have("placement_aggregates"),
    may_have("projects"),
    may_have("resource_classes"),
    may_have("resource_provider_aggregates"),
    may_have("resource_provider_traits"),
    may_have("traits"),
    may_have("users"),
];
