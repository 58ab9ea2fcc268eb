//! The files of `openstack/VERSION`.

use std::collections::BTreeSet;

use chronova_events::instance::{Alive, FixedIp, NicInfo};
use serde_json::{Value, json};

use super::{About, File, seed, to_bytes};
use crate::topology;

/// The first version that has something; `None`: all have it.
type Since = Option<&'static str>;

/// Oldest first; `latest` stands for the newest.
const VERSIONS: [&str; 10] =
    ["2012-08-10", GRIZZLY, HAVANA, LIBERTY, NEWTON_ONE, NEWTON_TWO, "2017-02-22", "2018-08-27", VICTORIA, "latest"];
const GRIZZLY: &str = "2013-04-04";
const HAVANA: &str = "2013-10-17";
const LIBERTY: &str = "2015-10-15";
const NEWTON_ONE: &str = "2016-06-30";
const NEWTON_TWO: &str = "2016-10-06";
const VICTORIA: &str = "2020-10-14";

/// Versions are dates, and every date comes before `latest`.
fn has(version: &str, since: Since) -> bool {
    since.is_none_or(|since| version >= since)
}

pub(super) fn files(about: &About<'_>, user_data: Option<&[u8]>) -> Result<Vec<File>, String> {
    let seed = seed()?;
    let (static_data, vendor_data) = vendor_data(about);
    let network = to_bytes(&network_data(&about.server.nics));
    let mut files = Vec::new();
    for version in VERSIONS {
        let all: [(&str, Since, Option<Vec<u8>>); 5] = [
            ("meta_data.json", None, Some(to_bytes(&meta_data(about, version, &seed)))),
            ("user_data", None, user_data.map(<[u8]>::to_vec)),
            ("vendor_data.json", Some(HAVANA), Some(static_data.clone())),
            ("network_data.json", Some(LIBERTY), Some(network.clone())),
            ("vendor_data2.json", Some(NEWTON_TWO), Some(vendor_data.clone())),
        ];
        for (name, since, content) in all {
            if let Some(content) = content.filter(|_| has(version, since)) {
                files.push((format!("openstack/{version}/{name}"), content));
            }
        }
    }
    Ok(files)
}

/// What the deployer tells all guests: by itself, and beside what other providers would say.
fn vendor_data(about: &About<'_>) -> (Vec<u8>, Vec<u8>) {
    match &about.options.vendor_data {
        Some(data) => (to_bytes(data), to_bytes(&json!({ "static": **data }))),
        None => (b"{}".to_vec(), b"{}".to_vec()),
    }
}

/// `meta_data.json`.
fn meta_data(about: &About<'_>, version: &str, seed: &str) -> Value {
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
        ("devices", NEWTON_ONE, json!([])),
        ("dedicated_cpus", VICTORIA, json!(dedicated_cpus(about.server))),
    ];
    for (key, since, value) in later {
        if has(version, Some(since)) {
            data[key] = value;
        }
    }
    data
}

/// The guest's CPUs that have a processor of their host to themselves.
fn dedicated_cpus(server: &Alive) -> BTreeSet<u32> {
    let asked = topology::ask(&server.request.flavor, server.hardware_image()).ok().flatten();
    asked.into_iter().flat_map(|topology| topology.nodes).flat_map(|node| node.dedicated).collect()
}

/// `network_data.json`: links, networks, services.
fn network_data(nics: &[NicInfo]) -> Value {
    let mut links = Vec::new();
    let mut networks = Vec::new();
    let mut services: Vec<Value> = Vec::new();
    for nic in nics {
        let port = nic.port.to_string();
        let link = format!("tap{}", &port[..11]);
        links.push(json!({
            "id": link, "vif_id": port, "type": "bridge", "mtu": nic.mtu, "ethernet_mac_address": nic.mac,
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
        return prefix.to_string();
    }
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    std::net::Ipv4Addr::from(bits).to_string()
}
