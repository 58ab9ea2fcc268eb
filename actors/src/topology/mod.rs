//! NUMA topologies of guests, and processors that guests have for themselves.
//!
//! | file | what it says | Nova's name for it (`nova.virt.hardware`) |
//! |---|---|---|
//! | [`asked`] | what a flavor and an image ask for | `numa_get_constraints` |
//! | [`usage`] | what is free of a host's cells | `numa_usage_from_instance_numa` |
//! | [`fit`] | which cells of a host it fits on | `numa_fit_instance_to_host` |
//! | [`cores`] | which processors it gets there | `_pack_instance_onto_cores` |
//!
//! All of it is pure. Proposals are made from a view that may lag; the placement ledger's `decide` fits again, and that is
//! the word that counts: what it gives to one guest it gives to no other.
//!
//! One thing is not as in Nova: a host without `[compute] cpu_dedicated_set` has no dedicated processors. Nova falls back to
//! all processors of such a host, for the sake of configurations of before 2019, and floating guests run there as well.

pub mod asked;
pub mod cores;
pub mod fit;
pub mod host;
pub mod pinning;
pub mod usage;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use self::asked::ask;
pub use self::fit::fit;

/// What a guest is to have of its host's cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub nodes: Vec<Node>,
    pub policy: Policy,
    pub threads: Option<Threads>,
    pub emulator: Option<Emulator>,
    pub pages: Option<Pages>,
}

/// One NUMA node of a guest, by the guest's own numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub floating: BTreeSet<u32>,
    pub dedicated: BTreeSet<u32>,
    pub memory_mib: u64,
}

/// `hw:cpu_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Shared,
    Dedicated,
    Mixed,
}

/// `hw:cpu_thread_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    Prefer,
    Isolate,
    Require,
}

/// `hw:emulator_threads_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emulator {
    Share,
    Isolate,
}

/// `hw:mem_page_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Small,
    Large,
    Any,
    Kib(u64),
}

impl Topology {
    pub fn is_pinned(&self) -> bool {
        self.policy != Policy::Shared
    }

    pub fn isolates_emulator(&self) -> bool {
        self.emulator == Some(Emulator::Isolate)
    }

    /// In words: `2 NUMA nodes, 4 dedicated CPUs, 1024 MiB`.
    pub fn words(&self) -> String {
        let sum = |of: fn(&Node) -> usize| self.nodes.iter().map(of).sum::<usize>();
        let (floating, dedicated) = (sum(|node| node.floating.len()), sum(|node| node.dedicated.len()));
        let counted = |count: usize, of: &str| match count {
            0 => None,
            1 => Some(format!("1 {of}")),
            more => Some(format!("{more} {of}s")),
        };
        let memory = self.nodes.iter().map(|node| node.memory_mib).sum::<u64>();
        let pages = self.pages.map(|pages| match pages {
            Pages::Small => "small pages".to_owned(),
            Pages::Large => "large pages".to_owned(),
            Pages::Any => "pages of any size".to_owned(),
            Pages::Kib(kib) => format!("pages of {kib} KiB"),
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
