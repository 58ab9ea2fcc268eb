//! The addresses that identify a guest's tagged devices. Source: nova `api/metadata/base.py` (`_get_device_metadata`)
//! and `virt/libvirt/driver.py` (`_build_device_metadata`).

use chronova_events::instance::{DiskWork, InstanceDisk, NicInfo};
use chronova_hypervisor::capability::device_locations::{DeviceKind, GuestDevice};
use serde_json::{Value, json};

use super::GuestMetadata;

/// The tagged devices: disks first, then interfaces. `trusted`: whether the version has the field for trusted virtual
/// functions (always false here).
pub(super) fn tagged(about: &GuestMetadata<'_>, trusted: bool) -> Vec<Value> {
    let disks = about.server.disks.iter().filter_map(|disk| self::disk(about, disk));
    disks.chain(about.server.nics.iter().filter_map(|nic| interface(about, nic, trusted))).collect()
}

fn disk(about: &GuestMetadata<'_>, disk: &InstanceDisk) -> Option<Value> {
    let (device, tag) = (&disk.device, disk.device.tag.as_ref()?);
    if matches!(disk.work, Some(DiskWork::Attaching(_))) {
        return None;
    }
    let volume = device.volume.filter(|_| device.is_volume()).map(|volume| volume.to_string());
    let name = device.device_name.as_deref().map(|name| name.trim_start_matches("/dev/"));
    let place = about.devices.iter().find(|found| match &found.kind {
        DeviceKind::Disk { serial, target } => match &volume {
            Some(_) => *serial == volume,
            None => Some(target.as_str()) == name,
        },
        DeviceKind::Nic { .. } => false,
    });
    let (bus, address) = at(place);
    Some(json!({"type": "disk", "serial": volume, "bus": bus, "address": address, "tags": [tag]}))
}

fn interface(about: &GuestMetadata<'_>, nic: &NicInfo, trusted: bool) -> Option<Value> {
    let tag = nic.tag.as_ref()?;
    let known = |found: &&GuestDevice| match &found.kind {
        DeviceKind::Nic { mac } => mac.eq_ignore_ascii_case(&nic.mac),
        DeviceKind::Disk { .. } => false,
    };
    let (bus, address) = at(about.devices.iter().find(known));
    let mut shown = json!({"type": "nic", "mac": nic.mac, "bus": bus, "address": address, "tags": [tag]});
    if trusted {
        shown["vf_trusted"] = json!(false);
    }
    Some(shown)
}

/// The bus and the address of a device; Nova writes `none` for an unknown one.
fn at(place: Option<&GuestDevice>) -> (&str, &str) {
    let bus = place.and_then(|place| place.bus).unwrap_or("none");
    (bus, place.and_then(|place| place.address.as_deref()).unwrap_or("none"))
}
