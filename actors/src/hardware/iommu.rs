//! The virtual IOMMU (`hw:viommu_model`).

use super::wishes::HardwareWishes;

/// Checks the conditions of Nova's `_guest_add_iommu_device`. If the image names no machine type or no architecture,
/// the host that the scheduler chooses checks again.
pub(super) fn check_viommu(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    let Some(model) = wishes.agreed("hw:viommu_model", "hw_viommu_model")? else { return Ok(()) };
    if !matches!(model, "virtio" | "smmuv3" | "intel" | "auto") {
        return Err(format!("vIOMMU model {model} is invalid. It must be virtio, smmuv3, intel or auto."));
    }
    let arch =
        wishes.image.and_then(super::emulation::emulated_architecture).or_else(|| wishes.property("hw_architecture"));
    let is_named = arch.is_some();
    let arch = arch.unwrap_or(if model == "smmuv3" { "aarch64" } else { "x86_64" });
    let (arm, x86) = (arch == "aarch64", matches!(arch, "x86_64" | "i686"));
    if !arm && !x86 {
        return Err(format!(
            "vIOMMU required either x86 or AArch64 architecture, but given architecture {arch}: take \
             hw:viommu_model or hw_viommu_model out."
        ));
    }
    let fits = |machine: &str| match machine {
        _ if machine.starts_with("virt") => arm || !is_named,
        _ => x86 && (machine == "q35" || machine.starts_with("pc-q35")),
    };
    if let Some(machine) = wishes.property("hw_machine_type").filter(|machine| !fits(machine)) {
        return Err(format!(
            "vIOMMU is not supported by Current machine type {machine} (Architecture: {arch}): set hw_machine_type = q35 \
             on the image, or virt for AArch64."
        ));
    }
    let board = wishes.property("hw_machine_type").unwrap_or_default();
    match model {
        "smmuv3" if x86 || board.contains("q35") => {
            Err("vIOMMU model smmuv3 is for AArch64 alone: set intel, virtio or auto.".to_owned())
        }
        "intel" if arm || board.starts_with("virt") => {
            Err("vIOMMU model intel is for x86 alone: set smmuv3, virtio or auto.".to_owned())
        }
        _ => Ok(()),
    }
}
