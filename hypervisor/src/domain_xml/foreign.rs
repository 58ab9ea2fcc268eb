//! Guests of another architecture than their host's (`hw_emulation_architecture`). QEMU emulates their processors.

use std::borrow::Cow;

use super::error::HardwareError;
use super::facts::{CpuModel, HostFacts};
use crate::options::CpuMode;

/// The property of an image that names the architecture of its guests.
pub const EMULATION: &str = "hw_emulation_architecture";

impl HostFacts {
    /// The facts for a guest. If its image names another architecture, the facts are those of that architecture on this
    /// host.
    ///
    /// # Errors
    /// The host has no emulator for this architecture.
    pub(super) fn for_guest(&self, properties: &[(String, String)]) -> Result<Cow<'_, Self>, HardwareError> {
        let wanted = properties.iter().find(|(name, _)| name == EMULATION).map(|(_, arch)| arch);
        let Some(arch) = wanted.filter(|arch| !arch.is_empty() && **arch != self.arch) else {
            return Ok(Cow::Borrowed(self));
        };
        let Some(foreign) = self.foreign.iter().find(|foreign| foreign.arch == *arch) else {
            return Err(HardwareError::NotOnThisHost { property: EMULATION, value: arch.clone() });
        };
        // The board's default for ARM is a processor of 32 bits.
        let model = (foreign.arch == "aarch64").then_some("cortex-a57");
        let mut guests = self.guests.clone();
        guests.cpu_flags.clear();
        Ok(Cow::Owned(Self {
            arch: foreign.arch.clone(),
            kvm: false,
            cpu_mode: model.map_or(CpuMode::None, |_| CpuMode::Custom),
            cpu_models: model.map(|name| CpuModel { name: name.to_owned(), features: [].into() }).into_iter().collect(),
            machine_type: None,
            video_models: foreign.video_models.clone(),
            firmware: foreign.firmware.clone(),
            foreign: Vec::new(),
            sev: None,
            guests,
            ..self.clone()
        }))
    }
}
