//! Guests of other architectures than their host's.

use super::*;

fn emulating(arch: &str) -> HostFacts {
    let firmware = FirmwareFacts { uefi: arch == "aarch64", by_feature: true, ..FirmwareFacts::default() };
    let video_models = ["vga", "virtio"].map(str::to_owned).to_vec();
    let foreign = vec![ForeignArch { arch: arch.to_owned(), video_models, firmware }];
    let guests =
        GuestOptions { cpu_flags: vec![CpuFlag { name: "pcid".to_owned(), wanted: true }], ..GuestOptions::default() };
    HostFacts { kvm: true, cpu_mode: CpuMode::HostModel, foreign, guests, ..host() }
}

#[test]
fn a_guest_of_another_architecture_is_emulated_on_its_own_board() {
    let arm = [(EMULATION, "aarch64"), ("hw_machine_type", "virt"), ("hw_firmware_type", "uefi")];
    let xml = golden("emulated-aarch64", &with(&arm), &emulating("aarch64"));
    for part in ["<domain type='qemu'>", "arch='aarch64' machine='virt'", "firmware='efi'", "<model>cortex-a57</model>"]
    {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    assert!(!xml.contains("pcid") && !xml.contains("vhost"), "{xml}");
    let mainframe = [(EMULATION, "s390x"), ("hw_video_model", "virtio"), ("hw_watchdog_action", "reset")];
    let xml = golden("emulated-s390x", &with(&mainframe), &emulating("s390x"));
    for part in ["arch='s390x' machine='s390-ccw-virtio'", "model='diag288'", "<model type='virtio'/>"] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    let xml = golden("emulated-ppc64le", &with(&[(EMULATION, "ppc64le")]), &emulating("ppc64le"));
    for part in ["arch='ppc64le' machine='pseries'", "<model type='vga'/>"] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
}

#[test]
fn the_hosts_own_architecture_is_not_emulated_and_a_missing_emulator_is_refused() {
    let own = [(EMULATION, "x86_64")];
    let plain = render(&guest(), &emulating("aarch64")).unwrap();
    let same = render(&with(&own), &emulating("aarch64")).unwrap();
    assert_eq!(same, plain);
    let refused = render(&with(&[(EMULATION, "s390x")]), &emulating("aarch64"));
    assert_eq!(refused, Err(HardwareError::NotOnThisHost { property: EMULATION, value: "s390x".to_owned() }));
}
