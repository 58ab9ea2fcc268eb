//! Encrypted memory of a guest (`hw:mem_encryption`, `hw_mem_encryption`) with AMD's SEV.
//!
//! The rules and elements are those of Nova's libvirt driver (`_set_features`, `_guest_configure_sev`). The host cannot
//! read the guest's memory. So a virtio device must use the guest's DMA addresses (`iommu='on'`), for which the guest
//! keeps unencrypted pages.

use super::error::{HardwareError, is_true};
use super::facts::HostFacts;
use super::firmware::is_q35;
use super::hardware::{DiskBus, Hardware};
use crate::guest::GuestSpec;
use crate::memory_encryption::SevFacts;
use crate::xml::Element;

/// The policy of Nova's guests: no debugging, no sharing of keys, no transfer to a platform outside the domain or
/// without SEV.
const POLICY: &str = "0x0033";

/// The encryption that flavor or image requests. The API has already refused requests in which they conflict.
pub(super) fn parse<'a>(
    get: impl Fn(&str) -> Option<&'a str>,
    host: &HostFacts,
    machine: &str,
) -> Result<Option<SevFacts>, HardwareError> {
    let found = ["hw:mem_encryption", "hw_mem_encryption"].into_iter().find(|name| get(name).is_some_and(is_true));
    let Some(property) = found else { return Ok(None) };
    if get("hw_firmware_type") != Some("uefi") {
        return Err(HardwareError::NeedsUefi { property });
    }
    if !is_q35(machine) {
        return Err(HardwareError::EncryptionNeedsQ35 { machine: machine.to_owned() });
    }
    host.sev.map(Some).ok_or_else(|| HardwareError::NotOnThisHost { property, value: "true".to_owned() })
}

/// Refuses volumes on an IDE bus, because such a disk cannot reach encrypted memory. The guest's local disks never have
/// this bus on q35.
pub(super) fn check_disks(guest: &GuestSpec, hardware: &Hardware) -> Result<(), HardwareError> {
    let mut volumes = guest.volumes.iter().filter(|_| hardware.encryption.is_some());
    match volumes.find(|disk| disk.bus == DiskBus::Ide.name()) {
        Some(disk) => Err(HardwareError::EncryptionOnIde { disk: disk.device.clone() }),
        None => Ok(()),
    }
}

/// The element that starts the guest with encrypted memory.
pub(super) fn launch_security(sev: SevFacts) -> Element {
    Element::new("launchSecurity")
        .attr("type", "sev")
        .child(Element::leaf("cbitpos", sev.cbitpos))
        .child(Element::leaf("reducedPhysBits", sev.reduced_phys_bits))
        .child(Element::leaf("policy", POLICY))
}

/// The value of a driver's attribute `iommu`.
pub(super) fn iommu(needed: bool) -> Option<&'static str> {
    needed.then_some("on")
}

/// Adds the driver that a virtio device needs in a guest with encrypted memory.
pub(super) fn protected(device: Element, hardware: &Hardware) -> Element {
    let driver = iommu(hardware.encryption.is_some()).map(|on| Element::new("driver").attr("iommu", on));
    device.children(driver)
}
