#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;

const CLUSTER: usize = 65_536;

/// An empty image of 1 GiB, as `qemu-img create -f qcow2` makes it: header, reference counts, first-level table.
fn qcow2() -> Vec<u8> {
    let mut bytes = vec![0; 4 * CLUSTER];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    put(20, &16_u32.to_be_bytes());
    put(24, &(1_u64 << 30).to_be_bytes());
    put(36, &2_u32.to_be_bytes());
    put(40, &(3 * CLUSTER as u64).to_be_bytes());
    put(48, &(CLUSTER as u64).to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    bytes
}

fn with(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = qcow2();
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

fn verdict(bytes: &[u8], declared: &str) -> String {
    match inspect(bytes, declared) {
        Ok(inspected) => format!("{:?}", inspected.virtual_size),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_valid_qcow2_has_a_virtual_size() {
    assert_eq!(verdict(&qcow2(), "qcow2"), "Some(1073741824)");
    assert_eq!(verdict(&with(4, &2_u32.to_be_bytes()), "qcow2"), "Some(1073741824)");
    assert_eq!(
        verdict(&with(79, &[0b1001]), "qcow2"),
        "Some(1073741824)",
        "a dirty image with another compression is valid"
    );
}

#[test]
fn references_to_other_files_are_refused() {
    let refused = |bytes: Vec<u8>, why: &str| {
        let verdict = verdict(&bytes, "qcow2");
        assert!(verdict.contains("not safe") && verdict.contains(why), "{verdict} / {why}");
    };
    refused(with(8, &200_u64.to_be_bytes()), "backing file");
    refused(with(16, &20_u32.to_be_bytes()), "backing file");
    refused(with(79, &[0b100]), "external data file");
    refused(with(104, &[0x44, 0x41, 0x54, 0x41, 0, 0, 0, 8]), "external data file");
    refused(with(104, &[0xE2, 0x79, 0x2A, 0xCA, 0, 0, 0, 3]), "backing file");
    refused(with(104, &[0x05, 0x37, 0xBE, 0x77, 0, 0, 0, 16]), "encrypted");
    refused(with(32, &1_u32.to_be_bytes()), "encrypted");
    refused(with(79, &[0b10]), "corrupt");
    refused(with(72, &[0x80]), "not known");
    refused(with(4, &1_u32.to_be_bytes()), "version 1");
    refused(with(4, &4_u32.to_be_bytes()), "version 4");
}

#[test]
fn unreasonable_sizes_are_refused() {
    let refused =
        |bytes: Vec<u8>| assert!(verdict(&bytes, "qcow2").contains("not safe"), "{}", verdict(&bytes, "qcow2"));
    refused(with(20, &8_u32.to_be_bytes()));
    refused(with(20, &63_u32.to_be_bytes()));
    refused(with(20, &u32::MAX.to_be_bytes()));
    refused(with(24, &u64::MAX.to_be_bytes()));
    refused(with(36, &u32::MAX.to_be_bytes()));
    refused(with(36, &0_u32.to_be_bytes()));
    refused(with(40, &u64::MAX.to_be_bytes()));
    refused(with(40, &(u64::MAX - 65_535).to_be_bytes()));
    refused(with(40, &3_u64.to_be_bytes()));
    refused(with(48, &0_u64.to_be_bytes()));
    refused(with(56, &0_u32.to_be_bytes()));
    refused(with(56, &u32::MAX.to_be_bytes()));
    refused(with(60, &u32::MAX.to_be_bytes()));
    refused(with(96, &7_u32.to_be_bytes()));
    refused(with(100, &105_u32.to_be_bytes()));
    refused(with(100, &u32::MAX.to_be_bytes()));
    refused(with(104, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]));
    let mut endless = qcow2();
    for at in (104..CLUSTER - 8).step_by(8) {
        endless[at..at + 8].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0]);
    }
    refused(endless);
}

#[test]
fn truncated_files_are_refused_and_flipped_bytes_do_not_panic() {
    let good = qcow2();
    for length in (0..256).chain([CLUSTER - 1, CLUSTER, 2 * CLUSTER, 3 * CLUSTER, 3 * CLUSTER + 15]) {
        let cut = inspect(&good[..length], "qcow2");
        assert!(cut.is_err(), "{length}");
    }
    for at in 0..128 {
        for flip in [0x01, 0x80, 0xff] {
            let mut changed = good.clone();
            changed[at] ^= flip;
            let _ = inspect(changed.as_slice(), "qcow2");
        }
    }
}

#[test]
fn the_declared_format_must_be_the_real_one() {
    let mut disk = vec![0; 1 << 20];
    assert_eq!(verdict(&disk, "raw"), "Some(1048576)");
    assert_eq!(verdict(&[], "raw"), "Some(0)");
    assert_eq!(verdict(&disk, "qcow2"), "the content is raw, not qcow2");
    assert_eq!(verdict(&disk, "iso"), "the content is raw, not iso");
    assert_eq!(verdict(&qcow2(), "raw"), "the content is qcow2, not raw");
    assert_eq!(verdict(&qcow2(), "ami"), "the content is qcow2, not ami");
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(verdict(&disk, "raw"), "Some(1048576)", "a raw disk may have a partition table");
    for (magic, at, format) in [
        (&b"KDMV"[..], 0, "vmdk"),
        (b"# Disk DescriptorFile", 0, "vmdk"),
        (b"conectix", 0, "vhd"),
        (b"vhdxfile", 0, "vhdx"),
        (b"LUKS\xba\xbe", 0, "luks"),
        (b"\x7f\x10\xda\xbe", 0x40, "vdi"),
        (b"conectix", (1 << 20) - 512, "vhd"),
    ] {
        let mut disk = disk.clone();
        disk[at..at + magic.len()].copy_from_slice(magic);
        assert_eq!(verdict(&disk, "raw"), format!("the content is {format}, not raw"));
        assert_eq!(verdict(&disk, format), "None");
    }
}

#[test]
fn an_iso_with_another_format_s_signature_is_refused() {
    let mut iso = vec![0; 1 << 20];
    iso[0x8000..0x8007].copy_from_slice(b"\x01CD001\x01");
    assert_eq!(verdict(&iso, "iso"), "Some(1048576)");
    assert_eq!(verdict(&iso, "raw"), "the content is iso, not raw");
    iso[510..512].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(verdict(&iso, "iso"), "Some(1048576)", "an ISO may have a partition table");
    let mut both = qcow2();
    both[0x8000..0x8007].copy_from_slice(b"\x01CD001\x01");
    assert_eq!(verdict(&both, "iso"), "the content is of several formats at once, not iso");
    assert_eq!(verdict(&both, "qcow2"), "the content is of several formats at once, not qcow2");
    iso[0x8000] = 9;
    assert!(verdict(&iso, "iso").contains("not safe"));
    assert_eq!(verdict(&iso[..0x8004], "iso"), "the content is raw, not iso");
}
