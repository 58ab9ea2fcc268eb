#![allow(clippy::unwrap_used)]
use chronova_events::ids::{FlavorId, ImageId};
use chronova_hypervisor::domain_xml::EMULATION;

use super::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn owned(pairs: Pairs<'_>) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn flavor(specs: Pairs<'_>) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("1"),
        name: "one".into(),
        vcpus: 2,
        memory_mib: 512,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs: owned(specs),
    }
}

fn image(properties: Pairs<'_>) -> ImageSnapshot {
    ImageSnapshot {
        id: ImageId(uuid::Uuid::from_u128(3)),
        name: "image".into(),
        checksum: "ab".repeat(64),
        format: "qcow2".into(),
        size: 1,
        virtual_size: 1,
        min_memory_mib: 0,
        min_disk_gib: 0,
        properties: owned(properties),
    }
}

fn asked(specs: Pairs<'_>, properties: Pairs<'_>) -> Result<(), String> {
    check(&flavor(specs), Some(&image(properties)))
}

fn says(specs: Pairs<'_>, properties: Pairs<'_>, words: &str) {
    let refusal = asked(specs, properties).unwrap_err();
    assert!(refusal.contains(words), "{specs:?} {properties:?}: {refusal}");
}

#[test]
fn secure_boot_needs_uefi_and_a_board_that_protects_it() {
    let uefi = ("hw_firmware_type", "uefi");
    assert_eq!(asked(&[("os:secure_boot", "required")], &[uefi, ("hw_machine_type", "q35")]), Ok(()));
    assert_eq!(asked(&[], &[("os_secure_boot", "required"), uefi]), Ok(()), "an image need not name the machine type");
    assert_eq!(asked(&[], &[("os_secure_boot", "optional")]), Ok(()), "an optional secure boot does not need UEFI");
    says(&[("os:secure_boot", "required")], &[], "hw_firmware_type = uefi");
    says(&[("os:secure_boot", "required")], &[uefi, ("hw_machine_type", "pc")], "hw_machine_type = q35");
    says(&[("os:secure_boot", "optional")], &[uefi], "required or disabled");
    says(&[], &[uefi, ("os_secure_boot", "perhaps")], "perhaps");
    // If a flavor forbids the secure boot that an image requires, the request is refused.
    says(&[("os:secure_boot", "disabled")], &[uefi, ("os_secure_boot", "required")], "both have to be the same");
    says(&[("os:secure_boot", "required")], &[uefi, ("os_secure_boot", "disabled")], "both have to be the same");
    assert_eq!(asked(&[("os:secure_boot", "required")], &[uefi, ("os_secure_boot", "required")]), Ok(()));
}

#[test]
fn a_tpm_has_a_version_and_a_model_that_fits_it() {
    assert_eq!(asked(&[("hw:tpm_version", "2.0"), ("hw:tpm_model", "tpm-crb")], &[("hw_tpm_version", "2.0")]), Ok(()));
    assert_eq!(asked(&[], &[("hw_tpm_version", "1.2"), ("hw_tpm_model", "tpm-tis")]), Ok(()));
    says(&[("hw:tpm_version", "2.0")], &[("hw_tpm_version", "1.2")], "both have to be the same");
    let crb = [("hw:tpm_version", "2.0"), ("hw:tpm_model", "tpm-crb")];
    says(&crb, &[("hw_tpm_model", "tpm-tis")], "both have to be the same");
    says(&[("hw:tpm_version", "1.2"), ("hw:tpm_model", "tpm-crb")], &[], "only with version 2.0");
    says(&[("hw:tpm_version", "1.2")], &[("hw_tpm_model", "tpm-crb")], "only with version 2.0");
    says(&[], &[("hw_tpm_model", "tpm-tis")], "without a TPM version");
    says(&[], &[("hw_tpm_version", "3.0")], "1.2 or 2.0");
    let of = |specs: Pairs<'_>, properties: Pairs<'_>| tpm_version(&flavor(specs), Some(&image(properties)));
    assert_eq!(of(&[], &[("hw_tpm_version", "1.2")]).map(chronova_hypervisor::tpm::TpmVersion::word), Some("1.2"));
    assert_eq!(of(&[], &[]), None);
}

#[test]
fn locked_memory_needs_a_page_size_and_no_contradiction() {
    let small = ("hw:mem_page_size", "small");
    assert_eq!(asked(&[("hw:locked_memory", "True"), small], &[]), Ok(()));
    assert_eq!(asked(&[small], &[("hw_locked_memory", "yes")]), Ok(()));
    says(&[("hw:locked_memory", "True")], &[], "page size");
    says(&[("hw:locked_memory", "True"), small], &[("hw_locked_memory", "False")], "contradict");
}

#[test]
fn a_switch_of_flavor_and_image_is_the_same_in_both() {
    for (spec, property) in [("hw:vif_multiqueue_enabled", "hw_vif_multiqueue_enabled"), ("hw:pmu", "hw_pmu")] {
        for (flavor, image) in [("true", "yes"), ("false", "False")] {
            assert_eq!(asked(&[(spec, flavor)], &[(property, image)]), Ok(()), "{flavor} {image}");
        }
        assert_eq!(asked(&[(spec, "true")], &[]), Ok(()));
        assert_eq!(asked(&[], &[(property, "false")]), Ok(()));
        for (flavor, image) in [("true", "false"), ("no", "on")] {
            let words = format!("Flavor's {spec} ({flavor}) and image's {property} ({image}) contradict each other");
            says(&[(spec, flavor)], &[(property, image)], &words);
        }
    }
}

#[test]
fn an_image_stays_within_the_flavors_bounds() {
    assert_eq!(asked(&[("hw_video:ram_max_mb", "32")], &[("hw_video_ram", "16")]), Ok(()));
    says(&[("hw_video:ram_max_mb", "8")], &[("hw_video_ram", "16")], "higher than the maximum");
    says(&[], &[("hw_video_ram", "16")], "higher than the maximum");
    assert_eq!(asked(&[("hw:cpu_max_sockets", "2")], &[("hw_cpu_max_sockets", "1"), ("hw_cpu_sockets", "2")]), Ok(()));
    for part in ["sockets", "cores", "threads"] {
        let bound = format!("hw:cpu_max_{part}");
        let [most, exact] = ["hw_cpu_max", "hw_cpu"].map(|prefix| format!("{prefix}_{part}"));
        for property in [&most, &exact] {
            assert_eq!(asked(&[(&bound, "2")], &[(property, "2")]), Ok(()), "{property}");
            says(&[(&bound, "2")], &[(property, "4")], &format!("exceeds the flavor's {bound}"));
        }
    }
    assert_eq!(asked(&[("hw:serial_port_count", "3")], &[("hw_serial_port_count", "2")]), Ok(()));
    says(&[("hw:serial_port_count", "1")], &[("hw_serial_port_count", "2")], "exceed");
    says(&[("hw:serial_port_count", "9")], &[], "from 1 to 4");
}

#[test]
fn a_virtual_iommu_needs_a_board_that_has_it() {
    let (q35, virt) = (("hw_machine_type", "q35"), ("hw_machine_type", "virt"));
    let (arm, spec) = (("hw_architecture", "aarch64"), |model| ("hw:viommu_model", model));
    for model in ["virtio", "intel", "auto"] {
        assert_eq!(asked(&[spec(model)], &[q35]), Ok(()), "{model}");
        assert_eq!(asked(&[], &[("hw_viommu_model", model)]), Ok(()), "{model}: the host's machine type may be q35");
    }
    for model in ["virtio", "smmuv3", "auto"] {
        assert_eq!(asked(&[spec(model)], &[arm, virt]), Ok(()), "{model}");
    }
    assert_eq!(asked(&[spec("auto")], &[("hw_machine_type", "pc-q35-7.2")]), Ok(()));
    says(&[spec("none")], &[q35], "vIOMMU model none is invalid");
    for model in ["auto", "intel", "virtio"] {
        let words = "not supported by Current machine type pc (Architecture: x86_64)";
        says(&[spec(model)], &[("hw_machine_type", "pc")], words);
        says(&[], &[("hw_viommu_model", model), ("hw_machine_type", "pc")], words);
    }
    says(&[spec("auto")], &[arm, q35], "not supported by Current machine type q35 (Architecture: aarch64)");
    says(&[spec("auto")], &[("hw_architecture", "s390x")], "vIOMMU required either x86 or AArch64");
    says(&[spec("smmuv3")], &[q35], "set hw_machine_type = q35 on the image, or virt");
    says(&[spec("smmuv3")], &[("hw_architecture", "x86_64"), q35], "smmuv3 is for AArch64 alone");
    says(&[spec("intel")], &[arm, virt], "intel is for x86 alone");
    says(&[spec("intel")], &[q35, ("hw_viommu_model", "virtio")], "both have to be the same");
}

#[test]
fn an_emulated_architecture_has_its_own_board_and_firmware() {
    let arch = |name| (EMULATION, name);
    let machine = |name| ("hw_machine_type", name);
    let uefi = ("hw_firmware_type", "uefi");
    for properties in [
        vec![arch("aarch64"), machine("virt"), uefi],
        vec![arch("aarch64")],
        vec![arch("s390x"), machine("s390-ccw-virtio"), ("hw_video_model", "virtio")],
        vec![arch("ppc64le"), machine("pseries-7.2")],
        vec![arch("x86_64"), machine("q35"), uefi],
        vec![arch("aarch64"), ("hw_viommu_model", "smmuv3")],
        vec![arch("aarch64"), ("os_secure_boot", "required")],
    ] {
        assert_eq!(asked(&[], &properties), Ok(()), "{properties:?}");
    }
    says(&[], &[arch("mipsel"), machine("virt")], "QEMU has no board for it");
    says(&[], &[arch("vax")], "set one of aarch64, ppc64le, s390x, x86_64");
    says(&[], &[arch("aarch64"), machine("q35")], "hw_machine_type = q35 does not work");
    says(&[], &[arch("s390x"), machine("virt")], "set s390-ccw-virtio");
    says(&[], &[arch("aarch64"), ("hw_firmware_type", "bios")], "needs UEFI");
    says(&[], &[arch("ppc64le"), uefi], "has no UEFI");
    says(&[], &[arch("s390x"), ("hw_video_model", "vga")], "set virtio");
    says(&[("hw:serial_port_count", "2")], &[arch("s390x")], "one serial port, not 2");
    says(&[], &[arch("ppc64le"), ("hw_viommu_model", "auto")], "vIOMMU required either x86 or AArch64");
    let of = |properties: Pairs<'_>| image(properties);
    assert_eq!(check_rebuild_architecture(Some(&of(&[arch("s390x")])), &of(&[arch("s390x")])), Ok(()));
    let other = check_rebuild_architecture(Some(&of(&[])), &of(&[arch("s390x")])).unwrap_err();
    assert!(other.contains("from that of the host to s390x"), "{other}");
}

#[test]
fn encrypted_memory_needs_uefi_and_a_board_that_has_it() {
    let spec = ("hw:mem_encryption", "True");
    let (uefi, q35) = (("hw_firmware_type", "uefi"), ("hw_machine_type", "q35"));
    for (specs, properties) in [
        (vec![spec], vec![uefi, q35]),
        (vec![], vec![uefi, q35, ("hw_mem_encryption", "yes")]),
        (vec![spec], vec![uefi, ("hw_machine_type", "pc-q35-7.2"), ("hw_mem_encryption", "true")]),
        (vec![spec], vec![uefi]),
        (vec![spec], vec![uefi, q35, ("hw_architecture", "x86_64"), ("hw_disk_bus", "scsi")]),
        (
            vec![spec, ("pci_passthrough:alias", "gpu:0"), ("resources:VGPU", "0")],
            vec![uefi, q35, ("hw_disk_bus", "sata")],
        ),
        // Without encryption, none of these conditions applies.
        (vec![("hw:mem_encryption", "false")], vec![("hw_disk_bus", "ide")]),
        (vec![("pci_passthrough:alias", "gpu:1")], vec![]),
    ] {
        assert_eq!(asked(&specs, &properties), Ok(()), "{specs:?} {properties:?}");
    }
    says(&[spec], &[], "(hw:mem_encryption) needs UEFI: set hw_firmware_type = uefi");
    says(&[], &[("hw_mem_encryption", "true"), ("hw_firmware_type", "bios")], "(hw_mem_encryption) needs UEFI");
    says(&[spec], &[uefi, ("hw_machine_type", "pc")], "needs hw_machine_type = q35 on the image, not pc");
    says(&[spec], &[uefi, q35, ("hw_architecture", "aarch64")], "does not work with architecture aarch64");
    says(&[spec], &[uefi, (EMULATION, "aarch64")], "does not work with architecture aarch64");
    for bus in ["hw_disk_bus", "hw_cdrom_bus", "hw_rescue_bus"] {
        says(&[spec], &[uefi, q35, (bus, "ide")], &format!("{bus} = ide: set virtio, scsi or sata"));
    }
    for device in [("pci_passthrough:alias", "gpu:1"), ("resources:VGPU", "1"), ("resources1:VGPU", "1")] {
        says(&[spec, device], &[uefi, q35], "does not work with devices of the host");
    }
    let (yes, no) = (("hw_mem_encryption", "true"), ("hw_mem_encryption", "false"));
    says(&[spec], &[uefi, q35, no], "explicitly set to true, conflicting with the image");
    says(&[("hw:mem_encryption", "0")], &[uefi, q35, yes], "explicitly set to false, conflicting with the image");
    let nothing = check(&flavor(&[spec]), None).unwrap_err();
    assert!(nothing.contains("needs UEFI"), "a volume without image properties has no UEFI: {nothing}");
}
