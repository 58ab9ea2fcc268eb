//! The numbers of a guest's sockets, cores and threads (`hw:cpu_sockets`), and their limits (`hw:cpu_max_sockets`).

use chronova_events::instance::FlavorSnapshot;

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

/// Refuses a flavor whose sockets, cores and threads do not fit its number of CPUs. Nova's documentation promises an
/// error, but its code drops such numbers in silence. An image's numbers stay preferences, because its author does not
/// know the flavor.
pub(super) fn check_product(flavor: &FlavorSnapshot) -> Result<(), String> {
    let spec = |name: &str| super::wishes::find(&flavor.extra_specs, name);
    let given: Vec<(String, u32)> = ["hw:cpu_sockets", "hw:cpu_cores", "hw:cpu_threads"]
        .into_iter()
        .filter_map(|name| spec(name)?.trim().parse::<u32>().ok().map(|count| (format!("{name} = {count}"), count)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let product = given.iter().fold(1, |product: u32, (_, count)| product.saturating_mul(*count));
    let fits = match given.len() {
        3 => product == flavor.vcpus,
        _ => flavor.vcpus.is_multiple_of(product),
    };
    if fits {
        return Ok(());
    }
    let words: Vec<String> = given.into_iter().map(|(words, _)| words).collect();
    Err(format!(
        "Flavor {} has {}, which does not fit its {} CPUs: the product of sockets, cores and threads has to be the number \
         of CPUs.",
        flavor.name,
        words.join(", "),
        flavor.vcpus
    ))
}
