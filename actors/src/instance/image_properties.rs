//! The image properties that Nova knows (`nova.objects.image_meta`), and their values. Only these, and traits
//! (`trait:...`), can be set.

use chronova_events::instance::{Alive, ImagePropertiesChanged, InstanceEvent, SortedPairs};

use super::actions::{ServerAction, check_state};
use super::decision::{InstanceDecision, InstanceReject};
use super::machine;

/// The values of a property.
#[derive(Debug, Clone, Copy)]
enum ImagePropertyValues {
    Text,
    /// Any spelling that oslo's `bool_from_string` accepts.
    Boolean,
    Integer,
    Choice(&'static [&'static str]),
}

use ImagePropertyValues::{Boolean, Choice, Integer, Text};

const BUSES: ImagePropertyValues = Choice(&["fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml"]);

/// Sorted by name.
const KNOWN: &[(&str, ImagePropertyValues)] = &[
    ("hw_architecture", Text),
    ("hw_auto_disk_config", Text),
    ("hw_boot_menu", Boolean),
    ("hw_cdrom_bus", BUSES),
    ("hw_cpu_cores", Integer),
    ("hw_cpu_max_cores", Integer),
    ("hw_cpu_max_sockets", Integer),
    ("hw_cpu_max_threads", Integer),
    ("hw_cpu_policy", Choice(&["dedicated", "shared", "mixed"])),
    ("hw_cpu_realtime_mask", Text),
    ("hw_cpu_sockets", Integer),
    ("hw_cpu_thread_policy", Choice(&["prefer", "isolate", "require"])),
    ("hw_cpu_threads", Integer),
    ("hw_device_id", Integer),
    ("hw_disk_bus", BUSES),
    ("hw_disk_type", Text),
    ("hw_emulation_architecture", Text),
    ("hw_ephemeral_encryption", Boolean),
    ("hw_ephemeral_encryption_format", Choice(&["plain", "luks", "luksv2"])),
    ("hw_ephemeral_encryption_secret_uuid", Text),
    ("hw_firmware_stateless", Boolean),
    ("hw_firmware_type", Choice(&["uefi", "bios"])),
    ("hw_floppy_bus", BUSES),
    ("hw_input_bus", Choice(&["usb", "virtio"])),
    ("hw_ipxe_boot", Boolean),
    ("hw_locked_memory", Boolean),
    ("hw_machine_type", Text),
    ("hw_maxphysaddr_bits", Integer),
    ("hw_maxphysaddr_mode", Choice(&["passthrough", "emulate"])),
    ("hw_mem_encryption", Boolean),
    ("hw_mem_encryption_model", Choice(&["amd-sev", "amd-sev-es", "amd-sev-snp"])),
    ("hw_mem_page_size", Text),
    ("hw_numa_nodes", Integer),
    ("hw_pci_numa_affinity_policy", Choice(&["required", "legacy", "preferred", "socket"])),
    ("hw_pmu", Boolean),
    ("hw_pointer_model", Choice(&["usbtablet"])),
    ("hw_qemu_guest_agent", Boolean),
    ("hw_rescue_bus", BUSES),
    ("hw_rescue_device", Choice(&["disk", "cdrom", "floppy", "fs", "lun"])),
    ("hw_rng_model", Choice(&["virtio"])),
    (
        "hw_scsi_model",
        Choice(&["buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi"]),
    ),
    ("hw_serial_port_count", Integer),
    ("hw_sound_model", Choice(&["sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"])),
    ("hw_time_hpet", Boolean),
    ("hw_tpm_model", Choice(&["tpm-tis", "tpm-crb"])),
    ("hw_tpm_version", Choice(&["1.2", "2.0"])),
    ("hw_usb_model", Choice(&["none", "nec-xhci", "qemu-xhci"])),
    ("hw_video_model", Choice(&["cirrus", "qxl", "vga", "vmvga", "xen", "virtio", "gop", "none", "bochs"])),
    ("hw_video_ram", Integer),
    (
        "hw_vif_model",
        Choice(&[
            "virtio",
            "ne2k_pci",
            "pcnet",
            "rtl8139",
            "e1000",
            "e1000e",
            "igb",
            "lan9118",
            "netfront",
            "spapr-vlan",
            "vmxnet3",
        ]),
    ),
    ("hw_vif_multiqueue_enabled", Boolean),
    ("hw_viommu_model", Choice(&["intel", "smmuv3", "virtio", "auto"])),
    ("hw_virtio_packed_ring", Boolean),
    ("hw_vm_mode", Choice(&["hvm", "xen", "uml", "exe"])),
    ("hw_watchdog_action", Choice(&["none", "pause", "poweroff", "reset", "disabled"])),
    ("img_config_drive", Choice(&["optional", "mandatory"])),
    ("img_hide_hypervisor_id", Boolean),
    ("img_hv_requested_version", Text),
    ("img_hv_type", Text),
    ("os_admin_user", Text),
    ("os_command_line", Text),
    ("os_distro", Text),
    ("os_require_quiesce", Boolean),
    ("os_secure_boot", Choice(&["required", "disabled", "optional"])),
    ("os_skip_agent_inject_files_at_boot", Boolean),
    ("os_skip_agent_inject_ssh", Boolean),
    ("os_type", Choice(&["linux", "windows"])),
];

/// The greatest length of a value. Nova's database limits a value to 255 characters.
const LONGEST: usize = 255;

/// Checks names and values. A trait needs no check here, because the scheduler ignores an unknown trait.
pub(super) fn check(properties: &SortedPairs) -> Result<(), InstanceReject> {
    for (name, value) in properties {
        if name.starts_with("trait:") && value.len() <= LONGEST {
            continue;
        }
        let Some((_, values)) = KNOWN.iter().find(|(known, _)| known == name) else {
            return Err(InstanceReject::UnknownImageProperty { name: name.clone() });
        };
        if !values.admit(value) {
            return Err(InstanceReject::BadImageProperty { name: name.clone(), value: value.clone() });
        }
    }
    Ok(())
}

/// Refuses hardware that the server's board does not have, because the next start of its guest would fail. If the
/// properties change the board, the other properties of the image must fit the new board.
fn check_board(server: &Alive, properties: &SortedPairs) -> Result<(), InstanceReject> {
    let set = properties.iter().find(|(name, _)| name == "hw_machine_type").map(|(_, value)| value.as_str());
    // The recorded machine type takes precedence over the image's.
    let Some(machine) = server.machine_type.as_deref().or(set).or(server.machine_type()) else { return Ok(()) };
    let Some(board) = machine::board_name(machine) else { return Ok(()) };
    let unfit = |(name, value): &&(String, String)| match name.as_str() {
        "hw_cdrom_bus" | "hw_disk_bus" | "hw_rescue_bus" => value.eq_ignore_ascii_case("ide") && board != "pc",
        "hw_viommu_model" => board == "pc",
        "os_secure_boot" => value.eq_ignore_ascii_case("required") && board == "pc",
        _ => false,
    };
    let changes_board = server.machine_type.is_none() && set.is_some() && set != server.machine_type();
    let stays = |(name, _): &&(String, String)| properties.iter().all(|(changed, _)| changed != name);
    let image = server.hardware_image().filter(|_| changes_board);
    let others = image.into_iter().flat_map(|image| &image.properties).filter(stays);
    match properties.iter().chain(others).find(unfit).cloned() {
        Some((name, value)) => Err(InstanceReject::UnfitImageProperty { name, value, machine: machine.to_owned() }),
        None => Ok(()),
    }
}

impl ImagePropertyValues {
    fn admit(self, value: &str) -> bool {
        const BOOLEANS: [&str; 12] = ["1", "t", "true", "on", "y", "yes", "0", "f", "false", "off", "n", "no"];
        value.len() <= LONGEST
            && match self {
                Self::Text => !value.is_empty() && !value.chars().any(char::is_control),
                Self::Boolean => BOOLEANS.contains(&value.to_lowercase().as_str()),
                Self::Integer => value.parse::<u32>().is_ok(),
                Self::Choice(words) => words.contains(&value.to_lowercase().as_str()),
            }
    }
}

/// Sets properties of a server that is off. Its guest gets them at its next start.
pub(super) fn change(server: &Alive, mut properties: SortedPairs) -> InstanceDecision {
    check_state(server, ServerAction::SetImageProperties)?;
    check(&properties)?;
    check_board(server, &properties)?;
    let Some(image) = server.hardware_image() else { return Err(InstanceReject::WithoutImage) };
    properties.retain(|pair| !image.properties.contains(pair));
    properties.sort();
    properties.dedup();
    let changed = (!properties.is_empty()).then(|| InstanceEvent::from(ImagePropertiesChanged { properties }));
    Ok(changed.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_are_unique() {
        assert!(KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn only_known_names_and_values_are_admitted() {
        let of = |name: &str, value: &str| check(&vec![(name.to_owned(), value.to_owned())]);
        for (name, value) in [
            ("hw_disk_bus", "scsi"),
            ("hw_qemu_guest_agent", "Yes"),
            ("hw_cpu_cores", "4"),
            ("hw_machine_type", "pc-q35-7.2"),
            ("trait:HW_CPU_X86_AVX", "required"),
        ] {
            assert_eq!(of(name, value), Ok(()), "{name}");
        }
        let unknown = |name: &str| Err(InstanceReject::UnknownImageProperty { name: name.to_owned() });
        assert_eq!(of("hw_disk_buss", "scsi"), unknown("hw_disk_buss"));
        for (name, value) in [
            ("hw_disk_bus", "nvme"),
            ("hw_qemu_guest_agent", "perhaps"),
            ("hw_cpu_cores", "-4"),
            ("os_command_line", "a\nb"),
            ("hw_machine_type", ""),
        ] {
            let bad = InstanceReject::BadImageProperty { name: name.to_owned(), value: value.to_owned() };
            assert_eq!(of(name, value), Err(bad));
        }
    }
}
