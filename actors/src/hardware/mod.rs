//! Checks the virtual hardware that a flavor and an image request together, before the request has any effect.
//!
//! | file | checks |
//! |---|---|
//! | [`emulation`] | guests of another architecture than their host's |
//! | [`firmware`] | secure boot and the emulated TPM |
//! | [`iommu`] | the virtual IOMMU |
//! | [`memory`] | locked memory, the memory of the graphics card, the number of serial ports |
//! | [`topology`] | limits of sockets, cores and threads |
//! | [`refused`] | requests that no host here can meet |
//!
//! Rules and precedence are Nova's (`nova.virt.hardware`); most messages also say what to change. The driver of a host
//! reads the same names again ([`chronova_hypervisor::domain_xml::Hardware`]). Some hosts lack a part of the hardware.
//! The scheduler requires the traits of hosts that have it.

mod emulation;
mod firmware;
mod iommu;
mod memory;
mod refused;
mod topology;

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};

pub use self::emulation::{check_rebuild_architecture, emulated_architecture};
pub use self::firmware::tpm_version;
pub use self::refused::check_image;

/// Checks the hardware that a flavor and an image request.
///
/// # Errors
/// A part of the request is impossible. The text names it for the user.
pub fn check(flavor: &FlavorSnapshot, image: Option<&ImageSnapshot>) -> Result<(), String> {
    refused::check(flavor, image)?;
    let wishes = HardwareWishes { flavor, image };
    emulation::check_ports(&wishes)?;
    firmware::check_secure_boot(&wishes)?;
    firmware::check_tpm(&wishes)?;
    iommu::check_viommu(&wishes)?;
    memory::check_locked(&wishes)?;
    memory::check_video(&wishes)?;
    memory::check_serial_ports(&wishes)?;
    topology::check_limits(&wishes)
}

/// The sources of a request: the flavor's extra specs and the image's properties.
struct HardwareWishes<'a> {
    flavor: &'a FlavorSnapshot,
    image: Option<&'a ImageSnapshot>,
}

impl<'a> HardwareWishes<'a> {
    fn spec(&self, name: &str) -> Option<&'a str> {
        find(&self.flavor.extra_specs, name)
    }

    fn property(&self, name: &str) -> Option<&'a str> {
        find(&self.image?.properties, name)
    }

    /// The value that the flavor or the image sets. If both set one, the values must be equal (Nova's
    /// `FlavorImageConflict`).
    fn agreed(&self, spec: &str, property: &str) -> Result<Option<&'a str>, String> {
        match (self.spec(spec), self.property(property)) {
            (Some(flavor), Some(image)) if flavor != image => Err(format!(
                "Flavor {} has extra spec {spec} = {flavor}, but the image has {property} = {image}: both have to be the \
                 same, or one of them unset.",
                self.flavor.name
            )),
            (flavor, image) => Ok(flavor.or(image)),
        }
    }
}

fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// Whether the value is true, as oslo's `bool_from_string` reads it.
pub fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "t" | "true" | "on" | "y" | "yes")
}

#[cfg(test)]
mod tests;
