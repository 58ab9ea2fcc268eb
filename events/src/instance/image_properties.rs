//! Changes of the image properties that a server keeps. Nova stores them in the server's system metadata (`image_*`).

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImagePropertiesChanged {
    /// The new values, sorted by name. The other properties stay.
    pub properties: Vec<(String, String)>,
}

impl ImagePropertiesChanged {
    /// Puts the new values in place of the old ones. The result is sorted by name.
    pub(super) fn merge_into(&self, properties: &mut Vec<(String, String)>) {
        properties.retain(|(name, _)| !self.properties.iter().any(|(other, _)| other == name));
        properties.extend(self.properties.iter().cloned());
        properties.sort();
    }
}
