//! The placement of a guest on its host: the processors of its CPUs, and the NUMA cells of its memory.

use serde::{Deserialize, Serialize};

/// One NUMA cell of a host, as the host reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaCell {
    pub id: u32,
    /// The processors that are online, sorted.
    pub cpus: Vec<u32>,
    /// Groups of these processors that are threads of one core, sorted. Cores with one thread are left out.
    pub siblings: Vec<Vec<u32>>,
    pub memory_mib: u64,
    /// Its memory pages: pairs of a size in KiB and the number of pages, smallest size first.
    pub pages: Vec<(u64, u64)>,
}

/// The placement of a guest's CPUs and memory. The default allows any placement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinning {
    /// The processors that a guest without nodes may use; empty: all.
    pub confined: Vec<u32>,
    /// The guest's NUMA nodes. Empty: the guest sees no nodes, and the host places the guest's memory.
    pub nodes: Vec<GuestNode>,
    /// The processors of the emulator's own threads, for a guest with nodes.
    pub emulator: Vec<u32>,
    /// The guest's CPUs that run in real time, sorted. If there are any, its memory is locked and not shared.
    pub realtime: Vec<u32>,
}

/// One NUMA node of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNode {
    /// The cell of the host.
    pub cell: u32,
    /// The guest's CPUs, each with the processors that it may use, sorted.
    pub cpus: Vec<(u32, Vec<u32>)>,
    pub memory_mib: u64,
    /// The size of the huge pages, if the memory has some.
    pub huge_page_kib: Option<u64>,
}
