//! The virtual IOMMU of a guest (`hw:viommu_model`, `hw_viommu_model`). Rules and words are those of Nova's libvirt driver.

use super::error::{HardwareError, unknown};
use super::facts::HostFacts;
use super::firmware::{is_q35, is_x86};
use crate::xml::Element;

/// The first versions of libvirt that support the virtio model, ARM's model (`smmuv3`), and the attribute for the
/// address width.
const VIRTIO: u32 = 8_003_000;
const SMMUV3: u32 = 5_005_000;
const AW_BITS: u32 = 6_005_000;

/// The model of a virtual IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IommuModel {
    Virtio,
    Intel,
    Smmuv3,
}

impl IommuModel {
    fn name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Intel => "intel",
            Self::Smmuv3 => "smmuv3",
        }
    }

    /// Whether guests of this architecture can have the model on a host with this version of libvirt.
    fn fits(self, arch: &str, libvirt: u32) -> bool {
        match self {
            Self::Virtio => libvirt >= VIRTIO,
            Self::Intel => is_x86(arch),
            Self::Smmuv3 => arch == "aarch64" && libvirt >= SMMUV3,
        }
    }

    pub(super) fn parse<'a>(
        get: impl Fn(&str) -> Option<&'a str>,
        host: &HostFacts,
        machine: &str,
    ) -> Result<Option<Self>, HardwareError> {
        const PROPERTY: &str = "hw_viommu_model";
        let Some(word) = get("hw:viommu_model").or_else(|| get(PROPERTY)) else { return Ok(None) };
        let arch = &host.arch;
        let boards: &[&str] = match is_x86(arch) {
            true if is_q35(machine) => &["virtio", "intel"],
            false if arch == "aarch64" && machine.starts_with("virt") => &["virtio", "smmuv3"],
            false if arch != "aarch64" => return Err(HardwareError::NoIommuArchitecture { arch: arch.clone() }),
            _ => return Err(HardwareError::NoIommuMachine { machine: machine.to_owned(), arch: arch.clone() }),
        };
        let all = [Self::Virtio, Self::Intel, Self::Smmuv3];
        let mut offered =
            all.into_iter().filter(|model| boards.contains(&model.name()) && model.fits(arch, host.libvirt_version));
        let refused = || HardwareError::NotOnThisHost { property: PROPERTY, value: word.to_owned() };
        match word {
            "auto" => offered.next().map(Some).ok_or_else(refused),
            "virtio" | "intel" | "smmuv3" => offered.find(|model| model.name() == word).map(Some).ok_or_else(refused),
            _ => Err(unknown(PROPERTY, word)),
        }
    }

    /// The device. libvirt accepts attributes of the driver only for Intel's model. The extended mode of interrupt
    /// remapping (`eim`) allows a guest more than 255 CPUs. QEMU has that mode only with KVM.
    pub(super) fn device(self, host: &HostFacts) -> Element {
        let wide = (host.libvirt_version >= AW_BITS).then_some(48);
        let driver = || {
            let on = ["intremap", "caching_mode", "iotlb"];
            let driver = on.into_iter().fold(Element::new("driver"), |driver, name| driver.attr(name, "on"));
            driver.attr("eim", if host.kvm { "on" } else { "off" }).attr_if("aw_bits", wide)
        };
        Element::new("iommu").attr("model", self.name()).children((self == Self::Intel).then(driver))
    }

    /// The traits of a host that can give its guests such devices.
    pub(crate) fn traits(arch: &str, libvirt: u32) -> Vec<&'static str> {
        if !is_x86(arch) && arch != "aarch64" {
            return vec![];
        }
        let named = [
            (Self::Intel, "COMPUTE_VIOMMU_MODEL_INTEL"),
            (Self::Smmuv3, "COMPUTE_VIOMMU_MODEL_SMMUV3"),
            (Self::Virtio, "COMPUTE_VIOMMU_MODEL_VIRTIO"),
        ];
        let offered = named.into_iter().filter(|(model, _)| model.fits(arch, libvirt));
        let mut traits: Vec<&str> = offered.map(|(_, name)| name).collect();
        if !traits.is_empty() {
            traits.push("COMPUTE_VIOMMU_MODEL_AUTO");
        }
        traits
    }
}
