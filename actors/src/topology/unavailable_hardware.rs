//! Refuses requests for hardware that Chronova does not provide.

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};

/// Hardware that Nova provides and Chronova does not: the flavor's extra spec and the image's property.
const NOT_PROVIDED: [(&str, &str); 2] =
    [("hw:locked_memory", "hw_locked_memory"), ("hw:viommu_model", "hw_viommu_model")];

/// Refuses a request for such hardware. Otherwise the server would look as if it had the hardware.
///
/// # Errors
/// The flavor or the image requests such hardware. The text says what to change.
pub fn check_provided(flavor: &FlavorSnapshot, image: Option<&ImageSnapshot>) -> Result<(), String> {
    for (spec, _) in NOT_PROVIDED {
        if asks(&flavor.extra_specs, spec) {
            let name = &flavor.name;
            return Err(format!(
                "Flavor {name} asks for {spec}, which this cloud does not provide: choose another flavor."
            ));
        }
    }
    image.map_or(Ok(()), check_provided_image)
}

/// Like [`check_provided`], but for an image alone.
///
/// # Errors
/// The image requests such hardware.
pub fn check_provided_image(image: &ImageSnapshot) -> Result<(), String> {
    match NOT_PROVIDED.iter().find(|(_, property)| asks(&image.properties, property)) {
        Some((_, property)) => Err(format!(
            "Image {} asks for {property}, which this cloud does not provide: choose another image.",
            image.id
        )),
        None => Ok(()),
    }
}

fn asks(pairs: &[(String, String)], name: &str) -> bool {
    pairs.iter().any(|(key, value)| key == name && !is_false(value))
}

fn is_false(value: &str) -> bool {
    matches!(value.trim().to_lowercase().as_str(), "" | "false" | "f" | "0" | "no" | "n" | "off")
}
