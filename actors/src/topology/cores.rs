//! Which processors of a cell a guest's CPUs get, by the policy for threads of one core.
//!
//! Cores are filled evenly and threads of one core kept together: of all ways to take so many threads of each core the one
//! with the most threads is tried first. `require` takes nothing but threads of cores that offer two at least, `isolate`
//! only cores that have one thread, `prefer` whatever is free in the end.

use super::usage::Cell;
use super::{Node, Threads};

/// A CPU of the guest and its processor.
type Pins = Vec<(u32, u32)>;

/// The processors of a node's dedicated CPUs, and of `reserved` more for the emulator; `None` where there is no way.
pub fn pack(cell: &Cell<'_>, node: &Node, threads: Option<Threads>, reserved: usize) -> Option<(Pins, Vec<u32>)> {
    let free = cell.cores(true);
    // Of the cell as the machine has it: that a core's other thread is used by somebody does not make it a core of one.
    let per_core = cell.is.siblings.iter().map(Vec::len).max().unwrap_or(1).max(1);
    if node.dedicated.is_empty() {
        return (reserved == 0).then(|| (Pins::new(), Vec::new()));
    }
    let isolates = threads == Some(Threads::Isolate);
    if isolates {
        // The threads that it would leave idle are counted as PCPU all the same: others would be given them.
        return if per_core > 1 { None } else { with_emulator(pins(node, &free, 1)?, &free, reserved) };
    }
    if threads == Some(Threads::Require) && per_core <= 1 {
        return None;
    }
    let least = if threads == Some(Threads::Require) { 2 } else { 1 };
    let most = free.iter().map(Vec::len).max().unwrap_or(0);
    for taken in (least..=most).rev() {
        let offering: Vec<Vec<u32>> = free.iter().filter(|core| core.len() >= taken).cloned().collect();
        if let Some(found) = pins(node, &offering, taken).and_then(|pins| with_emulator(pins, &free, reserved)) {
            return Some(found);
        }
    }
    if threads == Some(Threads::Require) {
        return None;
    }
    // Wherever there is room: cores that offer more and cores that offer less.
    let single: Vec<Vec<u32>> = free.iter().flatten().map(|cpu| vec![*cpu]).collect();
    with_emulator(pins(node, &single, 1)?, &free, reserved)
}

/// So many threads of each core, in order.
fn pins(node: &Node, cores: &[Vec<u32>], of_each: usize) -> Option<Pins> {
    let usable: Vec<u32> = cores.iter().flat_map(|core| core.iter().take(of_each).copied()).collect();
    (usable.len() >= node.dedicated.len()).then(|| node.dedicated.iter().copied().zip(usable).collect())
}

fn with_emulator(pins: Pins, free: &[Vec<u32>], reserved: usize) -> Option<(Pins, Vec<u32>)> {
    let left = free.iter().flatten().copied().filter(|cpu| !pins.iter().any(|(_, taken)| taken == cpu));
    let mut emulator: Vec<u32> = left.take(reserved).collect();
    emulator.sort_unstable();
    (emulator.len() == reserved).then_some((pins, emulator))
}
