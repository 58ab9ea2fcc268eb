//! Filters on NUMA cells, PCI devices and metrics.
//!
//! Hosts report their NUMA cells and PCI devices, but no metrics. So when the filter on metrics applies, no host
//! passes. In Nova, a host without the metric does not pass, either.

use super::filter::{Filter, PLAIN};
use crate::scheduler::context::SchedulingContext;
use crate::topology::GuestNumaTopology;

pub(super) const NUMA_TOPOLOGY: Filter = Filter {
    name: "NUMATopologyFilter",
    always: true,
    applies: |context| !matches!(context.topology, Ok(None)),
    passes: |host| host.fitting().is_ok(),
    says: |host| format!("NUMA: {}", host.fitting().err().unwrap_or_default()),
    lacks,
    ..PLAIN
};

pub(super) const PCI_PASSTHROUGH: Filter = Filter {
    name: "PciPassthroughFilter",
    always: true,
    applies: |context| !matches!(&context.devices, Ok(devices) if devices.is_empty()),
    // The filter on NUMA cells looks for devices near the guest's nodes.
    passes: |host| host.passed(&[]).is_ok(),
    says: |host| host.passed(&[]).err().unwrap_or_default(),
    lacks: |context| match &context.devices {
        Err(reason) => reason.clone(),
        Ok(_) => "no suitable host has free PCI devices of the kind that the flavor asks for".to_owned(),
    },
    ..PLAIN
};

pub(super) const METRICS: Filter = Filter {
    name: "MetricsFilter",
    applies: |context| !context.options.metrics_weight_setting.is_empty(),
    passes: |_| false,
    says: |host| {
        let names: Vec<&str> = host.context.options.metrics_weight_setting.keys().map(String::as_str).collect();
        format!("metrics: wants {}, the host reports none", names.join(", "))
    },
    lacks: |_| "no host reports the metrics that are weighed".to_owned(),
    ..PLAIN
};

/// The message for users if no host passes `NUMATopologyFilter`. It names the error in the request, or else what all
/// hosts lack.
fn lacks(context: &SchedulingContext<'_>) -> String {
    match &context.topology {
        Err(reason) => reason.trim_end_matches('.').to_owned(),
        _ if context.placement.ledger.cells.is_empty() => {
            "no host reports its NUMA topology, which the flavor or the image asks for".to_owned()
        }
        Ok(Some(topology)) if topology.is_pinned() && context.fleet.column("PCPU").is_none() => {
            "no host has dedicated CPUs ([compute] cpu_dedicated_set), which the flavor or the image asks for"
                .to_owned()
        }
        Ok(topology) => {
            let wanted = topology.as_ref().map(GuestNumaTopology::words).unwrap_or_default();
            format!("no suitable host has NUMA cells with room for {wanted}")
        }
    }
}
