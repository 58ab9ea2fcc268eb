//! A guest on a simulated machine, and the placement of its CPUs and memory.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::InstanceId;
use tokio::time::Instant;

use super::machine::SimMachine;
use super::uri::SimUri;
use crate::driver::{DriverError, DriverResult};
use crate::guest::PowerState;
use crate::mdev::GuestMdev;
use crate::pci::PassedDevice;
use crate::pinning::{NumaCell, Pinning};

/// A guest on a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimGuest {
    pub domain_name: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub power: PowerState,
    /// How often the guest was started. Starts in earlier processes may be missing, because the state file may lack
    /// them.
    pub boots: u32,
    /// Whether the guest's memory is saved on the host's disk.
    pub saved: bool,
    /// How many non-maskable interrupts it got in this process.
    pub interrupts: u32,
    /// Whether the guest is deaf. A deaf guest ignores its power button, and its agent does not answer.
    pub deaf: bool,
    /// The MACs of its interfaces.
    pub nics: BTreeSet<String>,
    /// Whether it refuses to release devices.
    pub clings: bool,
    /// The keys of its volumes.
    pub volumes: BTreeSet<String>,
    /// During a swap: the keys of the old volume and of the new one.
    pub copying: Option<(String, String)>,
    /// Whether it was started from a rescue disk.
    pub rescued: bool,
    /// How often its root disk was created in this process.
    pub disks: u32,
    /// The user and password that were last set in this process.
    pub password: Option<(String, String)>,
    /// Whether its file systems are frozen.
    pub frozen: bool,
    /// Whether the console output from its previous host was brought here.
    pub carried: bool,
    /// The placement of its CPUs and memory, as last defined in this process.
    pub pinning: Pinning,
    /// The PCI devices that it has, as last defined in this process.
    pub devices: Vec<PassedDevice>,
    /// The PCI devices of its interfaces, by MAC address.
    pub nic_devices: BTreeMap<String, PassedDevice>,
    /// The mediated devices that it has, as last defined in this process.
    pub mdevs: Vec<GuestMdev>,
    pub(super) started: Instant,
}

impl SimGuest {
    /// A guest that is off, and has no CPUs, memory or disk.
    pub(super) fn defined(domain_name: &str, boots: u32) -> Self {
        Self {
            domain_name: domain_name.to_owned(),
            vcpus: 0,
            memory_mib: 0,
            disk_gib: 0,
            power: PowerState::Shutdown,
            boots,
            saved: false,
            interrupts: 0,
            deaf: false,
            nics: BTreeSet::new(),
            clings: false,
            volumes: BTreeSet::new(),
            copying: None,
            rescued: false,
            disks: 1,
            password: None,
            frozen: false,
            carried: false,
            pinning: Pinning::default(),
            devices: Vec::new(),
            nic_devices: BTreeMap::new(),
            mdevs: Vec::new(),
            started: Instant::now(),
        }
    }

    /// The machine's PCI devices that the guest has. The devices of its interfaces come last.
    pub fn all_devices(&self) -> impl Iterator<Item = &PassedDevice> {
        self.devices.iter().chain(self.nic_devices.values())
    }

    /// Whether it is running or paused.
    pub fn is_on(&self) -> bool {
        matches!(self.power, PowerState::Running | PowerState::Paused)
    }
}

/// The number of 4 KiB pages in a MiB.
const SMALL_PAGES: u64 = 256;

/// The cells of a machine: equal parts of its processors and memory. The last cell gets the rest.
pub(super) fn cells(uri: &SimUri) -> Vec<NumaCell> {
    let count = uri.cells.min(uri.vcpus);
    let threads = uri.threads.max(1) as usize;
    let part = |whole: u64, id: u32| match id + 1 == count {
        true => whole - whole / u64::from(count) * u64::from(id),
        false => whole / u64::from(count),
    };
    let each = uri.vcpus / count.max(1);
    (0..count)
        .map(|id| {
            let last = if id + 1 == count { uri.vcpus } else { (id + 1) * each };
            let cpus: Vec<u32> = (id * each..last).collect();
            let memory_mib = part(uri.memory_mib, id);
            let huge = (2048, uri.huge_pages);
            NumaCell {
                id,
                siblings: cpus.chunks(threads).filter(|core| core.len() > 1).map(<[u32]>::to_vec).collect(),
                cpus,
                memory_mib,
                pages: [(4, memory_mib.saturating_sub(uri.huge_pages * 2) * SMALL_PAGES), huge]
                    .into_iter()
                    .filter(|(_, total)| *total > 0)
                    .collect(),
            }
        })
        .collect()
}

impl SimMachine {
    /// Fails, as libvirt does, if the pinning names a missing processor.
    pub(super) fn require_processors(&self, pinning: &Pinning) -> DriverResult<()> {
        let nodes = pinning.nodes.iter().flat_map(|node| &node.cpus).flat_map(|(_, cpus)| cpus);
        match nodes.chain(&pinning.confined).chain(&pinning.emulator).find(|cpu| **cpu >= self.uri.vcpus) {
            None => Ok(()),
            Some(cpu) => {
                let message = format!("there is no processor {cpu}");
                Err(DriverError::Failed { call: "define", message })
            }
        }
    }

    pub(super) fn pin(&mut self, instance: InstanceId, pinning: &Pinning) {
        if let Some(guest) = self.guests.get_mut(&instance) {
            guest.pinning = pinning.clone();
        }
    }
}
