//! Determines which processors of a host are for pinned guests and which for floating guests, and how many huge pages
//! are for guests. The host reports its cells, and the operator configures the CPU sets and the reserved pages.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{HostCellsReplaced, HostNumaCell, HostPages};
use chronova_hypervisor::cpus;
use chronova_hypervisor::pinning::NumaCell;

use super::MemPageSize;
use super::request::pages;

/// `[compute] cpu_shared_set` and `cpu_dedicated_set`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuSets {
    pub shared: Option<BTreeSet<u32>>,
    pub dedicated: Option<BTreeSet<u32>>,
}

/// The CPU sets of every host. Nova has a configuration file per host; here, one file serves all hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCpus {
    /// The sets of hosts that `named` does not have.
    pub others: CpuSets,
    /// `[chronova] host_cpus`, by host name.
    pub named: BTreeMap<String, CpuSets>,
}

impl HostCpus {
    pub fn of(&self, hostname: &str) -> &CpuSets {
        self.named.get(hostname).unwrap_or(&self.others)
    }

    /// Reads `[chronova] host_cpus`: `h1 dedicated=4-7 shared=0-3; h2 dedicated=2-3 shared=0-1`.
    ///
    /// # Errors
    /// The part that cannot be read, or why the two sets of one host are refused.
    pub fn read_named(text: &str) -> Result<BTreeMap<String, CpuSets>, String> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(named).collect()
    }
}

fn named(entry: &str) -> Result<(String, CpuSets), String> {
    let mut words = entry.split_whitespace();
    let name = words.next().unwrap_or_default();
    let mut sets = CpuSets::default();
    for word in words {
        let (kind, set) = word.split_once('=').unwrap_or((word, ""));
        let place = match kind {
            "shared" => &mut sets.shared,
            "dedicated" => &mut sets.dedicated,
            _ => return Err(format!("{word:?} is neither shared=CPUS nor dedicated=CPUS")),
        };
        *place = Some(CpuSets::read(set)?);
    }
    sets.check()?;
    match name.contains('=') {
        true => Err(format!("{entry:?} does not begin with the name of a host")),
        false => Ok((name.to_owned(), sets)),
    }
}

impl CpuSets {
    /// Reads a set of processors.
    ///
    /// # Errors
    /// The error in the text.
    pub fn read(text: &str) -> Result<BTreeSet<u32>, String> {
        match cpus::parse(text)? {
            set if set.is_empty() => Err(format!("{text:?} names no CPU")),
            set => Ok(set),
        }
    }

    /// Checks that the sets are disjoint.
    ///
    /// # Errors
    /// A processor is in both sets.
    pub fn check(&self) -> Result<(), String> {
        let (Some(shared), Some(dedicated)) = (&self.shared, &self.dedicated) else { return Ok(()) };
        match cpus::format(shared.intersection(dedicated).copied()) {
            both if both.is_empty() => Ok(()),
            both => Err(format!("CPUs {both} are both shared and dedicated")),
        }
    }

    fn any(&self) -> bool {
        self.shared.is_some() || self.dedicated.is_some()
    }
}

/// An entry of `[DEFAULT] reserved_huge_pages`: pages of each host that are not for guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedHugePages {
    /// The NUMA cell.
    pub node: u32,
    /// The size of a page.
    pub kib: u64,
    pub count: u64,
}

impl ReservedHugePages {
    /// Reads `node:0,size:2048,count:64`; the size is in KiB, or has a unit as in `1GB`.
    ///
    /// # Errors
    /// The part that cannot be read.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut parts: BTreeMap<&str, &str> = BTreeMap::new();
        for part in text.split(',') {
            let (key, value) = part.split_once(':').ok_or_else(|| format!("{part:?} is not KEY:VALUE"))?;
            parts.insert(key.trim(), value.trim());
        }
        let [node, size, count] = ["node", "size", "count"].map(|key| parts.remove(key).ok_or(key));
        if let Some(key) = parts.keys().next() {
            return Err(format!("{key:?} is none of node, size and count"));
        }
        let missing = |key: &str| format!("{text:?} has no {key}");
        let (node, size, count) = (node.map_err(missing)?, size.map_err(missing)?, count.map_err(missing)?);
        let wrong = |key: &str, value: &str| format!("{key}:{value} is not a number");
        let MemPageSize::Kib(kib) = pages(size)? else { return Err(format!("size:{size} is not the size of a page")) };
        Ok(Self {
            node: node.parse().map_err(|_| wrong("node", node))?,
            kib,
            count: count.parse().map_err(|_| wrong("count", count))?,
        })
    }
}

/// The cells of a host that guests may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNumaCells {
    /// See [`HostCellsReplaced`].
    pub confines: bool,
    pub cells: Vec<HostNumaCell>,
    /// The numbers of shared and of dedicated processors. `None` if the operator named no processors.
    pub counted: Option<(u64, u64)>,
}

impl HostNumaCells {
    /// Divides the processors of the reported cells into shared and dedicated ones, as the operator's CPU sets say.
    ///
    /// # Errors
    /// The operator named processors that the host does not have.
    pub fn of(found: &[NumaCell], sets: &CpuSets) -> Result<Self, String> {
        let online: BTreeSet<u32> = found.iter().flat_map(|cell| cell.cpus.iter().copied()).collect();
        for (option, set) in [("cpu_shared_set", &sets.shared), ("cpu_dedicated_set", &sets.dedicated)] {
            let absent = set.iter().flatten().copied().filter(|cpu| !online.contains(cpu));
            let absent = cpus::format(absent);
            if !absent.is_empty() {
                let online = cpus::format(online.iter().copied());
                return Err(format!(
                    "[compute] {option} names CPUs that are not online on the host: {absent}; it has {online}"
                ));
            }
        }
        let shared = match (&sets.shared, &sets.dedicated) {
            (Some(shared), _) => shared.clone(),
            // As in Nova, if an operator names only dedicated processors, guests get no others.
            (None, Some(_)) => BTreeSet::new(),
            (None, None) => online,
        };
        let dedicated = sets.dedicated.clone().unwrap_or_default();
        let counted = sets.any().then_some((shared.len() as u64, dedicated.len() as u64));
        let cells = found.iter().map(|cell| of_cell(cell, &shared, &dedicated)).collect();
        Ok(Self { confines: sets.shared.is_some(), cells, counted })
    }

    /// Takes the operator's reserved pages off. An entry for a cell or a size that the host does not have is for other
    /// hosts.
    #[must_use]
    pub fn without(mut self, reserved: &[ReservedHugePages]) -> Self {
        for entry in reserved {
            let cell = self.cells.iter_mut().filter(|cell| cell.id == entry.node);
            for found in cell.flat_map(|cell| &mut cell.pages).filter(|found| found.kib == entry.kib) {
                found.total = found.total.saturating_sub(entry.count);
            }
        }
        self
    }

    pub fn event(&self, provider: ProviderId) -> HostCellsReplaced {
        HostCellsReplaced { provider, confines: self.confines, cells: self.cells.clone() }
    }
}

fn of_cell(cell: &NumaCell, shared: &BTreeSet<u32>, dedicated: &BTreeSet<u32>) -> HostNumaCell {
    let here = |set: &BTreeSet<u32>| cell.cpus.iter().copied().filter(|cpu| set.contains(cpu)).collect();
    // A thread that guests never get is left out.
    let usable = |core: &Vec<u32>| -> Vec<u32> {
        core.iter().copied().filter(|cpu| shared.contains(cpu) || dedicated.contains(cpu)).collect()
    };
    HostNumaCell {
        id: cell.id,
        shared: here(shared),
        dedicated: here(dedicated),
        siblings: cell.siblings.iter().map(usable).filter(|core| core.len() > 1).collect(),
        memory_mib: cell.memory_mib,
        pages: cell.pages.iter().map(|(kib, total)| HostPages { kib: *kib, total: *total }).collect(),
    }
}
