//! Checks the virtual hardware that a flavor and an image request together, before the request has any effect.
//!
//! | file | checks |
//! |---|---|
//! | [`emulation`] | guests of another architecture than their host's |
//! | [`encryption`] | encrypted memory |
//! | [`firmware`] | secure boot and the emulated TPM |
//! | [`iommu`] | the virtual IOMMU |
//! | [`memory`] | locked memory, the memory of the graphics card, the number of serial ports |
//! | [`switches`] | switches that flavor and image may both set |
//! | [`topology`] | limits of sockets, cores and threads |
//! | [`wishes`] | reads the values from flavor and image |
//! | [`refused`] | requests that no host here can meet |
//!
//! Rules and precedence are Nova's (`nova.virt.hardware`); most messages also say what to change. The driver of a host
//! reads the same names again ([`chronova_hypervisor::domain_xml::Hardware`]). Some hosts lack a part of the hardware,
//! so the scheduler requires traits.

mod emulation;
mod encryption;
mod firmware;
mod iommu;
mod memory;
mod refused;
mod switches;
mod topology;
mod wishes;

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};

pub use self::emulation::{check_rebuild_architecture, emulated_architecture};
pub use self::firmware::tpm_version;
pub use self::refused::check_image;
use self::wishes::HardwareWishes;
pub use self::wishes::is_true;

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
    encryption::check_encryption(&wishes)?;
    iommu::check_viommu(&wishes)?;
    switches::check(&wishes)?;
    memory::check_locked(&wishes)?;
    memory::check_video(&wishes)?;
    memory::check_serial_ports(&wishes)?;
    topology::check_limits(&wishes)
}

#[cfg(test)]
mod tests;
