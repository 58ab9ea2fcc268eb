//! `sim://10?seed=7&latency_ms=5&fail=spawn:p0.01`: the number of simulated hosts and their properties.

use std::str::FromStr;
use std::time::Duration;

use chronova_events::ids::HostId;
use thiserror::Error;
use uuid::Uuid;

use super::faults::FaultPlan;
use super::mdevs::SimMdevs;
use super::pci::SimPci;

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum SimUriError {
    #[error("a simulated fleet is written sim://N, N from 1 to 100000")]
    Hosts,
    #[error(
        "unknown parameter {0:?} (known: name, seed, latency_ms, boot_ms, vcpus, memory_mib, disk_gib, kvm, cells, threads, huge_pages, tpm, sev, pmem, pci, mdev, fail)"
    )]
    Unknown(String),
    #[error("{value:?} is not a value of {name}")]
    Value { name: &'static str, value: String },
}

/// The description of a simulated fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct SimUri {
    pub hosts: usize,
    /// The prefix of the host names. Two fleets of one control plane need different prefixes.
    pub name: String,
    /// The seed of latencies and faults.
    pub seed: u64,
    /// The mean latency. A call takes between 0.5 and 1.5 times this long.
    pub latency: Duration,
    /// The time from a guest's start until its console shows the end of the boot.
    pub boot: Duration,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub kvm: bool,
    /// The number of NUMA cells; 0: the host does not report any.
    pub cells: u32,
    /// The number of hardware threads per core.
    pub threads: u32,
    /// The number of 2 MiB pages in each cell.
    pub huge_pages: u64,
    /// Whether the hosts offer secure boot and emulated TPMs.
    pub tpm: bool,
    /// How many guests with encrypted memory each host can have.
    pub sev: u32,
    /// The number of each host's namespaces of persistent memory, all with the label `6GB`.
    pub pmem: u32,
    /// The PCI devices of each host.
    pub pci: SimPci,
    /// The physical GPUs of each host.
    pub mdevs: SimMdevs,
    pub faults: FaultPlan,
}

impl SimUri {
    pub fn new(hosts: usize) -> Self {
        Self {
            hosts,
            name: "sim".to_owned(),
            seed: 0,
            latency: Duration::ZERO,
            boot: Duration::ZERO,
            vcpus: 64,
            memory_mib: 262_144,
            disk_gib: 4096,
            kvm: true,
            cells: 1,
            threads: 1,
            huge_pages: 0,
            tpm: false,
            sev: 0,
            pmem: 0,
            pci: SimPci::default(),
            mdevs: SimMdevs::default(),
            faults: FaultPlan::default(),
        }
    }

    /// The name of a host. With the default prefix, the first one is `sim-0001`.
    pub fn hostname(&self, index: usize) -> String {
        format!("{}-{:04}", self.name, index + 1)
    }

    /// The id of a host. It derives from the host's name, so a fleet has the same ids in every process.
    pub fn host_id(&self, index: usize) -> HostId {
        HostId::derive(Uuid::NAMESPACE_URL, &format!("sim://{}", self.hostname(index)))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SimUriError> {
        fn parsed<T: FromStr>(name: &'static str, value: &str) -> Result<T, SimUriError> {
            value.parse().map_err(|_| SimUriError::Value { name, value: value.to_owned() })
        }
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        match name {
            "name" if !value.is_empty() && value.chars().all(word) => value.clone_into(&mut self.name),
            "name" => return Err(SimUriError::Value { name: "name", value: value.to_owned() }),
            "seed" => self.seed = parsed("seed", value)?,
            "latency_ms" => self.latency = Duration::from_millis(parsed("latency_ms", value)?),
            "boot_ms" => self.boot = Duration::from_millis(parsed("boot_ms", value)?),
            "vcpus" => self.vcpus = parsed("vcpus", value)?,
            "memory_mib" => self.memory_mib = parsed("memory_mib", value)?,
            "disk_gib" => self.disk_gib = parsed("disk_gib", value)?,
            "kvm" => self.kvm = parsed("kvm", value)?,
            "cells" => self.cells = parsed("cells", value)?,
            "threads" => self.threads = parsed("threads", value)?,
            "huge_pages" => self.huge_pages = parsed("huge_pages", value)?,
            "tpm" => self.tpm = parsed("tpm", value)?,
            "sev" => self.sev = parsed("sev", value)?,
            "pmem" => self.pmem = parsed("pmem", value)?,
            "pci" => {
                let wrong = |()| SimUriError::Value { name: "pci", value: value.to_owned() };
                self.pci = value.parse().map_err(wrong)?;
            }
            "mdev" => {
                let wrong = |()| SimUriError::Value { name: "mdev", value: value.to_owned() };
                self.mdevs = value.parse().map_err(wrong)?;
            }
            "fail" => self.faults = parsed("fail", value)?,
            _ => return Err(SimUriError::Unknown(name.to_owned())),
        }
        Ok(())
    }
}

impl FromStr for SimUri {
    type Err = SimUriError;

    fn from_str(text: &str) -> Result<Self, SimUriError> {
        let rest = text.strip_prefix("sim://").ok_or(SimUriError::Hosts)?;
        let (hosts, query) = rest.split_once('?').unwrap_or((rest, ""));
        let hosts = hosts.trim_end_matches('/').parse().map_err(|_| SimUriError::Hosts)?;
        if !(1..=100_000).contains(&hosts) {
            return Err(SimUriError::Hosts);
        }
        let mut uri = Self::new(hosts);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            uri.set(name, value)?;
        }
        Ok(uri)
    }
}
