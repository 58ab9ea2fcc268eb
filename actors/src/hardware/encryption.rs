//! Encrypted memory (`hw:mem_encryption`, `hw_mem_encryption`).

use super::wishes::{HardwareWishes, is_true};
use crate::pci::alias;

const SPEC: &str = "hw:mem_encryption";
const PROPERTY: &str = "hw_mem_encryption";

/// Checks Nova's `get_mem_encryption_constraint`, and the limits of encrypted guests in Nova's documentation. If the
/// image names no machine type, the host that the scheduler chooses checks again.
pub(super) fn check_encryption(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    let (flavor, image) = (wishes.spec(SPEC).map(is_true), wishes.property(PROPERTY).map(is_true));
    let asks = match (flavor, image) {
        (Some(flavor), Some(image)) if flavor != image => {
            return Err(format!(
                "Flavor {} has {SPEC} extra spec explicitly set to {flavor}, conflicting with the image, which has \
                 {PROPERTY} property explicitly set to {image}: set both the same, or only one.",
                wishes.flavor.name
            ));
        }
        (Some(true), _) => SPEC,
        (_, Some(true)) => PROPERTY,
        _ => return Ok(()),
    };
    let refused = |why: &str| Err(format!("Memory encryption ({asks}) {why}"));
    let emulated = wishes.image.and_then(super::emulation::emulated_architecture);
    if let Some(other) = emulated.or_else(|| wishes.property("hw_architecture")).filter(|arch| *arch != "x86_64") {
        return refused(&format!("does not work with architecture {other}: remove one of the two."));
    }
    if wishes.property("hw_firmware_type") != Some("uefi") {
        return refused("needs UEFI: set hw_firmware_type = uefi on the image.");
    }
    let is_q35 = |machine: &str| machine == "q35" || machine.starts_with("pc-q35");
    if let Some(machine) = wishes.property("hw_machine_type").filter(|machine| !is_q35(machine)) {
        return refused(&format!("needs hw_machine_type = q35 on the image, not {machine}."));
    }
    for bus in ["hw_disk_bus", "hw_cdrom_bus", "hw_rescue_bus"] {
        if wishes.property(bus) == Some("ide") {
            return refused(&format!("does not work with {bus} = ide: set virtio, scsi or sata."));
        }
    }
    // A device of the host reads and writes only unencrypted memory of the guest.
    let devices = wishes.spec(alias::SPEC).is_some_and(alias::requests_devices);
    // Any of the flavor's groups of resources (`resources...`) may request virtual GPUs.
    let gpus = wishes.flavor.extra_specs.iter().any(|(key, amount)| {
        key.starts_with("resources") && key.ends_with(":VGPU") && !matches!(amount.trim(), "" | "0")
    });
    if devices || gpus {
        return refused(
            "does not work with devices of the host: choose a flavor without PCI devices and virtual GPUs.",
        );
    }
    Ok(())
}
