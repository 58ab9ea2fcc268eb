//! Parses the choices of virtual hardware into types: properties of the image, extra specs of the flavor.
//!
//! Names and values are those of Glance's metadata definitions (`hw_disk_bus`, `hw_vif_model`, ...) and of Nova's extra
//! specs (`hw:cpu_sockets`, `quota:cpu_shares`, ...). Unknown names are ignored, as in Nova. An unusable value is an
//! error before anything is created.

use super::cpu;
use super::encryption;
use super::error::{HardwareError, is_true, unknown};
use super::facts::HostFacts;
use super::firmware::{self, Firmware, Tpm};
use super::iommu::IommuModel;
use super::topology::TopologyWish;
use super::tuning::Tuning;
use crate::guest::RescuePlace;
use crate::memory_encryption::SevFacts;
use crate::options::default_machine_type;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskBus {
    Virtio,
    Scsi,
    Ide,
    Sata,
    Usb,
}

impl DiskBus {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Scsi => "scsi",
            Self::Ide => "ide",
            Self::Sata => "sata",
            Self::Usb => "usb",
        }
    }

    /// The prefix of the device names that libvirt expects on this bus.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Virtio => "vd",
            Self::Ide => "hd",
            Self::Scsi | Self::Sata | Self::Usb => "sd",
        }
    }

    fn parse(property: &'static str, value: &str) -> Result<Self, HardwareError> {
        Ok(match value {
            "virtio" => Self::Virtio,
            "scsi" => Self::Scsi,
            "ide" => Self::Ide,
            "sata" => Self::Sata,
            "usb" => Self::Usb,
            _ => return Err(unknown(property, value)),
        })
    }
}

/// The model of a network interface, in libvirt's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VifModel(pub &'static str);

impl VifModel {
    /// The models that QEMU offers on PCI machines (Nova's `VIF_MODEL_*` for the libvirt driver).
    const KNOWN: [&'static str; 8] = ["virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "vmxnet3"];

    fn parse(value: &str) -> Result<Self, HardwareError> {
        Self::KNOWN
            .iter()
            .find(|known| **known == value)
            .map(|known| Self(known))
            .ok_or_else(|| unknown("hw_vif_model", value))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    pub machine_type: String,
    pub disk_bus: DiskBus,
    pub cdrom_bus: DiskBus,
    /// The bus of the rescue disk, if the guest keeps all its own disks during a rescue.
    pub rescue_bus: DiskBus,
    pub vif_model: VifModel,
    pub video_model: String,
    pub rng: bool,
    /// The number of random bytes that the guest may get from the host in each period, and the period in milliseconds
    /// (libvirt's default: 1000).
    pub rng_rate: Option<(u64, Option<u64>)>,
    pub guest_agent: bool,
    pub tablet: bool,
    pub firmware: Firmware,
    pub tpm: Option<Tpm>,
    pub iommu: Option<IommuModel>,
    /// How the host encrypts the guest's memory; `None`: not at all.
    pub encryption: Option<SevFacts>,
    /// Whether the guest's memory is locked in the host's RAM, so that the host never swaps it out.
    pub locked_memory: bool,
    pub hpet: bool,
    pub windows: bool,
    pub boot_menu: bool,
    /// Whether KVM hides itself from the guest.
    pub hidden: bool,
    /// The action of the watchdog when the guest no longer resets it; `None`: there is no watchdog.
    pub watchdog: Option<String>,
    /// Whether the guest sees the performance counters of its CPU; `None`: the hypervisor's default.
    pub pmu: Option<bool>,
    /// Whether an interface has several queues. If so, it has one queue for each CPU of the guest, up to the limits of
    /// the operator and the kernel.
    pub multiqueue: bool,
    pub tuning: Tuning,
    /// The memory of the graphics card in MiB; `None`: the hypervisor's default.
    pub video_ram_mib: Option<u64>,
    pub serial_ports: u32,
    /// The named model of the CPU, with `[libvirt] cpu_mode = custom`.
    pub cpu_model: Option<String>,
    topology: TopologyWish,
}

impl Hardware {
    pub fn parse(properties: &[(String, String)], host: &HostFacts) -> Result<Self, HardwareError> {
        let get = |name: &str| properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let yes = |name: &str| get(name).is_some_and(is_true);
        let count = |name: &str| get(name).and_then(|value| value.trim().parse().ok()).filter(|n| *n > 0);

        let machine_type = get("hw_machine_type").or(host.machine_type.as_deref());
        let machine_type = machine_type.unwrap_or_else(|| default_machine_type(&host.arch)).to_owned();
        let disk_bus = match get("hw_disk_bus") {
            Some(value) => DiskBus::parse("hw_disk_bus", value)?,
            None => DiskBus::Virtio,
        };
        let cdrom_bus = match get("hw_cdrom_bus") {
            Some(value) => DiskBus::parse("hw_cdrom_bus", value)?,
            None => default_cdrom_bus(host, &machine_type),
        };
        if !has_ide(host, &machine_type) {
            for (property, bus) in [("hw_disk_bus", disk_bus), ("hw_cdrom_bus", cdrom_bus)] {
                if bus == DiskBus::Ide {
                    let (value, machine) = (bus.name().to_owned(), machine_type);
                    return Err(HardwareError::Incompatible { property, value, machine });
                }
            }
        }
        Ok(Self {
            disk_bus,
            cdrom_bus,
            rescue_bus: disk_bus,
            vif_model: get("hw_vif_model").map_or(Ok(VifModel("virtio")), VifModel::parse)?,
            video_model: video_model(get("hw_video_model"), host)?,
            // Since Nova 21.0 every guest has a random number generator, unless its flavor forbids it.
            rng: get("hw_rng:allowed").is_none_or(is_true),
            rng_rate: rng_rate(get)?,
            guest_agent: yes("hw_qemu_guest_agent"),
            tablet: has_tablet(get("hw_pointer_model"), host),
            firmware: Firmware::parse(get, (&host.arch, &host.firmware), &machine_type)?,
            tpm: firmware::tpm(get, &host.firmware)?,
            iommu: IommuModel::parse(get, host, &machine_type)?,
            encryption: encryption::parse(get, host, &machine_type)?,
            locked_memory: yes("hw:locked_memory") || yes("hw_locked_memory"),
            hpet: yes("hw_time_hpet"),
            windows: get("os_type") == Some("windows"),
            boot_menu: yes("hw:boot_menu") || yes("hw_boot_menu"),
            hidden: ["hw:hide_hypervisor_id", "hide_hypervisor_id", "img_hide_hypervisor_id"].into_iter().any(yes),
            watchdog: watchdog(get)?,
            pmu: agreed(get, "hw:pmu", "hw_pmu")?,
            multiqueue: agreed(get, "hw:vif_multiqueue_enabled", "hw_vif_multiqueue_enabled")?.unwrap_or(false),
            tuning: Tuning::parse(get)?,
            video_ram_mib: get("hw_video_ram").and_then(|mib| mib.trim().parse().ok()),
            serial_ports: count("hw_serial_port_count").or_else(|| count("hw:serial_port_count")).unwrap_or(1),
            cpu_model: cpu::model(properties, host)?,
            topology: TopologyWish::parse(get),
            machine_type,
        })
    }

    /// Sets the bus of a rescue disk that is added to the guest's own disks.
    pub(super) fn with_rescue(self, place: &RescuePlace, host: &HostFacts) -> Result<Self, HardwareError> {
        let rescue_bus = match (&place.bus, place.cdrom) {
            (Some(bus), _) => DiskBus::parse("hw_rescue_bus", bus)?,
            (None, true) => self.cdrom_bus,
            (None, false) => self.disk_bus,
        };
        if rescue_bus == DiskBus::Ide && !has_ide(host, &self.machine_type) {
            let (value, machine) = ("ide".to_owned(), self.machine_type);
            return Err(HardwareError::Incompatible { property: "hw_rescue_bus", value, machine });
        }
        Ok(Self { rescue_bus, ..self })
    }

    /// Whether the board has PCI Express. The ports of such a board must exist before a device is attached.
    pub(super) fn is_pcie(&self) -> bool {
        ["q35", "pc-q35", "virt"].iter().any(|board| self.machine_type.starts_with(board))
    }

    /// Sockets, cores and threads; their product is `vcpus`.
    pub(super) fn topology(&self, vcpus: u32) -> (u32, u32, u32) {
        self.topology.best(vcpus)
    }
}

/// `pc` boards have IDE. Other x86 boards have AHCI.
fn default_cdrom_bus(host: &HostFacts, machine: &str) -> DiskBus {
    match (has_ide(host, machine), host.is_x86()) {
        (true, _) => DiskBus::Ide,
        (false, true) => DiskBus::Sata,
        (false, false) => DiskBus::Scsi,
    }
}

fn has_ide(host: &HostFacts, machine: &str) -> bool {
    host.is_x86() && (machine == "pc" || machine.starts_with("pc-i440fx"))
}

fn video_model(wish: Option<&str>, host: &HostFacts) -> Result<String, HardwareError> {
    const KNOWN: [&str; 8] = ["virtio", "vga", "cirrus", "vmvga", "qxl", "bochs", "gop", "none"];
    if let Some(value) = wish {
        return KNOWN.contains(&value).then(|| value.to_owned()).ok_or_else(|| unknown("hw_video_model", value));
    }
    let has = |model: &str| host.video_models.is_empty() || host.video_models.iter().any(|known| known == model);
    // Nova chooses QXL with SPICE, for which QXL was designed.
    let best = match host.arch.as_str() {
        arch if arch.starts_with("ppc64") => "vga",
        _ if host.screens.spice.is_some() && host.is_x86() => "qxl",
        _ => "virtio",
    };
    Ok([best, "virtio", "vga", "cirrus"].into_iter().find(|model| has(model)).unwrap_or("none").to_owned())
}

fn rng_rate<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Option<(u64, Option<u64>)>, HardwareError> {
    let number =
        |name: &'static str| get(name).map(|value| value.parse().map_err(|_| unknown(name, value))).transpose();
    let Some(bytes) = number("hw_rng:rate_bytes")? else { return Ok(None) };
    Ok(Some((bytes, number("hw_rng:rate_period")?)))
}

/// Whether the guest has a USB tablet. Only x86 guests with a display can have a tablet.
fn has_tablet(wish: Option<&str>, host: &HostFacts) -> bool {
    let wished = wish.map_or(host.guests.tablet, |model| model == "usbtablet");
    wished && host.screens.any() && host.is_x86()
}

/// Reads a boolean that flavor and image may set. If they set different values, the request is refused (Nova's
/// `FlavorImageConflict`).
fn agreed<'a>(
    get: impl Fn(&str) -> Option<&'a str>,
    spec: &'static str,
    property: &'static str,
) -> Result<Option<bool>, HardwareError> {
    match (get(spec).map(is_true), get(property).map(is_true)) {
        (Some(flavor), Some(image)) if flavor != image => Err(HardwareError::Contradiction { spec, property }),
        (flavor, image) => Ok(flavor.or(image)),
    }
}

/// The action of the watchdog; `None`: no watchdog. As in Nova, the image takes precedence over the flavor.
fn watchdog<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Option<String>, HardwareError> {
    for name in ["hw_watchdog_action", "hw:watchdog_action"] {
        match get(name) {
            None => {}
            Some("disabled") => return Ok(None),
            Some(action @ ("pause" | "poweroff" | "reset" | "none")) => return Ok(Some(action.to_owned())),
            Some(other) => return Err(unknown(name, other)),
        }
    }
    Ok(None)
}
