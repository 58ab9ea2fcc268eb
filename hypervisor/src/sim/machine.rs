//! One simulated machine: what it holds and what the driver's calls do to it.

pub(super) mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronova_events::ids::{HostId, InstanceId, NetworkId};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::faults::{Call, Chance, Effect, FaultPlan};
use super::journal::{Change, Journal};
use super::uri::SimUri;
use crate::driver::{DriverError, DriverResult, HostSignal};
use crate::guest::{
    ConsoleAddress, CpuInfo, Diagnostics, DiskCounters, FilterSpec, GuestSpec, GuestStatus, HostCapabilities,
    HostUsage, ImageRef, Nic, NicCounters, PowerState,
};
use crate::traits;

/// Signals a listener may lag behind; kept small because a fleet has many machines.
const SIGNALS: usize = 64;

/// A guest on a simulated machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimGuest {
    pub domain_name: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub power: PowerState,
    /// How often it was started in this process.
    pub boots: u32,
    /// Whether its memory waits on the disk.
    pub saved: bool,
    /// How often it was interrupted in this process.
    pub interrupts: u32,
    /// Whether it ignores the power button.
    pub deaf: bool,
    /// The MACs of its interfaces.
    pub nics: BTreeSet<String>,
    /// Whether it keeps devices that it is asked to let go of.
    pub clings: bool,
    started: Instant,
}

impl SimGuest {
    /// Whether it is in the machine's memory.
    pub fn is_on(&self) -> bool {
        matches!(self.power, PowerState::Running | PowerState::Paused)
    }
}

/// The state of one machine.
#[derive(Debug)]
pub(super) struct Machine {
    index: usize,
    pub(super) uri: Arc<SimUri>,
    host: HostId,
    hostname: String,
    journal: Option<Arc<Journal>>,
    chance: Chance,
    pub(super) faults: FaultPlan,
    pub(super) calls: BTreeMap<Call, u64>,
    alive: bool,
    /// Of this process, as long as it runs.
    up_since: Instant,
    tear: bool,
    pub(super) guests: BTreeMap<InstanceId, SimGuest>,
    leaks: BTreeSet<InstanceId>,
    /// Guests of which a copy of the disk is set aside.
    pub(super) kept: BTreeSet<InstanceId>,
    images: BTreeSet<String>,
    networks: BTreeSet<NetworkId>,
    filters: BTreeSet<String>,
    /// The volume service's volumes: bytes and content.
    pub(super) volumes: BTreeMap<String, (u64, String)>,
    /// As they were last given in this process; not kept.
    pub(super) filter_specs: BTreeMap<String, FilterSpec>,
    signals: Option<broadcast::Sender<HostSignal>>,
    image_gate: Arc<tokio::sync::Mutex<()>>,
}

impl Machine {
    pub(super) fn new(uri: &Arc<SimUri>, index: usize) -> Self {
        Self {
            index,
            host: uri.host_id(index),
            hostname: uri.hostname(index),
            journal: None,
            chance: Chance::new(uri.seed, index),
            faults: uri.faults.clone(),
            uri: Arc::clone(uri),
            calls: BTreeMap::new(),
            alive: true,
            up_since: Instant::now(),
            tear: false,
            guests: BTreeMap::new(),
            leaks: BTreeSet::new(),
            kept: BTreeSet::new(),
            images: BTreeSet::new(),
            networks: BTreeSet::new(),
            filters: BTreeSet::new(),
            volumes: BTreeMap::new(),
            filter_specs: BTreeMap::new(),
            signals: None,
            image_gate: Arc::default(),
        }
    }

    /// From now on changes are kept.
    pub(super) fn keep_in(&mut self, journal: &Arc<Journal>) {
        self.journal = Some(Arc::clone(journal));
    }

    pub(super) fn image_gate(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.image_gate)
    }

    /// Counts the call; its latency and the fault that will strike it.
    pub(super) fn begin(&mut self, call: Call) -> DriverResult<(Duration, Option<Effect>)> {
        let nth = self.calls.entry(call).or_default();
        *nth += 1;
        let nth = *nth;
        self.require_alive()?;
        let delay = if self.uri.latency.is_zero() {
            Duration::ZERO
        } else {
            self.uri.latency.mul_f64(0.5 + self.chance.unit())
        };
        Ok((delay, self.faults.strike(call, nth, &mut self.chance)))
    }

    pub(super) fn require_alive(&self) -> DriverResult<()> {
        if self.alive { Ok(()) } else { Err(DriverError::Unreachable(format!("{} is down", self.hostname))) }
    }

    /// Persists a change, then makes it.
    pub(super) fn change(&mut self, change: &Change) -> DriverResult<()> {
        if let Some(journal) = &self.journal {
            let failed = |error| DriverError::Failed { call: "state file", message: format!("{error}") };
            journal.append(&change.line(self.index)).map_err(failed)?;
        }
        self.apply(change);
        Ok(())
    }

    /// Makes a change; also how the state file is replayed.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Define { instance, vcpus, memory_mib, disk_gib, name } => {
                let guest = SimGuest {
                    domain_name: name.clone(),
                    vcpus: *vcpus,
                    memory_mib: *memory_mib,
                    disk_gib: *disk_gib,
                    power: PowerState::Shutdown,
                    boots: 0,
                    saved: false,
                    interrupts: 0,
                    deaf: false,
                    nics: BTreeSet::new(),
                    clings: false,
                    started: Instant::now(),
                };
                self.guests.insert(*instance, guest);
            }
            Change::On(instance) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.power = PowerState::Running;
                    guest.saved = false;
                    guest.boots += 1;
                    guest.started = Instant::now();
                }
            }
            Change::Off(instance) => self.put(*instance, PowerState::Shutdown, false),
            Change::Pause(instance) => self.put(*instance, PowerState::Paused, false),
            Change::Unpause(instance) | Change::Restore(instance) => self.put(*instance, PowerState::Running, false),
            Change::Save(instance) => self.put(*instance, PowerState::Shutdown, true),
            Change::Keep(instance) => {
                self.kept.insert(*instance);
            }
            Change::Unkeep(instance) => {
                self.kept.remove(instance);
            }
            Change::Undefine(instance) => {
                self.guests.remove(instance);
                self.kept.remove(instance);
            }
            Change::Leak(instance) => {
                self.leaks.insert(*instance);
            }
            Change::Tidy(instance) => {
                self.leaks.remove(instance);
            }
            Change::Image(checksum) => {
                self.images.insert(checksum.clone());
            }
            Change::Network(network) => {
                self.networks.insert(*network);
            }
            Change::NoNetwork(network) => {
                self.networks.remove(network);
            }
            Change::Filter(name) => {
                self.filters.insert(name.clone());
            }
            Change::NoFilter(name) => {
                self.filters.remove(name);
            }
            Change::Volume { .. } | Change::NoVolume(_) => self.apply_to_volumes(change),
            Change::Plug(instance, mac) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.nics.insert(mac.clone());
                }
            }
            Change::Unplug(instance, mac) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.nics.remove(mac);
                }
            }
        }
    }

    fn put(&mut self, instance: InstanceId, power: PowerState, saved: bool) {
        if let Some(guest) = self.guests.get_mut(&instance) {
            guest.power = power;
            guest.saved = saved;
        }
    }

    /// The shortest journal that gives this state.
    pub(super) fn lines(&self) -> String {
        let mut changes: Vec<Change> = Vec::new();
        changes.extend(self.images.iter().cloned().map(Change::Image));
        changes.extend(self.networks.iter().copied().map(Change::Network));
        changes.extend(self.filters.iter().cloned().map(Change::Filter));
        changes.extend(self.leaks.iter().copied().map(Change::Leak));
        changes.extend(self.volume_changes());
        changes.extend(self.kept.iter().copied().map(Change::Keep));
        for (instance, guest) in &self.guests {
            changes.push(Self::definition(*instance, guest));
            changes.extend(guest.nics.iter().map(|mac| Change::Plug(*instance, mac.clone())));
            if guest.is_on() {
                changes.push(Change::On(*instance));
            }
            if guest.power == PowerState::Paused {
                changes.push(Change::Pause(*instance));
            }
            if guest.saved {
                changes.push(Change::Save(*instance));
            }
        }
        changes.iter().map(|change| change.line(self.index)).collect()
    }

    fn definition(instance: InstanceId, guest: &SimGuest) -> Change {
        Change::Define {
            instance,
            vcpus: guest.vcpus,
            memory_mib: guest.memory_mib,
            disk_gib: guest.disk_gib,
            name: guest.domain_name.clone(),
        }
    }

    fn tell(&self, signal: HostSignal) {
        if let Some(signals) = &self.signals {
            // Nobody listening is no error.
            let _ = signals.send(signal);
        }
    }

    pub(super) fn listen(&mut self) -> (HostSignal, broadcast::Receiver<HostSignal>) {
        let sender = self.signals.get_or_insert_with(|| broadcast::Sender::new(SIGNALS));
        let receiver = sender.subscribe();
        let first = if self.alive {
            HostSignal::Connected
        } else {
            HostSignal::Disconnected { reason: format!("{} is down", self.hostname) }
        };
        (first, receiver)
    }

    // What a call does.

    pub(super) fn capabilities(&self) -> HostCapabilities {
        let features = ["aes", "avx", "avx2", "sse", "sse2", "sse4.1", "sse4.2", "ssse3", "vmx"];
        let cpu = CpuInfo {
            arch: "x86_64".to_owned(),
            model: "Skylake-Server-IBRS".to_owned(),
            vendor: "Intel".to_owned(),
            sockets: 1,
            cores: self.uri.vcpus,
            threads: 1,
            features: features.map(str::to_owned).to_vec(),
        };
        HostCapabilities {
            host: self.host,
            hostname: self.hostname.clone(),
            hypervisor_type: "QEMU".to_owned(),
            hypervisor_version: 7_002_000,
            libvirt_version: 9_000_000,
            host_ip: "127.0.0.1".to_owned(),
            vcpus: self.uri.vcpus,
            memory_mib: self.uri.memory_mib,
            disk_gib: self.uri.disk_gib,
            traits: traits::of_host(&cpu, &["virtio".to_owned(), "vga".to_owned()], true),
            cpu,
            kvm: self.uri.kvm,
        }
    }

    pub(super) fn usage(&self) -> HostUsage {
        let running = || self.guests.values().filter(|guest| guest.is_on());
        let disk_used_gib = self.guests.values().map(|guest| guest.disk_gib).sum();
        HostUsage {
            memory_used_mib: 512 + running().map(|guest| guest.memory_mib).sum::<u64>(),
            disk_used_gib,
            disk_free_gib: self.uri.disk_gib.saturating_sub(disk_used_gib),
            running_guests: u32::try_from(running().count()).unwrap_or(u32::MAX),
            uptime_seconds: Some(self.up_since.elapsed().as_secs()),
        }
    }

    pub(super) fn images(&self) -> &BTreeSet<String> {
        &self.images
    }

    pub(super) fn has_image(&self, image: &ImageRef) -> bool {
        self.images.contains(&image.checksum)
    }

    pub(super) fn keep_image(&mut self, image: &ImageRef) -> DriverResult<()> {
        self.require_alive()?;
        self.change(&Change::Image(image.checksum.clone()))
    }

    pub(super) fn keep_network(&mut self, network: NetworkId) -> DriverResult<()> {
        if self.networks.contains(&network) { Ok(()) } else { self.change(&Change::Network(network)) }
    }

    pub(super) fn drop_network(&mut self, network: NetworkId) -> DriverResult<()> {
        if self.networks.contains(&network) { self.change(&Change::NoNetwork(network)) } else { Ok(()) }
    }

    pub(super) fn keep_filter(&mut self, filter: &FilterSpec) -> DriverResult<()> {
        if !self.filters.contains(&filter.name) {
            self.change(&Change::Filter(filter.name.clone()))?;
        }
        self.filter_specs.insert(filter.name.clone(), filter.clone());
        Ok(())
    }

    pub(super) fn drop_filter(&mut self, name: &str) -> DriverResult<()> {
        self.filter_specs.remove(name);
        if self.filters.contains(name) { self.change(&Change::NoFilter(name.to_owned())) } else { Ok(()) }
    }

    pub(super) fn tear_next(&mut self, call: Call) {
        self.tear = matches!(call, Call::Spawn | Call::Destroy);
    }

    pub(super) fn spawn(&mut self, spec: &GuestSpec) -> DriverResult<()> {
        let torn = std::mem::take(&mut self.tear);
        let instance = spec.instance;
        if self.guests.contains_key(&instance) {
            return self.start(instance);
        }
        self.require_surroundings(spec)?;
        if torn {
            self.change(&Change::Leak(instance))?;
            return Err(DriverError::Failed { call: "spawn", message: "simulated fault half way".to_owned() });
        }
        let disk = spec.root.as_ref().map_or(0, |root| root.size_gib) + spec.ephemeral_gib;
        self.change(&Change::Define {
            instance,
            vcpus: spec.vcpus,
            memory_mib: spec.memory_mib,
            disk_gib: disk.into(),
            name: spec.domain_name.clone(),
        })?;
        for nic in &spec.nics {
            self.change(&Change::Plug(instance, nic.mac.clone()))?;
        }
        if self.leaks.contains(&instance) {
            self.change(&Change::Tidy(instance))?;
        }
        self.start(instance)
    }

    fn require_surroundings(&self, spec: &GuestSpec) -> DriverResult<()> {
        let failed = |message: String| Err(DriverError::Failed { call: "spawn", message });
        if let Some(root) = &spec.root
            && !self.has_image(&root.image)
        {
            let image = root.image.id.to_string();
            return Err(DriverError::BadImage { image, reason: "it is not in the host's cache".to_owned() });
        }
        for nic in &spec.nics {
            self.require_cable("spawn", nic)?;
        }
        if self.guests.values().any(|guest| guest.domain_name == spec.domain_name) {
            return failed(format!("domain '{}' already exists", spec.domain_name));
        }
        Ok(())
    }

    fn require_cable(&self, call: &'static str, nic: &Nic) -> DriverResult<()> {
        let failed = |message: String| Err(DriverError::Failed { call, message });
        if !self.networks.contains(&nic.network) {
            return failed(format!("network {} is not on this host", nic.network));
        }
        match &nic.filter {
            Some(filter) if !self.filters.contains(filter) => failed(format!("filter {filter} is not on this host")),
            _ => Ok(()),
        }
    }

    pub(super) fn attach_nic(&mut self, instance: InstanceId, nic: &Nic) -> DriverResult<()> {
        if self.guest(instance)?.nics.contains(&nic.mac) {
            return Ok(());
        }
        self.require_cable("attach_nic", nic)?;
        self.change(&Change::Plug(instance, nic.mac.clone()))
    }

    pub(super) fn detach_nic(&mut self, instance: InstanceId, mac: &str) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if !guest.nics.contains(mac) {
            return Ok(());
        }
        if guest.clings && guest.is_on() {
            let message = "the guest did not let go of the device".to_owned();
            return Err(DriverError::Failed { call: "detach_nic", message });
        }
        self.change(&Change::Unplug(instance, mac.to_owned()))
    }

    pub(super) fn destroy(&mut self, instance: InstanceId) -> DriverResult<()> {
        let torn = std::mem::take(&mut self.tear);
        let known = self.guests.contains_key(&instance);
        if known {
            self.change(&Change::Undefine(instance))?;
        }
        if torn && known {
            self.change(&Change::Leak(instance))?;
            return Err(DriverError::Failed { call: "destroy", message: "simulated fault half way".to_owned() });
        }
        if self.leaks.contains(&instance) { self.change(&Change::Tidy(instance)) } else { Ok(()) }
    }

    fn guest(&self, instance: InstanceId) -> DriverResult<&SimGuest> {
        self.guests.get(&instance).ok_or(DriverError::NoSuchGuest(instance))
    }

    pub(super) fn start(&mut self, instance: InstanceId) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if guest.is_on() {
            return Ok(());
        }
        let saved = guest.saved;
        self.change(&if saved { Change::Restore(instance) } else { Change::On(instance) })?;
        self.tell(HostSignal::Guest { instance, power: PowerState::Running });
        Ok(())
    }

    pub(super) fn power_off(&mut self, instance: InstanceId) -> DriverResult<()> {
        if !self.guest(instance)?.is_on() {
            return Ok(());
        }
        self.change(&Change::Off(instance))?;
        self.tell(HostSignal::Guest { instance, power: PowerState::Shutdown });
        Ok(())
    }

    /// From nothing: what was in its memory is gone.
    pub(super) fn reboot(&mut self, instance: InstanceId) -> DriverResult<()> {
        self.power_off(instance)?;
        if self.guest(instance)?.saved {
            self.change(&Change::Off(instance))?;
        }
        self.start(instance)
    }

    pub(super) fn pause(&mut self, instance: InstanceId) -> DriverResult<()> {
        match self.guest(instance)?.power {
            PowerState::Paused => Ok(()),
            PowerState::Running => {
                self.change(&Change::Pause(instance))?;
                self.tell(HostSignal::Guest { instance, power: PowerState::Paused });
                Ok(())
            }
            _ => Err(not_running("pause")),
        }
    }

    pub(super) fn unpause(&mut self, instance: InstanceId) -> DriverResult<()> {
        match self.guest(instance)?.power {
            PowerState::Running => Ok(()),
            PowerState::Paused => {
                self.change(&Change::Unpause(instance))?;
                self.tell(HostSignal::Guest { instance, power: PowerState::Running });
                Ok(())
            }
            _ => Err(not_running("unpause")),
        }
    }

    pub(super) fn suspend(&mut self, instance: InstanceId) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if guest.saved {
            return Ok(());
        }
        if !guest.is_on() {
            return Err(not_running("suspend"));
        }
        self.change(&Change::Save(instance))?;
        self.tell(HostSignal::Guest { instance, power: PowerState::Shutdown });
        Ok(())
    }

    pub(super) fn resume(&mut self, instance: InstanceId) -> DriverResult<()> {
        match self.guest(instance)?.power {
            PowerState::Paused => self.unpause(instance),
            _ => self.start(instance),
        }
    }

    /// How long until the guest would notice its power button; never, if it is deaf.
    pub(super) fn until_attentive(&self, instance: InstanceId) -> DriverResult<Option<Duration>> {
        self.require_alive()?;
        let guest = self.guest(instance)?;
        let left = self.uri.boot.saturating_sub(guest.started.elapsed());
        let hears = !guest.deaf && guest.power != PowerState::Paused;
        Ok(if guest.is_on() { hears.then_some(left) } else { Some(Duration::ZERO) })
    }

    pub(super) fn status(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        self.guest(instance).map(|guest| Self::describe(instance, guest))
    }

    fn describe(instance: InstanceId, guest: &SimGuest) -> GuestStatus {
        GuestStatus { instance, domain_name: guest.domain_name.clone(), power: guest.power }
    }

    pub(super) fn statuses(&self) -> Vec<GuestStatus> {
        self.guests.iter().map(|(instance, guest)| Self::describe(*instance, guest)).collect()
    }

    pub(super) fn orphans(&self) -> Vec<InstanceId> {
        self.leaks.iter().copied().collect()
    }

    /// A boot's worth of text per boot, the last one without its end while it boots.
    pub(super) fn console(&self, instance: InstanceId, max: usize) -> DriverResult<Bytes> {
        let guest = self.guest(instance)?;
        let booting = guest.power == PowerState::Running && guest.started.elapsed() < self.uri.boot;
        let mut text = String::new();
        for boot in 1..=guest.boots {
            text.push_str("Booting simulated guest\nkernel: up\ninit: up\n");
            if boot < guest.boots || !booting {
                use std::fmt::Write as _;
                let _ = writeln!(text, "GUEST-READY name={} uuid={instance} boots={boot}", guest.domain_name);
            }
        }
        let from = text.len().saturating_sub(max);
        // ASCII but for the name; a cut character is the caller's business, as on a real console.
        Ok(Bytes::from(text.into_bytes()).slice(from..))
    }

    pub(super) fn interrupt(&mut self, instance: InstanceId) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        if !guest.is_on() {
            return Err(not_running("interrupt"));
        }
        guest.interrupts += 1;
        Ok(())
    }

    /// As libvirt numbers displays: from 5900 on, by the guests that run.
    pub(super) fn vnc_address(&self, instance: InstanceId) -> DriverResult<ConsoleAddress> {
        if !self.guest(instance)?.is_on() {
            return Err(not_running("vnc_address"));
        }
        let running = self.guests.iter().filter(|(_, guest)| guest.is_on());
        let display = running.take_while(|(id, _)| **id != instance).count();
        let port = u16::try_from(display).unwrap_or_default().saturating_add(5_900);
        Ok(ConsoleAddress { host: "127.0.0.1".to_owned(), port })
    }

    /// As much as a simulation knows: that it runs, and on what.
    pub(super) fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        let guest = self.guest(instance)?;
        if !guest.is_on() {
            return Err(not_running("diagnostics"));
        }
        let kib = guest.memory_mib * 1024;
        Ok(Diagnostics {
            hypervisor: if self.uri.kvm { "kvm" } else { "qemu" }.to_owned(),
            cpu_nanoseconds: vec![0; guest.vcpus as usize],
            memory_max_kib: kib,
            memory_kib: kib,
            memory: vec![("actual".to_owned(), kib)],
            disks: vec![DiskCounters { device: "vda".to_owned(), ..DiskCounters::default() }],
            nics: guest.nics.iter().map(|mac| NicCounters { mac: mac.clone(), ..NicCounters::default() }).collect(),
        })
    }

    // What happens to the machine.

    /// Power off, guests and all; what the caller of the moment sees.
    pub(super) fn die(&mut self) -> DriverError {
        let reason = format!("{} is down", self.hostname);
        if self.alive {
            self.alive = false;
            self.tell(HostSignal::Disconnected { reason: reason.clone() });
        }
        DriverError::Unreachable(reason)
    }

    /// Reachable again. After a power failure its guests are off; after a mere loss of the connection they run on.
    pub(super) fn revive(&mut self, guests_survived: bool) -> DriverResult<()> {
        if !guests_survived {
            let running: Vec<_> = self.guests.iter().filter(|(_, guest)| guest.is_on()).map(|(id, _)| *id).collect();
            for instance in running {
                self.change(&Change::Off(instance))?;
            }
        }
        if !self.alive {
            self.alive = true;
            self.up_since = Instant::now();
            self.tell(HostSignal::Connected);
        }
        Ok(())
    }

    pub(super) fn is_alive(&self) -> bool {
        self.alive
    }

    /// The guest's process ends by itself.
    pub(super) fn crash_guest(&mut self, instance: InstanceId) -> DriverResult<()> {
        self.power_off(instance)
    }

    /// Somebody undefines the guest behind our back.
    pub(super) fn lose_guest(&mut self, instance: InstanceId) -> DriverResult<()> {
        self.guest(instance)?;
        self.change(&Change::Undefine(instance))?;
        self.tell(HostSignal::GuestGone { instance });
        Ok(())
    }

    pub(super) fn set_clings(&mut self, instance: InstanceId, clings: bool) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        guest.clings = clings;
        Ok(())
    }

    pub(super) fn set_deaf(&mut self, instance: InstanceId, deaf: bool) -> DriverResult<()> {
        let guest = self.guests.get_mut(&instance).ok_or(DriverError::NoSuchGuest(instance))?;
        guest.deaf = deaf;
        Ok(())
    }
}

fn not_running(call: &'static str) -> DriverError {
    DriverError::Failed { call, message: "the guest is not running".to_owned() }
}
