//! A hypervisor's fields, and the microversions that have them.

use chronova_events::host::KnownHost;
use serde_json::{Value, json};

use crate::fields::{FieldTable, field};
use crate::schema::{Schema, array, choice, object, req, shape};

/// The capacity of a host, and its used part.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostLoad {
    pub vcpus: u64,
    pub vcpus_used: u64,
    pub memory_mib: u64,
    pub memory_used_mib: u64,
    pub disk_gib: u64,
    pub disk_used_gib: u64,
    /// The free disk space that the host reports. If the host reports none, the capacity minus the used part.
    pub disk_free_gib: u64,
    /// The number of servers on the host, running or not. Nova calls it `running_vms`.
    pub servers: u64,
    /// The number of servers with a task.
    pub busy: u64,
}

/// A hypervisor about to be shown.
#[derive(Debug)]
pub struct HypervisorView {
    pub host: KnownHost,
    pub load: HostLoad,
    /// Name and id of each server; `None` leaves the key out.
    pub servers: Option<Vec<(String, String)>>,
    pub uptime: Option<String>,
    /// The number of the host's service, which versions without UUIDs show as the id.
    pub service_number: u64,
}

pub fn state(host: &KnownHost) -> &'static str {
    if host.answers() { "up" } else { "down" }
}

pub fn status(host: &KnownHost) -> &'static str {
    if host.enabled { "enabled" } else { "disabled" }
}

fn cpu_info(view: &HypervisorView) -> Value {
    let has = &view.host.capabilities;
    json!({
        "arch": has.cpu_arch,
        "model": has.cpu_model,
        "vendor": has.cpu_vendor,
        "features": has.cpu_features,
        "topology": {"cores": has.cpu_cores, "threads": has.cpu_threads, "sockets": has.cpu_sockets},
    })
}

fn service(view: &HypervisorView, id: &Value) -> Value {
    json!({"id": id, "host": view.host.hostname, "disabled_reason": view.host.disabled_reason})
}

fn servers(view: &HypervisorView) -> Value {
    view.servers.iter().flatten().map(|(name, uuid)| json!({"name": name, "uuid": uuid})).collect()
}

fn state_shape() -> Schema {
    choice(["up", "down"])
}

fn status_shape() -> Schema {
    choice(["enabled", "disabled"])
}

fn service_shape(id: Schema) -> Schema {
    object([req("id", id), req("host", shape::string()), req("disabled_reason", shape::string_or_null())])
}

fn numbered_service() -> Schema {
    service_shape(shape::integer())
}

fn named_service() -> Schema {
    service_shape(shape::uuid())
}

fn cpu_info_shape() -> Schema {
    let counts = ["cores", "threads", "sockets"].map(|name| req(name, shape::integer()));
    object([
        req("arch", shape::string()),
        req("model", shape::string()),
        req("vendor", shape::string()),
        req("features", shape::strings()),
        req("topology", object(counts)),
    ])
}

fn servers_shape() -> Schema {
    array(object([req("name", shape::string()), req("uuid", shape::uuid())]))
}

/// The fields in the replies for one hypervisor and for the list `detail`.
pub static HYPERVISOR: FieldTable<HypervisorView> = FieldTable::new(&[
    field("id", shape::integer, |v: &HypervisorView| json!(v.host.number)).until(2, 52),
    field("id", shape::uuid, |v: &HypervisorView| json!(v.host.id)).since(2, 53),
    field("hypervisor_hostname", shape::string, |v: &HypervisorView| json!(v.host.hostname)),
    field("state", state_shape, |v: &HypervisorView| json!(state(&v.host))),
    field("status", status_shape, |v: &HypervisorView| json!(status(&v.host))),
    field("vcpus", shape::integer, |v: &HypervisorView| json!(v.load.vcpus)).until(2, 87),
    field("memory_mb", shape::integer, |v: &HypervisorView| json!(v.load.memory_mib)).until(2, 87),
    field("local_gb", shape::integer, |v: &HypervisorView| json!(v.load.disk_gib)).until(2, 87),
    field("vcpus_used", shape::integer, |v: &HypervisorView| json!(v.load.vcpus_used)).until(2, 87),
    field("memory_mb_used", shape::integer, |v: &HypervisorView| json!(v.load.memory_used_mib)).until(2, 87),
    field("local_gb_used", shape::integer, |v: &HypervisorView| json!(v.load.disk_used_gib)).until(2, 87),
    field("hypervisor_type", shape::string, |v: &HypervisorView| json!(v.host.capabilities.hypervisor_type)),
    field("hypervisor_version", shape::integer, |v: &HypervisorView| json!(v.host.capabilities.hypervisor_version)),
    field("free_ram_mb", shape::integer, |v: &HypervisorView| {
        json!(v.load.memory_mib.saturating_sub(v.load.memory_used_mib))
    })
    .until(2, 87),
    field("free_disk_gb", shape::integer, |v: &HypervisorView| {
        json!(v.load.disk_gib.saturating_sub(v.load.disk_used_gib))
    })
    .until(2, 87),
    field("current_workload", shape::integer, |v: &HypervisorView| json!(v.load.busy)).until(2, 87),
    field("running_vms", shape::integer, |v: &HypervisorView| json!(v.load.servers)).until(2, 87),
    field("disk_available_least", shape::integer, |v: &HypervisorView| json!(v.load.disk_free_gib)).until(2, 87),
    field("host_ip", shape::string, |v: &HypervisorView| json!(v.host.capabilities.host_ip)),
    field("service", numbered_service, |v: &HypervisorView| service(v, &json!(v.service_number))).until(2, 52),
    field("service", named_service, |v: &HypervisorView| service(v, &json!(v.host.id))).since(2, 53),
    field("uptime", shape::string_or_null, |v: &HypervisorView| json!(v.uptime)).since(2, 88),
    field("cpu_info", shape::string, |v: &HypervisorView| json!(cpu_info(v).to_string())).until(2, 27),
    field("cpu_info", cpu_info_shape, cpu_info).since(2, 28).until(2, 87),
    field("servers", servers_shape, servers).when(|v| v.servers.is_some()),
]);

/// The fields in lists and searches.
pub static BRIEF: FieldTable<HypervisorView> = FieldTable::new(&[
    field("id", shape::integer, |v: &HypervisorView| json!(v.host.number)).until(2, 52),
    field("id", shape::uuid, |v: &HypervisorView| json!(v.host.id)).since(2, 53),
    field("hypervisor_hostname", shape::string, |v: &HypervisorView| json!(v.host.hostname)),
    field("state", state_shape, |v: &HypervisorView| json!(state(&v.host))),
    field("status", status_shape, |v: &HypervisorView| json!(status(&v.host))),
    field("servers", servers_shape, servers).when(|v| v.servers.is_some()),
]);
