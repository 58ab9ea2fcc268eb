//! A guest's configuration as libvirt's domain XML: a pure function of the guest and its host's facts.
//!
//! A guest has the same shape as with Nova's libvirt driver, which operators know. By default, it has virtio disks and
//! interfaces, a VNC screen and a config drive on a CD-ROM, and on x86 a `pc` machine. Each guest also has a logged
//! serial console and balloon statistics. A guest of an x86 host has SMBIOS strings for cloud-init. Invariants: the
//! same input gives the same bytes. User input cannot become markup ([`crate::xml`]). Every file lies in the host's
//! storage pool ([`crate::volumes`] forms the names). Golden files: `hypervisor/golden/`.

mod cpu;
mod devices;
mod encryption;
mod error;
mod facts;
mod firmware;
mod foreign;
mod found;
mod guest_files;
mod hardware;
mod iommu;
mod metadata;
mod pinned;
mod plugs;
mod pmem;
pub(crate) mod source;
mod splice;
mod topology;
mod tuning;

#[cfg(feature = "libvirt")]
pub(crate) use devices::mediated;
pub use error::HardwareError;
pub use facts::{CpuModel, ForeignArch, HostFacts};
pub use firmware::{Firmware, Tpm};
pub use foreign::EMULATION;
pub use found::found;
pub(crate) use guest_files::is_config_drive;
pub use guest_files::{GuestFiles, refile};
pub use hardware::{DiskBus, Hardware, VifModel};
pub use iommu::IommuModel;
pub use metadata::NAMESPACE;
pub use pinned::repin;
pub use plugs::replug;
pub use source::{DiskSource, RbdImage};
pub use tuning::Tuning;

use crate::cpus;
use crate::guest::{GuestSpec, ImageFormat, Nic, VolumeDisk};
use crate::xml::Element;

/// Renders the domain XML.
pub fn render(guest: &GuestSpec, host: &HostFacts) -> Result<String, HardwareError> {
    let host = &*host.for_guest(&guest.hardware)?;
    let hardware = Hardware::parse(&guest.hardware, host)?;
    if hardware.tpm.is_some() && guest.tpm_secret.is_none() {
        return Err(HardwareError::NoTpmSecret);
    }
    if host.guests.file_backed_memory.is_some() && guest.pinning.nodes.iter().any(|node| node.huge_page_kib.is_some()) {
        return Err(HardwareError::HugePagesOnFiles);
    }
    let persistent = pmem::sizes(guest, host)?;
    encryption::check_disks(guest, &hardware)?;
    let hardware = match guest.rescue.as_ref().and_then(|rescue| rescue.stable.as_ref()) {
        Some(place) => hardware.with_rescue(place, host)?,
        None => hardware,
    };
    Ok(domain(guest, host, &hardware, &persistent).render())
}

/// Renders one interface for an existing guest with `vcpus` CPUs. `properties` as in [`GuestSpec::hardware`].
pub fn render_interface(
    nic: &Nic,
    properties: &[(String, String)],
    vcpus: u32,
    host: &HostFacts,
) -> Result<String, HardwareError> {
    let host = &*host.for_guest(properties)?;
    let hardware = Hardware::parse(properties, host)?;
    Ok(devices::interface(nic, vcpus, host, &hardware).render())
}

/// Renders one volume as a disk for a guest that is already defined. `encrypted`: whether the guest's memory is encrypted.
pub fn render_disk(disk: &VolumeDisk, host: &HostFacts, encrypted: bool) -> String {
    devices::volume(disk, host, encrypted).render()
}

/// `persistent`: the sizes of the guest's persistent memory.
fn domain(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware, persistent: &[u64]) -> Element {
    Element::new("domain")
        .attr("type", if host.kvm { "kvm" } else { "qemu" })
        .child(Element::leaf("name", &guest.domain_name))
        .child(Element::leaf("uuid", guest.instance))
        .child(metadata::element(guest))
        .children(pmem::max_memory(guest, persistent))
        .child(Element::leaf("memory", pmem::all_memory(guest, persistent)).attr("unit", "KiB"))
        .children(pinned::memory_backing(&guest.pinning, host, hardware))
        .child(pinned::vcpu(guest.vcpus, &guest.pinning))
        .children(hardware.tuning.cpu(cpu_placement(guest, host)))
        .children(pinned::numatune(&guest.pinning))
        .children(host.is_x86().then(|| metadata::sysinfo(guest, host)))
        .child(os(guest, host, hardware))
        .child(features(guest, host, hardware))
        .child(cpu::element(guest, host, hardware, persistent))
        .child(clock(host, hardware))
        .child(Element::leaf("on_poweroff", "destroy"))
        .child(Element::leaf("on_reboot", "restart"))
        .child(Element::leaf("on_crash", "destroy"))
        .child(devices::element(guest, host, hardware).children(pmem::devices(guest, host, persistent)))
        .children(hardware.encryption.map(encryption::launch_security))
}

fn os(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Element {
    let rescue = guest.rescue.as_ref();
    // A rescue disk that is added to the other disks has its own boot order, like a boot volume. libvirt does not
    // accept boot orders of devices together with a list of device kinds.
    let by_order = rescue.is_some_and(|rescue| rescue.stable.is_some());
    let by_order = by_order || guest.volumes.iter().any(|disk| disk.boot_order.is_some());
    let from_iso = rescue.is_none() && guest.root.as_ref().is_some_and(|root| root.image.format == ImageFormat::Iso);
    Element::new("os")
        .attr_if("firmware", hardware.firmware.uefi.then_some("efi"))
        .children(hardware.firmware.features(&host.firmware))
        .child(Element::leaf("type", "hvm").attr("arch", &host.arch).attr("machine", &hardware.machine_type))
        .children(hardware.firmware.loader())
        .children((!by_order).then(|| Element::new("boot").attr("dev", if from_iso { "cdrom" } else { "hd" })))
        .children(hardware.boot_menu.then(|| Element::new("bootmenu").attr("enable", "yes")))
        .children(host.is_x86().then(|| Element::new("smbios").attr("mode", "sysinfo")))
}

/// The elements that pin the guest's CPUs, and the element that schedules the guest's real-time CPUs.
fn cpu_placement(guest: &GuestSpec, host: &HostFacts) -> Vec<Element> {
    let realtime = &guest.pinning.realtime;
    let schedule = (!realtime.is_empty()).then(|| {
        Element::new("vcpusched")
            .attr("vcpus", cpus::format(realtime.iter().copied()))
            .attr("scheduler", "fifo")
            .attr("priority", host.guests.realtime_priority)
    });
    pinned::pins(&guest.pinning).into_iter().chain(schedule).collect()
}

fn features(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Element {
    let hidden = || Element::new("kvm").child(Element::new("hidden").attr("state", "on"));
    // OVMF needs ACPI. Other architectures get ACPI only together with UEFI, as libvirt demands.
    let acpi = host.is_x86() || hardware.firmware.uefi;
    Element::new("features")
        .children(acpi.then(|| Element::new("acpi")))
        .children(host.is_x86().then(|| Element::new("apic")))
        // A virtual IOMMU remaps interrupts. Remapping works only if QEMU, and not KVM, emulates the I/O APIC.
        .children((host.is_x86() && hardware.iommu.is_some()).then(|| Element::new("ioapic").attr("driver", "qemu")))
        .children((host.kvm && hardware.hidden).then(hidden))
        .children(hardware.firmware.management_mode(&host.arch))
        // A guest that runs in real time has no performance counters, because they would disturb it.
        .children(
            hardware
                .pmu
                .or((!guest.pinning.realtime.is_empty()).then_some(false))
                .map(|on| Element::new("pmu").attr("state", if on { "on" } else { "off" })),
        )
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
