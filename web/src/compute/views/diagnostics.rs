//! What a running guest has used: as libvirt says it, and since 2.48 in one form for all hypervisors.
//!
//! Source: the Compute API reference; what cannot be told is null there, and left out of the older form.

use chronova_events::envelope::Timestamp;
use chronova_events::instance::Alive;
use chronova_hypervisor::guest::{Diagnostics, DiskCounters, NicCounters};
use serde_json::{Map, Value, json};

/// Until 2.47: libvirt's own names.
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

/// Since 2.48.
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
