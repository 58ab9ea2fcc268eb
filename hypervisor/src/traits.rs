//! The standard traits of a host, from its CPU features and its hypervisor's features.

use std::collections::BTreeSet;

use crate::firmware::FirmwareFacts;
use crate::guest::CpuInfo;

/// libvirt's feature names, each with its standard trait (os-traits).
const CPU: [(&str, &str); 54] = [
    ("3dnow", "HW_CPU_X86_3DNOW"),
    ("abm", "HW_CPU_X86_ABM"),
    ("aes", "HW_CPU_X86_AESNI"),
    ("amd-no-ssb", "HW_CPU_X86_AMD_NO_SSB"),
    ("amd-ssbd", "HW_CPU_X86_AMD_SSBD"),
    ("avx", "HW_CPU_X86_AVX"),
    ("avx2", "HW_CPU_X86_AVX2"),
    ("avx512-vpopcntdq", "HW_CPU_X86_AVX512VPOPCNTDQ"),
    ("avx512bitalg", "HW_CPU_X86_AVX512BITALG"),
    ("avx512bw", "HW_CPU_X86_AVX512BW"),
    ("avx512cd", "HW_CPU_X86_AVX512CD"),
    ("avx512dq", "HW_CPU_X86_AVX512DQ"),
    ("avx512er", "HW_CPU_X86_AVX512ER"),
    ("avx512f", "HW_CPU_X86_AVX512F"),
    ("avx512ifma", "HW_CPU_X86_AVX512IFMA"),
    ("avx512pf", "HW_CPU_X86_AVX512PF"),
    ("avx512vbmi", "HW_CPU_X86_AVX512VBMI"),
    ("avx512vbmi2", "HW_CPU_X86_AVX512VBMI2"),
    ("avx512vl", "HW_CPU_X86_AVX512VL"),
    ("avx512vnni", "HW_CPU_X86_AVX512VNNI"),
    ("bmi1", "HW_CPU_X86_BMI"),
    ("bmi2", "HW_CPU_X86_BMI2"),
    ("f16c", "HW_CPU_X86_F16C"),
    ("fma", "HW_CPU_X86_FMA3"),
    ("fma4", "HW_CPU_X86_FMA4"),
    ("gfni", "HW_CPU_X86_AVX512GFNI"),
    ("ibpb", "HW_CPU_X86_AMD_IBPB"),
    ("md-clear", "HW_CPU_X86_INTEL_MD_CLEAR"),
    ("mmx", "HW_CPU_X86_MMX"),
    ("mpx", "HW_CPU_X86_MPX"),
    ("pcid", "HW_CPU_X86_INTEL_PCID"),
    ("pclmuldq", "HW_CPU_X86_CLMUL"),
    ("pclmulqdq", "HW_CPU_X86_CLMUL"),
    ("pdpe1gb", "HW_CPU_X86_PDPE1GB"),
    ("pni", "HW_CPU_X86_SSE3"),
    ("rtm", "HW_CPU_X86_TSX"),
    ("sha-ni", "HW_CPU_X86_SHA"),
    ("spec-ctrl", "HW_CPU_X86_INTEL_SPEC_CTRL"),
    ("sse", "HW_CPU_X86_SSE"),
    ("sse2", "HW_CPU_X86_SSE2"),
    ("sse3", "HW_CPU_X86_SSE3"),
    ("sse4.1", "HW_CPU_X86_SSE41"),
    ("sse4.2", "HW_CPU_X86_SSE42"),
    ("sse4a", "HW_CPU_X86_SSE4A"),
    ("ssbd", "HW_CPU_X86_INTEL_SSBD"),
    ("ssse3", "HW_CPU_X86_SSSE3"),
    ("stibp", "HW_CPU_X86_STIBP"),
    ("svm", "HW_CPU_X86_SVM"),
    ("tbm", "HW_CPU_X86_TBM"),
    ("vaes", "HW_CPU_X86_AVX512VAES"),
    ("virt-ssbd", "HW_CPU_X86_AMD_VIRT_SSBD"),
    ("vmx", "HW_CPU_X86_VMX"),
    ("vpclmulqdq", "HW_CPU_X86_AVX512VPCLMULQDQ"),
    ("xop", "HW_CPU_X86_XOP"),
];

/// The traits that every host has. Chronova itself verifies the signatures of images, for every host.
const ALWAYS: [&str; 17] = [
    "COMPUTE_IMAGE_TYPE_ISO",
    "COMPUTE_IMAGE_TYPE_QCOW2",
    "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_NET_VIF_MODEL_E1000",
    "COMPUTE_NET_VIF_MODEL_E1000E",
    "COMPUTE_NET_VIF_MODEL_NE2K_PCI",
    "COMPUTE_NET_VIF_MODEL_PCNET",
    "COMPUTE_NET_VIF_MODEL_RTL8139",
    "COMPUTE_NET_VIF_MODEL_VIRTIO",
    "COMPUTE_NET_VIF_MODEL_VMXNET3",
    "COMPUTE_NODE",
    "COMPUTE_SOCKET_PCI_NUMA_AFFINITY",
    "COMPUTE_STORAGE_BUS_SATA",
    "COMPUTE_STORAGE_BUS_SCSI",
    "COMPUTE_STORAGE_BUS_USB",
    "COMPUTE_STORAGE_BUS_VIRTIO",
    "COMPUTE_TRUSTED_CERTS",
];

const VIDEO: [&str; 7] = ["bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio"];

/// The traits of a CPU with these features.
pub(crate) fn of_features(features: &BTreeSet<String>) -> BTreeSet<&'static str> {
    CPU.iter().filter(|(feature, _)| features.contains(*feature)).map(|(_, name)| *name).collect()
}

/// The host's traits, sorted. `guest_features`: the features of the CPUs that its guests can have.
pub(crate) fn of_host(
    cpu: &CpuInfo,
    guest_features: &BTreeSet<String>,
    video_models: &[String],
    firmware: &FirmwareFacts,
) -> Vec<String> {
    let mut traits: Vec<String> = ALWAYS.iter().map(|name| (*name).to_owned()).collect();
    traits.extend(of_features(guest_features).into_iter().map(str::to_owned));
    let video = VIDEO.iter().filter(|model| video_models.iter().any(|known| known == **model));
    traits.extend(video.map(|model| format!("COMPUTE_GRAPHICS_MODEL_{}", model.to_ascii_uppercase())));
    match cpu.arch.as_str() {
        "x86_64" => {
            traits.extend(["HW_ARCH_X86_64", "COMPUTE_ARCH_X86_64", "COMPUTE_STORAGE_BUS_IDE"].map(str::to_owned));
        }
        "aarch64" => traits.extend(["HW_ARCH_AARCH64", "COMPUTE_ARCH_AARCH64"].map(str::to_owned)),
        _ => {}
    }
    if cpu.arch != "aarch64" {
        traits.push("COMPUTE_FIRMWARE_BIOS".to_owned());
    }
    if cpu.threads > 1 {
        traits.push("HW_CPU_HYPERTHREADING".to_owned());
    }
    traits.extend(firmware.traits().into_iter().map(str::to_owned));
    traits.sort();
    traits.dedup();
    traits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_reports_bios_unless_its_architecture_has_none() {
        for (arch, bios) in [("x86_64", true), ("aarch64", false)] {
            let cpu = CpuInfo { arch: arch.to_owned(), ..CpuInfo::default() };
            let traits = of_host(&cpu, &BTreeSet::new(), &[], &FirmwareFacts::default());
            assert_eq!(traits.iter().any(|name| name == "COMPUTE_FIRMWARE_BIOS"), bios, "{arch}: {traits:?}");
        }
    }
}
