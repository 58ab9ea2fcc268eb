//! Fits a guest's NUMA nodes on the NUMA cells of a host.
//!
//! Each node of the guest needs its own cell, and the cell must have all resources of the node. The search tries the
//! cells in an order that packs or spreads guests; cells near the guest's networks come first. If the guest needs all
//! cells, the search tries them in the order of their numbers.

use chronova_events::ledger::FittedNumaCell;

use super::cores::pack;
use super::networks;
use super::usage::NumaCellUsage;
use super::{CpuPolicy, GuestNumaNode, GuestNumaTopology, MemPageSize};
use crate::pci::alias::PciRequest;
use crate::pci::assign::FreePci;
use std::cmp::Reverse;

/// The limits of a fit, apart from the cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitLimits {
    /// The allocation ratios of shared processors and of memory.
    pub cpu_ratio: f64,
    pub memory_ratio: f64,
    /// `[compute] packing_host_numa_cells_allocation_strategy`.
    pub packs: bool,
}

impl Default for FitLimits {
    fn default() -> Self {
        Self { cpu_ratio: 16.0, memory_ratio: 1.5, packs: true }
    }
}

/// The most assignments of nodes to cells that are tried for the guest's PCI devices and networks. A search without a
/// bound could keep the ledger busy.
const MOST_TRIED: usize = 1_000;
/// The most times that one search places a node on a cell. An image can describe nodes each of which fits somewhere,
/// although they do not fit all together. Then the number of partial assignments grows exponentially with the number of
/// cells.
const MOST_PLACED: usize = 10_000;

/// The free PCI devices of the host, if it has some, and those that the guest requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct CellDevices<'a> {
    pub free: Option<&'a FreePci<'a>>,
    pub requests: &'a [PciRequest],
}

impl CellDevices<'_> {
    /// Checks that the guest gets its devices if its nodes are on these cells.
    fn admit(&self, cells: &[u32]) -> Result<(), String> {
        match self.free {
            _ if self.requests.is_empty() => Ok(()),
            None => Err("PCI devices: the host offers none".to_owned()),
            Some(free) => free.assign(self.requests, cells).map(drop),
        }
    }
}

/// The parts of the host's cells that the guest gets, in the order of the guest's nodes.
///
/// # Errors
/// The reason why the guest does not fit, with the numbers.
pub fn fit(
    topology: &GuestNumaTopology,
    cells: Vec<NumaCellUsage<'_>>,
    bounds: FitLimits,
) -> Result<Vec<FittedNumaCell>, String> {
    fit_beside(topology, cells, bounds, CellDevices::default())
}

/// Like [`fit`], on cells from which the guest also gets its PCI devices.
///
/// # Errors
/// The reason why the guest does not fit, with the numbers.
pub fn fit_beside(
    topology: &GuestNumaTopology,
    mut cells: Vec<NumaCellUsage<'_>>,
    bounds: FitLimits,
    devices: CellDevices<'_>,
) -> Result<Vec<FittedNumaCell>, String> {
    let wanted = topology.nodes.len();
    if cells.len() < wanted {
        return Err(match cells.len() {
            0 => "the host does not report its NUMA cells".to_owned(),
            some => format!("the guest wants {wanted} NUMA nodes, the host has {some}"),
        });
    }
    if cells.len() > wanted {
        order(topology, &mut cells, bounds.packs, devices);
        cells.sort_by_key(|cell| !networks::is_near(&topology.near, cell.is.id));
    }
    // Whether a node fits on a cell does not depend on the cells of the other nodes.
    let mut fits_by_node: Vec<Vec<Option<FittedNumaCell>>> = Vec::with_capacity(wanted);
    for (at, node) in topology.nodes.iter().enumerate() {
        // The emulator's processor is always on the cell of the guest's first node.
        let reserved = usize::from(at == 0 && topology.isolates_emulator());
        let tried: Vec<_> = cells.iter().map(|cell| fit_node(topology, node, cell, reserved, bounds)).collect();
        if tried.iter().all(Result::is_err) {
            let reasons = cells.iter().zip(&tried).filter_map(|(cell, tried)| {
                let reason = tried.as_ref().err()?;
                Some(format!("cell {}: {reason}", cell.is.id))
            });
            return Err(reasons.take(4).collect::<Vec<_>>().join("; "));
        }
        fits_by_node.push(tried.into_iter().map(Result::ok).collect());
    }
    let ids: Vec<u32> = cells.iter().map(|cell| cell.is.id).collect();
    let mut chosen = Vec::with_capacity(wanted);
    let (mut tried, mut refused) = (0, None);
    let mut admits = |chosen: &[usize]| {
        tried += 1;
        let cells: Vec<u32> = chosen.iter().map(|cell| ids[*cell]).collect();
        match devices.admit(&cells).and_then(|()| networks::admit(&topology.near, &ids, &cells)) {
            Ok(()) => Some(true),
            Err(reason) => {
                refused.get_or_insert(reason);
                (tried < MOST_TRIED).then_some(false)
            }
        }
    };
    match choose(&fits_by_node, &mut chosen, &mut 0, &mut admits) == Some(true) {
        true => Ok(chosen
            .iter()
            .zip(fits_by_node)
            .filter_map(|(cell, mut fits_by_cell)| fits_by_cell.get_mut(*cell)?.take())
            .collect()),
        false => Err(refused.unwrap_or_else(|| {
            format!("the host has no {wanted} NUMA cells that together have room for the guest's nodes")
        })),
    }
}

/// Sorts the cells, fuller ones first if guests are packed. Cells with free PCI devices come first for a guest that
/// requests PCI devices, and last for any other guest. As in Nova, the last of the stable sorts matters most.
fn order(topology: &GuestNumaTopology, cells: &mut [NumaCellUsage<'_>], packs: bool, devices: CellDevices<'_>) {
    match packs {
        true => cells.sort_by_key(NumaCellUsage::free_memory),
        false => cells.sort_by_key(|cell| Reverse(cell.free_memory())),
    }
    let free = |cell: &NumaCellUsage<'_>| cell.free_processors().len();
    match (topology.is_pinned(), packs) {
        (false, true) => cells.sort_by_key(|cell| Reverse(cell.floating)),
        (false, false) => cells.sort_by_key(|cell| cell.floating),
        (true, true) => cells.sort_by_key(free),
        (true, false) => cells.sort_by_key(|cell| Reverse(free(cell))),
    }
    let Some(on_cells) = devices.free.map(FreePci::on_cells) else { return };
    let count = |cell: &NumaCellUsage<'_>| on_cells.get(&cell.is.id).copied().unwrap_or(0);
    match devices.requests.is_empty() {
        true => cells.sort_by_key(count),
        false => cells.sort_by_key(|cell| Reverse(count(cell))),
    }
}

/// Tries assignments of nodes to cells in the order of the cells. `true`: `chosen` holds the first one that `admits`
/// accepts. `false`: `admits` accepts none. `None`: `admits` ended the search, or the search has taken too long.
/// `placed` counts the steps of the search.
fn choose(
    fits_by_node: &[Vec<Option<FittedNumaCell>>],
    chosen: &mut Vec<usize>,
    placed: &mut usize,
    admits: &mut dyn FnMut(&[usize]) -> Option<bool>,
) -> Option<bool> {
    let Some(node_fits) = fits_by_node.get(chosen.len()) else { return admits(chosen) };
    // If no free cell is left for a node, this assignment fails early.
    let has_free_cell = |fits_by_cell: &Vec<Option<FittedNumaCell>>, chosen: &[usize]| {
        fits_by_cell.iter().enumerate().any(|(cell, fitted)| fitted.is_some() && !chosen.contains(&cell))
    };
    if !fits_by_node[chosen.len()..].iter().all(|fits_by_cell| has_free_cell(fits_by_cell, chosen)) {
        return Some(false);
    }
    for (cell, fitted) in node_fits.iter().enumerate() {
        if fitted.is_some() && !chosen.contains(&cell) {
            *placed += 1;
            if *placed > MOST_PLACED {
                return None;
            }
            chosen.push(cell);
            match choose(fits_by_node, chosen, placed, admits) {
                Some(false) => {}
                ended => return ended,
            }
            chosen.pop();
        }
    }
    Some(false)
}

fn fit_node(
    topology: &GuestNumaTopology,
    node: &GuestNumaNode,
    cell: &NumaCellUsage<'_>,
    reserved: usize,
    bounds: FitLimits,
) -> Result<FittedNumaCell, String> {
    let page_kib = page_size(topology, node, cell)?;
    let wants = node.dedicated.len() + reserved;
    if topology.is_pinned() {
        let (all, free) = (cell.is.dedicated.len(), cell.free_processors().len());
        if wants > free {
            return Err(format!("dedicated CPUs: wants {wants}, free {free} of {all}"));
        }
    }
    if topology.policy != CpuPolicy::Dedicated {
        shared_room(node, cell, bounds)?;
    }
    let (pinned, emulator) = pack(cell, node, topology.threads, reserved).ok_or_else(|| {
        let free = cell.free_processors().len();
        format!(
            "dedicated CPUs: wants {wants}, free {free}, but too few of them on cores that hw:cpu_thread_policy allows"
        )
    })?;
    let floating = node.floating.iter().copied().collect();
    Ok(FittedNumaCell { cell: cell.is.id, floating, pinned, emulator, memory_mib: node.memory_mib, page_kib })
}

/// Checks that the cell has enough shared processors and memory. One node has at most as many floating CPUs as the cell
/// has shared processors. All guests together have at most this number times the allocation ratio.
fn shared_room(node: &GuestNumaNode, cell: &NumaCellUsage<'_>, bounds: FitLimits) -> Result<(), String> {
    let (wants, has) = (node.floating.len(), cell.is.shared.len());
    if wants > has {
        return Err(format!("shared CPUs: wants {wants}, has {has}"));
    }
    let over = |used: u64, wants: u64, has: u64, ratio: f64| number(used + wants) > number(has) * ratio;
    if over(cell.floating, wants as u64, has as u64, bounds.cpu_ratio) {
        return Err(format!("shared CPUs: wants {wants}, in use {} of {has} x {:?}", cell.floating, bounds.cpu_ratio));
    }
    if over(cell.memory_mib, node.memory_mib, cell.is.memory_mib, bounds.memory_ratio) {
        let (used, has, ratio) = (cell.memory_mib, cell.is.memory_mib, bounds.memory_ratio);
        return Err(format!("memory: wants {} MiB, in use {used} MiB of {has} x {ratio:?}", node.memory_mib));
    }
    Ok(())
}

/// The size of the node's memory pages in KiB; `None` if the guest requests none. Also checks that the memory fits.
fn page_size(
    topology: &GuestNumaTopology,
    node: &GuestNumaNode,
    cell: &NumaCellUsage<'_>,
) -> Result<Option<u64>, String> {
    let (memory, smallest) = (node.memory_mib, cell.smallest_page());
    let fits = |kib: u64| (memory * 1024).is_multiple_of(kib) && cell.free_pages(kib) * kib >= memory * 1024;
    let mut sizes: Vec<u64> = cell.is.pages.iter().map(|pages| pages.kib).collect();
    sizes.sort_unstable();
    let lacks = |of: &str| Err(format!("memory: wants {memory} MiB in {of}, of which not enough are free"));
    match topology.pages {
        None => plain_memory(topology, node, cell).map(|()| None),
        Some(_) if smallest.is_none() => Err("memory: the cell does not report its page sizes".to_owned()),
        Some(MemPageSize::Small) => match smallest.filter(|kib| fits(*kib)) {
            Some(kib) => Ok(Some(kib)),
            None => lacks("small pages"),
        },
        Some(MemPageSize::Large) => match sizes.iter().rev().find(|kib| Some(**kib) > smallest && fits(**kib)) {
            Some(kib) => Ok(Some(*kib)),
            None => lacks("large pages"),
        },
        Some(MemPageSize::Any) => match sizes.iter().rev().find(|kib| fits(**kib)) {
            Some(kib) => Ok(Some(*kib)),
            None => lacks("pages of one size"),
        },
        Some(MemPageSize::Kib(kib)) if !sizes.contains(&kib) => {
            Err(format!("memory: wants pages of {kib} KiB, has none"))
        }
        Some(MemPageSize::Kib(kib)) if fits(kib) => Ok(Some(kib)),
        Some(MemPageSize::Kib(kib)) => lacks(&format!("pages of {kib} KiB")),
    }
}

/// Checks the memory of a node without a requested page size. Memory of pinned guests is not overcommitted.
fn plain_memory(topology: &GuestNumaTopology, node: &GuestNumaNode, cell: &NumaCellUsage<'_>) -> Result<(), String> {
    let wants = node.memory_mib;
    let smallest = cell.smallest_page();
    let in_small = |pages: u64| smallest.map(|kib| pages * kib / 1024);
    let all = smallest.and_then(|kib| cell.is.pages.iter().find(|pages| pages.kib == kib)).map(|pages| pages.total);
    let has = match topology.is_pinned() {
        true => smallest.and_then(|kib| in_small(cell.free_pages(kib))).unwrap_or_else(|| cell.free_memory()),
        false => all.and_then(in_small).unwrap_or(cell.is.memory_mib),
    };
    match wants <= has {
        true => Ok(()),
        false => {
            Err(format!("memory: wants {wants} MiB, has {has} MiB{}", if topology.is_pinned() { " free" } else { "" }))
        }
    }
}

/// The number as `f64`. It is only compared, so a lost digit does not matter.
#[allow(clippy::cast_precision_loss)]
fn number(value: u64) -> f64 {
    value as f64
}
