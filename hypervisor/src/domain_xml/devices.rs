//! The `<devices>` element.

use super::{DiskBus, Hardware, HostFacts};
use crate::guest::{GuestSpec, ImageFormat, Nic};
use crate::volumes;
use crate::xml::Element;

pub(super) fn element(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Element {
    Element::new("devices")
        .children(disks(guest, host, hardware))
        .children(controllers(guest, hardware))
        .children(guest.nics.iter().map(|nic| interface(nic, host, hardware)))
        .children(serial(guest, host))
        .children(hardware.guest_agent.then(agent))
        .children(hardware.tablet.then(|| Element::new("input").attr("type", "tablet").attr("bus", "usb")))
        .child(vnc(host))
        .child(Element::new("video").child(Element::new("model").attr("type", &hardware.video_model)))
        .children(hardware.rng.then(rng))
        .child(balloon())
}

/// Hands out device names per prefix: `vda`, `vdb`; IDE and SATA share nothing but SCSI, SATA and USB share `sd`.
#[derive(Default)]
struct Names(Vec<(&'static str, u8)>);

impl Names {
    fn next(&mut self, bus: DiskBus) -> String {
        let prefix = bus.prefix();
        let index = if let Some((_, used)) = self.0.iter_mut().find(|(known, _)| *known == prefix) {
            *used += 1;
            *used
        } else {
            self.0.push((prefix, 0));
            0
        };
        format!("{prefix}{}", char::from(b'a' + index))
    }
}

fn disks(guest: &GuestSpec, host: &HostFacts, hardware: &Hardware) -> Vec<Element> {
    let mut names = Names::default();
    let mut disks = Vec::new();
    let path = |volume: String| format!("{}/{volume}", host.pool_path);
    if let Some(root) = &guest.root {
        disks.push(if root.image.format == ImageFormat::Iso {
            cdrom(&path(volumes::base(&root.image)), hardware, &mut names)
        } else {
            disk(&path(volumes::root(guest.instance)), "qcow2", host, hardware, &mut names)
        });
    }
    if guest.ephemeral_gib > 0 {
        disks.push(disk(&path(volumes::ephemeral(guest.instance)), "qcow2", host, hardware, &mut names));
    }
    if guest.swap_mib > 0 {
        disks.push(disk(&path(volumes::swap(guest.instance)), "qcow2", host, hardware, &mut names));
    }
    if guest.config_drive.is_some() {
        disks.push(cdrom(&path(volumes::config_drive(guest.instance)), hardware, &mut names));
    }
    disks
}

fn disk(path: &str, format: &str, host: &HostFacts, hardware: &Hardware, names: &mut Names) -> Element {
    // Without O_DIRECT `none` cannot open the file; `writeback` keeps flushes honest (Nova falls back the same way).
    let cache = if host.direct_io { "none" } else { "writeback" };
    Element::new("disk")
        .attr("type", "file")
        .attr("device", "disk")
        .child(Element::new("driver").attr("name", "qemu").attr("type", format).attr("cache", cache))
        .child(Element::new("source").attr("file", path))
        .child(Element::new("target").attr("dev", names.next(hardware.disk_bus)).attr("bus", hardware.disk_bus.name()))
}

fn cdrom(path: &str, hardware: &Hardware, names: &mut Names) -> Element {
    Element::new("disk")
        .attr("type", "file")
        .attr("device", "cdrom")
        .child(Element::new("driver").attr("name", "qemu").attr("type", "raw"))
        .child(Element::new("source").attr("file", path))
        .child(
            Element::new("target").attr("dev", names.next(hardware.cdrom_bus)).attr("bus", hardware.cdrom_bus.name()),
        )
        .child(Element::new("readonly"))
}

/// libvirt's own default SCSI controller is an LSI that current systems cannot drive.
fn controllers(guest: &GuestSpec, hardware: &Hardware) -> Option<Element> {
    let cdrom = guest.config_drive.is_some() && hardware.cdrom_bus == DiskBus::Scsi;
    (hardware.disk_bus == DiskBus::Scsi || cdrom)
        .then(|| Element::new("controller").attr("type", "scsi").attr("index", 0).attr("model", "virtio-scsi"))
}

pub(super) fn interface(nic: &Nic, host: &HostFacts, hardware: &Hardware) -> Element {
    Element::new("interface")
        .attr("type", "network")
        .child(Element::new("mac").attr("address", &nic.mac))
        .child(Element::new("source").attr("network", volumes::network_name(nic.network)))
        .child(Element::new("target").attr("dev", &nic.tap))
        .child(Element::new("model").attr("type", hardware.vif_model.0))
        // vhost needs KVM's interrupt path.
        .children((!host.kvm && hardware.vif_model.0 == "virtio").then(|| Element::new("driver").attr("name", "qemu")))
        .children((nic.mtu > 0).then(|| Element::new("mtu").attr("size", nic.mtu)))
        .children(nic.filter.as_ref().map(|filter| Element::new("filterref").attr("filter", filter)))
}

/// The log lives in the storage pool because that is the only place of a host whose files libvirt hands out remotely.
fn serial(guest: &GuestSpec, host: &HostFacts) -> [Element; 2] {
    let log = format!("{}/{}", host.pool_path, volumes::console_log(guest.instance));
    let serial = Element::new("serial")
        .attr("type", "pty")
        .child(Element::new("log").attr("file", log).attr("append", "on"))
        .child(Element::new("target").attr("port", 0));
    let console = Element::new("console")
        .attr("type", "pty")
        .child(Element::new("target").attr("type", "serial").attr("port", 0));
    [serial, console]
}

fn agent() -> Element {
    Element::new("channel")
        .attr("type", "unix")
        .child(Element::new("target").attr("type", "virtio").attr("name", "org.qemu.guest_agent.0"))
}

fn vnc(host: &HostFacts) -> Element {
    Element::new("graphics")
        .attr("type", "vnc")
        .attr("autoport", "yes")
        .child(Element::new("listen").attr("type", "address").attr("address", &host.vnc_listen))
}

fn rng() -> Element {
    Element::new("rng").attr("model", "virtio").child(Element::leaf("backend", "/dev/urandom").attr("model", "random"))
}

/// Statistics every 10 s: Nova's `[libvirt] mem_stats_period_seconds`.
fn balloon() -> Element {
    Element::new("memballoon").attr("model", "virtio").child(Element::new("stats").attr("period", 10))
}
