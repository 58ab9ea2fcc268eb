//! The NUMA cells of hosts, and the shares that guests have in them.

use serde::{Deserialize, Serialize};

use crate::ids::{ConsumerId, ProviderId};

/// One NUMA cell of a host: processors and memory that are near each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNumaCell {
    /// The number of the cell on its host.
    pub id: u32,
    /// The processors for floating CPUs (shared), sorted.
    pub shared: Vec<u32>,
    /// The processors for dedicated CPUs, sorted.
    pub dedicated: Vec<u32>,
    /// Groups of the shared and dedicated processors that are threads of one core. Cores with one thread are left out.
    pub siblings: Vec<Vec<u32>>,
    pub memory_mib: u64,
    /// The pools of memory pages, smallest page size first.
    pub pages: Vec<HostPages>,
}

/// Memory pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPages {
    pub kib: u64,
    pub total: u64,
}

/// The NUMA cells of a host are now these. Also recorded when an operator changes the shared or dedicated processors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCellsReplaced {
    pub provider: ProviderId,
    /// Whether an operator named the shared processors. If so, floating CPUs may use only these processors.
    pub confines: bool,
    /// Sorted by id.
    pub cells: Vec<HostNumaCell>,
}

/// The share of one NUMA node of a guest in a cell of its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FittedNumaCell {
    /// The host's cell.
    pub cell: u32,
    /// The guest's CPUs that float over the cell's shared processors, sorted.
    pub floating: Vec<u32>,
    /// The guest's CPUs with a processor each: pairs of CPU and processor, sorted.
    pub pinned: Vec<(u32, u32)>,
    /// The processors that only the guest's emulator uses, sorted.
    pub emulator: Vec<u32>,
    pub memory_mib: u64,
    /// The size of the memory pages, if one was requested.
    pub page_kib: Option<u64>,
}

impl FittedNumaCell {
    /// The guest's CPUs of this node, sorted.
    pub fn cpus(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.floating.iter().copied().chain(self.pinned.iter().map(|(cpu, _)| *cpu)).collect();
        all.sort_unstable();
        all
    }

    /// The processors that no other guest may use.
    pub fn taken(&self) -> impl Iterator<Item = u32> + '_ {
        self.pinned.iter().map(|(_, processor)| *processor).chain(self.emulator.iter().copied())
    }
}

/// A consumer's share of a host's cells. It replaces the former share and ends with the consumer's allocation on the
/// host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestFitted {
    pub consumer: ConsumerId,
    /// The host's provider.
    pub provider: ProviderId,
    /// The shares in the order of the guest's NUMA nodes. Empty: the consumer has no share any more.
    pub cells: Vec<FittedNumaCell>,
}

pub(super) fn samples() -> [super::LedgerEvent; 2] {
    let provider = ProviderId(uuid::Uuid::from_u128(1));
    let cell = HostNumaCell {
        id: 0,
        shared: vec![0, 1],
        dedicated: vec![2, 3],
        siblings: vec![vec![0, 2], vec![1, 3]],
        memory_mib: 4096,
        pages: vec![HostPages { kib: 4, total: 1_048_576 }, HostPages { kib: 2048, total: 8 }],
    };
    let fitted = FittedNumaCell {
        cell: 0,
        floating: vec![1],
        pinned: vec![(0, 2)],
        emulator: vec![3],
        memory_mib: 512,
        page_kib: Some(2048),
    };
    let consumer = ConsumerId::new("00000000-0000-0000-0000-000000000002");
    [
        HostCellsReplaced { provider, confines: true, cells: vec![cell] }.into(),
        GuestFitted { consumer, provider, cells: vec![fitted] }.into(),
    ]
}
