//! Firmware, TPM, real time and memory, as flavors, images and operators choose them.

use super::*;
use crate::pmem::PmemOptions;
use crate::tpm::TpmVersion;

fn with_firmware() -> HostFacts {
    let firmware = FirmwareFacts {
        uefi: true,
        secure_boot: true,
        by_feature: true,
        tpm_versions: vec![TpmVersion::V1_2, TpmVersion::V2_0],
        tpm_models: vec!["tpm-tis".to_owned(), "tpm-crb".to_owned()],
    };
    HostFacts { firmware, ..host() }
}

#[test]
fn secure_boot_has_a_protected_board_and_enrolled_keys() {
    let uefi = ("hw_firmware_type", "uefi");
    let secure = [uefi, ("hw_machine_type", "q35"), ("os:secure_boot", "required")];
    let xml = golden("secure-boot", &with(&secure), &with_firmware());
    for part in
        ["<firmware>", "name='secure-boot'", "name='enrolled-keys'", "<loader secure='yes'/>", "<smm state='on'/>"]
    {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    let plain = render(&with(&[uefi]), &with_firmware()).unwrap();
    assert!(plain.contains("<feature enabled='no' name='secure-boot'/>") && !plain.contains("smm"), "{plain}");
    let secure_of = |properties: &[(&str, &str)], host: &HostFacts| {
        render(&with(properties), host).map(|xml| xml.contains("<loader secure='yes'/>"))
    };
    let optional = ("os_secure_boot", "optional");
    assert_eq!(secure_of(&[uefi, ("hw_machine_type", "q35"), optional], &with_firmware()), Ok(true));
    assert_eq!(secure_of(&[uefi, ("hw_machine_type", "q35"), optional], &host()), Ok(false), "the host has no UEFI");
    assert_eq!(secure_of(&[uefi, ("hw_machine_type", "pc"), optional], &with_firmware()), Ok(false));
    assert_eq!(secure_of(&[optional], &with_firmware()), Ok(false), "the guest has no UEFI");
    let required = ("os_secure_boot", "required");
    // The operator's machine type counts if the image names none.
    let of_operator = |machine: &str| HostFacts { machine_type: Some(machine.to_owned()), ..with_firmware() };
    assert_eq!(secure_of(&[uefi, required], &of_operator("q35")), Ok(true));
    assert!(secure_of(&[uefi, required], &of_operator("pc")).is_err());
    for (properties, host) in [
        (vec![uefi, ("hw_machine_type", "q35"), required], host()),
        (vec![uefi, ("hw_machine_type", "pc"), required], with_firmware()),
        (vec![("hw_machine_type", "q35"), required], with_firmware()),
        (vec![("hw_firmware_type", "coreboot")], with_firmware()),
    ] {
        assert!(secure_of(&properties, &host).is_err(), "{properties:?}");
    }
}

#[test]
fn a_tpm_is_emulated_and_its_state_is_encrypted() {
    let tpm = [("hw:tpm_version", "2.0"), ("hw_tpm_model", "tpm-crb")];
    let secret = Some(Uuid::from_u128(9));
    let xml = golden("tpm", &GuestSpec { tpm_secret: secret, ..with(&tpm) }, &with_firmware());
    let device = "<tpm model='tpm-crb'><backend type='emulator' version='2.0'>\
                  <encryption secret='00000000-0000-0000-0000-000000000009'/></backend></tpm>";
    let flat: String = xml.split('\n').map(str::trim).collect();
    assert!(flat.contains(device), "{flat}");
    for version in ["1.2", "2.0"] {
        let plain = GuestSpec { tpm_secret: secret, ..with(&[("hw:tpm_version", version)]) };
        let flat: String = render(&plain, &with_firmware()).unwrap().split('\n').map(str::trim).collect();
        let device = format!("<tpm model='tpm-tis'><backend type='emulator' version='{version}'>");
        assert!(flat.contains(&device), "no model: {flat}");
    }
    assert_eq!(render(&with(&tpm), &with_firmware()), Err(HardwareError::NoTpmSecret));
    assert!(
        render(&GuestSpec { tpm_secret: secret, ..with(&tpm) }, &host()).is_err(),
        "a host without TPMs must refuse"
    );
    let wrong = [("hw:tpm_version", "1.2"), ("hw:tpm_model", "tpm-crb")];
    assert!(render(&GuestSpec { tpm_secret: secret, ..with(&wrong) }, &with_firmware()).is_err());
}

#[test]
fn a_guest_of_an_arm_host_has_uefi_without_asking() {
    let arm = HostFacts { arch: "aarch64".to_owned(), ..with_firmware() };
    assert!(render(&guest(), &arm).unwrap().contains("firmware='efi'"));
    let (property, value) = ("hw_firmware_type", "bios".to_owned());
    let bios = with(&[(property, "bios")]);
    assert_eq!(render(&bios, &arm), Err(HardwareError::NotOnThisHost { property, value }));
    assert!(render(&bios, &with_firmware()).is_ok());
    assert!(!render(&guest(), &with_firmware()).unwrap().contains("firmware='efi'"));
}

#[test]
fn memory_is_locked_and_a_card_and_ports_are_as_requested() {
    let wished = [
        ("hw:locked_memory", "True"),
        ("hw_video_ram", "16"),
        ("hw_video_model", "vga"),
        ("hw_serial_port_count", "3"),
    ];
    let xml = golden("wished", &with(&wished), &host());
    assert!(xml.contains("<locked/>") && xml.contains("vram='16384'"), "{xml}");
    assert_eq!(xml.matches("<serial ").count(), 3);
    // The console log is from the first port, because only that port shows the boot.
    let (first, others) = xml.split_once("<target port='0'/>").unwrap();
    assert!(first.contains("_console.log'") && !others.contains("<log "), "{xml}");
}

#[test]
fn cpus_that_run_in_real_time_are_scheduled_first_and_memory_stays() {
    let cpus = vec![(0, vec![2]), (1, vec![3])];
    let node = GuestNode { cell: 0, cpus, memory_mib: 512, huge_page_kib: None };
    let pinning = Pinning { nodes: vec![node], emulator: vec![2], realtime: vec![1], ..Pinning::default() };
    let guest = GuestSpec { vcpus: 2, pinning, ..guest() };
    let xml = golden("realtime", &guest, &host());
    for part in [
        "<vcpusched vcpus='1' scheduler='fifo' priority='1'/>",
        "<emulatorpin cpuset='2'/>",
        "<locked/>",
        "<nosharepages/>",
        "<pmu state='off'/>",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    let guests = GuestOptions { realtime_priority: 50, ..GuestOptions::default() };
    assert!(render(&guest, &HostFacts { guests, ..host() }).unwrap().contains("priority='50'"));
}

/// `[libvirt] file_backed_memory`: guests' memory is in files of the host.
#[test]
fn memory_is_in_files_where_the_operator_says_so() {
    let guests = GuestOptions { file_backed_memory: Some(1 << 20), ..GuestOptions::default() };
    let host = HostFacts { guests, ..host() };
    let xml = golden("file-backed", &guest(), &host);
    for part in ["<source type='file'/>", "<access mode='shared'/>", "<allocation mode='immediate'/>", "<discard/>"] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    let node = GuestNode { cell: 0, cpus: vec![(0, vec![0])], memory_mib: 512, huge_page_kib: Some(2048) };
    let pinning = Pinning { nodes: vec![node], ..Pinning::default() };
    assert_eq!(render(&GuestSpec { pinning, ..guest() }, &host), Err(HardwareError::HugePagesOnFiles));
}

#[test]
fn a_guest_gets_the_virtual_iommu_that_its_board_and_its_hosts_libvirt_have() {
    let q35 = ("hw_machine_type", "q35");
    let arm = || HostFacts { arch: "aarch64".to_owned(), ..with_firmware() };
    let old = |libvirt_version, host: HostFacts| HostFacts { libvirt_version, ..host };
    let host = || HostFacts { kvm: true, ..host() };
    let device = |properties: &[(&str, &str)], host: HostFacts| {
        let xml = render(&with(properties), &host)?;
        let flat: String = xml.split('\n').map(str::trim).collect();
        let from = flat.find("<iommu").expect("an IOMMU");
        let until = flat[from..].find("<memballoon").expect("a balloon");
        assert_eq!(flat.contains("<ioapic driver='qemu'/>"), host.arch == "x86_64", "{flat}");
        Ok::<String, HardwareError>(flat[from..from + until].to_owned())
    };
    let intel =
        "<iommu model='intel'><driver intremap='on' caching_mode='on' iotlb='on' eim='on' aw_bits='48'/></iommu>";
    golden("viommu", &with(&[q35, ("hw:viommu_model", "intel")]), &host());
    let spec = |model| ("hw:viommu_model", model);
    assert_eq!(device(&[q35, spec("intel")], host()).unwrap(), intel);
    assert_eq!(device(&[q35, ("hw_viommu_model", "intel")], host()).unwrap(), intel);
    let narrow = device(&[q35, spec("intel")], old(6_004_000, host())).unwrap();
    assert_eq!(narrow, intel.replace(" aw_bits='48'", ""));
    let emulated = device(&[q35, spec("intel")], HostFacts { kvm: false, ..host() }).unwrap();
    assert_eq!(emulated, intel.replace("eim='on'", "eim='off'"), "QEMU refuses the mode without KVM");
    assert_eq!(device(&[q35, spec("virtio")], host()).unwrap(), "<iommu model='virtio'/>");
    assert_eq!(device(&[spec("smmuv3")], arm()).unwrap(), "<iommu model='smmuv3'/>");
    // `auto` means virtio, or the model of the architecture where libvirt has no virtio.
    assert_eq!(device(&[q35, spec("auto")], host()).unwrap(), "<iommu model='virtio'/>");
    assert_eq!(device(&[q35, spec("auto")], old(8_002_000, host())).unwrap(), intel);
    assert_eq!(device(&[spec("auto")], old(8_002_000, arm())).unwrap(), "<iommu model='smmuv3'/>");
    let refused = |properties: &[(&str, &str)], host: HostFacts| device(properties, host).unwrap_err().to_string();
    let not_here = |value: &str| format!("this host does not offer hw_viommu_model = {value}");
    assert_eq!(refused(&[q35, spec("virtio")], old(8_002_000, host())), not_here("virtio"));
    assert_eq!(refused(&[spec("smmuv3")], old(5_004_000, arm())), not_here("smmuv3"));
    assert_eq!(refused(&[q35, spec("smmuv3")], host()), not_here("smmuv3"));
    assert_eq!(refused(&[spec("intel")], arm()), not_here("intel"));
    let pc = "vIOMMU is not supported by Current machine type pc (Architecture: x86_64).";
    assert_eq!(refused(&[spec("auto")], host()), pc);
    let power = HostFacts { arch: "ppc64le".to_owned(), ..host() };
    let other = "vIOMMU required either x86 or AArch64 architecture, but given architecture ppc64le.";
    assert_eq!(refused(&[spec("auto")], power), other);
    assert!(refused(&[q35, spec("amd")], host()).contains("unknown value"));
}

#[test]
fn a_host_reports_the_virtual_iommus_that_it_offers() {
    let of = |arch: &str, libvirt| IommuModel::traits(arch, libvirt).join(" ").replace("COMPUTE_VIOMMU_MODEL_", "");
    assert_eq!(of("x86_64", 9_000_000), "INTEL VIRTIO AUTO");
    assert_eq!(of("x86_64", 8_003_000), "INTEL VIRTIO AUTO");
    assert_eq!(of("x86_64", 8_002_000), "INTEL AUTO");
    assert_eq!(of("aarch64", 8_002_000), "SMMUV3 AUTO");
    assert_eq!(of("aarch64", 5_005_000), "SMMUV3 AUTO");
    assert_eq!(of("aarch64", 5_004_000), "");
    assert_eq!(of("s390x", 9_000_000), "");
}

#[test]
fn flavors_and_images_choose_the_watchdog_and_the_performance_counters() {
    for name in ["hw:watchdog_action", "hw_watchdog_action"] {
        for action in ["none", "pause", "poweroff", "reset"] {
            let xml = render(&with(&[(name, action)]), &host()).unwrap();
            assert!(xml.contains(&format!("<watchdog model='i6300esb' action='{action}'/>")), "{name}: {xml}");
        }
    }
    assert!(!render(&guest(), &host()).unwrap().contains("watchdog"), "nobody asks for a watchdog");
    for name in ["hw:pmu", "hw_pmu"] {
        for (value, state) in [("true", "on"), ("false", "off")] {
            let xml = render(&with(&[(name, value)]), &host()).unwrap();
            assert!(xml.contains(&format!("<pmu state='{state}'/>")), "{name}: {xml}");
        }
    }
    assert!(!render(&guest(), &host()).unwrap().contains("<pmu"), "without a request, QEMU decides");
}

/// `[DEFAULT] config_drive_format = vfat`: as in Nova, the drive is a disk with the last name of its bus.
#[test]
fn a_vfat_config_drive_is_the_last_disk_of_its_bus() {
    let image = bytes::Bytes::from(crate::vfat::write("config-2", &[]).unwrap());
    for (bus, target, readonly) in [
        ("virtio", "<target dev='vdz' bus='virtio'/>", true),
        ("scsi", "<target dev='sdz' bus='scsi'/>", true),
        ("sata", "<target dev='sdz' bus='sata'/>", false),
        ("ide", "<target dev='hdd' bus='ide'/>", false),
    ] {
        let guest = GuestSpec { config_drive: Some(image.clone()), ..with(&[("hw_disk_bus", bus)]) };
        let xml = render(&guest, &host()).unwrap();
        let drive = xml.split("<disk ").find(|disk| disk.contains("_disk.config'")).unwrap();
        let drive = drive.split("</disk>").next().unwrap();
        assert!(drive.contains("device='disk'") && drive.contains("type='raw'"), "{drive}");
        assert!(drive.contains(target), "{bus}: {drive}");
        assert_eq!(drive.contains("<readonly/>"), readonly, "{bus}: {drive}");
    }
    // An ISO 9660 image is a CD-ROM.
    let image = bytes::Bytes::from(crate::iso9660::write("config-2", &[]).unwrap());
    let xml = render(&GuestSpec { config_drive: Some(image), ..guest() }, &host()).unwrap();
    assert!(xml.contains("device='cdrom'"), "{xml}");
}

#[test]
fn each_of_many_disks_has_a_name_of_its_own() {
    let image = bytes::Bytes::from(crate::vfat::write("config-2", &[]).unwrap());
    let many = GuestSpec { ephemerals_gib: vec![1; 30], config_drive: Some(image), ..guest() };
    let xml = render(&many, &host()).unwrap();
    let mut names: Vec<&str> =
        xml.split("<target dev='vd").skip(1).map(|rest| rest.split('\'').next().unwrap()).collect();
    assert_eq!((names[0], names[24], names[25], names[30]), ("a", "y", "aa", "af"), "root and ephemeral disks");
    assert_eq!(names[31], "z", "the config drive");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 32);
}

/// A host with persistent memory of two sizes.
fn with_pmem() -> HostFacts {
    let mut facts = host();
    let texts = |list: [&str; 2]| list.map(str::to_owned);
    let namespaces = texts(["6GB:ns0|ns1|ns2", "SMALL:ns3"]);
    let sizes = texts(["6GB=6144", "SMALL=256"]);
    facts.guests.pmem = PmemOptions::read(&namespaces, &sizes, Some("/mnt/pmem0".to_owned()), true).unwrap();
    facts
}

#[test]
fn persistent_memory_is_in_the_first_node_which_is_made_if_there_is_none() {
    let guest = GuestSpec { vcpus: 2, ..with(&[("hw:pmem", "6GB,6GB,SMALL")]) };
    golden("persistent-memory", &guest, &with_pmem());
    // A guest with nodes keeps them.
    let node = |cell, cpu| GuestNode { cell, cpus: vec![(cpu, vec![cpu])], memory_mib: 256, huge_page_kib: None };
    let pinning = Pinning { nodes: vec![node(0, 0), node(1, 1)], ..Pinning::default() };
    let xml = render(&GuestSpec { pinning, ..guest.clone() }, &with_pmem()).unwrap();
    assert_eq!((xml.matches("<cell id='").count(), xml.matches("<node>0</node>").count()), (2, 3), "{xml}");
    // If the host's memory is not persistent for QEMU, the definition must not have `<pmem/>`.
    let mut trial = with_pmem();
    trial.guests.pmem.is_persistent = false;
    assert!(!render(&guest, &trial).unwrap().contains("<pmem/>"));
    let unknown = render(&with(&[("hw:pmem", "6GB,HUGE")]), &with_pmem()).unwrap_err();
    assert_eq!(unknown, HardwareError::NotOnThisHost { property: "hw:pmem", value: "HUGE".to_owned() });
    assert!(render(&guest, &host()).is_err(), "a host without persistent memory");
}
