//! The values that a flavor and an image give for the virtual hardware.

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};

/// The sources of a request: the flavor's extra specs and the image's properties.
pub(super) struct HardwareWishes<'a> {
    pub(super) flavor: &'a FlavorSnapshot,
    pub(super) image: Option<&'a ImageSnapshot>,
}

impl<'a> HardwareWishes<'a> {
    pub(super) fn spec(&self, name: &str) -> Option<&'a str> {
        find(&self.flavor.extra_specs, name)
    }

    pub(super) fn property(&self, name: &str) -> Option<&'a str> {
        find(&self.image?.properties, name)
    }

    /// The value that the flavor or the image sets. If both set one, the values must be equal (Nova's
    /// `FlavorImageConflict`).
    pub(super) fn agreed(&self, spec: &str, property: &str) -> Result<Option<&'a str>, String> {
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

pub(super) fn find<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// Whether the value is true, as oslo's `bool_from_string` reads it.
pub fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "t" | "true" | "on" | "y" | "yes")
}
