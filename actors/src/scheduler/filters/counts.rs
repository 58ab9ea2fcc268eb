//! Filters on the numbers of servers and of tasks on a host.

use super::filter::{Filter, PLAIN};
use crate::scheduler::look::HostState;

pub(super) const IO_OPS: Filter = Filter {
    name: "IoOpsFilter",
    passes: |seen| seen.num_io_ops() < seen.look.options.max_io_ops_per_host,
    says: |seen| io_ops_words(seen, seen.look.options.max_io_ops_per_host),
    lacks: |_| BUSY.to_owned(),
    ..PLAIN
};

pub(super) const AGGREGATE_IO_OPS: Filter = Filter {
    name: "AggregateIoOpsFilter",
    passes: |seen| seen.num_io_ops() < max_io_ops(seen),
    says: |seen| io_ops_words(seen, max_io_ops(seen)),
    lacks: |_| BUSY.to_owned(),
    ..PLAIN
};

pub(super) const NUM_INSTANCES: Filter = Filter {
    name: "NumInstancesFilter",
    passes: |seen| seen.num_instances() < seen.look.options.max_instances_per_host,
    says: |seen| instances_words(seen, seen.look.options.max_instances_per_host),
    lacks: |_| CROWDED.to_owned(),
    ..PLAIN
};

pub(super) const AGGREGATE_NUM_INSTANCES: Filter = Filter {
    name: "AggregateNumInstancesFilter",
    passes: |seen| seen.num_instances() < max_instances(seen),
    says: |seen| instances_words(seen, max_instances(seen)),
    lacks: |_| CROWDED.to_owned(),
    ..PLAIN
};

const BUSY: &str = "every host with room builds or moves as many servers as it may";
const CROWDED: &str = "every host with room has as many servers as it may have";

fn max_io_ops(seen: &HostState<'_>) -> u32 {
    seen.least("max_io_ops_per_host", seen.look.options.max_io_ops_per_host)
}

fn max_instances(seen: &HostState<'_>) -> u32 {
    seen.least("max_instances_per_host", seen.look.options.max_instances_per_host)
}

fn io_ops_words(seen: &HostState<'_>, most: u32) -> String {
    format!("servers being built or moved: {} of at most {most}", seen.num_io_ops())
}

fn instances_words(seen: &HostState<'_>, most: u32) -> String {
    format!("servers: {} of at most {most}", seen.num_instances())
}
