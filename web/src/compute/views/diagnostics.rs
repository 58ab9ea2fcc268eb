//! The diagnostics of a running guest: in libvirt's form, and since 2.48 in one form for all hypervisors.
//!
//! Source: the Compute API reference. A counter that the host does not have is -1 in both forms. Other unknown values
//! are null, and omitted in the older form.

use chronova_events::envelope::Timestamp;
use chronova_events::instance::Alive;
use chronova_hypervisor::guest::{Diagnostics, DiskCounters, NicCounters};
use serde_json::{Map, Value, json};

use crate::schema::{Schema, array, object, req, shape};

/// Until 2.47 a map of counters, since 2.48 the standard form.
pub fn diagnostics_shape() -> Schema {
    shape::map_of(shape::integer()).from(2, 48, standard_shape())
}

/// The form until 2.47, with libvirt's own names.
pub fn of_libvirt(seen: &Diagnostics) -> Value {
    let mut map = Map::new();
    for (number, time) in seen.cpu_nanoseconds.iter().enumerate() {
        map.insert(format!("cpu{number}_time"), json!(time));
    }
    for disk in &seen.disks {
        let counts = [
            ("read_req", disk.read_requests),
            ("read", disk.read_bytes),
            ("write_req", disk.write_requests),
            ("write", disk.write_bytes),
            ("errors", disk.errors),
        ];
        map.extend(counts.map(|(name, count)| (format!("{}_{name}", disk.device), json!(count))));
    }
    for nic in &seen.nics {
        let counts = [
            ("rx", nic.rx_bytes),
            ("rx_packets", nic.rx_packets),
            ("rx_errors", nic.rx_errors),
            ("rx_drop", nic.rx_drop),
            ("tx", nic.tx_bytes),
            ("tx_packets", nic.tx_packets),
            ("tx_errors", nic.tx_errors),
            ("tx_drop", nic.tx_drop),
        ];
        map.extend(counts.map(|(name, count)| (format!("{}_{name}", nic.device), json!(count))));
    }
    map.insert("memory".to_owned(), json!(seen.memory_max_kib));
    map.extend(seen.memory.iter().map(|(name, value)| (format!("memory-{name}"), json!(value))));
    Value::Object(map)
}

/// The standard form since 2.48.
pub fn standard(seen: &Diagnostics, server: &Alive, now: Timestamp) -> Value {
    let uptime = server.launched_at.map(|at| now.0.saturating_sub(at.0).max(0) / 1_000_000);
    let cpus: Vec<Value> = seen
        .cpu_nanoseconds
        .iter()
        .enumerate()
        .map(|(id, time)| json!({"id": id, "time": time, "utilisation": null}))
        .collect();
    json!({
        "config_drive": server.request.config_drive,
        "cpu_details": cpus,
        "disk_details": seen.disks.iter().map(disk).collect::<Vec<_>>(),
        "driver": "libvirt",
        "hypervisor": seen.hypervisor,
        "hypervisor_os": "linux",
        "memory_details": {"maximum": seen.memory_max_kib / 1024, "used": seen.memory_kib / 1024},
        "nic_details": seen.nics.iter().map(nic).collect::<Vec<_>>(),
        "num_cpus": seen.cpu_nanoseconds.len(),
        "num_disks": seen.disks.len(),
        "num_nics": seen.nics.len(),
        "state": "running",
        "uptime": uptime,
    })
}

fn standard_shape() -> Schema {
    let cpu = object([
        req("id", shape::integer()),
        req("time", shape::integer()),
        req("utilisation", shape::integer_or_null()),
    ]);
    object([
        req("config_drive", shape::boolean()),
        req("cpu_details", array(cpu)),
        req("disk_details", array(disk_shape())),
        req("driver", shape::string()),
        req("hypervisor", shape::string()),
        req("hypervisor_os", shape::string()),
        req("memory_details", object([req("maximum", shape::integer()), req("used", shape::integer())])),
        req("nic_details", array(nic_shape())),
        req("num_cpus", shape::integer()),
        req("num_disks", shape::integer()),
        req("num_nics", shape::integer()),
        req("state", shape::string()),
        req("uptime", shape::integer_or_null()),
    ])
}

fn disk_shape() -> Schema {
    let counters = ["errors_count", "read_bytes", "read_requests", "write_bytes", "write_requests"];
    object(counters.map(|name| req(name, shape::integer())))
}

fn nic_shape() -> Schema {
    let counters =
        ["rx_drop", "rx_errors", "rx_octets", "rx_packets", "tx_drop", "tx_errors", "tx_octets", "tx_packets"];
    object(counters.map(|name| req(name, shape::integer()))).plus([
        req("mac_address", shape::string()),
        req("rx_rate", shape::integer_or_null()),
        req("tx_rate", shape::integer_or_null()),
    ])
}

fn disk(disk: &DiskCounters) -> Value {
    json!({
        "errors_count": disk.errors,
        "read_bytes": disk.read_bytes,
        "read_requests": disk.read_requests,
        "write_bytes": disk.write_bytes,
        "write_requests": disk.write_requests,
    })
}

fn nic(nic: &NicCounters) -> Value {
    json!({
        "mac_address": nic.mac,
        "rx_drop": nic.rx_drop,
        "rx_errors": nic.rx_errors,
        "rx_octets": nic.rx_bytes,
        "rx_packets": nic.rx_packets,
        "rx_rate": null,
        "tx_drop": nic.tx_drop,
        "tx_errors": nic.tx_errors,
        "tx_octets": nic.tx_bytes,
        "tx_packets": nic.tx_packets,
        "tx_rate": null,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Diagnostics with one disk and one interface. The host does not have the counters that are -1.
    fn seen() -> Diagnostics {
        Diagnostics {
            hypervisor: "kvm".to_owned(),
            cpu_nanoseconds: vec![7, 8],
            memory_max_kib: 524_288,
            memory_kib: 262_144,
            memory: vec![("actual".to_owned(), 262_144), ("rss".to_owned(), 1_000)],
            disks: vec![DiskCounters {
                device: "vda".to_owned(),
                read_requests: 1,
                read_bytes: 2,
                write_requests: 3,
                write_bytes: 4,
                errors: -1,
            }],
            nics: vec![NicCounters {
                device: "tap0a".to_owned(),
                mac: "fa:16:3e:00:00:02".to_owned(),
                rx_bytes: 10,
                rx_packets: 11,
                rx_errors: -1,
                rx_drop: -1,
                tx_bytes: 14,
                tx_packets: 15,
                tx_errors: -1,
                tx_drop: -1,
            }],
        }
    }

    /// Names and numbers as Nova's libvirt driver has them.
    #[test]
    fn before_2_48_it_is_a_flat_map_of_libvirts_names() {
        let expected = json!({
            "cpu0_time": 7, "cpu1_time": 8,
            "memory": 524_288, "memory-actual": 262_144, "memory-rss": 1_000,
            "vda_read_req": 1, "vda_read": 2, "vda_write_req": 3, "vda_write": 4, "vda_errors": -1,
            "tap0a_rx": 10, "tap0a_rx_packets": 11, "tap0a_rx_errors": -1, "tap0a_rx_drop": -1,
            "tap0a_tx": 14, "tap0a_tx_packets": 15, "tap0a_tx_errors": -1, "tap0a_tx_drop": -1,
        });
        assert_eq!(of_libvirt(&seen()), expected);
    }

    #[test]
    fn missing_counters_are_null() {
        let expected =
            json!({"errors_count": -1, "read_bytes": 2, "read_requests": 1, "write_bytes": 4, "write_requests": 3});
        assert_eq!(disk(&seen().disks[0]), expected);
        let expected = json!({"mac_address": "fa:16:3e:00:00:02", "rx_octets": 10, "rx_packets": 11, "rx_errors": -1,
            "rx_drop": -1, "rx_rate": null, "tx_octets": 14, "tx_packets": 15, "tx_errors": -1, "tx_drop": -1,
            "tx_rate": null});
        assert_eq!(nic(&seen().nics[0]), expected);
    }
}
