//! The machine type of a guest that has no recorded one.

use chronova_events::instance::Alive;
use chronova_hypervisor::options::MachineTypes;

use super::emulation::emulated_architecture;

/// The machine type that a guest gets on a host of the architecture `arch`. The image names it; otherwise the operator's
/// option for the guest's architecture does.
pub fn default_machine_type(server: &Alive, arch: &str, types: &MachineTypes) -> String {
    let properties = server.hardware_image().into_iter().flat_map(|image| &image.properties);
    let own = properties.filter(|(name, _)| name == "hw_machine_type").map(|(_, machine)| machine.clone()).next();
    own.unwrap_or_else(|| {
        let emulated = server.hardware_image().and_then(emulated_architecture);
        types.of(emulated.unwrap_or(arch)).to_owned()
    })
}
