//! The documents of `openstack/VERSION`.

use std::collections::BTreeSet;

use chronova_events::instance::{Alive, FixedIp, NicInfo};
use chronova_hypervisor::guest::{NicDeviceForm, NicPlug};
use serde_json::{Map, Value, json};

use super::{GuestMetadata, MetadataFile, devices, seed, to_bytes};
use crate::topology;

/// The first version that has a document or a key; `None` if all versions have it.
type SinceVersion = Option<&'static str>;

/// The versions, oldest first; `latest` means the newest.
const VERSIONS: [&str; 11] = [
    "2012-08-10",
    GRIZZLY,
    HAVANA,
    LIBERTY,
    NEWTON_ONE,
    NEWTON_TWO,
    "2017-02-22",
    ROCKY,
    VICTORIA,
    "2025-04-04",
    LATEST,
];
const GRIZZLY: &str = "2013-04-04";
const HAVANA: &str = "2013-10-17";
const LIBERTY: &str = "2015-10-15";
const NEWTON_ONE: &str = "2016-06-30";
const NEWTON_TWO: &str = "2016-10-06";
const ROCKY: &str = "2018-08-27";
const VICTORIA: &str = "2020-10-14";
const LATEST: &str = "latest";

pub(super) const META_DATA: &str = "meta_data.json";
pub(super) const USER_DATA: &str = "user_data";
pub(super) const PASSWORD: &str = "password";
pub(super) const VENDOR_DATA: &str = "vendor_data.json";
pub(super) const NETWORK_DATA: &str = "network_data.json";
pub(super) const VENDOR_DATA_2: &str = "vendor_data2.json";

/// The documents, in the order in which Nova lists them.
const DOCUMENTS: [(&str, SinceVersion); 6] = [
    (META_DATA, None),
    (USER_DATA, None),
    (PASSWORD, Some(GRIZZLY)),
    (VENDOR_DATA, Some(HAVANA)),
    (NETWORK_DATA, Some(LIBERTY)),
    (VENDOR_DATA_2, Some(NEWTON_TWO)),
];

/// Whether a version has a document or a key. Versions are dates, and every date sorts before `latest`.
fn has(version: &str, since: SinceVersion) -> bool {
    since.is_none_or(|since| version >= since)
}

/// The versions up to `today`, and `latest`.
pub(super) fn versions(today: &str) -> impl Iterator<Item = &'static str> {
    VERSIONS.into_iter().filter(move |version| *version == LATEST || *version <= today)
}

/// The documents of a version; `None` for an unknown version.
pub(super) fn names(version: &str) -> Option<impl Iterator<Item = &'static str>> {
    let version = VERSIONS.into_iter().find(|known| *known == version)?;
    Some(DOCUMENTS.into_iter().filter(move |(_, since)| has(version, *since)).map(|(name, _)| name))
}

/// The documents of all versions, except the password, which only a running guest can post.
pub(super) fn files(about: &GuestMetadata<'_>, user_data: Option<&[u8]>) -> Result<Vec<MetadataFile>, String> {
    let seed = seed()?;
    let mut files = Vec::new();
    for version in VERSIONS {
        for name in names(version).into_iter().flatten() {
            let document = document(about, version, name, user_data, &seed);
            // A config drive has the vendor data document even without vendor data.
            let document = document.or_else(|| (name == VENDOR_DATA).then(|| b"{}".to_vec()));
            files.extend(document.map(|content| (format!("openstack/{version}/{name}"), content)));
        }
    }
    Ok(files)
}

/// The document `name`. The caller has checked that `version` has this document.
pub(super) fn document(
    about: &GuestMetadata<'_>,
    version: &str,
    name: &str,
    user_data: Option<&[u8]>,
    seed: &str,
) -> Option<Vec<u8>> {
    let vendor_data = about.options.vendor_data.as_deref();
    match name {
        META_DATA => Some(to_bytes(&meta_data(about, version, seed))),
        USER_DATA => user_data.map(<[u8]>::to_vec),
        // The operator's static vendor data, which all guests get. Vendor data of services is only in
        // `vendor_data2.json`.
        VENDOR_DATA => vendor_data.map(to_bytes),
        VENDOR_DATA_2 => Some(to_bytes(&vendor_data_2(vendor_data, about.said))),
        NETWORK_DATA => Some(to_bytes(&network_data(about))),
        _ => None,
    }
}

/// The vendor data of each service under the service's name, and the operator's file under `static`. If there is a
/// file, a service with the name `static` is ignored.
fn vendor_data_2(fixed: Option<&Value>, said: Option<&Map<String, Value>>) -> Value {
    let mut all = Map::new();
    all.extend(fixed.map(|fixed| ("static".to_owned(), fixed.clone())));
    for (name, what) in said.into_iter().flatten() {
        all.entry(name.as_str()).or_insert_with(|| what.clone());
    }
    Value::Object(all)
}

/// The content of `meta_data.json`.
fn meta_data(about: &GuestMetadata<'_>, version: &str, seed: &str) -> Value {
    let request = &about.server.request;
    let mut data = json!({
        "uuid": request.instance.to_string(),
        "hostname": about.hostname(),
        "name": request.name,
        "launch_index": request.launch_index,
        "availability_zone": about.availability_zone(),
    });
    if !request.metadata.is_empty() {
        data["meta"] = request.metadata.iter().map(|(k, v)| (k.clone(), Value::from(v.clone()))).collect();
    }
    let files = about.server.files.iter().enumerate();
    let files: Vec<Value> =
        files.map(|(number, (path, _))| json!({"path": path, "content_path": place(number)})).collect();
    if !files.is_empty() {
        data["files"] = json!(files);
    }
    if let Some(key) = &request.key {
        data["public_keys"] = json!({ &key.name: key.public_key });
        data["keys"] = json!([{ "name": key.name, "type": key.kind, "data": key.public_key }]);
    }
    if let Some(password) = about.password {
        data["admin_pass"] = json!(password);
    }
    let later = [
        ("random_seed", GRIZZLY, json!(seed)),
        ("project_id", LIBERTY, json!(request.project.as_str())),
        ("devices", NEWTON_ONE, json!(devices::tagged(about, has(version, Some(ROCKY))))),
        ("dedicated_cpus", VICTORIA, json!(dedicated_cpus(about.server))),
    ];
    for (key, since, value) in later {
        if has(version, Some(since)) {
            data[key] = value;
        }
    }
    data
}

/// The path of a file's content, below `openstack`.
pub(super) fn place(number: usize) -> String {
    format!("/content/{number:04}")
}

/// Those of the guest's CPUs that have a dedicated processor of the host.
fn dedicated_cpus(server: &Alive) -> BTreeSet<u32> {
    let asked = topology::ask(&server.request.flavor, server.hardware_image()).ok().flatten();
    asked.into_iter().flat_map(|topology| topology.nodes).flat_map(|node| node.dedicated).collect()
}

/// The content of `network_data.json`: links, networks, services.
fn network_data(about: &GuestMetadata<'_>) -> Value {
    let mut links = Vec::new();
    let mut networks = Vec::new();
    let mut services: Vec<Value> = Vec::new();
    for nic in &about.server.nics {
        let port = nic.port.to_string();
        let link = format!("tap{}", &port[..11]);
        let plugged = about.plugged.iter().find(|plugged| plugged.port == nic.port);
        links.push(json!({
            "id": link, "vif_id": port, "type": link_type(plugged.map(|plugged| &plugged.plug)), "mtu": nic.mtu,
            "ethernet_mac_address": nic.mac,
        }));
        for ip in &nic.fixed_ips {
            networks.push(network(networks.len(), &link, nic, ip));
            for dns in &ip.dns {
                let service = json!({ "type": "dns", "address": dns });
                if !services.contains(&service) {
                    services.push(service);
                }
            }
        }
    }
    json!({ "links": links, "networks": networks, "services": services })
}

/// The type of a link. Nova shows guests Neutron's word for the port's binding, but only the words of
/// `LEGACY_EXPOSED_VIF_TYPES` (`nova/network/model.py`). Any other link is `phy`.
fn link_type(plug: Option<&NicPlug>) -> &'static str {
    match plug {
        Some(NicPlug::Network | NicPlug::Bridge { .. }) => "bridge",
        Some(NicPlug::OpenVswitch { .. }) => "ovs",
        Some(NicPlug::Tap) => "tap",
        Some(NicPlug::Device(device)) => match device.form {
            NicDeviceForm::HostDevice | NicDeviceForm::Macvtap => "hw_veb",
            NicDeviceForm::WholeCard | NicDeviceForm::Vdpa => "phy",
        },
        None => "phy",
    }
}

fn network(number: usize, link: &str, nic: &NicInfo, ip: &FixedIp) -> Value {
    let family = if ip.address.contains(':') { 6 } else { 4 };
    let mut entry = json!({
        "id": format!("network{number}"), "link": link, "network_id": nic.network.to_string(),
        "type": if ip.dhcp { format!("ipv{family}_dhcp") } else { format!("ipv{family}") },
    });
    if !ip.dhcp {
        entry["ip_address"] = json!(ip.address);
        entry["netmask"] = json!(netmask(family, ip.prefix));
        let default = if family == 4 { "0.0.0.0" } else { "::" };
        entry["routes"] = match &ip.gateway {
            Some(gateway) => json!([{ "network": default, "netmask": default, "gateway": gateway }]),
            None => json!([]),
        };
    }
    entry
}

fn netmask(family: u8, prefix: u8) -> String {
    if family == 6 {
        let bits = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
        return std::net::Ipv6Addr::from(bits).to_string();
    }
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    std::net::Ipv4Addr::from(bits).to_string()
}

#[cfg(test)]
mod tests {
    use chronova_hypervisor::guest::{NicDevice, NicDeviceForm, NicPlug};

    use super::{link_type, netmask, versions};

    /// Nova's schema of `network_data.json` knows no prefix lengths.
    #[test]
    fn masks_are_addresses() {
        for (family, prefix, mask) in [
            (4, 0, "0.0.0.0"),
            (4, 22, "255.255.252.0"),
            (4, 32, "255.255.255.255"),
            (6, 0, "::"),
            (6, 64, "ffff:ffff:ffff:ffff::"),
            (6, 128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            assert_eq!(netmask(family, prefix), mask);
        }
    }

    #[test]
    fn links_have_the_types_that_nova_shows_to_guests() {
        let device = |form| NicPlug::Device(NicDevice { form, vlan: None, device: None, name: None });
        let bridge = || "br-int".to_owned();
        for (plug, word) in [
            (NicPlug::Network, "bridge"),
            (NicPlug::Bridge { bridge: bridge() }, "bridge"),
            (NicPlug::OpenVswitch { bridge: bridge() }, "ovs"),
            (NicPlug::Tap, "tap"),
            (device(NicDeviceForm::HostDevice), "hw_veb"),
            (device(NicDeviceForm::Macvtap), "hw_veb"),
            (device(NicDeviceForm::WholeCard), "phy"),
            (device(NicDeviceForm::Vdpa), "phy"),
        ] {
            assert_eq!(link_type(Some(&plug)), word, "{plug:?}");
        }
        assert_eq!(link_type(None), "phy");
    }

    #[test]
    fn versions_of_the_future_are_not_listed() {
        assert_eq!(versions("2013-10-16").collect::<Vec<_>>(), ["2012-08-10", "2013-04-04", "latest"]);
        assert_eq!(versions("2013-10-17").count(), 4);
        assert_eq!(versions("9999-12-31").count(), 11);
    }
}
