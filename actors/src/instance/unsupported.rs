//! What is done with no server that has certain hardware: the one table.
//!
//! Each line is what the decorators of Nova's `compute/api.py` refuse (`reject_vtpm_instances`, `reject_sev_instances`,
//! `block_accelerators`), looked at before lock and state, as there. Since Xena all of them are answered with 400.
//! What a live migration finds out only on its way (passed-through devices) is looked at there.

use chronova_events::instance::Alive;

use super::InstanceReject;
use super::actions::Action;

/// Hardware that ties a server down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hardware {
    /// A TPM, whose secret only the server's owner can read.
    Vtpm,
    /// Memory that the host encrypts.
    Sev,
    /// Devices of Cyborg's.
    Accelerators,
}

/// Action, hardware, and what the refusal calls the action.
const TABLE: &[(Action, Hardware, &str)] = &[
    (Action::LiveMigrate, Hardware::Accelerators, "live-migration"),
    (Action::LiveMigrate, Hardware::Vtpm, "live-migration"),
    (Action::LiveMigrate, Hardware::Sev, "live-migration"),
    (Action::Evacuate, Hardware::Vtpm, "evacuate"),
    (Action::Rebuild, Hardware::Vtpm, "rebuild"),
    (Action::Rescue, Hardware::Vtpm, "rescue"),
    (Action::Shelve, Hardware::Vtpm, "shelve"),
    (Action::Suspend, Hardware::Accelerators, "suspend"),
    (Action::Suspend, Hardware::Sev, "suspend"),
    (Action::Resize, Hardware::Accelerators, "resize"),
    (Action::Migrate, Hardware::Accelerators, "migrate"),
];

impl Hardware {
    fn is_had_by(self, server: &Alive) -> bool {
        match self {
            Self::Vtpm => asks_for(server, "hw:tpm_version", "hw_tpm_version"),
            Self::Sev => asks_for(server, "hw:mem_encryption", "hw_mem_encryption"),
            Self::Accelerators => asks_for(server, "accel:device_profile", ""),
        }
    }
}

/// Whether flavor or image ask for it.
fn asks_for(server: &Alive, spec: &str, property: &str) -> bool {
    let wanted = |value: &str| !matches!(value.trim().to_lowercase().as_str(), "" | "false" | "0" | "no" | "off");
    let set = |pairs: &[(String, String)], name: &str| pairs.iter().any(|(key, value)| key == name && wanted(value));
    set(&server.request.flavor.extra_specs, spec)
        || server.hardware_image().is_some_and(|image| set(&image.properties, property))
}

pub(super) fn check(server: &Alive, action: Action) -> Result<(), InstanceReject> {
    let found = TABLE.iter().find(|(of, hardware, _)| *of == action && hardware.is_had_by(server));
    found
        .map_or(Ok(()), |(_, hardware, operation)| Err(InstanceReject::NotSupported { operation, hardware: *hardware }))
}

/// Why a guest with devices of its host cannot go to another one while it runs: Nova's `_check_can_migrate_pci` and
/// `_assert_source_can_live_migrate_mdevs`. No device here is marked `live_migratable`.
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
