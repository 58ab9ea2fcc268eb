//! A guest's configuration as libvirt's domain XML: a pure function of the guest and of what its host can do.
//!
//! The shape follows what operators know from Nova's libvirt driver: `pc` machine on x86, virtio disks and interfaces,
//! the config drive as a CD-ROM, a logged serial console, VNC, balloon statistics, SMBIOS that cloud-init recognises.
//! Invariants: the same input gives the same bytes; nothing a user chose can become markup ([`crate::xml`]); every
//! path lies in the host's storage pool ([`crate::volumes`] names them). Golden files: `hypervisor/golden/`.

mod cpu;
mod devices;
mod hardware;
mod metadata;
mod pinned;
pub(crate) mod source;
mod tuning;

pub use hardware::{DiskBus, Hardware, HardwareError, VifModel};
pub use metadata::NAMESPACE;
pub use pinned::repin;
pub use source::{DiskSource, RbdImage};
pub use tuning::Tuning;

use std::collections::BTreeMap;

use crate::guest::{GuestSpec, ImageFormat, Nic, VolumeDisk};
use crate::options::{CacheMode, CpuMode, GuestOptions, Screens};
use crate::xml::Element;

/// The facts besides the guest that the XML depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// `x86_64`, `aarch64`, ...
    pub arch: String,
    pub kvm: bool,
    pub cpu_mode: CpuMode,
    pub cpu_models: Vec<String>,
    /// Machine type when the image does not name one.
    pub machine_type: Option<String>,
    pub pool_path: String,
    /// How disks of the guest's own are reached that are not copy-on-write files of the pool, by the disk's name.
    pub places: BTreeMap<String, DiskSource>,
    /// Whether the pool's file system can bypass the page cache (`cache=none`); Nova probes the same.
    pub direct_io: bool,
    pub screens: Screens,
    /// Video models the host knows, as its domain capabilities list them; empty when it does not tell.
    pub video_models: Vec<String>,
    /// The host's id, as its libvirtd tells it.
    pub host_uuid: Option<String>,
    pub guests: GuestOptions,
}

impl HostFacts {
    pub(crate) fn is_x86(&self) -> bool {
        matches!(self.arch.as_str(), "x86_64" | "i686")
    }

    /// How a disk that is a file is cached: as the operator chose it, else past the page cache. Where that cannot be done,
    /// `none` could not open the file; `writeback` keeps flushes honest (Nova falls back the same way).
    fn cache(&self) -> CacheMode {
        match self.guests.cache.file.unwrap_or(CacheMode::None) {
            mode if mode.is_direct() && !self.direct_io => CacheMode::WriteBack,
            mode => mode,
        }
    }
}

/// Renders the domain XML.
pub fn render(guest: &GuestSpec, host: &HostFacts) -> Result<String, HardwareError> {
    let hardware = Hardware::parse(&guest.hardware, host)?;
    let hardware = match guest.rescue.as_ref().and_then(|rescue| rescue.stable.as_ref()) {
        Some(place) => hardware.with_rescue(place, host)?,
        None => hardware,
    };
    Ok(domain(guest, host, &hardware).render())
}

/// Renders one interface, for a guest that exists already and has `vcpus`. `properties` as in [`GuestSpec::hardware`].
pub fn render_interface(
    nic: &Nic,
    properties: &[(String, String)],
    vcpus: u32,
    host: &HostFacts,
) -> Result<String, HardwareError> {
    let hardware = Hardware::parse(properties, host)?;
    Ok(devices::interface(nic, vcpus, host, &hardware).render())
}

/// Renders one volume as a disk, for a guest that is defined already.
pub fn render_disk(disk: &VolumeDisk, host: &HostFacts) -> String {
    devices::volume(disk, host).render()
}

fn domain(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Element {
    Element::new("domain")
        .attr("type", if host.kvm { "kvm" } else { "qemu" })
        .child(Element::leaf("name", &guest.domain_name))
        .child(Element::leaf("uuid", guest.instance))
        .child(metadata::element(guest))
        .child(Element::leaf("memory", guest.memory_mib * 1024).attr("unit", "KiB"))
        .children(pinned::memory_backing(&guest.pinning))
        .child(pinned::vcpu(guest.vcpus, &guest.pinning))
        .children(hardware.tuning.cpu(pinned::pins(&guest.pinning)))
        .children(pinned::numatune(&guest.pinning))
        .children(host.is_x86().then(|| metadata::sysinfo(guest, host)))
        .child(os(guest, host, hardware))
        .child(features(host, hardware))
        .child(cpu::element(guest, host, hardware))
        .child(clock(host, hardware))
        .child(Element::leaf("on_poweroff", "destroy"))
        .child(Element::leaf("on_reboot", "restart"))
        .child(Element::leaf("on_crash", "destroy"))
        .child(devices::element(guest, host, hardware))
}

fn os(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Element {
    let rescue = guest.rescue.as_ref();
    // A disk added for a rescue, as a volume to boot from, says by itself that it comes first: libvirt takes either
    // kinds of devices or an order of devices.
    let by_order = rescue.is_some_and(|rescue| rescue.stable.is_some());
    let by_order = by_order || guest.volumes.iter().any(|disk| disk.boot_order.is_some());
    let from_iso = rescue.is_none() && guest.root.as_ref().is_some_and(|root| root.image.format == ImageFormat::Iso);
    Element::new("os")
        .attr_if("firmware", hardware.uefi.then_some("efi"))
        .child(Element::leaf("type", "hvm").attr("arch", &host.arch).attr("machine", &hardware.machine_type))
        .children((!by_order).then(|| Element::new("boot").attr("dev", if from_iso { "cdrom" } else { "hd" })))
        .children(hardware.boot_menu.then(|| Element::new("bootmenu").attr("enable", "yes")))
        .children(host.is_x86().then(|| Element::new("smbios").attr("mode", "sysinfo")))
}

fn features(host: &HostFacts, hardware: &Hardware) -> Element {
    let hidden = || Element::new("kvm").child(Element::new("hidden").attr("state", "on"));
    // OVMF cannot run without ACPI; other architectures get it only together with UEFI, as libvirt demands.
    let acpi = host.is_x86() || hardware.uefi;
    Element::new("features")
        .children(acpi.then(|| Element::new("acpi")))
        .children(host.is_x86().then(|| Element::new("apic")))
        .children((host.kvm && hardware.hidden).then(hidden))
        .children(hardware.pmu.map(|on| Element::new("pmu").attr("state", if on { "on" } else { "off" })))
}

fn clock(host: &HostFacts, hardware: &Hardware) -> Element {
    let timer = |name: &str| Element::new("timer").attr("name", name);
    let x86 = [
        timer("pit").attr("tickpolicy", "delay"),
        timer("rtc").attr("tickpolicy", "catchup"),
        timer("hpet").attr("present", if hardware.hpet { "yes" } else { "no" }),
    ];
    Element::new("clock")
        .attr("offset", if hardware.windows { "localtime" } else { "utc" })
        .children(x86.into_iter().filter(|_| host.is_x86()))
}

#[cfg(test)]
mod tests;
