//! Where on its host a guest runs: which processors its CPUs may use, and which NUMA cells its memory is on.

use serde::{Deserialize, Serialize};

/// One NUMA cell of a host, as the host tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaCell {
    pub id: u32,
    /// Its processors that are on, sorted.
    pub cpus: Vec<u32>,
    /// Those of them that are threads of one core, for cores with more than one, sorted.
    pub siblings: Vec<Vec<u32>>,
    pub memory_mib: u64,
    /// Size in KiB and number of its memory pages, the smallest first.
    pub pages: Vec<(u64, u64)>,
}

/// Where a guest's CPUs and memory are. By default anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinning {
    /// Processors that a guest without nodes is kept to; none: any.
    pub confined: Vec<u32>,
    /// The guest's NUMA nodes; none: it sees none, and its memory is wherever its host puts it.
    pub nodes: Vec<GuestNode>,
    /// Processors of the emulator's own threads, of a guest with nodes.
    pub emulator: Vec<u32>,
}

/// One NUMA node of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNode {
    /// The host's cell that it is on.
    pub cell: u32,
    /// The guest's CPUs, each with the processors that it may use; sorted.
    pub cpus: Vec<(u32, Vec<u32>)>,
    pub memory_mib: u64,
    /// The size of the huge pages that the memory is made of.
    pub huge_page_kib: Option<u64>,
}
