//! NUMA topologies of guests, and dedicated processors.
//!
//! | file | computes | Nova's function (`nova.virt.hardware`) |
//! |---|---|---|
//! | [`request`] | the request of a flavor and an image | `numa_get_constraints` |
//! | [`host`] | the processors of a host for pinned and for floating guests | |
//! | [`usage`] | the free parts of a host's cells | `numa_usage_from_instance_numa` |
//! | [`fit`] | the cells of a host on which a guest fits | `numa_fit_instance_to_host` |
//! | [`cores`] | the processors that a guest gets there | `_pack_instance_onto_cores` |
//! | [`networks`] | the cells near a guest's networks | `_numa_cells_support_network_metadata` |
//! | [`pinning`] | the pinning of a guest, from its claimed parts of the cells | |
//!
//! All functions are pure. The scheduler proposes from a view that may lag. The placement ledger's `decide` fits again
//! and has the last word: it gives no dedicated processor to two guests.
//!
//! Chronova differs from Nova in one point: a host without `[compute] cpu_dedicated_set` has no dedicated processors.
//! For configurations from before 2019, Nova falls back to all processors of such a host, and floating guests run there
//! as well.

pub mod cores;
pub mod fit;
pub mod host;
pub mod networks;
pub mod pinning;
pub mod request;
pub mod usage;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use self::fit::fit;
use self::networks::NearCells;
pub use self::request::ask;

/// The guest's request for its host's cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestNumaTopology {
    pub nodes: Vec<GuestNumaNode>,
    pub policy: CpuPolicy,
    pub threads: Option<CpuThreadPolicy>,
    pub emulator: Option<EmulatorThreadsPolicy>,
    pub pages: Option<MemPageSize>,
    /// The CPUs that run in real time (`hw:cpu_realtime`).
    pub realtime: BTreeSet<u32>,
    /// The cells near the guest's networks, one entry for each network that restricts the guest.
    pub near: Vec<NearCells>,
}

/// One NUMA node of a guest. The sets have the guest's own CPU numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestNumaNode {
    pub floating: BTreeSet<u32>,
    pub dedicated: BTreeSet<u32>,
    pub memory_mib: u64,
}

/// `hw:cpu_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuPolicy {
    Shared,
    Dedicated,
    Mixed,
}

/// `hw:cpu_thread_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuThreadPolicy {
    Prefer,
    Isolate,
    Require,
}

/// `hw:emulator_threads_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmulatorThreadsPolicy {
    Share,
    Isolate,
}

/// `hw:mem_page_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemPageSize {
    Small,
    Large,
    Any,
    Kib(u64),
}

impl GuestNumaTopology {
    pub fn is_pinned(&self) -> bool {
        self.policy != CpuPolicy::Shared
    }

    pub fn isolates_emulator(&self) -> bool {
        self.emulator == Some(EmulatorThreadsPolicy::Isolate)
    }

    /// The topology in words, for example `2 NUMA nodes, 4 dedicated CPUs, 1024 MiB of memory`.
    pub fn words(&self) -> String {
        let sum = |of: fn(&GuestNumaNode) -> usize| self.nodes.iter().map(of).sum::<usize>();
        let (floating, dedicated) = (sum(|node| node.floating.len()), sum(|node| node.dedicated.len()));
        let counted = |count: usize, of: &str| match count {
            0 => None,
            1 => Some(format!("1 {of}")),
            more => Some(format!("{more} {of}s")),
        };
        let memory = self.nodes.iter().map(|node| node.memory_mib).sum::<u64>();
        let pages = self.pages.map(|pages| match pages {
            MemPageSize::Small => "small pages".to_owned(),
            MemPageSize::Large => "large pages".to_owned(),
            MemPageSize::Any => "pages of any size".to_owned(),
            MemPageSize::Kib(kib) => format!("pages of {kib} KiB"),
        });
        let parts = [
            counted(self.nodes.len(), "NUMA node"),
            counted(dedicated, "dedicated CPU"),
            counted(floating, "shared CPU"),
            self.isolates_emulator().then(|| "a CPU for its emulator".to_owned()),
            Some(format!("{memory} MiB of memory")),
            pages,
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
