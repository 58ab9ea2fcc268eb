//! Block device mappings of a `POST /servers`. Both syntaxes become one list. The checks have Nova's order and
//! messages.
//!
//! Source: nova `block_device.py` (`from_api`, `from_legacy_mapping`), `compute/api.py` (`_check_and_transform_bdm`,
//! `_validate_bdm`).

use chronova_events::ids::{BlockDeviceId, ImageId, SnapshotId, VolumeId};
use chronova_events::instance::{BlockDevice, BlockLocation, BlockSource, FlavorSnapshot, ImageSnapshot};
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::schema::{is_true, to_integer};

/// The mappings of a body.
#[derive(Debug, Default)]
pub(super) struct BlockDeviceMappings {
    pub devices: Vec<MappedDevice>,
    pub legacy: bool,
    /// Whether the body has any mappings.
    pub given: bool,
}

/// A device, and the parts of its mapping that are not recorded.
#[derive(Debug, Clone)]
pub(super) struct MappedDevice {
    pub device: BlockDevice,
    /// The device name in the request. Nova's driver ignores this name, but in the old syntax it identifies the root
    /// disk.
    pub wished_name: Option<String>,
}

fn invalid(details: &str) -> Fault {
    Fault::bad_request(format!("Block Device Mapping is Invalid: {details}"))
}

/// An empty mapping with a new id.
fn device(source: BlockSource, place: BlockLocation) -> BlockDevice {
    BlockDevice::new(BlockDeviceId::random(), source, place)
}

impl BlockDeviceMappings {
    pub(super) fn read(server: &Map<String, Value>) -> Result<Self, Fault> {
        let list = |key: &str| server.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let (old, new) = (list("block_device_mapping"), list("block_device_mapping_v2"));
        if !old.is_empty() && !new.is_empty() {
            return Err(Fault::bad_request(
                "Using different block_device_mapping syntaxes is not allowed in the same request.",
            ));
        }
        let legacy = !old.is_empty();
        let image_given = server.get("imageRef").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let devices = match legacy {
            true => of_old(old)?,
            false => of_new(new, image_given)?,
        };
        // An image can become a local disk only if it is the server's image and the disk is the server's root disk.
        let booted: Option<ImageId> = server.get("imageRef").and_then(Value::as_str).and_then(|id| id.parse().ok());
        let is_other = |one: &MappedDevice| match (one.device.source, one.device.place) {
            (BlockSource::Image(id), BlockLocation::Local) => booted != Some(id),
            _ => false,
        };
        if devices.iter().any(is_other) {
            return Err(invalid("Mapping image to local is not supported."));
        }
        Ok(Self { devices, legacy, given: !old.is_empty() || !new.is_empty() })
    }
}

/// Reads the present syntax (`block_device_mapping_v2`).
pub(super) fn of_new(list: &[Value], image_given: bool) -> Result<Vec<MappedDevice>, Fault> {
    // An entry with `no_device` asks for no disk.
    let wanted = list.iter().filter(|mapping| !mapping.get("no_device").is_some_and(is_true));
    wanted.map(|mapping| one_of_new(mapping, image_given)).collect()
}

fn one_of_new(mapping: &Value, image_given: bool) -> Result<MappedDevice, Fault> {
    let text = |key: &str| mapping.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("source_type");
    let id = text("uuid");
    let place = text("destination_type");
    let boot_index = boot_index(mapping)?;
    let volume_type = text("volume_type");
    match kind {
        Some("blank") if id.is_some() => return Err(invalid("Invalid device UUID.")),
        Some("blank") => {}
        _ if id.is_none() && text(&format!("{}_id", kind.unwrap_or_default())).is_none() => {
            return Err(invalid("Missing device UUID."));
        }
        None => return Err(invalid("Some required fields are missing")),
        Some(_) => {}
    }
    if (kind, place) == (Some("image"), Some("local")) && !(image_given && boot_index == Some(0)) {
        return Err(invalid("Mapping image to local is not supported."));
    }
    if place == Some("local") && volume_type.is_some() {
        return Err(invalid("Specifying a volume_type with destination_type=local is not supported."));
    }
    if kind == Some("volume") && volume_type.is_some() {
        return Err(invalid("Specifying volume type to existing volume is not supported."));
    }
    let kind = kind.unwrap_or_default();
    let id = id.or_else(|| text(&format!("{kind}_id"))).unwrap_or_default();
    let source = source(kind, id)?;
    let place = match (place, kind) {
        (Some("local"), "volume" | "snapshot") => {
            return Err(invalid(&format!("Mapping {kind} to local is not supported.")));
        }
        (Some("volume"), _) | (None, "volume" | "snapshot") => BlockLocation::Volume,
        _ => BlockLocation::Local,
    };
    let owned = |key: &str| text(key).map(str::to_owned);
    Ok(MappedDevice {
        device: BlockDevice {
            boot_index,
            size: size(mapping),
            guest_format: owned("guest_format"),
            device_type: owned("device_type"),
            disk_bus: owned("disk_bus"),
            delete_on_termination: mapping.get("delete_on_termination").is_some_and(is_true),
            tag: owned("tag"),
            volume_type: owned("volume_type"),
            ..device(source, place)
        },
        wished_name: owned("device_name"),
    })
}

/// The source of a mapping. The refusal of a malformed id has Nova's words `failed to get {kind} {id}`.
fn source(kind: &str, id: &str) -> Result<BlockSource, Fault> {
    let lost = || invalid(&format!("failed to get {kind} {id}."));
    Ok(match kind {
        "volume" => BlockSource::Volume(id.parse::<VolumeId>().map_err(|_| lost())?),
        "snapshot" => BlockSource::Snapshot(id.parse::<SnapshotId>().map_err(|_| lost())?),
        "image" => BlockSource::Image(id.parse::<ImageId>().map_err(|_| lost())?),
        _ => BlockSource::Blank,
    })
}

/// `None` without an index or with a negative one: the server does not boot from this device.
fn boot_index(mapping: &Value) -> Result<Option<u32>, Fault> {
    match mapping.get("boot_index") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let index = to_integer(value).ok_or_else(|| invalid("Boot index is invalid."))?;
            Ok(u32::try_from(index).ok())
        }
    }
}

fn size(mapping: &Value) -> Option<u32> {
    mapping.get("volume_size").and_then(to_integer).and_then(|size| u32::try_from(size).ok())
}

/// Reads the old EC2 syntax. [`all`] determines the root disk, once the image is known.
fn of_old(list: &[Value]) -> Result<Vec<MappedDevice>, Fault> {
    let mut devices = Vec::with_capacity(list.len());
    for mapping in list {
        let text = |key: &str| mapping.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let ephemeral = |name: &str| {
            name.strip_prefix("ephemeral").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let made = match (text("virtual_name"), text("snapshot_id"), text("volume_id")) {
            (Some(name), _, _) if name == "swap" || ephemeral(name) => BlockDevice {
                guest_format: (name == "swap").then(|| "swap".to_owned()),
                delete_on_termination: true,
                ..device(BlockSource::Blank, BlockLocation::Local)
            },
            (_, Some(id), _) => device(source("snapshot", id)?, BlockLocation::Volume),
            (_, None, Some(id)) => device(source("volume", id)?, BlockLocation::Volume),
            _ if mapping.get("no_device").is_some_and(is_true) => continue,
            _ => return Err(invalid("Unrecognized legacy format.")),
        };
        let asked = mapping.get("delete_on_termination").is_some_and(is_true);
        let device =
            BlockDevice { size: size(mapping), delete_on_termination: made.delete_on_termination || asked, ..made };
        devices.push(MappedDevice { device, wished_name: text("device_name").map(str::to_owned) });
    }
    Ok(devices)
}

fn bare(name: Option<&String>) -> Option<&str> {
    name.map(|name| name.strip_prefix("/dev/").unwrap_or(name))
}

/// All disks of a server: the requested disks, the disks of its image, and the disks of its flavor.
pub(super) fn all(
    mappings: &BlockDeviceMappings,
    image: Option<&ImageSnapshot>,
    flavor: &FlavorSnapshot,
    servers: u32,
) -> Result<Vec<MappedDevice>, Fault> {
    let property = |name: &str| {
        image.and_then(|image| image.properties.iter().find(|(key, _)| key == name)).map(|(_, value)| value.as_str())
    };
    let root_name = property("root_device_name").unwrap_or("vda");
    let root_name = root_name.strip_prefix("/dev/").unwrap_or(root_name);
    let mut asked = mappings.devices.clone();
    let named_root = |mapped: &MappedDevice| bare(mapped.wished_name.as_ref()) == Some(root_name);
    if image.is_some() && !mappings.legacy && asked.iter().any(|one| one.device.is_volume() && named_root(one)) {
        return Err(Fault::bad_request(format!(
            "The volume cannot be assigned the same device name as the root device {root_name}"
        )));
    }
    let is_modern = property("bdm_v2").is_some_and(|modern| is_true(&Value::from(modern)));
    let own = match property("block_device_mapping") {
        Some(text) => of_image(text, is_modern, root_name)?,
        None => vec![],
    };
    let root_in_image = own.iter().any(|one| one.device.is_root());
    if mappings.legacy || !mappings.given {
        let mut volume_root = false;
        for one in &mut asked {
            let is_root = !root_in_image && one.device.is_volume() && named_root(one);
            one.device.boot_index = is_root.then_some(0);
            volume_root |= is_root;
        }
        if let (Some(image), false, false) = (image, volume_root, root_in_image) {
            asked.insert(0, of_image_root(image.id));
        }
    } else if root_in_image {
        asked.retain(|one| !(one.device.is_root() && matches!(one.device.source, BlockSource::Image(_))));
    }
    let names: Vec<String> = asked.iter().filter_map(|one| one.wished_name.clone()).collect();
    asked.extend(own.into_iter().filter(|one| one.wished_name.as_ref().is_none_or(|name| !names.contains(name))));
    if servers > 1 && asked.iter().any(|one| matches!(one.device.source, BlockSource::Volume(_))) {
        return Err(Fault::bad_request("Cannot attach one or more volumes to multiple instances"));
    }
    let devices: Vec<BlockDevice> = asked.iter().map(|one| one.device.clone()).collect();
    let (ephemeral, swap) = chronova_actors::instance::disks::of_flavor(flavor, &devices);
    let blank = |size, format: Option<&str>| MappedDevice {
        device: BlockDevice {
            size: Some(size),
            guest_format: format.map(str::to_owned),
            delete_on_termination: true,
            device_type: Some("disk".to_owned()),
            ..device(BlockSource::Blank, BlockLocation::Local)
        },
        wished_name: None,
    };
    asked.extend(ephemeral.map(|size| blank(size, None)));
    asked.extend(swap.map(|size| blank(size, Some("swap"))));
    Ok(asked)
}

fn of_image_root(image: ImageId) -> MappedDevice {
    let device = BlockDevice {
        boot_index: Some(0),
        delete_on_termination: true,
        device_type: Some("disk".to_owned()),
        ..device(BlockSource::Image(image), BlockLocation::Local)
    };
    MappedDevice { device, wished_name: None }
}

/// Reads the block device mappings in an image's properties. Images that were created from volume-backed servers have
/// them.
/// They have the old syntax unless the property `bdm_v2` is set (`is_modern`). In the old syntax the server boots from
/// the volume with the root device name. Source: Nova's `_get_image_defined_bdms`.
fn of_image(text: &str, is_modern: bool, root_name: &str) -> Result<Vec<MappedDevice>, Fault> {
    let list: Value = serde_json::from_str(text).map_err(|_| invalid("Unrecognized legacy format."))?;
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().try_for_each(check_texts)?;
    if is_modern {
        return of_new(list, false);
    }
    let mut devices = of_old(list)?;
    for one in devices.iter_mut().filter(|one| one.device.is_volume()) {
        one.device.boot_index = (bare(one.wished_name.as_ref()) == Some(root_name)).then_some(0);
    }
    Ok(devices)
}

/// The texts of a mapping that a server keeps, and their longest length in the schema of `POST /servers`.
const TEXTS: [&str; 7] =
    ["device_name", "device_type", "disk_bus", "guest_format", "tag", "virtual_name", "volume_type"];
const LONGEST_TEXT: usize = 255;

/// Applies the bounds of the schema to a mapping in an image's properties, which no schema checks. Every server from
/// the image keeps these texts.
fn check_texts(mapping: &Value) -> Result<(), Fault> {
    for key in TEXTS {
        match mapping.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.chars().count() <= LONGEST_TEXT => {}
            Some(_) => return Err(invalid(&format!("{key} is not a text of at most {LONGEST_TEXT} characters."))),
        }
    }
    let known = |kind: &str| ["blank", "image", "snapshot", "volume"].contains(&kind);
    match mapping.get("source_type").and_then(Value::as_str).is_none_or(known) {
        true => Ok(()),
        false => Err(invalid("Invalid source_type field.")),
    }
}

/// Checks that a disk has the boot index 0, and that the boot indexes of all disks have no gaps and no duplicates.
pub(super) fn check_boot_order(devices: &[MappedDevice]) -> Result<(), Fault> {
    let mut indexes: Vec<u32> = devices.iter().filter_map(|one| one.device.boot_index).collect();
    indexes.sort_unstable();
    let in_order = indexes.iter().zip(0..).all(|(index, wanted)| *index == wanted);
    match in_order && !indexes.is_empty() {
        true => Ok(()),
        false => {
            Err(invalid("Boot sequence for the instance and image/block device mapping combination is not valid."))
        }
    }
}

/// Buses that Nova knows (`DiskBus`).
const BUSES: [&str; 9] = ["fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml"];

pub(super) fn check_bus(device: &BlockDevice) -> Result<(), Fault> {
    match device.disk_bus.as_deref().is_none_or(|bus| BUSES.contains(&bus)) {
        true => Ok(()),
        false => Err(Fault::bad_request("Block Device Mapping is Invalid.")),
    }
}

/// Checks the number and the sizes of local disks. An ephemeral or swap disk without a size gets the
/// flavor's size.
pub(super) fn check_local(devices: &mut [MappedDevice], flavor: &FlavorSnapshot, most: i32) -> Result<(), Fault> {
    let mut ephemeral: u64 = 0;
    let mut swaps: u32 = 0;
    for one in devices.iter_mut() {
        let device = &mut one.device;
        if device.is_ephemeral() {
            ephemeral += u64::from(*device.size.get_or_insert(flavor.ephemeral_gib));
        } else if device.is_swap() {
            swaps += 1;
            device.size.get_or_insert(flavor.swap_mib);
        }
    }
    if ephemeral > u64::from(flavor.ephemeral_gib) {
        return Err(Fault::bad_request(
            "Ephemeral disks requested are larger than the instance type allows. If no size is given in one block device \
             mapping, flavor ephemeral size will be used.",
        ));
    }
    if swaps > 1 {
        return Err(invalid("More than one swap drive requested."));
    }
    let swap = devices.iter().find(|one| one.device.is_swap()).and_then(|one| one.device.size);
    if swap.unwrap_or(0) > flavor.swap_mib {
        return Err(Fault::bad_request("Swap drive requested is larger than instance type allows."));
    }
    let local = devices.iter().filter(|one| one.device.place == BlockLocation::Local).count();
    match usize::try_from(most).is_ok_and(|most| local > most) {
        true => Err(invalid("You specified more local devices than the limit allows")),
        false => Ok(()),
    }
}
