//! The one table of operations that are not possible with certain hardware.
//!
//! The lines follow the decorators of Nova's `compute/api.py` (`reject_vtpm_instances`, `reject_sev_instances`,
//! `block_accelerators`), which are checked before lock and state. Since Xena, all of them answer 400. libvirt saves no
//! guest with a PCI device of its host. Nova takes the devices away first; here the suspension is refused. As in Nova,
//! the process of a live migration checks passed-through devices ([`tied_by_devices`]); this table does not.

use chronova_events::instance::Alive;

use super::actions::ServerAction;
pub use super::decision::HostBoundHardware;
use super::decision::InstanceReject;
use crate::pci::alias;

/// Each line has an action, the hardware, and the action's name in the refusal.
const TABLE: &[(ServerAction, HostBoundHardware, &str)] = &[
    (ServerAction::LiveMigrate, HostBoundHardware::Accelerators, "live-migration"),
    (ServerAction::LiveMigrate, HostBoundHardware::Vtpm, "live-migration"),
    (ServerAction::LiveMigrate, HostBoundHardware::Sev, "live-migration"),
    (ServerAction::Evacuate, HostBoundHardware::Vtpm, "evacuate"),
    (ServerAction::Rebuild, HostBoundHardware::Vtpm, "rebuild"),
    (ServerAction::Rescue, HostBoundHardware::Vtpm, "rescue"),
    (ServerAction::Shelve, HostBoundHardware::Vtpm, "shelve"),
    (ServerAction::Suspend, HostBoundHardware::Accelerators, "suspend"),
    (ServerAction::Suspend, HostBoundHardware::Sev, "suspend"),
    (ServerAction::Suspend, HostBoundHardware::PciDevices, "suspend"),
    (ServerAction::Resize, HostBoundHardware::Accelerators, "resize"),
    (ServerAction::Migrate, HostBoundHardware::Accelerators, "migrate"),
];

impl HostBoundHardware {
    fn is_had_by(self, server: &Alive) -> bool {
        match self {
            Self::Vtpm => asks_for(server, "hw:tpm_version", "hw_tpm_version"),
            Self::Sev => asks_for(server, "hw:mem_encryption", "hw_mem_encryption"),
            Self::Accelerators => asks_for(server, "accel:device_profile", ""),
            Self::PciDevices => asks_for(server, alias::SPEC, ""),
        }
    }
}

/// Whether the flavor or the image requests this hardware.
fn asks_for(server: &Alive, spec: &str, property: &str) -> bool {
    let wanted = |value: &str| !matches!(value.trim().to_lowercase().as_str(), "" | "false" | "0" | "no" | "off");
    let set = |pairs: &[(String, String)], name: &str| pairs.iter().any(|(key, value)| key == name && wanted(value));
    set(&server.request.flavor.extra_specs, spec)
        || server.hardware_image().is_some_and(|image| set(&image.properties, property))
}

pub(super) fn check(server: &Alive, action: ServerAction) -> Result<(), InstanceReject> {
    let found = TABLE.iter().find(|(of, hardware, _)| *of == action && hardware.is_had_by(server));
    found
        .map_or(Ok(()), |(_, hardware, operation)| Err(InstanceReject::NotSupported { operation, hardware: *hardware }))
}

/// The reason why a guest with devices of its host cannot be live-migrated: Nova's `_check_can_migrate_pci` and
/// `_assert_source_can_live_migrate_mdevs`. Chronova marks no device as `live_migratable`.
pub fn tied_by_devices(server: &Alive) -> Option<&'static str> {
    let spec = |name: &str| {
        let specs = server.request.flavor.extra_specs.iter();
        specs.filter(|(key, _)| key == name).any(|(_, value)| !matches!(value.trim(), "" | "0"))
    };
    match (spec("pci_passthrough:alias"), spec("resources:VGPU")) {
        (true, _) => Some("This request does not explicitly request live-migratable devices."),
        (_, true) => Some("Virtual GPUs cannot be live-migrated."),
        _ => None,
    }
}
