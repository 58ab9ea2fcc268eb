//! Extra specs and image properties of Nova that request hardware which no host here provides. Chronova refuses them,
//! because otherwise the server would look as if it had the hardware.
//!
//! `tests/tests/compute_servers/catalogue.rs` tests every extra spec and property that Nova knows. Each of them has an
//! effect, or is in these tables.

use chronova_events::instance::{FlavorSnapshot, ImageSnapshot};

/// A refused extra spec or property, and the reason.
struct RefusedHardware {
    name: &'static str,
    /// Values that request nothing. Values that mean false request nothing either, and are not listed.
    harmless: &'static [&'static str],
    why: &'static str,
}

const NOT_OFFERED: &str = "which this cloud does not provide";
const VMWARE: &str = "which only VMware's hypervisor heeds";
const XEN: &str = "which only Xen heeds";
const NOT_ENCRYPTED: &str = "but local disks are not encrypted here: use a volume of an encrypted type";

const fn refused(name: &'static str, why: &'static str) -> RefusedHardware {
    RefusedHardware { name, harmless: &[], why }
}

const SPECS: &[RefusedHardware] = &[
    refused("hw:ephemeral_encryption", NOT_ENCRYPTED),
    refused("hw:ephemeral_encryption_format", NOT_ENCRYPTED),
    RefusedHardware { name: "hw:mem_encryption_model", harmless: &["amd-sev"], why: NOT_OFFERED },
    refused("hw:redirected_usb_ports", NOT_OFFERED),
    refused("hw:sound_model", NOT_OFFERED),
    RefusedHardware { name: "hw:tpm_secret_security", harmless: &["user"], why: NOT_OFFERED },
    RefusedHardware { name: "hw:usb_model", harmless: &["none"], why: NOT_OFFERED },
    refused("hw:virtio_packed_ring", NOT_OFFERED),
    refused("quota:cpu_limit", VMWARE),
    refused("quota:cpu_reservation", VMWARE),
    refused("quota:cpu_shares_level", VMWARE),
    refused("quota:cpu_shares_share", VMWARE),
    refused("quota:disk_io_limit", VMWARE),
    refused("quota:disk_io_reservation", VMWARE),
    refused("quota:disk_io_shares_level", VMWARE),
    refused("quota:disk_io_shares_share", VMWARE),
    refused("quota:memory_limit", VMWARE),
    refused("quota:memory_reservation", VMWARE),
    refused("quota:memory_shares_level", VMWARE),
    refused("quota:memory_shares_share", VMWARE),
    refused("quota:vif_limit", VMWARE),
    refused("quota:vif_reservation", VMWARE),
    refused("quota:vif_shares_level", VMWARE),
    refused("quota:vif_shares_share", VMWARE),
    refused("vmware:hw_version", VMWARE),
    refused("vmware:storage_policy", VMWARE),
];

const PROPERTIES: &[RefusedHardware] = &[
    refused("hw_device_id", XEN),
    refused("hw_disk_type", VMWARE),
    refused("hw_ephemeral_encryption", NOT_ENCRYPTED),
    refused("hw_ephemeral_encryption_format", NOT_ENCRYPTED),
    refused("hw_ephemeral_encryption_secret_uuid", NOT_ENCRYPTED),
    RefusedHardware { name: "hw_input_bus", harmless: &["usb"], why: NOT_OFFERED },
    refused("hw_ipxe_boot", NOT_OFFERED),
    refused("hw_maxphysaddr_bits", NOT_OFFERED),
    refused("hw_maxphysaddr_mode", NOT_OFFERED),
    RefusedHardware { name: "hw_mem_encryption_model", harmless: &["amd-sev"], why: NOT_OFFERED },
    refused("hw_redirected_usb_ports", NOT_OFFERED),
    RefusedHardware { name: "hw_rng_model", harmless: &["virtio"], why: NOT_OFFERED },
    RefusedHardware { name: "hw_scsi_model", harmless: &["virtio-scsi"], why: NOT_OFFERED },
    refused("hw_sound_model", NOT_OFFERED),
    RefusedHardware { name: "hw_tpm_secret_security", harmless: &["user"], why: NOT_OFFERED },
    RefusedHardware { name: "hw_usb_model", harmless: &["none"], why: NOT_OFFERED },
    refused("hw_virtio_packed_ring", NOT_OFFERED),
    refused("img_linked_clone", VMWARE),
    refused("img_use_agent", XEN),
    refused("os_command_line", "but guests start from their disks here"),
    // The names that these properties had until Liberty. Nova still reads them.
    refused("ipxe_boot", NOT_OFFERED),
    refused("vmware_adaptertype", VMWARE),
    refused("vmware_disktype", VMWARE),
    refused("vmware_linked_clone", VMWARE),
    refused("xenapi_device_id", XEN),
    refused("xenapi_use_agent", XEN),
];

/// Refuses a flavor or an image that sets an entry of the tables.
///
/// # Errors
/// The flavor or the image requests hardware that no host provides. The text says what to change.
pub(super) fn check(flavor: &FlavorSnapshot, image: Option<&ImageSnapshot>) -> Result<(), String> {
    if let Some(found) = first(SPECS, &flavor.extra_specs) {
        let (name, RefusedHardware { name: spec, why, .. }) = (&flavor.name, found);
        return Err(format!("Flavor {name} asks for {spec}, {why}: choose another flavor."));
    }
    image.map_or(Ok(()), check_image)
}

/// Like `check`, but checks only an image. A server may still have a flavor that `check` would refuse today.
///
/// # Errors
/// The image requests hardware that no host provides.
pub fn check_image(image: &ImageSnapshot) -> Result<(), String> {
    match first(PROPERTIES, &image.properties) {
        Some(RefusedHardware { name, why, .. }) => {
            Err(format!("Image {} asks for {name}, {why}: choose another image, or remove the property.", image.id))
        }
        None => super::emulation::check_emulation(image),
    }
}

fn first(table: &'static [RefusedHardware], pairs: &[(String, String)]) -> Option<&'static RefusedHardware> {
    table.iter().find(|refused| {
        let asks = |value: &str| !is_false(value) && !refused.harmless.contains(&value.trim());
        pairs.iter().any(|(key, value)| key == refused.name && asks(value))
    })
}

fn is_false(value: &str) -> bool {
    matches!(value.trim().to_lowercase().as_str(), "" | "false" | "f" | "0" | "no" | "n" | "off")
}
