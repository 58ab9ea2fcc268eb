//! A guest's firmware: BIOS or UEFI, secure boot, and the emulated TPM.
//!
//! Rules and words are those of Nova's libvirt driver. The definition names only the features of the firmware. libvirt
//! then chooses the firmware's files by the host's firmware descriptors.

use uuid::Uuid;

use super::error::{HardwareError, unknown};
use crate::firmware::FirmwareFacts;
use crate::tpm::TpmVersion;
use crate::xml::Element;

/// The firmware of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firmware {
    pub uefi: bool,
    pub secure_boot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tpm {
    pub version: TpmVersion,
    /// `tpm-tis` or `tpm-crb`.
    pub model: &'static str,
}

impl Firmware {
    pub(super) fn parse<'a>(
        get: impl Fn(&str) -> Option<&'a str>,
        (arch, host): (&str, &FirmwareFacts),
        machine: &str,
    ) -> Result<Self, HardwareError> {
        const TYPE: &str = "hw_firmware_type";
        // AArch64 has no BIOS, so `bios` is refused. Nova accepts `bios` there, and gives the guest no firmware at all.
        let only_uefi = arch == "aarch64";
        let uefi = match get(TYPE) {
            Some("uefi") => true,
            Some("bios") if only_uefi => {
                return Err(HardwareError::NotOnThisHost { property: TYPE, value: "bios".to_owned() });
            }
            Some("bios") => false,
            Some(other) => return Err(unknown(TYPE, other)),
            None => only_uefi,
        };
        // On x86 only q35 has the system management mode that protects the firmware's variables.
        let fits = !is_x86(arch) || is_q35(machine);
        let can = uefi && fits && host.secure_boot;
        let spec = if get("os:secure_boot").is_some() { "os:secure_boot" } else { "os_secure_boot" };
        let secure_boot = match get(spec) {
            None | Some("disabled") => false,
            Some("optional") => can,
            Some("required") if can => true,
            Some("required") => {
                let (value, machine) = ("required".to_owned(), machine.to_owned());
                return Err(match (uefi, fits) {
                    (false, _) => HardwareError::NeedsUefi { property: spec },
                    (true, false) => HardwareError::Incompatible { property: spec, value, machine },
                    (true, true) => HardwareError::NotOnThisHost { property: spec, value },
                });
            }
            Some(other) => return Err(unknown(spec, other)),
        };
        Ok(Self { uefi, secure_boot })
    }

    /// The `<firmware>` element, which chooses the firmware by feature.
    pub(super) fn features(self, host: &FirmwareFacts) -> Option<Element> {
        let feature = |name: &str| {
            let enabled = if self.secure_boot { "yes" } else { "no" };
            Element::new("feature").attr("enabled", enabled).attr("name", name)
        };
        // If the distributors' keys are not enrolled, secure boot accepts every boot loader.
        let names: &[&str] = if self.secure_boot { &["enrolled-keys", "secure-boot"] } else { &["secure-boot"] };
        let chosen = self.uefi && host.by_feature;
        chosen.then(|| Element::new("firmware").children(names.iter().map(|name| feature(name))))
    }

    pub(super) fn loader(self) -> Option<Element> {
        self.secure_boot.then(|| Element::new("loader").attr("secure", "yes"))
    }

    /// The firmware with secure boot protects its variables by the system management mode.
    pub(super) fn management_mode(self, arch: &str) -> Option<Element> {
        (self.secure_boot && is_x86(arch)).then(|| Element::new("smm").attr("state", "on"))
    }
}

pub(super) fn is_x86(arch: &str) -> bool {
    matches!(arch, "x86_64" | "i686")
}

pub(super) fn is_q35(machine: &str) -> bool {
    machine == "q35" || machine.starts_with("pc-q35")
}

/// The TPM that flavor or image requests. The API has already refused requests in which flavor and image conflict.
pub(super) fn tpm<'a>(
    get: impl Fn(&str) -> Option<&'a str>,
    host: &FirmwareFacts,
) -> Result<Option<Tpm>, HardwareError> {
    let (Some(version), wished) =
        (get("hw:tpm_version").or_else(|| get("hw_tpm_version")), get("hw:tpm_model").or_else(|| get("hw_tpm_model")))
    else {
        return Ok(None);
    };
    let known = TpmVersion::of_word(version).ok_or_else(|| unknown("hw_tpm_version", version))?;
    let model = match wished {
        None | Some("tpm-tis") => "tpm-tis",
        Some("tpm-crb") if known == TpmVersion::V2_0 => "tpm-crb",
        Some(other) => return Err(unknown("hw_tpm_model", other)),
    };
    match host.tpm_versions.contains(&known) {
        true => Ok(Some(Tpm { version: known, model })),
        false => Err(HardwareError::NotOnThisHost { property: "hw_tpm_version", value: version.to_owned() }),
    }
}

impl Tpm {
    /// The TPM device. libvirt encrypts its state with the passphrase in the secret.
    pub(super) fn device(self, secret: Uuid) -> Element {
        let encryption = Element::new("encryption").attr("secret", secret);
        let backend = Element::new("backend").attr("type", "emulator").attr("version", self.version.word());
        Element::new("tpm").attr("model", self.model).child(backend.child(encryption))
    }
}
