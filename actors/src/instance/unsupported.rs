//! The only table of the operations that are not possible on servers with certain hardware.
//!
//! The lines follow the decorators of Nova's `compute/api.py` (`reject_vtpm_instances`, `reject_sev_instances`,
//! `block_accelerators`). They are checked before lock and state. Since Xena, all of them answer 400. libvirt cannot
//! save the memory of a guest with a PCI device of its host. To suspend a server, Nova detaches such devices first;
//! Chronova refuses. As in Nova, the process of a live migration checks passed-through devices ([`tied_by_devices`]).
//! This table does not.

use chronova_events::instance::Alive;
use chronova_hypervisor::pmem;

use super::actions::ServerAction;
pub use super::decision::HostBoundHardware;
use super::decision::InstanceReject;
use crate::hardware::is_true;
use crate::mdev::MdevOptions;
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
    pub fn is_had_by(self, server: &Alive) -> bool {
        match self {
            Self::Vtpm => has(server, "hw:tpm_version", "hw_tpm_version", names_something),
            Self::Sev => has(server, "hw:mem_encryption", "hw_mem_encryption", is_true),
            Self::Accelerators => has(server, "accel:device_profile", "", names_something),
            Self::PciDevices => has(server, alias::SPEC, "", alias::requests_devices),
        }
    }
}

fn names_something(value: &str) -> bool {
    !value.trim().is_empty()
}

/// Whether the flavor's extra spec or the image's property has a value that requests the hardware.
fn has(server: &Alive, spec: &str, property: &str, wanted: fn(&str) -> bool) -> bool {
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
pub fn tied_by_devices(server: &Alive, mdevs: &MdevOptions) -> Option<&'static str> {
    match (HostBoundHardware::PciDevices.is_had_by(server), mdevs.are_wanted_by(server)) {
        (true, _) => Some("This request does not explicitly request live-migratable devices."),
        (_, true) => Some("Virtual GPUs cannot be live-migrated."),
        // As in Nova, such a guest stays, because its data is on the host's own persistent memory.
        _ if has(server, pmem::SPEC, "", names_something) => Some("Virtual persistent memory cannot be live-migrated."),
        _ => None,
    }
}
