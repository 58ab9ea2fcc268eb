//! Turns the claimed parts of a host's cells into the pinning that the driver applies.

use std::collections::BTreeSet;

use chronova_events::ledger::{FittedNumaCell, HostCellsReplaced, HostNumaCell};
use chronova_hypervisor::pinning::{GuestNode, Pinning};

use super::EmulatorThreadsPolicy;

/// The pinning of a guest. `host`: the host's cells, if it reports them. `fitted`: the guest's part of them; empty for
/// a floating guest. `realtime`: the guest's CPUs that run in real time.
pub fn pinning(
    host: Option<&HostCellsReplaced>,
    fitted: &[FittedNumaCell],
    emulator: Option<EmulatorThreadsPolicy>,
    realtime: &BTreeSet<u32>,
) -> Pinning {
    let confined: BTreeSet<u32> = match host {
        Some(host) if host.confines => host.cells.iter().flat_map(|cell| cell.shared.iter().copied()).collect(),
        _ => BTreeSet::new(),
    };
    let nodes: Vec<GuestNode> = fitted.iter().map(|fitted| node(host, fitted)).collect();
    let emulator: BTreeSet<u32> = match emulator {
        Some(EmulatorThreadsPolicy::Isolate) => {
            fitted.iter().flat_map(|fitted| fitted.emulator.iter().copied()).collect()
        }
        Some(EmulatorThreadsPolicy::Share) if !confined.is_empty() => confined.clone(),
        // The emulator runs on the processors of the guest's CPUs, but not on those of CPUs that run in real time.
        _ => {
            let cpus = nodes.iter().flat_map(|node| &node.cpus).filter(|(cpu, _)| !realtime.contains(cpu));
            cpus.flat_map(|(_, processors)| processors.iter().copied()).collect()
        }
    };
    Pinning {
        confined: confined.into_iter().collect(),
        nodes,
        emulator: emulator.into_iter().collect(),
        realtime: realtime.iter().copied().collect(),
    }
}

fn node(host: Option<&HostCellsReplaced>, fitted: &FittedNumaCell) -> GuestNode {
    let cell = host.and_then(|host| host.cells.iter().find(|cell| cell.id == fitted.cell));
    let shared = cell.map(|cell| cell.shared.clone()).unwrap_or_default();
    let floating = fitted.floating.iter().map(|cpu| (*cpu, shared.clone()));
    let mut cpus: Vec<_> = fitted.pinned.iter().map(|(cpu, on)| (*cpu, vec![*on])).chain(floating).collect();
    cpus.sort_unstable();
    let huge = |kib: &u64| cell.and_then(smallest).is_some_and(|smallest| *kib > smallest);
    let huge_page_kib = fitted.page_kib.filter(huge);
    GuestNode { cell: fitted.cell, cpus, memory_mib: fitted.memory_mib, huge_page_kib }
}

fn smallest(cell: &HostNumaCell) -> Option<u64> {
    cell.pages.iter().map(|pages| pages.kib).min()
}
