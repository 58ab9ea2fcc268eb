//! Switches that the flavor and the image may both set.

use super::wishes::{HardwareWishes, is_true};

/// Extra spec and property of each switch.
const SWITCHES: [(&str, &str); 2] = [("hw:vif_multiqueue_enabled", "hw_vif_multiqueue_enabled"), ("hw:pmu", "hw_pmu")];

/// Refuses a switch that the flavor and the image set differently (Nova's `FlavorImageConflict`). The driver of a host
/// would refuse such a guest.
pub(super) fn check(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    for (spec, property) in SWITCHES {
        if let (Some(flavor), Some(image)) = (wishes.spec(spec), wishes.property(property))
            && is_true(flavor) != is_true(image)
        {
            return Err(format!(
                "Flavor's {spec} ({flavor}) and image's {property} ({image}) contradict each other: set both the same, \
                 or only one."
            ));
        }
    }
    Ok(())
}
