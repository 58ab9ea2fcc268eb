//! The firmware and the emulated TPMs of a host.

use crate::tpm::TpmVersion;

/// The offers of a host's firmware and TPM emulator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirmwareFacts {
    /// Whether the host has UEFI firmware.
    pub uefi: bool,
    /// Whether it has UEFI firmware with secure boot.
    pub secure_boot: bool,
    /// Whether its libvirt chooses firmware by feature (since 7.2.0).
    pub by_feature: bool,
    /// The versions and models of emulated TPMs; empty if the host or the operator offers none.
    pub tpm_versions: Vec<TpmVersion>,
    pub tpm_models: Vec<String>,
}

impl FirmwareFacts {
    /// The host's traits.
    pub(crate) fn traits(&self) -> Vec<&'static str> {
        let has_tpm = |version| self.tpm_versions.contains(&version);
        let has_model = |model: &str| self.has_tpm() && self.tpm_models.iter().any(|known| known == model);
        [
            (self.uefi, "COMPUTE_FIRMWARE_UEFI"),
            (self.secure_boot, "COMPUTE_SECURITY_UEFI_SECURE_BOOT"),
            (has_tpm(TpmVersion::V1_2), "COMPUTE_SECURITY_TPM_1_2"),
            (has_tpm(TpmVersion::V2_0), "COMPUTE_SECURITY_TPM_2_0"),
            (has_model("tpm-tis"), "COMPUTE_SECURITY_TPM_TIS"),
            (has_model("tpm-crb"), "COMPUTE_SECURITY_TPM_CRB"),
        ]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect()
    }

    fn has_tpm(&self) -> bool {
        !self.tpm_versions.is_empty()
    }
}
