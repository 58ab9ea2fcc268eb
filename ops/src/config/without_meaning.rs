//! Options of Nova that a file may set and that have no meaning here, each with the reason. Other options without a
//! meaning are in `nova_options.txt`: they belong to parts that Chronova does not have at all.

/// Section, name, and why the option has no meaning. Sorted.
pub(super) const WITHOUT_MEANING: &[(&str, &str, &str)] = &[
    (
        "DEFAULT",
        "running_deleted_instance_poll_interval",
        "a host's guests are compared with the log whenever libvirt tells of a change, and in every resynchronisation",
    ),
    ("api", "instance_list_per_project_cells", "there is one cell, and all its servers are in one read model"),
    ("api", "list_records_by_skipping_down_cells", "there is one cell, and its read models are in the server itself"),
    ("filter_scheduler", "available_filters", "it names Python classes; all filters that are built in can be enabled"),
    ("filter_scheduler", "cross_cell_move_weight_multiplier", "there is one cell"),
    (
        "filter_scheduler",
        "track_instance_changes",
        "the scheduler reads the log, which always says which servers are on a host",
    ),
    ("image_cache", "subdirectory_name", "cached images are volumes of the libvirt pool that holds the disks"),
    (
        "libvirt",
        "inject_password",
        "nothing of Chronova's runs on the hosts, so it cannot write into a guest's disk: use the guest agent or cloud-init",
    ),
    ("libvirt", "tx_queue_size", "no network here has vhost-user cards"),
    ("quota", "count_usage_from_placement", "usage is claimed in the log, and counted nowhere"),
    ("quota", "recheck_quota", "usage is claimed before anything is made, so there is nothing to count again"),
    ("vnc", "novncproxy_host", "there is no proxy of its own: consoles are served on [chronova] listen"),
    ("vnc", "novncproxy_port", "there is no proxy of its own: consoles are served on [chronova] listen"),
    (
        "vnc",
        "server_proxyclient_address",
        "the console gateway reaches guests through libvirt, and no address of a host is needed",
    ),
    (
        "workarounds",
        "disable_deep_image_inspection",
        "the inspection keeps an image from naming files of the host, so it is always on",
    ),
    ("workarounds", "handle_virt_lifecycle_events", "the log always follows what libvirt tells of guests"),
];

/// Why the option has no meaning.
pub(super) fn reason(section: &str, name: &str) -> Option<&'static str> {
    let known = WITHOUT_MEANING.iter().find(|(s, n, _)| s.eq_ignore_ascii_case(section) && *n == name);
    known.map(|(_, _, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options;

    #[test]
    fn the_list_is_sorted_and_names_no_option_of_ours() {
        assert!(WITHOUT_MEANING.windows(2).all(|pair| (pair[0].0, pair[0].1) < (pair[1].0, pair[1].1)));
        for (section, name, _) in WITHOUT_MEANING {
            assert!(options::find(section, name).is_none(), "[{section}] {name} is ours");
        }
    }
}
