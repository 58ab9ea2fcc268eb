//! Computes the used and the free parts of a host's cells.

use std::collections::BTreeSet;

use chronova_events::ledger::{FittedNumaCell, HostNumaCell};

/// A NUMA cell of a host, and its usage by guests.
#[derive(Debug, Clone)]
pub struct NumaCellUsage<'a> {
    pub is: &'a HostNumaCell,
    /// The dedicated processors that guests have.
    pub taken: BTreeSet<u32>,
    /// The number of guests' CPUs that float over the shared processors.
    pub floating: u64,
    /// The memory of guests, in MiB.
    pub memory_mib: u64,
    /// The number of pages in use, in the order of the cell's page sizes.
    pub pages: Vec<u64>,
}

impl NumaCellUsage<'_> {
    pub fn free_processors(&self) -> BTreeSet<u32> {
        self.is.dedicated.iter().copied().filter(|cpu| !self.taken.contains(cpu)).collect()
    }

    /// The free memory in MiB. The usage may exceed the cell's memory, because the allocation ratio may admit more, or
    /// because the host has lost memory since the claims.
    pub fn free_memory(&self) -> u64 {
        self.is.memory_mib.saturating_sub(self.memory_mib)
    }

    /// Free pages of this size.
    pub fn free_pages(&self, kib: u64) -> u64 {
        let pages = self.is.pages.iter().zip(&self.pages).find(|(pages, _)| pages.kib == kib);
        pages.map_or(0, |(pages, used)| pages.total.saturating_sub(*used))
    }

    pub fn smallest_page(&self) -> Option<u64> {
        self.is.pages.iter().map(|pages| pages.kib).min()
    }

    /// The dedicated processors of each core. With `free`, only those that no guest has.
    pub fn cores(&self, free: bool) -> Vec<Vec<u32>> {
        let usable: BTreeSet<u32> = match free {
            true => self.free_processors(),
            false => self.is.dedicated.iter().copied().collect(),
        };
        let mut left = usable.clone();
        let mut cores = Vec::new();
        for core in &self.is.siblings {
            let here: Vec<u32> = core.iter().copied().filter(|cpu| left.remove(cpu)).collect();
            if !here.is_empty() {
                cores.push(here);
            }
        }
        cores.extend(left.into_iter().map(|cpu| vec![cpu]));
        cores.sort();
        cores
    }

    fn take(&mut self, fitted: &FittedNumaCell) {
        self.taken.extend(fitted.taken());
        self.floating += fitted.floating.len() as u64;
        self.memory_mib += fitted.memory_mib;
        let Some(kib) = fitted.page_kib.or_else(|| self.smallest_page()) else { return };
        for (pages, used) in self.is.pages.iter().zip(&mut self.pages) {
            if pages.kib == kib {
                *used += (fitted.memory_mib * 1024).div_ceil(kib);
            }
        }
    }
}

/// The cells, with the usage of these guests.
pub fn cells<'a, 'b>(
    of: &'a [HostNumaCell],
    guests: impl Iterator<Item = &'b [FittedNumaCell]>,
) -> Vec<NumaCellUsage<'a>> {
    let empty = |is: &'a HostNumaCell| NumaCellUsage {
        is,
        taken: BTreeSet::new(),
        floating: 0,
        memory_mib: 0,
        pages: vec![0; is.pages.len()],
    };
    let mut cells: Vec<NumaCellUsage<'a>> = of.iter().map(empty).collect();
    for fitted in guests.flatten() {
        if let Some(cell) = cells.iter_mut().find(|cell| cell.is.id == fitted.cell) {
            cell.take(fitted);
        }
    }
    cells
}
