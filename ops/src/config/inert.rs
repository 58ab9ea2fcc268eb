//! Declared options that nothing heeds yet.
//!
//! Their values are checked like any other's, so that a `nova.conf` is known to be sound; but who sets one is warned that it
//! changes nothing, and the reference page says so. The list only gets shorter: whoever makes an option work takes its
//! line out.

use super::option::OptionDef;

/// (section, name), sorted.
const INERT: &[(&str, &str)] = &[
    ("DEFAULT", "config_drive_format"),
    ("DEFAULT", "graceful_shutdown_timeout"),
    ("DEFAULT", "instance_build_timeout"),
    ("DEFAULT", "network_allocate_retries"),
    ("DEFAULT", "osapi_compute_unique_server_name_scope"),
    ("DEFAULT", "reboot_timeout"),
    ("DEFAULT", "rescue_timeout"),
    ("DEFAULT", "running_deleted_instance_poll_interval"),
    ("DEFAULT", "service_down_time"),
    ("DEFAULT", "sync_power_state_interval"),
    ("DEFAULT", "vif_plugging_is_fatal"),
    ("DEFAULT", "vif_plugging_timeout"),
    ("api", "instance_list_per_project_cells"),
    ("api", "list_records_by_skipping_down_cells"),
    ("compute", "image_type_exclude_list"),
    ("compute", "shutdown_retry_interval"),
    ("compute", "vmdk_allowed_types"),
    ("filter_scheduler", "available_filters"),
    ("filter_scheduler", "cross_cell_move_weight_multiplier"),
    ("filter_scheduler", "pci_weight_multiplier"),
    ("filter_scheduler", "track_instance_changes"),
    ("glance", "default_trusted_certificate_ids"),
    ("glance", "enable_certificate_validation"),
    ("glance", "image_property_quota"),
    ("glance", "verify_glance_signatures"),
    ("image_cache", "subdirectory_name"),
    ("libvirt", "disk_prefix"),
    ("libvirt", "inject_password"),
    ("libvirt", "snapshot_image_format"),
    ("libvirt", "swtpm_enabled"),
    ("libvirt", "tx_queue_size"),
    ("metrics", "required"),
    ("quota", "count_usage_from_placement"),
    ("quota", "driver"),
    ("quota", "recheck_quota"),
    ("scheduler", "query_placement_for_routed_network_aggregates"),
    ("token", "allow_expired_window"),
    ("vnc", "novncproxy_host"),
    ("vnc", "novncproxy_port"),
    ("vnc", "server_proxyclient_address"),
    ("workarounds", "disable_deep_image_inspection"),
    ("workarounds", "handle_virt_lifecycle_events"),
];

/// Whether setting the option changes nothing.
pub(super) fn is_inert(def: &OptionDef) -> bool {
    INERT.binary_search(&(def.section, def.name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options;

    #[test]
    fn the_list_is_sorted_and_names_declared_options() {
        assert!(INERT.windows(2).all(|pair| pair[0] < pair[1]), "sort the list");
        for (section, name) in INERT {
            assert!(options::find(section, name).is_some(), "[{section}] {name} is not declared");
        }
    }
}
