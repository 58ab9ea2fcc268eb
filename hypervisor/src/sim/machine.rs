//! One simulated machine: its state, and the effects of the driver's calls on it.

pub(super) mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{HostId, ImageId, InstanceId, NetworkId};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::definitions::SimDefinitions;
use super::faults::{Chance, DriverCall, Effect, FaultPlan, SLOW};
pub use super::guest::SimGuest;
use super::journal::{Journal, SimChange};
use super::uri::SimUri;
use super::volumes::SimPool;
use crate::capability::owner_mark::HostOwner;
use crate::driver::{DriverError, DriverResult, HostSignal};
use crate::guest::{CpuTimes, FilterSpec, GuestSpec, GuestStatus, ImageRef, PowerState};

/// The number of signals that may wait for a listener. It is small, because a fleet has many machines.
const SIGNALS: usize = 64;

/// The state of one machine.
#[derive(Debug)]
pub(super) struct SimMachine {
    index: usize,
    pub(super) uri: Arc<SimUri>,
    pub(super) host: HostId,
    pub(super) hostname: String,
    journal: Option<Arc<Journal>>,
    chance: Chance,
    pub(super) faults: FaultPlan,
    pub(super) calls: BTreeMap<DriverCall, u64>,
    pub(super) struck: BTreeMap<Effect, u64>,
    alive: bool,
    /// When this process began to simulate the machine, or last made it reachable again.
    pub(super) up_since: Instant,
    tear: bool,
    pub(super) guests: BTreeMap<InstanceId, SimGuest>,
    /// The names of all guests. Each name is unique.
    pub(super) names: BTreeSet<String>,
    leaks: BTreeSet<InstanceId>,
    pub(super) copies: BTreeSet<(InstanceId, ImageId)>,
    /// The copies that are raw files; the others are in qcow2.
    pub(super) raw_copies: BTreeSet<ImageId>,
    /// Guests with a set-aside copy of their disk.
    pub(super) kept: BTreeSet<InstanceId>,
    pub(super) images: BTreeSet<String>,
    /// The images noted as unused, with the time of each.
    pub(super) idle: BTreeMap<String, Timestamp>,
    /// The base images of disks. The key is the guest, and the part of the disk's name after the guest's id.
    pub(super) bases: BTreeMap<(InstanceId, String), String>,
    /// The content of small images that this process uploaded.
    pub(super) image_content: BTreeMap<String, Bytes>,
    pub(super) networks: BTreeSet<NetworkId>,
    pub(super) definitions: SimDefinitions,
    /// The logs that drive the machine, by installation.
    pub(super) owners: BTreeMap<uuid::Uuid, HostOwner>,
    pub(super) filters: BTreeSet<String>,
    /// The volumes of the volume service. All machines may share them.
    pub(super) volumes: SimPool,
    /// The filters as this process last set them; not stored.
    pub(super) filter_specs: BTreeMap<String, FilterSpec>,
    /// The guests with an emulated TPM, by their definitions in this process.
    pub(super) with_tpm: BTreeSet<InstanceId>,
    /// The passphrases that the machine holds now.
    pub(super) passphrases: BTreeMap<InstanceId, String>,
    /// The TPM state of each guest: the passphrase that decrypts it. The state is not stored, so it is lost with this
    /// process.
    pub(super) tpms: BTreeMap<InstanceId, String>,
    /// The share of their time that the machine's processors are busy, in percent.
    pub(super) busy: u64,
    /// The times of the processors so far.
    pub(super) cpu: CpuTimes,
    signals: Option<broadcast::Sender<HostSignal>>,
    image_gate: Arc<tokio::sync::Mutex<()>>,
}

impl SimMachine {
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
            struck: BTreeMap::new(),
            alive: true,
            up_since: Instant::now(),
            tear: false,
            guests: BTreeMap::new(),
            names: BTreeSet::new(),
            leaks: BTreeSet::new(),
            copies: BTreeSet::new(),
            raw_copies: BTreeSet::new(),
            kept: BTreeSet::new(),
            images: BTreeSet::new(),
            idle: BTreeMap::new(),
            bases: BTreeMap::new(),
            image_content: BTreeMap::new(),
            networks: BTreeSet::new(),
            definitions: SimDefinitions::default(),
            owners: BTreeMap::new(),
            filters: BTreeSet::new(),
            volumes: SimPool::default(),
            filter_specs: BTreeMap::new(),
            with_tpm: BTreeSet::new(),
            passphrases: BTreeMap::new(),
            tpms: BTreeMap::new(),
            busy: 0,
            cpu: CpuTimes { mhz: 2_000, ..CpuTimes::default() },
            signals: None,
            image_gate: Arc::default(),
        }
    }

    /// Stores all further changes in the journal.
    pub(super) fn keep_in(&mut self, journal: &Arc<Journal>) {
        self.journal = Some(Arc::clone(journal));
    }

    pub(super) fn image_gate(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.image_gate)
    }

    /// Counts the call. Returns its latency, and its fault if there is one.
    pub(super) fn begin(&mut self, call: DriverCall) -> DriverResult<(Duration, Option<Effect>)> {
        let nth = self.calls.entry(call).or_default();
        *nth += 1;
        let nth = *nth;
        self.require_alive()?;
        let delay = if self.uri.latency.is_zero() {
            Duration::ZERO
        } else {
            self.uri.latency.mul_f64(0.5 + self.chance.unit())
        };
        let effect = self.faults.strike(call, nth, &mut self.chance);
        if let Some(effect) = effect {
            *self.struck.entry(effect).or_default() += 1;
        }
        Ok((if effect == Some(Effect::Slow) { delay + SLOW } else { delay }, effect))
    }

    pub(super) fn require_alive(&self) -> DriverResult<()> {
        if self.alive { Ok(()) } else { Err(DriverError::Unreachable(format!("{} is down", self.hostname))) }
    }

    /// Stores a change and then makes it.
    pub(super) fn change(&mut self, change: &SimChange) -> DriverResult<()> {
        if let Some(journal) = &self.journal {
            let failed = |error| DriverError::Failed { call: "state file", message: format!("{error}") };
            journal.append(&change.line(self.index)).map_err(failed)?;
        }
        self.apply(change);
        Ok(())
    }

    /// Makes a change. Replaying the state file also calls this.
    pub(super) fn apply(&mut self, change: &SimChange) {
        match change {
            SimChange::Define { instance, vcpus, memory_mib, disk_gib, name } => {
                // A new definition of a guest keeps its console output.
                let boots = self.guests.get(instance).map_or(0, |before| before.boots);
                let mut guest = SimGuest::defined(name, boots);
                (guest.vcpus, guest.memory_mib, guest.disk_gib) = (*vcpus, *memory_mib, *disk_gib);
                self.keep_guest(*instance, guest);
            }
            SimChange::On(instance) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.power = PowerState::Running;
                    guest.saved = false;
                    guest.boots += 1;
                    guest.started = Instant::now();
                }
            }
            SimChange::Off(instance) => self.put(*instance, PowerState::Shutdown, false),
            SimChange::Pause(instance) => self.put(*instance, PowerState::Paused, false),
            SimChange::Unpause(instance) | SimChange::Restore(instance) => {
                self.put(*instance, PowerState::Running, false);
            }
            SimChange::Save(instance) => self.put(*instance, PowerState::Shutdown, true),
            SimChange::Keep(instance) => {
                self.kept.insert(*instance);
                self.keep_base(*instance);
            }
            SimChange::Unkeep(instance) => {
                self.kept.remove(instance);
                self.forget_bases(*instance);
            }
            SimChange::Undefine(instance) => {
                self.drop_guest(*instance);
                self.definitions.drop_guest(*instance);
                self.with_tpm.remove(instance);
                self.tpms.remove(instance);
                self.copies.retain(|(of, _)| of != instance);
                self.kept.remove(instance);
                self.forget_bases(*instance);
            }
            SimChange::Plug(instance, serial) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.volumes.insert(serial.clone());
                }
            }
            SimChange::Unplug(instance, serial) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.volumes.remove(serial);
                }
            }
            SimChange::Leak(instance) => {
                self.leaks.insert(*instance);
            }
            SimChange::Tidy(instance) => {
                self.leaks.remove(instance);
                self.forget_bases(*instance);
            }
            SimChange::Image(_)
            | SimChange::NoImage(_)
            | SimChange::Idle(..)
            | SimChange::Busy(_)
            | SimChange::Base(..) => {
                self.apply_to_images(change);
            }
            SimChange::Owner(owner) => drop(self.owners.insert(owner.installation, *owner)),
            SimChange::Network(_) | SimChange::NoNetwork(_) | SimChange::Filter(_) | SimChange::NoFilter(_) => {
                self.apply_to_surroundings(change);
            }
            SimChange::Volume { .. } | SimChange::NoVolume(_) => self.apply_to_volumes(change),
            SimChange::PlugNic(instance, mac) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.nics.insert(mac.clone());
                }
            }
            SimChange::UnplugNic(instance, mac) => {
                if let Some(guest) = self.guests.get_mut(instance) {
                    guest.nics.remove(mac);
                    guest.nic_devices.remove(mac);
                }
            }
            SimChange::Rescue(instance) => self.put_rescued(*instance, true),
            SimChange::NoRescue(instance) => self.put_rescued(*instance, false),
            SimChange::Copy(instance, copy) => {
                self.copies.insert((*instance, *copy));
            }
            SimChange::NoCopy(instance, copy) => {
                self.copies.remove(&(*instance, *copy));
            }
        }
    }

    fn put(&mut self, instance: InstanceId, power: PowerState, saved: bool) {
        if let Some(guest) = self.guests.get_mut(&instance) {
            // Freezing is a state of the guest's memory. A guest that is off has lost its memory, or saved it.
            guest.frozen &= saved || power != PowerState::Shutdown;
            guest.power = power;
            guest.saved = saved;
        }
    }

    pub(super) fn put_rescued(&mut self, instance: InstanceId, rescued: bool) {
        if let Some(guest) = self.guests.get_mut(&instance) {
            guest.rescued = rescued;
        }
    }

    /// The shortest journal that gives this state.
    pub(super) fn lines(&self) -> String {
        let mut changes: Vec<SimChange> = Vec::new();
        changes.extend(self.image_changes());
        changes.extend(self.networks.iter().copied().map(SimChange::Network));
        changes.extend(self.owners.values().copied().map(SimChange::Owner));
        changes.extend(self.filters.iter().cloned().map(SimChange::Filter));
        changes.extend(self.leaks.iter().copied().map(SimChange::Leak));
        changes.extend(self.volume_changes());
        changes.extend(self.kept.iter().copied().map(SimChange::Keep));
        for (instance, guest) in &self.guests {
            changes.push(Self::definition(*instance, guest));
            changes.extend(guest.nics.iter().map(|mac| SimChange::PlugNic(*instance, mac.clone())));
            changes.extend(guest.volumes.iter().map(|serial| SimChange::Plug(*instance, serial.clone())));
            if guest.is_on() {
                changes.push(SimChange::On(*instance));
            }
            if guest.power == PowerState::Paused {
                changes.push(SimChange::Pause(*instance));
            }
            if guest.saved {
                changes.push(SimChange::Save(*instance));
            }
            if guest.rescued {
                changes.push(SimChange::Rescue(*instance));
            }
        }
        changes.extend(self.copies.iter().map(|(instance, copy)| SimChange::Copy(*instance, *copy)));
        changes.extend(self.base_changes());
        changes.iter().map(|change| change.line(self.index)).collect()
    }

    pub(super) fn definition(instance: InstanceId, guest: &SimGuest) -> SimChange {
        SimChange::Define {
            instance,
            vcpus: guest.vcpus,
            memory_mib: guest.memory_mib,
            disk_gib: guest.disk_gib,
            name: guest.domain_name.clone(),
        }
    }

    pub(super) fn tell(&self, signal: HostSignal) {
        if let Some(signals) = &self.signals {
            // A failure means that there is no listener.
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

    // Effects of calls.

    pub(super) fn tear_next(&mut self, call: DriverCall) {
        self.tear = matches!(call, DriverCall::Spawn | DriverCall::Destroy);
    }

    pub(super) fn spawn(&mut self, spec: &GuestSpec) -> DriverResult<()> {
        let torn = std::mem::take(&mut self.tear);
        let instance = spec.instance;
        if self.guests.contains_key(&instance) {
            return self.start(instance);
        }
        self.require_surroundings(spec)?;
        if torn {
            self.change(&SimChange::Leak(instance))?;
            self.base_root(spec)?;
            return Err(DriverError::Failed { call: "spawn", message: "simulated fault half way".to_owned() });
        }
        self.define(spec)?;
        if self.leaks.contains(&instance) {
            self.change(&SimChange::Tidy(instance))?;
        }
        self.start(instance)
    }

    fn define(&mut self, spec: &GuestSpec) -> DriverResult<()> {
        self.require_processors(&spec.pinning)?;
        let instance = spec.instance;
        self.require_devices(instance, &spec.devices)?;
        self.require_nic_devices(instance, &spec.nics)?;
        self.require_mdevs(instance, &spec.mdevs)?;
        let disk = spec.root.as_ref().map_or(0, |root| root.size_gib) + spec.ephemerals_gib.iter().sum::<u32>();
        self.change(&SimChange::Define {
            instance,
            vcpus: spec.vcpus,
            memory_mib: spec.memory_mib,
            disk_gib: disk.into(),
            name: spec.domain_name.clone(),
        })?;
        self.definitions.keep_guest(spec);
        self.pin(instance, &spec.pinning);
        self.pass(instance, &spec.devices);
        self.give_mdevs(instance, &spec.mdevs);
        match spec.tpm_secret {
            Some(_) => self.with_tpm.insert(instance),
            None => self.with_tpm.remove(&instance),
        };
        self.base_root(spec)?;
        for nic in &spec.nics {
            self.change(&SimChange::PlugNic(instance, nic.mac.clone()))?;
        }
        self.pass_nics(instance, &spec.nics);
        for disk in &spec.volumes {
            self.change(&SimChange::Plug(instance, disk.key().to_owned()))?;
        }
        Ok(())
    }

    pub(super) fn destroy(&mut self, instance: InstanceId) -> DriverResult<()> {
        let torn = std::mem::take(&mut self.tear);
        let known = self.guests.contains_key(&instance);
        self.passphrases.remove(&instance);
        self.tpms.remove(&instance);
        if torn && known {
            self.change(&SimChange::Leak(instance))?;
        }
        if known {
            self.change(&SimChange::Undefine(instance))?;
        }
        if torn && known {
            return Err(DriverError::Failed { call: "destroy", message: "simulated fault half way".to_owned() });
        }
        if self.leaks.contains(&instance) { self.change(&SimChange::Tidy(instance)) } else { Ok(()) }
    }

    pub(super) fn guest(&self, instance: InstanceId) -> DriverResult<&SimGuest> {
        self.guests.get(&instance).ok_or(DriverError::NoSuchGuest(instance))
    }

    pub(super) fn start(&mut self, instance: InstanceId) -> DriverResult<()> {
        let guest = self.guest(instance)?;
        if guest.is_on() {
            return Ok(());
        }
        let saved = guest.saved;
        self.start_tpm(instance)?;
        self.change(&if saved { SimChange::Restore(instance) } else { SimChange::On(instance) })?;
        self.tell(HostSignal::Guest { instance, power: PowerState::Running });
        Ok(())
    }

    pub(super) fn power_off(&mut self, instance: InstanceId) -> DriverResult<()> {
        if !self.guest(instance)?.is_on() {
            return Ok(());
        }
        self.change(&SimChange::Off(instance))?;
        self.tell(HostSignal::Guest { instance, power: PowerState::Shutdown });
        Ok(())
    }

    /// Boots the guest again; the content of its memory is lost.
    pub(super) fn reboot(&mut self, instance: InstanceId) -> DriverResult<()> {
        self.power_off(instance)?;
        if self.guest(instance)?.saved {
            self.change(&SimChange::Off(instance))?;
        }
        self.start(instance)
    }

    pub(super) fn pause(&mut self, instance: InstanceId) -> DriverResult<()> {
        match self.guest(instance)?.power {
            PowerState::Paused => Ok(()),
            PowerState::Running => {
                self.change(&SimChange::Pause(instance))?;
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
                self.change(&SimChange::Unpause(instance))?;
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
        self.change(&SimChange::Save(instance))?;
        self.tell(HostSignal::Guest { instance, power: PowerState::Shutdown });
        Ok(())
    }

    pub(super) fn resume(&mut self, instance: InstanceId) -> DriverResult<()> {
        match self.guest(instance)?.power {
            PowerState::Paused => self.unpause(instance),
            _ => self.start(instance),
        }
    }

    /// The time until a booting guest notices its power button. `None`: the guest is deaf or paused, so it never
    /// notices.
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

    pub(super) fn has_leak(&self, instance: InstanceId) -> bool {
        self.leaks.contains(&instance)
    }

    pub(super) fn orphans(&self) -> Vec<InstanceId> {
        self.leaks.iter().copied().collect()
    }

    /// The text of every boot. The last text is incomplete while the guest boots.
    pub(super) fn console(&self, instance: InstanceId, max: usize) -> DriverResult<Bytes> {
        // The log file remains when only the disks of a guest are left.
        let guest = match self.guest(instance) {
            Err(_) if self.leaks.contains(&instance) => return Ok(Bytes::from_static(b"Booting simulated guest\n")),
            guest => guest?,
        };
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
        // The log is ASCII except for the name. It may begin inside a character, as on a real console.
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

    // Events of the machine.

    /// Makes the machine unreachable; `revive` decides whether its guests kept running. Returns the error of the
    /// current call.
    pub(super) fn die(&mut self) -> DriverError {
        let reason = format!("{} is down", self.hostname);
        if self.alive {
            self.alive = false;
            self.tell(HostSignal::Disconnected { reason: reason.clone() });
        }
        DriverError::Unreachable(reason)
    }

    /// Makes the machine reachable. After a power failure its guests are off; after a lost connection they still run.
    pub(super) fn revive(&mut self, guests_survived: bool) -> DriverResult<()> {
        if !guests_survived {
            self.passphrases.clear();
            let running: Vec<_> = self.guests.iter().filter(|(_, guest)| guest.is_on()).map(|(id, _)| *id).collect();
            for instance in running {
                self.change(&SimChange::Off(instance))?;
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

    /// Ends the guest's process without a call of a driver.
    pub(super) fn crash_guest(&mut self, instance: InstanceId) -> DriverResult<()> {
        self.power_off(instance)
    }

    /// Undefines the guest without a call of a driver.
    pub(super) fn lose_guest(&mut self, instance: InstanceId) -> DriverResult<()> {
        self.guest(instance)?;
        self.change(&SimChange::Undefine(instance))?;
        self.tell(HostSignal::GuestGone { instance });
        Ok(())
    }
}

pub(super) fn not_cached(image: &ImageRef) -> DriverError {
    DriverError::BadImage { image: image.id.to_string(), reason: "it is not in the host's cache".to_owned() }
}

pub(super) fn not_running(call: &'static str) -> DriverError {
    DriverError::Failed { call, message: "the guest is not running".to_owned() }
}
