//! EC2's tree: the metadata of Amazon's EC2 up to version 2009-04-04, which some guests still request first.

use std::collections::BTreeMap;

use chronova_events::instance::BlockDevice;
use serde_json::{Value, json};

use super::{GuestMetadata, MetadataFile, to_bytes};
use crate::instance::disks;

/// The versions, oldest first; `latest` means the newest.
pub(super) const VERSIONS: [&str; 10] = [
    "1.0",
    "2007-01-19",
    "2007-03-01",
    "2007-08-29",
    "2007-10-10",
    "2007-12-15",
    "2008-02-01",
    "2008-09-01",
    "2009-04-04",
    "latest",
];

pub(super) fn files(about: &GuestMetadata<'_>, user_data: Option<&[u8]>) -> Vec<MetadataFile> {
    let skipped = &about.options.skipped_versions;
    let mut files = Vec::new();
    for version in VERSIONS.into_iter().filter(|version| !skipped.iter().any(|skipped| skipped == version)) {
        files.push((format!("ec2/{version}/meta-data.json"), to_bytes(&meta_data(about, version))));
        if let Some(data) = user_data {
            files.push((format!("ec2/{version}/user-data"), data.to_vec()));
        }
    }
    files
}

pub(super) fn meta_data(about: &GuestMetadata<'_>, version: &str) -> Value {
    let request = &about.server.request;
    let hostname = about.hostname();
    let mut data = json!({
        "ami-id": image(about),
        "ami-launch-index": request.launch_index,
        // Nova answers `FIXME`, and guests may rely on it. Images have no manifests, neither here nor in Nova.
        "ami-manifest-path": "FIXME",
        "instance-id": format!("i-{:08x}", request.number),
        "hostname": hostname,
        "local-ipv4": local_ipv4(about),
        "reservation-id": request.reservation,
        "security-groups": request.security_groups,
    });
    if let Some(key) = &request.key {
        let name = format!("0={}", key.name);
        data["public-keys"] = json!({ "0": { "_name": name, "openssh-key": key.public_key } });
    }
    let later = [
        ("local-hostname", "2007-01-19", json!(hostname)),
        ("public-hostname", "2007-01-19", json!(hostname)),
        ("public-ipv4", "2007-01-19", json!(about.floating_ip.unwrap_or_default())),
        ("instance-type", "2007-08-29", json!(request.flavor.name)),
        ("block-device-mapping", "2007-12-15", json!(devices(about))),
        ("placement", "2008-02-01", json!({ "availability-zone": about.availability_zone() })),
        ("instance-action", "2008-09-01", json!("none")),
    ];
    let boots_from = [("kernel-id", "aki", "kernel_id"), ("ramdisk-id", "ari", "ramdisk_id")];
    let boots_from = boots_from.into_iter().filter_map(|(key, kind, property)| {
        Some((key, "2007-12-15", json!(format!("{kind}-{}", digits(property_of(about, property)?)))))
    });
    for (key, since, value) in later.into_iter().chain(boots_from) {
        // All versions but the first are dates, and every date sorts before `latest`.
        if version >= since {
            data[key] = value;
        }
    }
    data
}

/// EC2 names an image by eight digits. Images have no number, so these are the first eight digits of the image's id.
fn image(about: &GuestMetadata<'_>) -> String {
    let id = about.server.root_image().map(|image| image.id.to_string()).unwrap_or_default();
    format!("ami-{}", digits(&id))
}

fn digits(id: &str) -> String {
    let hex: String = id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    format!("{hex:0>8}").to_ascii_lowercase()
}

/// The image's property, if it has one.
fn property_of<'a>(about: &GuestMetadata<'a>, name: &str) -> Option<&'a str> {
    let image = about.server.hardware_image()?;
    image.properties.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
}

fn local_ipv4<'a>(about: &GuestMetadata<'a>) -> &'a str {
    let mut addresses = about.server.nics.iter().flat_map(|nic| &nic.fixed_ips).map(|ip| ip.address.as_str());
    addresses.find(|address| !address.contains(':')).unwrap_or_default()
}

/// The device names of the disks, by EC2's names for the disks.
fn devices(about: &GuestMetadata<'_>) -> BTreeMap<String, String> {
    let root = disks::root_name(about.server);
    let short = root.trim_start_matches("/dev/").to_owned();
    let mut devices = BTreeMap::from([("ami".to_owned(), short), ("root".to_owned(), root)]);
    let of = |name: &str, found: Vec<String>| -> Vec<(String, String)> {
        found.into_iter().enumerate().map(|(number, device)| (format!("{name}{number}"), device)).collect()
    };
    let named = |wanted: fn(&BlockDevice) -> bool| {
        let found = about.server.disks.iter().map(|disk| &disk.device).filter(|device| wanted(device));
        let mut names: Vec<String> = found.filter_map(|device| device.device_name.clone()).collect();
        names.sort();
        names
    };
    devices.extend(of("ebs", named(BlockDevice::is_volume)));
    devices.extend(of("ephemeral", named(BlockDevice::is_ephemeral)));
    devices.extend(named(BlockDevice::is_swap).pop().map(|device| ("swap".to_owned(), device)));
    devices
}
