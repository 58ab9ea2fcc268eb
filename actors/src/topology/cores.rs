//! Assigns processors of a cell to a guest's CPUs, by the CPU thread policy.
//!
//! The assignment fills one core after another, so that a guest's CPUs share cores. It tries the largest number of
//! threads per core first. `require` takes only threads of cores that offer at least two. `isolate` takes only a cell
//! whose cores all have one thread. `prefer`, the default, finally takes any free threads.

use super::usage::NumaCellUsage;
use super::{CpuThreadPolicy, GuestNumaNode};

/// The guest's CPUs, each with its processor.
type CpuPins = Vec<(u32, u32)>;

/// The processors for a node's dedicated CPUs, and `reserved` more for the emulator; `None` if they do not fit.
pub fn pack(
    cell: &NumaCellUsage<'_>,
    node: &GuestNumaNode,
    threads: Option<CpuThreadPolicy>,
    reserved: usize,
) -> Option<(CpuPins, Vec<u32>)> {
    let free = cell.cores(true);
    // The threads that guests use count, too. A core of two threads still counts as two if a guest uses one of them.
    let per_core = cell.is.siblings.iter().map(Vec::len).max().unwrap_or(1).max(1);
    if node.dedicated.is_empty() {
        return (reserved == 0).then(|| (CpuPins::new(), Vec::new()));
    }
    let isolates = threads == Some(CpuThreadPolicy::Isolate);
    if isolates {
        // The idle thread of a core would remain in the PCPU inventory, and another guest would get it. So `isolate`
        // needs a cell whose cores have one thread.
        return if per_core > 1 { None } else { with_emulator(pins(node, &free, 1)?, &free, reserved) };
    }
    if threads == Some(CpuThreadPolicy::Require) && per_core <= 1 {
        return None;
    }
    let least = if threads == Some(CpuThreadPolicy::Require) { 2 } else { 1 };
    let most = free.iter().map(Vec::len).max().unwrap_or(0);
    for taken in (least..=most).rev() {
        let offering: Vec<Vec<u32>> = free.iter().filter(|core| core.len() >= taken).cloned().collect();
        if let Some(found) = pins(node, &offering, taken).and_then(|pins| with_emulator(pins, &free, reserved)) {
            return Some(found);
        }
    }
    if threads == Some(CpuThreadPolicy::Require) {
        return None;
    }
    // Takes any free thread of any core.
    let single: Vec<Vec<u32>> = free.iter().flatten().map(|cpu| vec![*cpu]).collect();
    with_emulator(pins(node, &single, 1)?, &free, reserved)
}

/// Assigns `of_each` threads of each core, in order.
fn pins(node: &GuestNumaNode, cores: &[Vec<u32>], of_each: usize) -> Option<CpuPins> {
    let usable: Vec<u32> = cores.iter().flat_map(|core| core.iter().take(of_each).copied()).collect();
    (usable.len() >= node.dedicated.len()).then(|| node.dedicated.iter().copied().zip(usable).collect())
}

fn with_emulator(pins: CpuPins, free: &[Vec<u32>], reserved: usize) -> Option<(CpuPins, Vec<u32>)> {
    let left = free.iter().flatten().copied().filter(|cpu| !pins.iter().any(|(_, taken)| taken == cpu));
    let mut emulator: Vec<u32> = left.take(reserved).collect();
    emulator.sort_unstable();
    (emulator.len() == reserved).then_some((pins, emulator))
}
