//! Filters on NUMA cells, PCI devices and metrics.
//!
//! Hosts report metrics only if the operator wants them (`[DEFAULT] compute_monitors`). As in Nova, a host without a
//! metric that is weighed does not pass the filter on metrics.

use super::filter::{Filter, PLAIN};
use crate::scheduler::context::{HostState, SchedulingContext};
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
    // The list of cells is empty, because the filter on NUMA cells checks which devices are near the guest's nodes.
    passes: |host| host.passed(&[]).is_ok(),
    says: |host| host.passed(&[]).err().unwrap_or_default(),
    lacks: |context| context.lacks_devices(),
    ..PLAIN
};

pub(super) const METRICS: Filter = Filter {
    name: "MetricsFilter",
    applies: |context| !context.options.metrics_weight_setting.is_empty(),
    passes: |host| missing_metrics(host).next().is_none(),
    says: |host| format!("metrics: the host does not report {}", missing_metrics(host).collect::<Vec<_>>().join(", ")),
    lacks: |_| "no host reports the metrics that are weighed".to_owned(),
    ..PLAIN
};

fn missing_metrics<'a>(host: &HostState<'a>) -> impl Iterator<Item = &'a str> {
    let host = *host;
    let weighed = host.context.options.metrics_weight_setting.keys().map(String::as_str);
    weighed.filter(move |name| host.metric(name).is_none())
}

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
