//! The disks of a server and their names.
//!
//! Names follow Nova's libvirt driver, which ignores requested names. The order is: the root disk, the empty disks, the
//! swap disk, the volumes. Each disk gets the next free letter of its bus. The domain's XML names local disks by the
//! same rule, so that their names never collide with the recorded names of volumes.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::instance::{Alive, BlockDevice, FlavorSnapshot, ImageSnapshot};

/// The sizes in GiB of the ephemeral disks.
pub fn ephemerals(server: &Alive) -> Vec<u32> {
    match is_mapped(server) {
        true => ephemerals_of(server.disks.iter().map(|disk| &disk.device)),
        false => Some(server.request.flavor.ephemeral_gib).filter(|size| *size > 0).into_iter().collect(),
    }
}

fn ephemerals_of<'a>(devices: impl Iterator<Item = &'a BlockDevice>) -> Vec<u32> {
    devices.filter(|device| device.is_ephemeral()).filter_map(|device| device.size.filter(|size| *size > 0)).collect()
}

/// The size in MiB of the swap disk; 0 if there is none.
pub fn swap(server: &Alive) -> u32 {
    match is_mapped(server) {
        true => swap_of(server.disks.iter().map(|disk| &disk.device)),
        false => server.request.flavor.swap_mib,
    }
}

fn swap_of<'a>(mut devices: impl Iterator<Item = &'a BlockDevice>) -> u32 {
    devices.find(|device| device.is_swap()).and_then(|device| device.size).unwrap_or(0)
}

/// Whether the server's events list all its disks. They do if its request had block device mappings.
fn is_mapped(server: &Alive) -> bool {
    server.disks.iter().any(|disk| disk.device.is_root())
}

fn property<'a>(image: Option<&'a ImageSnapshot>, name: &str) -> Option<&'a str> {
    image?.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The default bus of the server's disks.
fn disk_bus(image: Option<&ImageSnapshot>) -> &str {
    property(image, "hw_disk_bus").unwrap_or("virtio")
}

/// The bus of a device: its own, or the default for its type.
pub fn bus(image: Option<&ImageSnapshot>, device: &BlockDevice) -> String {
    if let Some(bus) = &device.disk_bus {
        return bus.clone();
    }
    match device.device_type.as_deref() {
        Some("cdrom") => {
            let modern = property(image, "hw_machine_type").is_some_and(|machine| machine.contains("q35"));
            let default = if modern { "sata" } else { "ide" };
            property(image, "hw_cdrom_bus").unwrap_or(default).to_owned()
        }
        // Nova's `get_disk_bus_for_device_type`.
        Some("floppy") => property(image, "hw_floppy_bus").unwrap_or("fdc").to_owned(),
        // A raw SCSI device needs a SCSI bus, because only that bus passes SCSI commands.
        Some("lun") => "scsi".to_owned(),
        _ => disk_bus(image).to_owned(),
    }
}

fn prefix(bus: &str) -> &'static str {
    match bus {
        "scsi" | "sata" | "usb" => "sd",
        "ide" => "hd",
        "fdc" => "fd",
        _ => "vd",
    }
}

/// The letters of the disk at this index: `a` to `z`, `aa`, `ab`, ...
fn letters(index: u32) -> String {
    let letter = char::from(b'a' + u8::try_from(index % 26).unwrap_or(0));
    match index / 26 {
        0 => letter.to_string(),
        more => format!("{}{letter}", letters(more - 1)),
    }
}

/// The device names in use, without `/dev/`.
#[derive(Debug, Default)]
struct TakenDeviceNames {
    names: BTreeSet<String>,
    /// For each prefix an index below which all names are in use. Without it, the names of a request with thousands of
    /// disks would take time in proportion to the square of their number.
    taken_below: BTreeMap<&'static str, u32>,
}

impl TakenDeviceNames {
    fn next(&mut self, bus: &str) -> String {
        let prefix = prefix(bus);
        let index = self.taken_below.entry(prefix).or_default();
        loop {
            let name = format!("{prefix}{}", letters(*index));
            *index += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }

    fn local(&mut self, image: Option<&ImageSnapshot>, has_root: bool, ephemerals: usize, swap: u32) {
        let bus = disk_bus(image).to_owned();
        let disks = usize::from(has_root) + ephemerals + usize::from(swap > 0);
        (0..disks).for_each(|_| drop(self.next(&bus)));
    }
}

/// Gives each device that is created its name. The root disk is the first of its bus, even if it is a volume.
pub fn name_all(image: Option<&ImageSnapshot>, devices: &mut [BlockDevice]) {
    let mut taken = TakenDeviceNames::default();
    let mut order: Vec<usize> = (0..devices.len()).collect();
    // Bootable volumes come in their boot order, the others in the order of the request.
    order.sort_by_key(|index| devices[*index].boot_index.unwrap_or(u32::MAX));
    let kinds: [fn(&BlockDevice) -> bool; 4] = [
        BlockDevice::is_root,
        |device| !device.is_root() && device.is_ephemeral(),
        |device| !device.is_root() && device.is_swap(),
        |device| !device.is_root() && device.is_volume(),
    ];
    for is_kind in kinds {
        for index in &order {
            let device = &mut devices[*index];
            // A disk of size 0 is not created, so it gets no name.
            let is_made = device.is_volume() || device.is_root() || device.size.is_some_and(|size| size > 0);
            if is_kind(device) && is_made {
                let bus = if device.is_volume() { bus(image, device) } else { disk_bus(image).to_owned() };
                device.device_name = Some(format!("/dev/{}", taken.next(&bus)));
            }
        }
    }
}

/// The name for one more disk, and the number of disks that the server already has.
pub fn next_name(server: &Alive, device: &BlockDevice) -> (String, usize) {
    let image = server.hardware_image();
    let mut taken = TakenDeviceNames::default();
    for name in server.disks.iter().filter(|disk| disk.device.is_volume()).filter_map(|disk| name_of(&disk.device)) {
        taken.names.insert(name.to_owned());
    }
    let has_root = server.request.image.is_some() && !server.is_volume_backed();
    taken.local(image, has_root, ephemerals(server).len(), swap(server));
    let count = taken.names.len();
    (format!("/dev/{}", taken.next(&bus(image, device))), count)
}

/// How many disks the server has, including its volumes.
pub fn count(server: &Alive) -> usize {
    let has_root = server.request.image.is_some() && !server.is_volume_backed();
    let own = usize::from(has_root) + ephemerals(server).len() + usize::from(swap(server) > 0);
    own + server.disks.iter().filter(|disk| disk.device.is_volume()).count()
}

/// The device's name without `/dev/`.
pub fn name_of(device: &BlockDevice) -> Option<&str> {
    device.device_name.as_deref().map(|name| name.strip_prefix("/dev/").unwrap_or(name))
}

/// The root disk's name in the API.
pub fn root_name(server: &Alive) -> String {
    let recorded =
        server.disks.iter().find(|disk| disk.device.is_root()).and_then(|disk| disk.device.device_name.clone());
    recorded.unwrap_or_else(|| format!("/dev/{}a", prefix(disk_bus(server.hardware_image()))))
}

/// The sizes of the flavor's ephemeral disk (GiB) and swap disk (MiB). `None` if the flavor has none, or if the request
/// has a disk of that kind.
pub fn of_flavor(flavor: &FlavorSnapshot, devices: &[BlockDevice]) -> (Option<u32>, Option<u32>) {
    let asks = |is_kind: fn(&BlockDevice) -> bool| devices.iter().any(is_kind);
    let ephemeral = Some(flavor.ephemeral_gib).filter(|size| *size > 0 && !asks(BlockDevice::is_ephemeral));
    let swap = Some(flavor.swap_mib).filter(|size| *size > 0 && !asks(BlockDevice::is_swap));
    (ephemeral, swap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronova_events::ids::{BlockDeviceId, VolumeId};
    use chronova_events::instance::{BlockLocation, BlockSource};
    use uuid::Uuid;

    fn device(boot_index: Option<u32>) -> BlockDevice {
        let source = BlockSource::Volume(VolumeId(Uuid::nil()));
        let device = BlockDevice::new(BlockDeviceId(Uuid::nil()), source, BlockLocation::Volume);
        BlockDevice { boot_index, size: Some(1), ..device }
    }

    fn blank(swap: bool) -> BlockDevice {
        let guest_format = swap.then(|| "swap".to_owned());
        BlockDevice { source: BlockSource::Blank, place: BlockLocation::Local, guest_format, ..device(None) }
    }

    fn on(bus: &str) -> BlockDevice {
        BlockDevice { disk_bus: Some(bus.to_owned()), ..device(None) }
    }

    #[test]
    fn names_are_given_in_order_of_root_empty_swap_volumes() {
        let mut devices =
            vec![device(None), blank(true), on("scsi"), blank(false), device(Some(1)), device(Some(0)), on("ide")];
        name_all(None, &mut devices);
        let names: Vec<&str> = devices.iter().filter_map(name_of).collect();
        assert_eq!(names, ["vde", "vdc", "sda", "vdb", "vdd", "vda", "hda"]);
    }

    #[test]
    fn a_new_name_is_the_first_free_one_of_its_prefix() {
        let mut taken = TakenDeviceNames::default();
        taken.names.extend(["vdb".to_owned(), "sda".to_owned()]);
        let names = ["virtio", "scsi", "virtio", "sata", "xen"].map(|bus| taken.next(bus));
        assert_eq!(names, ["vda", "sdb", "vdc", "sdc", "vdd"]);
    }

    #[test]
    fn names_continue_with_two_letters_after_z() {
        assert_eq!([0, 25, 26, 51, 52].map(letters), ["a", "z", "aa", "az", "ba"]);
    }

    #[test]
    fn the_image_sets_the_bus() {
        let image = |key: &str, value: &str| ImageSnapshot {
            id: chronova_events::ids::ImageId(Uuid::nil()),
            name: String::new(),
            checksum: String::new(),
            format: "raw".to_owned(),
            size: 0,
            virtual_size: 0,
            min_memory_mib: 0,
            min_disk_gib: 0,
            properties: vec![(key.to_owned(), value.to_owned())],
        };
        let cdrom = BlockDevice { device_type: Some("cdrom".to_owned()), ..device(None) };
        assert_eq!(bus(None, &device(None)), "virtio");
        assert_eq!(bus(Some(&image("hw_disk_bus", "scsi")), &device(None)), "scsi");
        assert_eq!(bus(Some(&image("hw_disk_bus", "scsi")), &on("ide")), "ide");
        assert_eq!(bus(None, &cdrom), "ide");
        let floppy = BlockDevice { device_type: Some("floppy".to_owned()), ..device(None) };
        assert_eq!(bus(None, &floppy), "fdc");
        assert_eq!(bus(Some(&image("hw_floppy_bus", "usb")), &floppy), "usb");
        assert_eq!(bus(Some(&image("hw_machine_type", "pc-q35-7.2")), &cdrom), "sata");
    }
}
