//! Filters that compare a host's capabilities with the flavor's extra specs.

use chronova_events::instance::{Alive, status};
use serde_json::{Value, json};

use super::filter::{Filter, PLAIN};
use crate::scheduler::comparison::matches;
use crate::scheduler::context::HostState;

pub(super) const COMPUTE_CAPABILITIES: Filter = Filter {
    name: "ComputeCapabilitiesFilter",
    applies: |context| context.request.flavor.extra_specs.iter().any(|(key, _)| names_a_capability(key)),
    passes: |host| unmet(host).is_none(),
    says: |host| {
        let Some((key, wanted, found)) = unmet(host) else { return String::new() };
        format!("{key}: wants {wanted}, is {}", found.as_deref().unwrap_or("unknown"))
    },
    lacks: |_| "no host has the capabilities that the flavor's extra specs ask for".to_owned(),
    ..PLAIN
};

fn names_a_capability(key: &str) -> bool {
    !key.contains(':') || key.starts_with("capabilities:")
}

/// The first extra spec that the host does not meet, its required value, and the host's value.
fn unmet<'a>(host: &HostState<'a>) -> Option<(&'a str, &'a str, Option<String>)> {
    host.context.request.flavor.extra_specs.iter().find_map(|(key, wanted)| {
        if !names_a_capability(key) {
            return None;
        }
        let scoped = key.strip_prefix("capabilities:");
        let path: Vec<&str> = scoped.unwrap_or(key).split(':').collect();
        let found = attribute(host, &path);
        match (&found, scoped) {
            // A key without a scope may be for another filter.
            (None, None) => None,
            (None, Some(_)) => Some((key.as_str(), wanted.as_str(), None)),
            (Some(value), _) => {
                let text = text(value);
                (!matches(&text, wanted)).then_some((key.as_str(), wanted.as_str(), Some(text)))
            }
        }
    })
}

/// The host's value of an attribute of Nova's `HostState`.
pub(super) fn attribute(host: &HostState<'_>, path: &[&str]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let known = host.row.facts.as_ref().map(|facts| &facts.capabilities);
    let mut value = match *first {
        "host" | "hypervisor_hostname" | "nodename" => json!(host.row.name),
        "uuid" => json!(host.row.id.to_string()),
        "host_ip" => json!(known?.host_ip),
        "hypervisor_type" => json!(known?.hypervisor_type),
        "hypervisor_version" => json!(known?.hypervisor_version),
        "cpu_info" => {
            let known = known?;
            json!({
                "arch": known.cpu_arch,
                "model": known.cpu_model,
                "vendor": known.cpu_vendor,
                "topology": {"sockets": known.cpu_sockets, "cores": known.cpu_cores, "threads": known.cpu_threads},
                "features": known.cpu_features,
            })
        }
        "free_ram_mb" => whole(host.plainly_free("MEMORY_MB")),
        "free_disk_mb" => whole(host.plainly_free("DISK_GB") * 1024.0),
        "total_usable_ram_mb" => json!(host.total("MEMORY_MB")),
        "total_usable_disk_gb" => json!(host.total("DISK_GB")),
        "disk_mb_used" => json!(host.used("DISK_GB").saturating_mul(1024)),
        "vcpus_total" => json!(host.total("VCPU")),
        "vcpus_used" => json!(host.used("VCPU")),
        "num_instances" => json!(host.num_instances()),
        "num_io_ops" => json!(host.num_io_ops()),
        "failed_builds" => json!(host.row.failed_builds),
        "cpu_allocation_ratio" => json!(host.line("VCPU")?.allocation_ratio),
        "ram_allocation_ratio" => json!(host.line("MEMORY_MB")?.allocation_ratio),
        "disk_allocation_ratio" => json!(host.line("DISK_GB")?.allocation_ratio),
        "io_workload" => json!(host.num_io_ops()),
        other => json!(servers_counted(host, other)?),
    };
    for key in rest {
        value = value.get_mut(*key)?.take();
    }
    (!value.is_null()).then_some(value)
}

/// The value of a statistic of Nova's `compute/stats.py`: the number of the host's servers with a state, task, project
/// or operating system. `None` if there is no such statistic.
fn servers_counted(host: &HostState<'_>, name: &str) -> Option<usize> {
    let (kind, wanted) = ["num_vm_", "num_task_", "num_proj_", "num_os_type_"]
        .into_iter()
        .find_map(|kind| name.strip_prefix(kind).map(|wanted| (kind, wanted)))?;
    let has = |server: &Alive| match kind {
        "num_vm_" => status::of_alive(server).vm_state == wanted,
        "num_task_" => status::of_alive(server).task_state.unwrap_or("None") == wanted,
        "num_proj_" => server.request.project.as_str() == wanted,
        _ => os_type(server).unwrap_or("None") == wanted,
    };
    let servers = host.row.servers.iter().filter_map(|server| host.context.servers.get(*server));
    Some(servers.filter(|row| row.server().is_some_and(has)).count())
}

fn os_type(server: &Alive) -> Option<&str> {
    let mut properties = server.hardware_image()?.properties.iter();
    properties.find(|(key, _)| key == "os_type").map(|(_, value)| value.as_str())
}

#[allow(clippy::cast_possible_truncation)] // amounts of memory and disk
fn whole(value: f64) -> Value {
    json!(value as i64)
}

/// The value as Python prints it, because the documented comparisons use that text.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| item.as_str().map_or_else(|| text(item), |item| format!("'{item}'"))).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}
