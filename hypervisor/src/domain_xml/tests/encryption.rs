//! Guests with encrypted memory (AMD SEV). No machine of the tests has such a processor, so these tests compare only
//! the definitions.

use super::*;
use crate::memory_encryption::SevFacts;

const SPEC: (&str, &str) = ("hw:mem_encryption", "True");
const UEFI: (&str, &str) = ("hw_firmware_type", "uefi");
const Q35: (&str, &str) = ("hw_machine_type", "q35");

fn sev_host() -> HostFacts {
    let firmware = FirmwareFacts { uefi: true, by_feature: true, ..FirmwareFacts::default() };
    let sev = Some(SevFacts { cbitpos: 47, reduced_phys_bits: 1, max_guests: Some(15) });
    HostFacts { kvm: true, cpu_mode: CpuMode::HostModel, firmware, sev, ..host() }
}

#[test]
fn a_guest_with_encrypted_memory_has_a_policy_locked_memory_and_devices_behind_the_iommu() {
    let wished = with(&[SPEC, UEFI, Q35, ("hw_qemu_guest_agent", "yes")]);
    let guest = GuestSpec { volumes: vec![volume(7, "vdb", "virtio"), volume(8, "sdb", "scsi")], ..wished };
    let xml = golden("encrypted", &guest, &sev_host());
    let flat: String = xml.split('\n').map(str::trim).collect();
    for part in [
        "<launchSecurity type='sev'><cbitpos>47</cbitpos><reducedPhysBits>1</reducedPhysBits><policy>0x0033</policy>\
         </launchSecurity></domain>",
        "<memoryBacking><locked/></memoryBacking>",
        "<driver name='qemu' type='qcow2' cache='none' iommu='on'/>",
        "<driver name='vhost' iommu='on'/>",
        "<controller type='scsi' index='0' model='virtio-scsi'><driver iommu='on'/></controller>",
        "<controller type='virtio-serial' index='0'><driver iommu='on'/></controller>",
        "<rng model='virtio'><driver iommu='on'/>",
        "<video><driver iommu='on'/><model type='virtio'/>",
        "<memballoon model='virtio'><driver iommu='on'/>",
    ] {
        assert!(flat.contains(part), "{part}: {flat}");
    }
    // The volume on virtio's own bus uses the IOMMU itself. The other volume uses it through its controller.
    assert_eq!(flat.matches("<driver name='qemu' type='raw' cache='none' iommu='on'/>").count(), 1, "{flat}");
    assert_eq!(flat.matches("<driver name='qemu' type='raw' cache='none'/>").count(), 1, "{flat}");
    let plain = render(&with(&[UEFI, Q35]), &sev_host()).unwrap();
    assert!(!plain.contains("iommu") && !plain.contains("launchSecurity") && !plain.contains("locked"), "{plain}");
}

/// Devices that are attached later need the IOMMU, too.
#[test]
fn devices_that_join_a_guest_with_encrypted_memory_are_behind_the_iommu() {
    let (disk, sata) = (volume(7, "vdb", "virtio"), volume(7, "sdb", "sata"));
    assert!(render_disk(&disk, &sev_host(), true).contains(" iommu='on'"));
    assert!(!render_disk(&disk, &sev_host(), false).contains("iommu"));
    assert!(!render_disk(&sata, &sev_host(), true).contains("iommu"));
    let properties = with(&[SPEC, UEFI, Q35]).hardware;
    let interface = render_interface(&guest().nics[0], &properties, 1, &sev_host()).unwrap();
    assert!(interface.contains("<driver name='vhost' iommu='on'/>"), "{interface}");
    let plain = render_interface(&guest().nics[0], &[], 1, &sev_host()).unwrap();
    assert!(!plain.contains("iommu"), "{plain}");
}

#[test]
fn encrypted_memory_needs_a_host_a_board_and_firmware_that_have_it() {
    let asked = |properties: &[(&str, &str)], host: &HostFacts| render(&with(properties), host).map(drop);
    let property = "hw_mem_encryption";
    assert_eq!(
        asked(&[(property, "true"), UEFI], &HostFacts { machine_type: Some("q35".to_owned()), ..sev_host() }),
        Ok(())
    );
    assert_eq!(asked(&[(property, "true"), Q35], &sev_host()), Err(HardwareError::NeedsUefi { property }));
    // The image names no machine type, and the operator has not changed Nova's default.
    let refused = asked(&[SPEC, UEFI], &sev_host()).unwrap_err();
    assert_eq!(refused, HardwareError::EncryptionNeedsQ35 { machine: "pc".to_owned() });
    let words = refused.to_string();
    assert!(
        words.contains("hw_machine_type = q35 on the image, or x86_64=q35 in [libvirt] hw_machine_type"),
        "{words}"
    );
    let elsewhere = HardwareError::NotOnThisHost { property: "hw:mem_encryption", value: "true".to_owned() };
    assert_eq!(asked(&[SPEC, UEFI, Q35], &HostFacts { sev: None, ..sev_host() }), Err(elsewhere));
    assert_eq!(asked(&[("hw:mem_encryption", "no"), Q35], &host()), Ok(()));
}

#[test]
fn disks_of_a_guest_with_encrypted_memory_are_not_on_ide() {
    let of = |bus: &str, device: &str| {
        let guest = GuestSpec { volumes: vec![volume(7, device, bus)], ..with(&[SPEC, UEFI, Q35]) };
        render(&guest, &sev_host()).map(drop)
    };
    for (bus, device) in [("virtio", "vdb"), ("scsi", "sdb"), ("sata", "sdb")] {
        assert_eq!(of(bus, device), Ok(()), "{bus}");
        let root = with(&[SPEC, UEFI, Q35, ("hw_disk_bus", bus)]);
        assert!(render(&root, &sev_host()).unwrap().contains(&format!("bus='{bus}'")), "{bus}");
    }
    assert_eq!(of("ide", "hdb"), Err(HardwareError::EncryptionOnIde { disk: "hdb".to_owned() }));
    assert!(render(&with(&[SPEC, UEFI, Q35, ("hw_disk_bus", "ide")]), &sev_host()).is_err());
}

#[test]
fn a_guest_with_encrypted_memory_keeps_its_screens_its_consoles_and_its_nodes() {
    let spice = Spice { listen: "127.0.0.1".to_owned(), agent: true, secure: false };
    let screens = Screens { spice: Some(spice), ..Screens::default() };
    let node = GuestNode { cell: 0, cpus: vec![(0, vec![2])], memory_mib: 512, huge_page_kib: None };
    let pinning = Pinning { nodes: vec![node], ..Pinning::default() };
    let guest = GuestSpec { pinning, ..with(&[SPEC, UEFI, Q35]) };
    let xml = render(&guest, &HostFacts { screens, ..sev_host() }).unwrap();
    for part in [
        "<launchSecurity type='sev'>",
        "<graphics type='vnc'",
        "<graphics type='spice'",
        "name='com.redhat.spice.0'",
        "<controller type='virtio-serial' index='0'>",
        "<serial type='pty'>",
        "<cell id='0'",
        "<vcpupin vcpu='0' cpuset='2'/>",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
}
