//! The errors for unusable choices of hardware, and the functions that parse values.

use thiserror::Error;

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum HardwareError {
    #[error("{property} has the unknown value {value:?}")]
    UnknownValue { property: &'static str, value: String },
    #[error("{property} = {value} does not work with machine type {machine}")]
    Incompatible { property: &'static str, value: String, machine: String },
    #[error("the flavor's {spec} and the image's {property} contradict each other")]
    Contradiction { spec: &'static str, property: &'static str },
    #[error("{property} needs an image with hw_firmware_type = uefi")]
    NeedsUefi { property: &'static str },
    #[error("vIOMMU is not supported by Current machine type {machine} (Architecture: {arch}).")]
    NoIommuMachine { machine: String, arch: String },
    #[error("vIOMMU required either x86 or AArch64 architecture, but given architecture {arch}.")]
    NoIommuArchitecture { arch: String },
    #[error(
        "memory encryption needs machine type q35, and the guest has {machine}: set hw_machine_type = q35 on the image, or \
         x86_64=q35 in [libvirt] hw_machine_type"
    )]
    EncryptionNeedsQ35 { machine: String },
    #[error("memory encryption does not work with disk {disk}, which has the bus ide")]
    EncryptionOnIde { disk: String },
    #[error("this host does not offer {property} = {value}")]
    NotOnThisHost { property: &'static str, value: String },
    #[error("no model of [libvirt] cpu_models has the required traits {traits}")]
    NoCpuModel { traits: String },
    #[error("huge pages do not work on this host, whose guests have file-backed memory")]
    HugePagesOnFiles,
    #[error("the guest has a TPM, but no secret with its passphrase")]
    NoTpmSecret,
}

pub(super) fn unknown(property: &'static str, value: &str) -> HardwareError {
    HardwareError::UnknownValue { property, value: value.to_owned() }
}

/// Whether the value is true, as oslo's `bool_from_string` reads it.
pub(super) fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "t" | "true" | "on" | "y" | "yes")
}
