//! Locked memory, the memory of the graphics card, and the number of serial ports.

use super::wishes::{HardwareWishes, is_true};

/// Checks Nova's `get_locked_memory_constraint`. The ledger must claim locked memory from a NUMA cell of the host. The
/// ledger does so only for a guest that requests a page size.
pub(super) fn check_locked(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    let flavor = wishes.spec("hw:locked_memory").map(is_true);
    let image = wishes.property("hw_locked_memory").map(is_true);
    if let (Some(flavor), Some(image)) = (flavor, image)
        && flavor != image
    {
        return Err(
            "Flavor's hw:locked_memory and image's hw_locked_memory contradict each other: set both the same, or \
                    only one."
                .to_owned(),
        );
    }
    let sized = wishes.spec("hw:mem_page_size").or_else(|| wishes.property("hw_mem_page_size")).is_some();
    match flavor.or(image) == Some(true) && !sized {
        true => Err("Locked memory needs a page size: set hw:mem_page_size beside hw:locked_memory.".to_owned()),
        false => Ok(()),
    }
}

/// Refuses an image that requests more memory for the graphics card than the flavor allows (Nova's
/// `RequestedVRamTooHigh`).
pub(super) fn check_video(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    let Some(wanted) = wishes.property("hw_video_ram") else { return Ok(()) };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let Some(mib) = number(wanted) else {
        return Err(format!("Image property hw_video_ram = {wanted} is invalid. It must be a number of MiB."));
    };
    let most = wishes.spec("hw_video:ram_max_mb").and_then(number).unwrap_or(0);
    match mib > most {
        true => Err(format!(
            "The requested amount of video memory {mib} is higher than the maximum allowed by flavor {most} \
             (hw_video:ram_max_mb)."
        )),
        false => Ok(()),
    }
}

/// Refuses an image that requests more serial ports than the flavor (Nova's `ImageSerialPortNumberExceedFlavorValue`).
pub(super) fn check_serial_ports(wishes: &HardwareWishes<'_>) -> Result<(), String> {
    /// A machine of QEMU has at most four serial ports.
    const MOST: u64 = 4;
    let mut counts = [None, None];
    let named = [
        ("hw:serial_port_count", wishes.spec("hw:serial_port_count")),
        ("hw_serial_port_count", wishes.property("hw_serial_port_count")),
    ];
    for (count, (name, text)) in counts.iter_mut().zip(named) {
        let Some(text) = text else { continue };
        let number = text.trim().parse().ok().filter(|count| (1..=MOST).contains(count));
        *count = Some(number.ok_or_else(|| format!("{name} = {text} is invalid. It must be from 1 to {MOST}."))?);
    }
    match counts {
        [Some(flavor), Some(image)] if image > flavor => {
            Err("Forbidden to exceed flavor value of number of serial ports passed in image meta.".to_owned())
        }
        _ => Ok(()),
    }
}
