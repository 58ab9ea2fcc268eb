//! The versions of libvirt and QEMU that the operator's options need.
//!
//! Nova checks them when its compute service starts (`_check_file_backed_memory_support`, `_discover_vpmems`). A host
//! with an older version would accept the definitions of guests and fail at their start.

use crate::options::LibvirtOptions;

/// An option, and the oldest versions that it needs. Numbers are libvirt's: 4.4.0 is `4_004_000`.
struct NeededVersions {
    option: &'static str,
    is_set: fn(&LibvirtOptions) -> bool,
    libvirt: u32,
    qemu: u32,
}

const NEEDS: [NeededVersions; 2] = [
    // Nova needs libvirt 4.0.0 and QEMU 2.6.0 for the files, and the newer versions for `discard`. Guests here always
    // discard.
    NeededVersions {
        option: "file_backed_memory",
        is_set: |options| options.guests.file_backed_memory.is_some(),
        libvirt: 4_004_000,
        qemu: 2_010_000,
    },
    NeededVersions {
        option: "pmem_namespaces",
        is_set: |options| !options.guests.pmem.labels.is_empty(),
        libvirt: 5_000_000,
        qemu: 3_001_000,
    },
];

/// Checks the versions of a host.
///
/// # Errors
/// An option needs a newer version. The text names the option and the versions.
pub(super) fn check(options: &LibvirtOptions, libvirt: u32, qemu: u32) -> Result<(), String> {
    for need in NEEDS.iter().filter(|need| (need.is_set)(options)) {
        if libvirt < need.libvirt || qemu < need.qemu {
            return Err(format!(
                "[libvirt] {} needs libvirt {} and QEMU {}; the host has libvirt {} and QEMU {}",
                need.option,
                words(need.libvirt),
                words(need.qemu),
                words(libvirt),
                words(qemu)
            ));
        }
    }
    Ok(())
}

/// `4.4.0` for `4_004_000`.
fn words(version: u32) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::pmem::PmemLabel;

    #[test]
    fn options_need_versions_of_libvirt_and_qemu() {
        let mut plain = LibvirtOptions::default();
        assert_eq!(check(&plain, 1_000_000, 1_000_000), Ok(()), "nothing is set");
        plain.guests.file_backed_memory = Some(1024);
        assert_eq!(check(&plain, 4_004_000, 2_010_000), Ok(()));
        for (libvirt, qemu) in [(4_003_999, 2_010_000), (4_004_000, 2_009_050)] {
            let refused = check(&plain, libvirt, qemu).unwrap_err();
            assert!(
                refused.starts_with("[libvirt] file_backed_memory needs libvirt 4.4.0 and QEMU 2.10.0;"),
                "{refused}"
            );
        }
        let mut persistent = LibvirtOptions::default();
        persistent.guests.pmem.labels.insert("6GB".to_owned(), PmemLabel { count: 1, mib: 6144 });
        assert_eq!(check(&persistent, 5_000_000, 3_001_000), Ok(()));
        let refused = check(&persistent, 4_010_000, 3_000_000).unwrap_err();
        assert!(refused.ends_with("the host has libvirt 4.10.0 and QEMU 3.0.0"), "{refused}");
    }
}
