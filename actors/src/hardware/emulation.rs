//! Guests of another architecture than their host's (`hw_emulation_architecture`).

use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::domain_xml::EMULATION;

use super::wishes::{HardwareWishes, find};

/// An architecture, and the boards of its guests.
const BOARDS: [(&str, &[&str]); 4] =
    [("aarch64", &["virt"]), ("ppc64le", &["pseries"]), ("s390x", &["s390-ccw-virtio"]), ("x86_64", &["pc", "q35"])];

/// The architecture that the image names, if it names one.
pub fn emulated_architecture(image: &ImageSnapshot) -> Option<&str> {
    find(&image.properties, EMULATION)
}

/// The rules of Nova's documentation for each architecture.
pub(super) fn check_emulation(image: &ImageSnapshot) -> Result<(), String> {
    let get = |name: &str| find(&image.properties, name);
    let Some(arch) = get(EMULATION) else { return Ok(()) };
    let Some((_, boards)) = BOARDS.iter().find(|(known, _)| *known == arch) else {
        let why =
            if arch == "mipsel" { "QEMU has no board for it that libvirt can use" } else { "no host emulates it" };
        let known = BOARDS.map(|(known, _)| known).join(", ");
        return Err(format!(
            "Image property {EMULATION} = {arch} is not supported, because {why}: set one of {known}."
        ));
    };
    if let Some(machine) =
        get("hw_machine_type").filter(|machine| !boards.iter().any(|board| machine.starts_with(board)))
    {
        return Err(format!(
            "Image property hw_machine_type = {machine} does not work with {EMULATION} = {arch}: set {}.",
            boards.join(" or ")
        ));
    }
    match (arch, get("hw_firmware_type")) {
        ("aarch64", Some("bios")) => Err(format!("{EMULATION} = aarch64 needs UEFI: set hw_firmware_type = uefi.")),
        ("ppc64le" | "s390x", Some("uefi")) => {
            Err(format!("{EMULATION} = {arch} has no UEFI: take hw_firmware_type = uefi out."))
        }
        _ => Ok(()),
    }?;
    let video = get("hw_video_model").filter(|model| arch == "s390x" && !matches!(*model, "virtio" | "none"));
    match video {
        Some(model) => {
            Err(format!("Image property hw_video_model = {model} does not work with {EMULATION} = s390x: set virtio."))
        }
        None => Ok(()),
    }
}

/// A guest of s390x has one serial console, and no other port.
pub(super) fn check_ports(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    let arch = wishes.image.and_then(emulated_architecture);
    let ports = wishes.property("hw_serial_port_count").or_else(|| wishes.spec("hw:serial_port_count"));
    match ports.filter(|count| arch == Some("s390x") && *count != "1") {
        Some(count) => Err(format!("{EMULATION} = s390x has one serial port, not {count}: take the number out.")),
        None => Ok(()),
    }
}

/// A rebuild keeps the machine type, so it keeps the architecture.
///
/// # Errors
/// The image is not for the server's present architecture.
pub fn check_rebuild_architecture(before: Option<&ImageSnapshot>, image: &ImageSnapshot) -> Result<(), String> {
    let (had, wants) = (before.and_then(emulated_architecture), emulated_architecture(image));
    match had == wants {
        true => Ok(()),
        false => Err(format!(
            "A rebuild cannot change the emulated architecture ({EMULATION}) from {} to {}: choose another image.",
            had.unwrap_or("that of the host"),
            wants.unwrap_or("that of the host")
        )),
    }
}
