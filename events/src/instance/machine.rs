//! The machine type of a server's guest. It is recorded before the first start and then kept.
//!
//! Nova records it in the server's system metadata (`image_hw_machine_type`). Otherwise another default of the operator
//! would give existing guests another board, and Windows guests would see another machine.

use serde::{Deserialize, Serialize};

use super::InstanceEvent;
use super::state::Alive;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineTypeRecorded {
    /// For example `pc`, `q35` or `virt`.
    pub machine_type: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineTypeChanged {
    pub machine_type: String,
}

impl Alive {
    /// The machine type of the guest: the recorded one. If none is recorded, the image's.
    pub fn machine_type(&self) -> Option<&str> {
        let of_image = || self.hardware_image().and_then(|image| property(&image.properties));
        self.machine_type.as_deref().or_else(of_image)
    }

    /// A rebuild from another image: the image's machine type applies, if it has one.
    pub(super) fn machine_of_image(&mut self, properties: &[(String, String)]) {
        if let Some(machine_type) = property(properties) {
            self.machine_type = Some(machine_type.to_owned());
        }
    }
}

fn property(properties: &[(String, String)]) -> Option<&str> {
    properties.iter().find(|(key, _)| key == "hw_machine_type").map(|(_, value)| value.as_str())
}

/// One example of each event.
pub(super) fn samples() -> Vec<InstanceEvent> {
    vec![
        MachineTypeRecorded { machine_type: "pc".into() }.into(),
        MachineTypeChanged { machine_type: "q35".into() }.into(),
    ]
}
