//! Secure boot (`os:secure_boot`) and the emulated TPM (`hw:tpm_version`, `hw:tpm_model`).

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};
use chronova_hypervisor::tpm::TpmVersion;

use super::wishes::HardwareWishes;

/// Checks Nova's `get_secure_boot_constraint`, and whether the rest of the image allows secure boot.
pub(super) fn check_secure_boot(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    const SPEC: &str = "os:secure_boot";
    const PROPERTY: &str = "os_secure_boot";
    if let Some(other) = wishes.spec(SPEC).filter(|value| !matches!(*value, "required" | "disabled")) {
        return Err(format!("Extra spec {SPEC} = {other} is invalid. It must be required or disabled."));
    }
    if let Some(other) =
        wishes.property(PROPERTY).filter(|value| !matches!(*value, "required" | "disabled" | "optional"))
    {
        return Err(format!(
            "Image property {PROPERTY} = {other} is invalid. It must be required, optional or disabled."
        ));
    }
    if wishes.agreed(SPEC, PROPERTY)? != Some("required") {
        return Ok(());
    }
    let emulated = wishes.image.and_then(super::emulation::emulated_architecture);
    let architecture = emulated.or_else(|| wishes.property("hw_architecture"));
    // A guest of AArch64 always has UEFI. No host is chosen yet, so the image's properties tell the guest's architecture.
    let uefi = wishes.property("hw_firmware_type") == Some("uefi")
        || (wishes.property("hw_firmware_type").is_none() && architecture == Some("aarch64"));
    if !uefi {
        return Err("Secure boot needs UEFI: set hw_firmware_type = uefi on the image.".to_owned());
    }
    match wishes.property("hw_machine_type") {
        Some(machine) if machine == "pc" || machine.starts_with("pc-i440fx") => Err(format!(
            "Secure boot does not work with hw_machine_type = {machine}: set hw_machine_type = q35 on the image."
        )),
        _ => Ok(()),
    }
}

/// Checks Nova's `get_vtpm_constraint`.
pub(super) fn check_tpm(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    let version = wishes.agreed("hw:tpm_version", "hw_tpm_version")?;
    let model = wishes.agreed("hw:tpm_model", "hw_tpm_model")?;
    let Some(word) = version else {
        return match model {
            None => Ok(()),
            Some(model) => Err(format!(
                "A TPM model ({model}) without a TPM version is invalid: set hw:tpm_version or hw_tpm_version, too."
            )),
        };
    };
    let Some(version) = TpmVersion::of_word(word) else {
        return Err(format!("TPM version {word} is invalid. It must be 1.2 or 2.0."));
    };
    match (model, version) {
        (None | Some("tpm-tis"), _) | (Some("tpm-crb"), TpmVersion::V2_0) => Ok(()),
        (Some("tpm-crb"), TpmVersion::V1_2) => {
            Err("TPM model tpm-crb works only with version 2.0: set tpm-tis, or version 2.0.".to_owned())
        }
        (Some(other), _) => Err(format!("TPM model {other} is invalid. It must be tpm-tis or tpm-crb.")),
    }
}

/// The version of the guest's emulated TPM; `None` if neither flavor nor image requests one.
pub fn tpm_version(flavor: &FlavorSnapshot, image: Option<&ImageSnapshot>) -> Option<TpmVersion> {
    let wishes = HardwareWishes { flavor, image };
    TpmVersion::of_word(wishes.spec("hw:tpm_version").or_else(|| wishes.property("hw_tpm_version"))?)
}
