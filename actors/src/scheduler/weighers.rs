//! Which of the hosts that will do is best. Each weigher's raw values are normalised to 0..1 over the candidates and
//! multiplied, as Nova's `BaseWeightHandler` does; the sum decides, and equal sums are ordered by name.

use super::{Candidate, Chosen, SchedulerOptions};

/// One opinion on a host.
struct Weigher {
    raw: fn(&Candidate<'_>) -> u64,
    multiplier: fn(&SchedulerOptions) -> f64,
}

const WEIGHERS: &[Weigher] = &[
    Weigher { raw: |candidate| free(candidate, "MEMORY_MB"), multiplier: |options| options.ram_weight_multiplier },
    Weigher { raw: |candidate| free(candidate, "VCPU"), multiplier: |options| options.cpu_weight_multiplier },
    Weigher { raw: |candidate| free(candidate, "DISK_GB"), multiplier: |options| options.disk_weight_multiplier },
];

fn free(candidate: &Candidate<'_>, class: &str) -> u64 {
    candidate.provider.inventories.get(class).map_or(0, chronova_events::ledger::InventoryLine::free)
}

/// The best candidates, best first.
pub fn best(candidates: &[Candidate<'_>], options: &SchedulerOptions) -> Vec<Chosen> {
    let mut weights = vec![0.0_f64; candidates.len()];
    for weigher in WEIGHERS {
        let raw: Vec<u64> = candidates.iter().map(weigher.raw).collect();
        let (low, high) = (raw.iter().min().copied().unwrap_or(0), raw.iter().max().copied().unwrap_or(0));
        if low == high {
            continue;
        }
        for (weight, value) in weights.iter_mut().zip(raw) {
            *weight += (weigher.multiplier)(options) * ratio(value - low, high - low);
        }
    }
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let better = |a: &usize, b: &usize| {
        weights[*b]
            .total_cmp(&weights[*a])
            .then_with(|| candidates[*a].host.hostname.cmp(&candidates[*b].host.hostname))
    };
    let keep = options.candidates.clamp(1, order.len().max(1));
    if keep < order.len() {
        order.select_nth_unstable_by(keep - 1, better);
        order.truncate(keep);
    }
    order.sort_unstable_by(better);
    order
        .into_iter()
        .map(|index| &candidates[index].host)
        .map(|host| Chosen { host: host.id, hostname: host.hostname.clone() })
        .collect()
}

#[allow(clippy::cast_precision_loss)] // only the order matters
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
