//! What needs facts that hosts do not tell yet: NUMA cells, PCI devices, metrics.
//!
//! A host whose facts are unknown does not pass: Nova's filters say the same of a host without NUMA topology, without PCI
//! pools or without the metric. So these filters never let a request through that nobody has looked at; they become useful
//! with the first host that tells.

use super::{Filter, PLAIN};
use crate::scheduler::look::Look;

pub(super) const NUMA_TOPOLOGY: Filter = Filter {
    name: "NUMATopologyFilter",
    always: true,
    applies: wants_topology,
    passes: |_| false,
    says: |_| "the server wants a NUMA topology, and the host does not tell its own".to_owned(),
    lacks: |_| "no host tells its NUMA topology, which the flavor or the image asks for".to_owned(),
    ..PLAIN
};

pub(super) const PCI_PASSTHROUGH: Filter = Filter {
    name: "PciPassthroughFilter",
    always: true,
    applies: |look| look.request.spec("pci_passthrough:alias").is_some(),
    passes: |_| false,
    says: |seen| {
        let alias = seen.look.request.spec("pci_passthrough:alias").unwrap_or_default();
        format!("PCI devices: wants {alias}, the host offers none")
    },
    lacks: |_| "no host offers the PCI devices that the flavor asks for".to_owned(),
    ..PLAIN
};

pub(super) const METRICS: Filter = Filter {
    name: "MetricsFilter",
    applies: |look| !look.options.metrics_weight_setting.is_empty(),
    passes: |_| false,
    says: |seen| {
        let names: Vec<&str> = seen.look.options.metrics_weight_setting.keys().map(String::as_str).collect();
        format!("metrics: wants {}, the host reports none", names.join(", "))
    },
    lacks: |_| "no host reports the metrics that are weighed".to_owned(),
    ..PLAIN
};

/// Whether the guest needs a NUMA topology: asked for, or implied by pinning and by pages other than the default
/// (`nova.virt.hardware.numa_get_constraints`).
fn wants_topology(look: &Look<'_>) -> bool {
    let request = look.request;
    let either = |spec: &str, property: &str| request.spec(spec).or_else(|| request.property(property));
    either("hw:numa_nodes", "hw_numa_nodes").is_some()
        || either("hw:mem_page_size", "hw_mem_page_size").is_some()
        || matches!(either("hw:cpu_policy", "hw_cpu_policy"), Some("dedicated" | "mixed"))
}
