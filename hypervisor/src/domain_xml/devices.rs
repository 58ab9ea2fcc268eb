//! The `<devices>` element.

use chronova_events::pci::PciAddress;
use uuid::Uuid;

use super::encryption::{self, protected};
use super::facts::HostFacts;
use super::hardware::{DiskBus, Hardware};
use super::plugs::plug;
use super::source::DiskSource;
use crate::guest::{GuestSpec, ImageFormat, Nic, NicDevice, NicDeviceForm, NicPlug, VolumeDisk};
use crate::options::{CacheMode, Spice};
use crate::pci::PassedDevice;
use crate::xml::Element;
use crate::{vfat, volumes};

pub(super) fn element(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Element {
    Element::new("devices")
        .children(disks(guest, host, hardware))
        .children(controllers(guest, host, hardware))
        .children(pcie_ports(host, hardware))
        .children(guest.nics.iter().map(|nic| interface(nic, guest.vcpus, host, hardware)))
        .children(guest.devices.iter().copied().map(passed))
        .children(guest.mdevs.iter().map(|device| mediated(device.uuid)))
        .children(serial(guest, host, hardware))
        .children(hardware.guest_agent.then(agent))
        .children(hardware.tablet.then(|| Element::new("input").attr("type", "tablet").attr("bus", "usb")))
        .children(host.screens.vnc.as_deref().map(|listen| graphics("vnc", listen)))
        .children(host.screens.spice.as_ref().map(spice))
        .children(host.screens.spice.as_ref().filter(|spice| spice.agent).map(|_| spice_agent()))
        .children(host.screens.any().then(|| video(hardware)))
        .children(hardware.rng.then(|| rng(host, hardware)))
        .children(hardware.watchdog.as_deref().map(|action| watchdog(action, host)))
        .children(hardware.tpm.zip(guest.tpm_secret).map(|(tpm, secret)| tpm.device(secret)))
        .children(hardware.iommu.map(|model| model.device(host)))
        .child(balloon(host, hardware))
}

/// A PCI device of the host. libvirt binds a managed device to `vfio-pci` as long as the guest has the device.
/// Afterwards it binds the device to its former driver again.
fn passed(device: PassedDevice) -> Element {
    let address = host_address(device.address);
    Element::new("hostdev")
        .attr("mode", "subsystem")
        .attr("type", "pci")
        .attr("managed", if device.managed { "yes" } else { "no" })
        .child(Element::new("source").child(address))
}

fn host_address(at: PciAddress) -> Element {
    Element::new("address")
        .attr("domain", format!("0x{:04x}", at.domain))
        .attr("bus", format!("0x{:02x}", at.bus))
        .attr("slot", format!("0x{:02x}", at.slot))
        .attr("function", format!("0x{:x}", at.function))
}

/// The PCI address in the source of an interface. There libvirt requires the address's type.
pub(super) fn source_address(at: PciAddress) -> Element {
    host_address(at).attr("type", "pci")
}

/// An interface on a PCI device of the host, without elements for queues, filters and limits. A whole card keeps its
/// own MAC address, so the guest gets it as a `hostdev`.
fn device_interface(nic: &Nic, plugged: &NicDevice, hardware: &Hardware) -> Element {
    if let (NicDeviceForm::WholeCard, Some(device)) = (plugged.form, plugged.device) {
        return passed(device);
    }
    let (kind, source) = plug(nic);
    let managed = plugged.device.filter(|_| plugged.form == NicDeviceForm::HostDevice);
    let is_virtio = plugged.form != NicDeviceForm::HostDevice;
    let vhost = (plugged.form == NicDeviceForm::Macvtap).then_some("vhost");
    let iommu = encryption::iommu(hardware.encryption.is_some()).filter(|_| is_virtio);
    let driver = || Element::new("driver").attr_if("name", vhost).attr_if("iommu", iommu);
    Element::new("interface")
        .attr("type", kind)
        .attr_if("managed", managed.map(|device| if device.managed { "yes" } else { "no" }))
        .child(Element::new("mac").attr("address", &nic.mac))
        .children(source)
        .children(is_virtio.then(|| Element::new("model").attr("type", "virtio")))
        .children((vhost.is_some() || iommu.is_some()).then(driver))
}

/// A mediated device of the host, as in Nova's definitions.
pub(crate) fn mediated(uuid: Uuid) -> Element {
    Element::new("hostdev")
        .attr("mode", "subsystem")
        .attr("type", "mdev")
        .attr("model", "vfio-pci")
        .child(Element::new("source").child(Element::new("address").attr("uuid", uuid)))
}

/// Chooses device names per prefix: `vda`, `vdb`, ...; SCSI, SATA and USB share `sd`. Skips the names of volumes.
struct DeviceNames(Vec<String>);

impl DeviceNames {
    fn beside(volumes: &[VolumeDisk]) -> Self {
        Self(volumes.iter().map(|disk| disk.device.clone()).collect())
    }

    /// The first free name: `vda` to `vdz`, then `vdaa` to `vdzz`.
    fn next(&mut self, bus: DiskBus) -> String {
        let letters = || (b'a'..=b'z').map(char::from);
        let pairs = letters().flat_map(|first| letters().map(move |second| format!("{first}{second}")));
        let mut names = letters().map(String::from).chain(pairs).map(|letters| format!("{}{letters}", bus.prefix()));
        let name = names.find(|name| !self.0.contains(name)).unwrap_or_else(|| format!("{}zz", bus.prefix()));
        self.0.push(name.clone());
        name
    }
}

fn disks(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Vec<Element> {
    let mut names = DeviceNames::beside(&guest.volumes);
    if guest.config_drive.as_ref().is_some_and(|image| vfat::is_image(image)) {
        names.0.push(vfat_name(hardware.disk_bus));
    }
    let mut disks = Vec::new();
    let path = |volume: String| format!("{}/{volume}", host.pool_path);
    let own = |name: String, bus: DiskBus, names: &mut DeviceNames| {
        disk(&place_of(host, &name), host, (bus, hardware), names.next(bus)).children(hardware.tuning.disk())
    };
    // In Nova's older form of a rescue, the guest has the rescue disk and its root disk, but no ephemeral or swap
    // disks.
    let only_root = guest.rescue.as_ref().is_some_and(|rescue| rescue.stable.is_none());
    if only_root {
        disks.push(own(volumes::rescue(guest.instance), hardware.disk_bus, &mut names));
    }
    if let Some(root) = &guest.root {
        disks.push(if root.image.format == ImageFormat::Iso {
            cdrom(&file(path(volumes::base(&root.image)), "raw"), hardware.cdrom_bus, &mut names)
        } else {
            own(volumes::root(guest.instance), hardware.disk_bus, &mut names)
        });
    }
    let ephemerals = if only_root { 0 } else { guest.ephemerals_gib.len() };
    for number in 0..ephemerals {
        disks.push(own(volumes::ephemeral(guest.instance, number), hardware.disk_bus, &mut names));
    }
    if guest.swap_mib > 0 && !only_root {
        disks.push(own(volumes::swap(guest.instance), hardware.disk_bus, &mut names));
    }
    // If the rescue leaves the other disks in place, the guest boots from the rescue disk first.
    let first = guest.rescue.as_ref().is_some_and(|rescue| rescue.stable.is_some());
    let later = |disk: &VolumeDisk| VolumeDisk {
        boot_order: disk.boot_order.map(|order| order + u32::from(first)),
        ..disk.clone()
    };
    let encrypted = hardware.encryption.is_some();
    disks.extend(guest.volumes.iter().map(|disk| volume(&later(disk), host, encrypted)));
    if let Some(image) = &guest.config_drive {
        let source = file(path(volumes::config_drive(guest.instance)), "raw");
        disks.push(match vfat::is_image(image) {
            true => vfat_drive(&source, host, hardware),
            false => cdrom(&source, hardware.cdrom_bus, &mut names),
        });
    }
    if let Some(place) = guest.rescue.as_ref().and_then(|rescue| rescue.stable.as_ref()) {
        let rescue = volumes::rescue(guest.instance);
        let added = match place.cdrom {
            true => cdrom(&place_of(host, &rescue), hardware.rescue_bus, &mut names),
            false => own(rescue, hardware.rescue_bus, &mut names),
        };
        disks.push(added.child(Element::new("boot").attr("order", 1)));
    }
    disks
}

fn file(path: String, format: &'static str) -> DiskSource {
    DiskSource::File { path, format }
}

/// The source of the disk with this name. A disk that does not exist yet counts as a copy-on-write file of the pool.
fn place_of(host: &HostFacts, name: &str) -> DiskSource {
    let known = host.places.get(name).cloned();
    known.unwrap_or_else(|| file(format!("{}/{name}", host.pool_path), "qcow2"))
}

fn disk(source: &DiskSource, host: &HostFacts, (bus, hardware): (DiskBus, &Hardware), name: String) -> Element {
    let discard = host.guests.discard.map(|unmap| if unmap { "unmap" } else { "ignore" });
    let driver = Element::new("driver").attr("name", "qemu").attr("type", source.format());
    Element::new("disk")
        .attr("type", source.kind())
        .attr("device", "disk")
        .child(
            driver
                .attr("cache", source.cache(host).name())
                .attr_if("discard", discard)
                .attr_if("iommu", encryption::iommu(hardware.encryption.is_some() && bus == DiskBus::Virtio)),
        )
        .child(source.element())
        .child(Element::new("target").attr("dev", name).attr("bus", bus.name()))
}

/// Renders a volume as a disk. The driver finds the disk in a domain by the volume's name in the source, or else by the
/// serial number.
pub(super) fn volume(disk: &VolumeDisk, host: &HostFacts, encrypted: bool) -> Element {
    let in_pool = || Element::new("source").attr("pool", &disk.pool).attr("volume", &disk.volume);
    let (kind, source, cache) = match &disk.network {
        None => ("volume", in_pool(), host.cache()),
        Some(network) => {
            let cache = host.guests.cache.network.unwrap_or(CacheMode::None);
            ("network", super::source::network(network, &disk.serial), cache)
        }
    };
    // No host may cache a disk that several guests write to.
    let cache = if disk.shareable { CacheMode::None } else { cache };
    let driver = Element::new("driver").attr("name", "qemu").attr("type", &disk.format).attr("cache", cache.name());
    // Cinder's back ends for these disks free the blocks that a guest discards.
    let discard = disk.network.as_ref().map(|_| "unmap");
    Element::new("disk")
        .attr("type", kind)
        .attr("device", &disk.kind)
        .child(
            driver
                .attr_if("discard", discard)
                .attr_if("iommu", encryption::iommu(encrypted && disk.bus == DiskBus::Virtio.name())),
        )
        .child(source)
        .children(super::source::encryption(disk))
        .child(Element::new("target").attr("dev", &disk.device).attr("bus", &disk.bus))
        .children(disk.boot_order.map(|order| Element::new("boot").attr("order", order)))
        .children((disk.readonly || disk.kind == "cdrom").then(|| Element::new("readonly")))
        .children(disk.shareable.then(|| Element::new("shareable")))
        .child(Element::leaf("serial", &disk.serial))
}

fn cdrom(source: &DiskSource, bus: DiskBus, names: &mut DeviceNames) -> Element {
    Element::new("disk")
        .attr("type", source.kind())
        .attr("device", "cdrom")
        .child(Element::new("driver").attr("name", "qemu").attr("type", source.format()))
        .child(source.element())
        .child(Element::new("target").attr("dev", names.next(bus)).attr("bus", bus.name()))
        .child(Element::new("readonly"))
}

/// A config drive with the file system vfat is a disk, as in Nova, and has the last name of its bus. So the names of the
/// guest's volumes do not depend on it. QEMU has no read-only disks on IDE and SATA.
fn vfat_drive(source: &DiskSource, host: &HostFacts, hardware: &Hardware) -> Element {
    let bus = hardware.disk_bus;
    let drive = disk(source, host, (bus, hardware), vfat_name(bus));
    match bus {
        DiskBus::Ide | DiskBus::Sata => drive,
        _ => drive.child(Element::new("readonly")),
    }
}

fn vfat_name(bus: DiskBus) -> String {
    format!("{}{}", bus.prefix(), if bus == DiskBus::Ide { 'd' } else { 'z' })
}

/// The SCSI controller, if a disk needs one. Current systems have no driver for libvirt's default, an LSI model. A
/// guest with encrypted memory also gets the controller of its channels, because the controller that libvirt adds does
/// not use the IOMMU.
fn controllers(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Vec<Element> {
    let cdrom = guest.config_drive.is_some() && hardware.cdrom_bus == DiskBus::Scsi;
    let volume = guest.volumes.iter().any(|disk| disk.bus == DiskBus::Scsi.name());
    let rescue = guest.rescue.as_ref().is_some_and(|rescue| rescue.stable.is_some());
    let rescue = rescue && hardware.rescue_bus == DiskBus::Scsi;
    let scsi = hardware.disk_bus == DiskBus::Scsi || cdrom || volume || rescue;
    let controller = |kind: &str| Element::new("controller").attr("type", kind).attr("index", 0);
    let scsi = scsi.then(|| controller("scsi").attr("model", "virtio-scsi"));
    let channels = hardware.guest_agent || host.screens.spice.as_ref().is_some_and(|spice| spice.agent);
    let channels = (channels && hardware.encryption.is_some()).then(|| controller("virtio-serial"));
    scsi.into_iter().chain(channels).map(|controller| protected(controller, hardware)).collect()
}

/// Each device that is attached to a running guest needs one port (`[libvirt] num_pcie_ports`).
fn pcie_ports(host: &HostFacts, hardware: &Hardware) -> Vec<Element> {
    let ports = if hardware.is_pcie() { host.guests.pcie_ports } else { 0 };
    let controller = |model: &str| Element::new("controller").attr("type", "pci").attr("model", model);
    let root = (ports > 0).then(|| controller("pcie-root").attr("index", 0));
    root.into_iter().chain((0..ports).map(|_| controller("pcie-root-port"))).collect()
}

pub(super) fn interface(nic: &Nic, vcpus: u32, host: &HostFacts, hardware: &Hardware) -> Element {
    if let NicPlug::Device(device) = &nic.plug {
        return device_interface(nic, device, hardware);
    }
    let (kind, source) = plug(nic);
    Element::new("interface")
        .attr("type", kind)
        .child(Element::new("mac").attr("address", &nic.mac))
        .children(source)
        .child(Element::new("target").attr("dev", &nic.tap))
        .child(Element::new("model").attr("type", hardware.vif_model.0))
        .children((hardware.vif_model.0 == "virtio").then(|| interface_driver(vcpus, host, hardware)).flatten())
        .children((nic.mtu > 0).then(|| Element::new("mtu").attr("size", nic.mtu)))
        .children(hardware.tuning.interface())
        .children(nic.filter.as_ref().map(|filter| Element::new("filterref").attr("filter", filter)))
}

/// The largest number of queues that the kernel gives one interface.
const MOST_QUEUES: u32 = 256;

/// The driver of a virtio interface, with the number and length of its queues; `None`: libvirt's default.
fn interface_driver(vcpus: u32, host: &HostFacts, hardware: &Hardware) -> Option<Element> {
    let queues = vcpus.min(host.guests.max_queues.unwrap_or(MOST_QUEUES)).min(MOST_QUEUES);
    let queues = (hardware.multiqueue && queues > 1).then_some(queues);
    // vhost needs KVM's interrupt path. Only vhost supports other queue lengths.
    let name = if host.kvm { "vhost" } else { "qemu" };
    let length = host.guests.rx_queue_size.filter(|_| host.kvm);
    let iommu = encryption::iommu(hardware.encryption.is_some());
    let needed = !host.kvm || queues.is_some() || length.is_some() || iommu.is_some();
    let driver = || Element::new("driver").attr("name", name).attr_if("queues", queues);
    needed.then(|| driver().attr_if("rx_queue_size", length).attr_if("iommu", iommu))
}

/// The serial ports and the console. The first port has the log and the console. The log is in the storage pool,
/// because libvirt gives remote clients only files of storage pools.
fn serial(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Vec<Element> {
    let log = format!("{}/{}", host.pool_path, volumes::console_log(guest.instance));
    let target = |port: u32| Element::new("target").attr("port", port);
    let serial = || Element::new("serial").attr("type", "pty");
    let first = serial().child(Element::new("log").attr("file", log).attr("append", "on")).child(target(0));
    let others = (1..hardware.serial_ports).map(|port| serial().child(target(port)));
    let console = Element::new("console")
        .attr("type", "pty")
        .child(Element::new("target").attr("type", "serial").attr("port", 0));
    std::iter::once(first).chain(others).chain([console]).collect()
}

fn agent() -> Element {
    Element::new("channel")
        .attr("type", "unix")
        .child(Element::new("target").attr("type", "virtio").attr("name", "org.qemu.guest_agent.0"))
}

fn graphics(protocol: &str, listen: &str) -> Element {
    Element::new("graphics")
        .attr("type", protocol)
        .attr("autoport", "yes")
        .child(Element::new("listen").attr("type", "address").attr("address", listen))
}

fn spice(options: &Spice) -> Element {
    graphics("spice", &options.listen).attr_if("defaultMode", options.secure.then_some("secure"))
}

/// The channel of the SPICE agent, which shares clipboard and screen size with the viewer.
fn spice_agent() -> Element {
    Element::new("channel")
        .attr("type", "spicevmc")
        .child(Element::new("target").attr("type", "virtio").attr("name", "com.redhat.spice.0"))
}

fn video(hardware: &Hardware) -> Element {
    let vram = hardware.video_ram_mib.map(|mib| mib * 1024);
    let video = Element::new("video");
    let video = if hardware.video_model == "virtio" { protected(video, hardware) } else { video };
    video.child(Element::new("model").attr("type", &hardware.video_model).attr_if("vram", vram))
}

fn rng(host: &HostFacts, hardware: &Hardware) -> Element {
    let rate = |(bytes, period)| Element::new("rate").attr_if("period", period).attr("bytes", bytes);
    protected(Element::new("rng").attr("model", "virtio"), hardware)
        .children(hardware.rng_rate.map(rate))
        .child(Element::leaf("backend", &host.guests.rng_device).attr("model", "random"))
}

/// The watchdog has the model that Nova's driver uses.
fn watchdog(action: &str, host: &HostFacts) -> Element {
    let model = if host.arch == "s390x" { "diag288" } else { "i6300esb" };
    Element::new("watchdog").attr("model", model).attr("action", action)
}

fn balloon(host: &HostFacts, hardware: &Hardware) -> Element {
    let period = host.guests.memory_statistics;
    let statistics = (period > 0).then(|| Element::new("stats").attr("period", period));
    protected(Element::new("memballoon").attr("model", "virtio"), hardware).children(statistics)
}
