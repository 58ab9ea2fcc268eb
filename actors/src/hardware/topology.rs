//! The limits of a guest's sockets, cores and threads (`hw:cpu_max_sockets`).

use super::wishes::HardwareWishes;

/// Refuses an image that exceeds a limit of its flavor (Nova's `ImageVCPULimitsRangeExceeded`,
/// `ImageVCPUTopologyRangeExceeded`).
pub(super) fn check_limits(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    for part in ["sockets", "cores", "threads"] {
        let Some(most) = wishes.spec(&format!("hw:cpu_max_{part}")).and_then(number) else { continue };
        for property in [format!("hw_cpu_max_{part}"), format!("hw_cpu_{part}")] {
            if let Some(asked) = wishes.property(&property).and_then(number).filter(|asked| *asked > most) {
                return Err(format!(
                    "Image property {property} = {asked} exceeds the flavor's hw:cpu_max_{part} = {most}."
                ));
            }
        }
    }
    Ok(())
}
