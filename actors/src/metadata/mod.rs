//! What a guest finds on its config drive: the files of `openstack/latest` and its dated twins.
//!
//! Source: nova `api/metadata/base.py`, version 2018-08-27 of the OpenStack metadata format.

use bytes::Bytes;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Alive, NicInfo};
use chronova_hypervisor::iso9660;
use serde_json::{Value, json};

/// The drive as an ISO9660 image with the label `config-2`.
pub fn image(server: &Alive, instance: InstanceId, password: Option<&str>) -> Result<Bytes, String> {
    iso9660::write("config-2", &files(server, instance, password)?).map(Bytes::from).map_err(|error| error.to_string())
}

/// Paths and contents of all files. `password`: of the guest's administrator, where one was just asked for.
pub fn files(server: &Alive, instance: InstanceId, password: Option<&str>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut about = meta_data(server, instance);
    if let Some(password) = password {
        about["admin_pass"] = json!(password);
    }
    let mut latest = vec![
        ("meta_data.json", to_bytes(&about)),
        ("network_data.json", to_bytes(&network_data(&server.nics))),
        ("vendor_data.json", b"{}".to_vec()),
    ];
    if let Some(user_data) = &server.request.user_data {
        latest.push(("user_data", decode_base64(user_data)?));
    }
    let mut all = Vec::new();
    for version in ["2018-08-27", "latest"] {
        all.extend(latest.iter().map(|(name, content)| (format!("openstack/{version}/{name}"), content.clone())));
    }
    Ok(all)
}

fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// `meta_data.json`.
pub fn meta_data(server: &Alive, instance: InstanceId) -> Value {
    let request = &server.request;
    let mut data = json!({
        "uuid": instance.to_string(),
        "hostname": request.hostname,
        "name": request.name,
        "launch_index": request.launch_index,
        "availability_zone": server.placement.as_ref().map(|placed| placed.availability_zone.clone()),
        "project_id": request.project.as_str(),
        "devices": [],
    });
    if !request.metadata.is_empty() {
        data["meta"] = request.metadata.iter().map(|(k, v)| (k.clone(), Value::from(v.clone()))).collect();
    }
    if let Some(key) = &request.key {
        data["public_keys"] = json!({ &key.name: key.public_key });
        data["keys"] = json!([{ "name": key.name, "type": key.kind, "data": key.public_key }]);
    }
    data
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

fn network(number: usize, link: &str, nic: &NicInfo, ip: &chronova_events::instance::FixedIp) -> Value {
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

fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    use base64::Engine;
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(packed).map_err(|error| format!("user data: {error}"))
}
