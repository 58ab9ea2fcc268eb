//! The machines of a simulated fleet, and the methods by which tests read and change them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chronova_events::ids::{ImageId, InstanceId, NetworkId};

use super::SimHost;
use super::faults::{DriverCall, Effect, FaultPlan};
use super::journal::{Journal, JournalError};
use super::live_migration::SimMigrations;
use super::machine::{SimGuest, SimMachine};
use super::uri::SimUri;
use super::volumes::SimPool;
use crate::driver::{Driver, DriverResult};
use crate::guest::FilterSpec;

/// The simulated machines. The drivers of successive control planes share them.
pub struct SimFleet {
    uri: Arc<SimUri>,
    machines: Vec<Mutex<SimMachine>>,
    pub(super) travel: Mutex<SimMigrations>,
}

impl fmt::Debug for SimFleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFleet").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl SimFleet {
    /// A fleet in memory.
    pub fn new(uri: SimUri) -> Arc<Self> {
        Arc::new(Self::machines_of(uri))
    }

    /// A fleet that keeps its state in `directory`, so that it survives the process.
    pub fn open(uri: SimUri, directory: &Path) -> Result<Arc<Self>, JournalError> {
        Self::machines_of(uri).kept_in(directory)
    }

    /// Like [`Self::open`]; all hosts share one volume pool.
    pub fn open_with_shared_volumes(uri: SimUri, directory: &Path) -> Result<Arc<Self>, JournalError> {
        let fleet = Self::machines_of(uri);
        fleet.share_volumes();
        fleet.kept_in(directory)
    }

    fn kept_in(self, directory: &Path) -> Result<Arc<Self>, JournalError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| JournalError::Io { path: directory.to_owned(), source })?;
        let path = directory.join(format!("{}.fleet", self.uri.name));
        for (host, change) in Journal::read(&path)? {
            // The fleet may have fewer hosts than when the journal was written. Changes of the other hosts are dropped.
            if let Some(machine) = self.machines.get(host) {
                lock(machine).apply(&change);
            }
        }
        let lines: String = self.machines.iter().map(|machine| lock(machine).lines()).collect();
        let journal = Arc::new(Journal::rewrite(&path, &lines)?);
        for machine in &self.machines {
            lock(machine).keep_in(&journal);
        }
        Ok(Arc::new(self))
    }

    fn machines_of(uri: SimUri) -> Self {
        let uri = Arc::new(uri);
        let machines = (0..uri.hosts).map(|index| Mutex::new(SimMachine::new(&uri, index))).collect();
        Self { uri, machines, travel: Mutex::default() }
    }

    pub fn uri(&self) -> &SimUri {
        &self.uri
    }

    pub fn len(&self) -> usize {
        self.machines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.machines.is_empty()
    }

    pub fn hostname(&self, host: usize) -> String {
        self.uri.hostname(host)
    }

    /// A driver for each machine.
    pub fn drivers(self: &Arc<Self>) -> Vec<Arc<dyn Driver>> {
        (0..self.len()).map(|host| Arc::new(SimHost::new(Arc::clone(self), host)) as Arc<dyn Driver>).collect()
    }

    /// Like [`Self::drivers`], for a control plane that may die. Once `dead` is set, no call of that control plane
    /// reaches a host.
    pub fn drivers_until(self: &Arc<Self>, dead: &Arc<AtomicBool>) -> Vec<Arc<dyn Driver>> {
        let until = |host| SimHost { severed: Some(Arc::clone(dead)), ..SimHost::new(Arc::clone(self), host) };
        (0..self.len()).map(|host| Arc::new(until(host)) as Arc<dyn Driver>).collect()
    }

    /// The machine of this host, locked.
    ///
    /// # Panics
    /// If the fleet has no such host, which is a mistake of the test.
    pub(super) fn machine(&self, host: usize) -> MutexGuard<'_, SimMachine> {
        lock(&self.machines[host])
    }

    // For tests: the state of the fleet.

    /// Every guest of a host.
    pub fn guests(&self, host: usize) -> BTreeMap<InstanceId, SimGuest> {
        self.machine(host).guests.clone()
    }

    /// The hosts on which each guest is defined.
    pub fn whereabouts(&self) -> BTreeMap<InstanceId, Vec<usize>> {
        let mut places = BTreeMap::<_, Vec<usize>>::new();
        for host in 0..self.len() {
            for instance in self.machine(host).guests.keys() {
                places.entry(*instance).or_default().push(host);
            }
        }
        places
    }

    /// Guests that are defined on more than one host.
    pub fn doubles(&self) -> Vec<InstanceId> {
        self.whereabouts().into_iter().filter(|(_, hosts)| hosts.len() > 1).map(|(instance, _)| instance).collect()
    }

    /// Guests that are switched on at more than one host, which must never happen.
    pub fn twins(&self) -> Vec<InstanceId> {
        let mut on = BTreeMap::<InstanceId, usize>::new();
        for host in 0..self.len() {
            for instance in self.machine(host).guests.iter().filter(|(_, guest)| guest.is_on()).map(|(id, _)| *id) {
                *on.entry(instance).or_default() += 1;
            }
        }
        on.into_iter().filter(|(_, hosts)| *hosts > 1).map(|(instance, _)| instance).collect()
    }

    /// Guests with a copy of their disk that a host has set aside.
    pub fn kept(&self) -> Vec<InstanceId> {
        (0..self.len()).flat_map(|host| self.machine(host).kept.clone()).collect()
    }

    /// Guests with leftover disks but no domain, with their hosts.
    pub fn leaks(&self) -> Vec<(usize, InstanceId)> {
        (0..self.len())
            .flat_map(|host| self.machine(host).orphans().into_iter().map(move |instance| (host, instance)))
            .collect()
    }

    /// Copies of guests' disks for new images, while they are on the hosts. Each comes with its host, guest and image.
    pub fn copies(&self) -> Vec<(usize, InstanceId, ImageId)> {
        let of =
            |host| self.machine(host).copies().iter().map(|(guest, copy)| (host, *guest, *copy)).collect::<Vec<_>>();
        (0..self.len()).flat_map(of).collect()
    }

    /// Guests whose hosts hold the passphrases of their TPMs.
    pub fn passphrases(&self) -> Vec<InstanceId> {
        (0..self.len()).flat_map(|host| self.machine(host).passphrases.keys().copied().collect::<Vec<_>>()).collect()
    }

    /// Hosts with the state of this guest's TPM.
    pub fn tpms(&self, instance: InstanceId) -> Vec<usize> {
        (0..self.len()).filter(|host| self.machine(*host).tpms.contains_key(&instance)).collect()
    }

    /// Running guests with an unfinished copy for a volume swap.
    pub fn copying(&self) -> Vec<InstanceId> {
        let of = |host| {
            let machine = self.machine(host);
            let copying = machine.guests.iter().filter(|(_, guest)| guest.is_on() && guest.copying.is_some());
            copying.map(|(id, _)| *id).collect::<Vec<_>>()
        };
        (0..self.len()).flat_map(of).collect()
    }

    /// Guests with frozen file systems.
    pub fn frozen(&self) -> Vec<InstanceId> {
        let of = |host| {
            let machine = self.machine(host);
            let frozen = machine.guests.iter().filter(|(_, guest)| guest.frozen);
            frozen.map(|(id, _)| *id).collect::<Vec<_>>()
        };
        (0..self.len()).flat_map(of).collect()
    }

    /// A host's packet filters by name, as this process last set them.
    pub fn filters(&self, host: usize) -> BTreeMap<String, FilterSpec> {
        self.machine(host).filter_specs.clone()
    }

    /// The virtual networks of a host.
    pub fn networks(&self, host: usize) -> BTreeSet<NetworkId> {
        self.machine(host).networks.clone()
    }

    /// The sizes in bytes of the volume service's volumes on a host, by name.
    pub fn volumes(&self, host: usize) -> BTreeMap<String, u64> {
        self.machine(host).volumes.all().iter().map(|(name, (size, _))| (name.clone(), *size)).collect()
    }

    /// The images in a host's cache, by checksum.
    pub fn images(&self, host: usize) -> BTreeSet<String> {
        self.machine(host).images().clone()
    }

    /// How often a call was made, over all hosts.
    pub fn calls(&self, call: DriverCall) -> u64 {
        (0..self.len()).map(|host| self.calls_of(host, call)).sum()
    }

    /// How often a call of one host was made.
    pub fn calls_of(&self, host: usize, call: DriverCall) -> u64 {
        self.machine(host).calls.get(&call).copied().unwrap_or(0)
    }

    /// How often each fault struck, over all hosts.
    pub fn struck(&self) -> BTreeMap<Effect, u64> {
        let mut all = BTreeMap::new();
        for host in 0..self.len() {
            for (effect, times) in &self.machine(host).struck {
                *all.entry(*effect).or_default() += times;
            }
        }
        all
    }

    pub fn is_alive(&self, host: usize) -> bool {
        self.machine(host).is_alive()
    }

    // For tests: changes of the fleet.

    /// Replaces the faults of one host.
    pub fn set_faults(&self, host: usize, faults: FaultPlan) {
        self.machine(host).faults = faults;
    }

    /// Replaces the faults of every host.
    pub fn set_all_faults(&self, faults: &FaultPlan) {
        for host in 0..self.len() {
            self.set_faults(host, faults.clone());
        }
    }

    /// Makes all hosts share one empty volume pool. Existing volumes would be lost, so call this first.
    pub fn share_volumes(&self) {
        let pool = SimPool::default();
        for host in 0..self.len() {
            self.machine(host).volumes = pool.clone();
        }
    }

    /// From now on, the processors of a host are busy for this share of their time, in percent.
    pub fn set_busy(&self, host: usize, percent: u32) {
        self.machine(host).busy = percent.min(100).into();
    }

    /// Makes the host unreachable. [`Self::revive_host`] decides whether its guests kept running.
    pub fn kill_host(&self, host: usize) {
        self.machine(host).die();
    }

    pub fn revive_host(&self, host: usize, guests_survived: bool) -> DriverResult<()> {
        self.machine(host).revive(guests_survived)
    }

    /// Ends the guest's process, as a crash of QEMU does.
    pub fn crash_guest(&self, host: usize, instance: InstanceId) -> DriverResult<()> {
        self.machine(host).crash_guest(instance)
    }

    /// Undefines the guest as an administrator would, without a call of a driver.
    pub fn lose_guest(&self, host: usize, instance: InstanceId) -> DriverResult<()> {
        self.machine(host).lose_guest(instance)
    }

    /// Sets whether the running guest refuses to detach its devices.
    pub fn set_clings(&self, host: usize, instance: InstanceId, clings: bool) -> DriverResult<()> {
        self.machine(host).set_clings(instance, clings)
    }

    /// The keys of the volumes that each guest is connected to, sorted.
    pub fn disks(&self) -> Vec<(InstanceId, String)> {
        let of = |host| {
            let machine = self.machine(host);
            let guests = machine.guests.iter();
            guests.flat_map(|(id, guest)| guest.volumes.iter().map(|serial| (*id, serial.clone()))).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = (0..self.len()).flat_map(of).collect();
        all.sort();
        all
    }

    /// Sets whether the guest ignores its power button. If so, its agent does not answer.
    pub fn set_deaf(&self, host: usize, instance: InstanceId, deaf: bool) -> DriverResult<()> {
        self.machine(host).set_deaf(instance, deaf)
    }
}

/// Ignores poisoning. A thread panics only between two changes, and the machine is consistent then.
fn lock(machine: &Mutex<SimMachine>) -> MutexGuard<'_, SimMachine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}
