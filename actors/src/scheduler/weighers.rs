//! Weighs the hosts that passed the filters.
//!
//! As in Nova's `BaseWeightHandler`, each weigher's values are normalised to 0..1 between their minimum and maximum,
//! and multiplied. Some weighers take 0 as the minimum. The host with the highest sum wins. If sums are equal, the
//! oldest host wins. The metadata of a host's aggregates can override a multiplier; if there are several values, the
//! smallest is used.

use chronova_events::instance::{WeighedHost, WeightPart};
use chronova_events::server_group::ServerGroupPolicy;
use chronova_projections::fleet::Slot;

use super::context::{HostState, SchedulingContext, number};
use super::options::Multipliers;

/// One weigher.
#[derive(Debug)]
pub struct Weigher {
    pub name: &'static str,
    /// The option, and the aggregate metadata that overrides it.
    key: &'static str,
    multiplier: fn(&Multipliers) -> f64,
    /// Whether values are normalised from 0 instead of from the lowest value. Values below 0 then count as 0.
    from_zero: bool,
    /// Whether the hosts can differ at all for this request.
    applies: fn(&SchedulingContext<'_>) -> bool,
    value: fn(&HostState<'_>) -> f64,
}

const PLAIN: Weigher =
    Weigher { name: "", key: "", multiplier: |_| 1.0, from_zero: false, applies: |_| true, value: |_| 0.0 };

/// All weighers.
pub const WEIGHERS: &[Weigher] = &[
    Weigher {
        name: "RAMWeigher",
        key: "ram_weight_multiplier",
        multiplier: |m| m.ram,
        from_zero: true,
        value: |host| host.plainly_free("MEMORY_MB"),
        ..PLAIN
    },
    Weigher {
        name: "CPUWeigher",
        key: "cpu_weight_multiplier",
        multiplier: |m| m.cpu,
        from_zero: true,
        value: |host| host.free_cpus(),
        ..PLAIN
    },
    Weigher {
        name: "DiskWeigher",
        key: "disk_weight_multiplier",
        multiplier: |m| m.disk,
        from_zero: true,
        value: |host| host.plainly_free("DISK_GB") * 1024.0,
        ..PLAIN
    },
    Weigher {
        name: "IoOpsWeigher",
        key: "io_ops_weight_multiplier",
        multiplier: |m| m.io_ops,
        from_zero: true,
        value: |host| f64::from(host.num_io_ops()),
        ..PLAIN
    },
    Weigher {
        name: "NumInstancesWeigher",
        key: "num_instances_weight_multiplier",
        multiplier: |m| m.num_instances,
        value: |host| f64::from(host.num_instances()),
        ..PLAIN
    },
    // Hosts with few free devices are preferred. So servers without devices stay away from hosts with devices, and
    // requests for devices fill up one host after the other.
    Weigher {
        name: "PCIWeigher",
        key: "pci_weight_multiplier",
        multiplier: |m| m.pci,
        from_zero: true,
        value: |host| {
            let free = host.free_devices().map_or(0, |free| free.count().min(99));
            number((100 - free) as u64)
        },
        ..PLAIN
    },
    Weigher {
        name: "ServerGroupSoftAffinityWeigher",
        key: "soft_affinity_weight_multiplier",
        multiplier: |m| m.soft_affinity,
        applies: |context| policy(context) == Some(ServerGroupPolicy::SoftAffinity),
        value: |host| f64::from(host.members()),
        ..PLAIN
    },
    Weigher {
        name: "ServerGroupSoftAntiAffinityWeigher",
        key: "soft_anti_affinity_weight_multiplier",
        multiplier: |m| m.soft_anti_affinity,
        applies: |context| policy(context) == Some(ServerGroupPolicy::SoftAntiAffinity),
        value: |host| -f64::from(host.members()),
        ..PLAIN
    },
    Weigher {
        name: "BuildFailureWeigher",
        key: "build_failure_weight_multiplier",
        // Failed builds lower a host's weight.
        multiplier: |m| m.build_failure,
        applies: |context| context.options.counts_build_failures,
        value: |host| -f64::from(host.row.failed_builds),
        ..PLAIN
    },
    Weigher {
        name: "HypervisorVersionWeigher",
        key: "hypervisor_version_weight_multiplier",
        multiplier: |m| m.hypervisor_version,
        value: |host| host.row.facts.as_ref().map_or(0.0, |facts| f64::from(facts.capabilities.hypervisor_version)),
        ..PLAIN
    },
    Weigher {
        name: "ImagePropertiesWeigher",
        key: "image_props_weight_multiplier",
        multiplier: |m| m.image_props,
        applies: |context| context.request.image.as_ref().is_some_and(|image| !image.properties.is_empty()),
        value: same_image_properties,
        ..PLAIN
    },
    Weigher {
        name: "MetricsWeigher",
        key: "metrics_weight_multiplier",
        multiplier: |m| m.metrics,
        applies: |context| !context.options.metrics_weight_setting.is_empty(),
        value: metrics,
        ..PLAIN
    },
    Weigher {
        name: "SchedulerHookWeigher",
        key: "scheduler_hook_weight_multiplier",
        multiplier: |m| m.hook,
        applies: |context| context.request.hook.is_some(),
        value: |host| host.context.request.hook.as_ref().map_or(0.0, |answers| answers.weight(host.row.id)),
        ..PLAIN
    },
];

/// The sum of the metrics, each times its ratio. If the host does not report one of them, the result is
/// `[metrics] weight_of_unavailable`.
fn metrics(host: &HostState<'_>) -> f64 {
    let options = host.context.options;
    let weighed = options.metrics_weight_setting.iter().map(|(name, ratio)| Some(host.metric(name)? * ratio));
    weighed.sum::<Option<f64>>().unwrap_or(options.metrics_weight_of_unavailable)
}

fn policy(context: &SchedulingContext<'_>) -> Option<ServerGroupPolicy> {
    context.group.as_ref().map(|group| group.policy)
}

/// The number of image properties that the servers on the host share with the request. Each property counts with its
/// weight, once for each server.
fn same_image_properties(host: &HostState<'_>) -> f64 {
    let Some(image) = &host.context.request.image else { return 0.0 };
    let setting = &host.context.options.image_props_weight_setting;
    let mut sum = 0.0;
    for server in &host.row.servers {
        let row = host.context.servers.get(*server).and_then(|row| row.server());
        let Some(own) = row.and_then(|server| server.request.image.as_ref()) else { continue };
        for property in image.properties.iter().filter(|property| own.properties.contains(property)) {
            sum += if setting.is_empty() { 1.0 } else { setting.get(&property.0).copied().unwrap_or(0.0) };
        }
    }
    sum
}

/// The class names of all weighers, for the configuration: Nova's, and one of our own for the scheduler hook. One of
/// these weighers has no effect in a single cell.
pub const CLASSES: [&str; 15] = [
    ALL,
    "nova.scheduler.weights.ram.RAMWeigher",
    "nova.scheduler.weights.cpu.CPUWeigher",
    "nova.scheduler.weights.disk.DiskWeigher",
    "nova.scheduler.weights.io_ops.IoOpsWeigher",
    "nova.scheduler.weights.num_instances.NumInstancesWeigher",
    "nova.scheduler.weights.pci.PCIWeigher",
    "nova.scheduler.weights.affinity.ServerGroupSoftAffinityWeigher",
    "nova.scheduler.weights.affinity.ServerGroupSoftAntiAffinityWeigher",
    "nova.scheduler.weights.compute.BuildFailureWeigher",
    "nova.scheduler.weights.hypervisor_version.HypervisorVersionWeigher",
    "nova.scheduler.weights.image_props.ImagePropertiesWeigher",
    "nova.scheduler.weights.metrics.MetricsWeigher",
    "nova.scheduler.weights.cross_cell.CrossCellWeigher",
    "chronova.scheduler.weights.SchedulerHookWeigher",
];

/// The name by which an option selects all weighers.
pub const ALL: &str = "nova.scheduler.weights.all_weighers";

/// One weigher's values for all candidates.
#[derive(Debug)]
struct WeigherScores {
    weigher: &'static Weigher,
    values: Vec<f64>,
    weights: Vec<f64>,
}

/// The candidates with their weights.
#[derive(Debug)]
pub struct WeighedHosts {
    slots: Vec<Slot>,
    totals: Vec<f64>,
    opinions: Vec<WeigherScores>,
}

/// Weighs the candidates. As in Nova, a single candidate is not weighed.
pub fn weigh(context: &SchedulingContext<'_>, slots: Vec<Slot>) -> WeighedHosts {
    let mut totals = vec![0.0_f64; slots.len()];
    let mut opinions = Vec::new();
    if slots.len() > 1 {
        for weigher in context.options.weighers.iter().filter_map(|name| named(name)) {
            let Some(opinion) = opinion(context, weigher, &slots) else { continue };
            for (total, weight) in totals.iter_mut().zip(&opinion.weights) {
                *total += weight;
            }
            opinions.push(opinion);
        }
    }
    WeighedHosts { slots, totals, opinions }
}

fn named(name: &str) -> Option<&'static Weigher> {
    WEIGHERS.iter().find(|weigher| weigher.name == name)
}

/// The weigher's values for the candidates; `None` if the weigher has no effect.
fn opinion(context: &SchedulingContext<'_>, weigher: &'static Weigher, slots: &[Slot]) -> Option<WeigherScores> {
    let option = (weigher.multiplier)(&context.options.multipliers);
    let overridden = context.fleet.aggregates().any(|(_, aggregate)| aggregate.metadata.contains_key(weigher.key));
    if !(weigher.applies)(context) || (option == 0.0 && !overridden) {
        return None;
    }
    let mut values = Vec::with_capacity(slots.len());
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for slot in slots {
        let value = (weigher.value)(&context.host(*slot));
        let value = if weigher.from_zero { value.max(0.0) } else { value };
        low = low.min(value);
        high = high.max(value);
        values.push(value);
    }
    // If all values are equal, this weigher has no effect.
    if low >= high && !overridden {
        return None;
    }
    let low = if weigher.from_zero { 0.0 } else { low };
    let range = high - low;
    if range <= 0.0 {
        return None;
    }
    let multiplier = |slot: Slot| match overridden {
        true => context.host(slot).least(weigher.key, option),
        false => option,
    };
    let weights = values.iter().zip(slots).map(|(value, slot)| multiplier(*slot) * (value - low) / range).collect();
    Some(WeigherScores { weigher, values, weights })
}

impl WeighedHosts {
    /// The indexes in `slots` of the best candidates, best first. The list has `keep` of them, or more if `dice`
    /// selects among more than `keep`. `dice` selects which of the `subset` best candidates comes first. With
    /// `shuffle`, `dice` also selects among all candidates that are as good as the best.
    pub fn best(&self, keep: usize, subset: usize, shuffle: bool, dice: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        let better = |a: &usize, b: &usize| {
            self.totals[*b].total_cmp(&self.totals[*a]).then_with(|| self.slots[*a].cmp(&self.slots[*b]))
        };
        let same_as_best = if shuffle { self.equal_to_best() } else { 0 };
        let keep = keep.max(subset).max(same_as_best).clamp(1, order.len().max(1));
        if keep < order.len() {
            order.select_nth_unstable_by(keep - 1, better);
            order.truncate(keep);
        }
        order.sort_unstable_by(better);
        // One random number serves both options: it selects which of the first `among` candidates comes first.
        let among = subset.max(same_as_best).min(order.len());
        if among > 1
            && let Ok(chosen) = usize::try_from(dice % number_of(among))
        {
            order[..=chosen].rotate_right(1);
        }
        order
    }

    fn equal_to_best(&self) -> usize {
        let best = self.totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.totals.iter().filter(|total| total.total_cmp(&best).is_eq()).count()
    }

    pub fn slot(&self, place: usize) -> Slot {
        self.slots[place]
    }

    /// The weights of one candidate, for the record of the decision.
    pub fn record(&self, context: &SchedulingContext<'_>, place: usize) -> WeighedHost {
        let row = context.fleet.row(self.slots[place]);
        let parts = self.opinions.iter().map(|opinion| WeightPart {
            weigher: opinion.weigher.name.to_owned(),
            value: opinion.values[place],
            weight: opinion.weights[place],
        });
        WeighedHost { host: row.id, hostname: row.name.clone(), weight: self.totals[place], parts: parts.collect() }
    }
}

fn number_of(count: usize) -> u64 {
    count as u64
}
