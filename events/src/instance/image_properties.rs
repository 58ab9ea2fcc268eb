//! Changes of the image properties that a server keeps. Nova stores them in the server's system metadata (`image_*`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::InstanceEvent;
use super::payloads::{ImageSnapshot, SortedPairs};
use super::state::Alive;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImagePropertiesChanged {
    /// The new values, sorted by name. The other properties stay.
    pub properties: SortedPairs,
}

impl Alive {
    /// Changes the properties of the image that determines the virtual hardware. The image itself does not change.
    pub(super) fn change_image_properties(&mut self, changed: &SortedPairs) {
        let image = match &mut self.request.image {
            Some(image) => image,
            None => match &mut self.boot_image {
                Some(image) => image,
                None => return,
            },
        };
        set(Arc::make_mut(image), changed);
    }
}

fn set(image: &mut ImageSnapshot, changed: &SortedPairs) {
    image.properties.retain(|(name, _)| !changed.iter().any(|(other, _)| other == name));
    image.properties.extend(changed.iter().cloned());
    image.properties.sort();
}

/// One example of each event.
pub(super) fn samples() -> Vec<InstanceEvent> {
    vec![ImagePropertiesChanged { properties: vec![("hw_disk_bus".into(), "scsi".into())] }.into()]
}
