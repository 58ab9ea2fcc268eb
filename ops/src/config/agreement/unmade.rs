//! Values of Nova's options that Chronova does not support. An operator who sets such a value relies on its effect, so
//! Chronova does not start.

use super::{Clash, error};
use crate::config::Config;

pub(super) fn choices(config: &Config) -> Vec<Clash> {
    let choices = [
        (
            config.libvirt.snapshot_image_format.as_deref().is_some_and(|format| matches!(format, "vmdk" | "vdi")),
            ("libvirt", "snapshot_image_format"),
            "[libvirt] snapshot_image_format is not supported with this value: set it to raw or qcow2. Hosts make images \
             of disks only in these formats",
        ),
        (
            config.scheduler.query_placement_for_routed_network_aggregates,
            ("scheduler", "query_placement_for_routed_network_aggregates"),
            "[scheduler] query_placement_for_routed_network_aggregates = true is not supported: set it to false. \
             Chronova reads no segments of networks. Availability zones or host aggregates can keep servers on the \
             hosts of a segment",
        ),
        (
            config.quota.driver == "nova.quota.UnifiedLimitsDriver",
            ("quota", "driver"),
            "[quota] driver = nova.quota.UnifiedLimitsDriver is not supported, since limits of the identity service are not \
             read: set nova.quota.DbQuotaDriver, and set the limits with `openstack quota set`",
        ),
    ];
    let made = choices.into_iter().filter(|(is_made, ..)| *is_made);
    made.map(|(_, at, message)| error(at, message)).collect()
}
