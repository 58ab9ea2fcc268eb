//! Filters on the numbers of servers and of tasks on a host.

use super::filter::{Filter, PLAIN};
use crate::scheduler::context::HostState;

pub(super) const IO_OPS: Filter = Filter {
    name: "IoOpsFilter",
    passes: |host| host.num_io_ops() < host.context.options.max_io_ops_per_host,
    says: |host| io_ops_words(host, host.context.options.max_io_ops_per_host),
    lacks: |_| BUSY.to_owned(),
    ..PLAIN
};

pub(super) const AGGREGATE_IO_OPS: Filter = Filter {
    name: "AggregateIoOpsFilter",
    passes: |host| host.num_io_ops() < max_io_ops(host),
    says: |host| io_ops_words(host, max_io_ops(host)),
    lacks: |_| BUSY.to_owned(),
    ..PLAIN
};

pub(super) const NUM_INSTANCES: Filter = Filter {
    name: "NumInstancesFilter",
    passes: |host| host.num_instances() < host.context.options.max_instances_per_host,
    says: |host| instances_words(host, host.context.options.max_instances_per_host),
    lacks: |_| CROWDED.to_owned(),
    ..PLAIN
};

pub(super) const AGGREGATE_NUM_INSTANCES: Filter = Filter {
    name: "AggregateNumInstancesFilter",
    passes: |host| host.num_instances() < max_instances(host),
    says: |host| instances_words(host, max_instances(host)),
    lacks: |_| CROWDED.to_owned(),
    ..PLAIN
};

const BUSY: &str = "every host with room builds or moves as many servers as it may";
const CROWDED: &str = "every host with room has as many servers as it may have";

fn max_io_ops(host: &HostState<'_>) -> u32 {
    host.least("max_io_ops_per_host", host.context.options.max_io_ops_per_host)
}

fn max_instances(host: &HostState<'_>) -> u32 {
    host.least("max_instances_per_host", host.context.options.max_instances_per_host)
}

fn io_ops_words(host: &HostState<'_>, most: u32) -> String {
    format!("servers being built or moved: {} of at most {most}", host.num_io_ops())
}

fn instances_words(host: &HostState<'_>, most: u32) -> String {
    format!("servers: {} of at most {most}", host.num_instances())
}
