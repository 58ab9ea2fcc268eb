//! Live migrations between simulated hosts.
//!
//! A migration belongs to the hosts: it ends when its time is over, even if its caller no longer waits. The calls
//! advance the migrations, so nothing has to run in the background. The guest that arrives keeps the state of the guest
//! that left, such as its number of boots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::{HostId, InstanceId, ProcessId};
use tokio::time::{Instant, sleep};

use super::SimHost;
use super::faults::DriverCall;
use super::fleet::SimFleet;
use super::journal::SimChange;
use super::machine::{SimGuest, SimMachine};
use crate::capability::SharedStorage;
use crate::capability::live_migration::{
    ForceComplete, GuestMigrationState, GuestPresence, LiveMigration, MigrationAddressing, MigrationData,
    MigrationPlan, MigrationProgress, MigrationUris,
};
use crate::driver::{DriverError, DriverResult, HostSignal};
use crate::guest::{GuestSpec, PowerState};
use crate::pinning::Pinning;

/// The pause between two checks of a caller that waits for the end of a migration.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Debug, Clone)]
struct MigratingGuest {
    migration: ProcessId,
    from: usize,
    to: usize,
    copied: bool,
    began: Instant,
    forced: bool,
    post_copy: bool,
    /// Whether the time of the migration is over, so that the guest is being moved from one machine to the other.
    landing: bool,
    /// The placement of the guest at its destination.
    pinning: Pinning,
}

/// The guests that are migrating, and the conditions of migrations.
#[derive(Debug, Default)]
pub(super) struct SimMigrations {
    on_way: BTreeMap<InstanceId, MigratingGuest>,
    failed: BTreeMap<InstanceId, (ProcessId, String)>,
    takes: Duration,
    /// Whether migrations end only if they are forced to complete.
    held: bool,
    /// Whether migrations in post-copy do not end.
    post_copy_held: bool,
    fails: Option<String>,
    shared: bool,
    shared_disk_breaches: Vec<SharedDiskBreach>,
    /// Why no guest can migrate to a host.
    bars: BTreeMap<usize, String>,
    /// Why a host cannot encrypt migrations.
    plain: BTreeMap<usize, String>,
    /// The network interfaces that all hosts have, each with an address.
    interfaces: BTreeSet<String>,
}

/// A call of one host that changed a guest's disk on shared storage while other hosts had the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedDiskBreach {
    pub instance: InstanceId,
    pub at: Instant,
    pub call: DriverCall,
    pub here: usize,
    /// The hosts that had the guest, and how long each had been up.
    pub there: Vec<(usize, Duration)>,
}

enum SimMigrationOutcome {
    Goes,
    Lost,
    Fails(String),
    Lands,
}

impl SimFleet {
    fn travel(&self) -> MutexGuard<'_, SimMigrations> {
        self.travel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all hosts share storage.
    pub fn has_shared_storage(&self) -> bool {
        self.travel().shared
    }

    /// Notes a call that changes a guest's disks on shared storage while other machines have the guest. If `on` is
    /// true, only machines on which the guest runs count.
    pub(super) fn touch(&self, index: usize, call: DriverCall, instance: InstanceId, on: bool) {
        if !self.has_shared_storage() || !self.is_alive(index) {
            return;
        }
        let has = |host: usize| {
            let machine = self.machine(host);
            machine.guests.get(&instance).is_some_and(|guest| !on || (machine.is_alive() && guest.is_on()))
        };
        let others = (0..self.len()).filter(|host| *host != index && has(*host));
        let there: Vec<_> = others.map(|host| (host, self.machine(host).up_since.elapsed())).collect();
        if !there.is_empty() {
            self.travel().shared_disk_breaches.push(SharedDiskBreach {
                instance,
                at: Instant::now(),
                call,
                here: index,
                there,
            });
        }
    }

    /// Calls that changed the disks of guests while other machines had these guests. The test decides which of these
    /// calls did harm. For example, a host that was down may still have a guest that has moved away. That guest no
    /// longer needs its disk on this host.
    pub fn shared_disk_breaches(&self) -> Vec<SharedDiskBreach> {
        self.travel().shared_disk_breaches.clone()
    }

    // For tests: changes of migrations.

    /// Sets how long a live migration takes from now on.
    pub fn set_travel(&self, takes: Duration) {
        self.travel().takes = takes;
    }

    /// Sets whether live migrations run until they are forced to complete, aborted or released.
    pub fn hold_travellers(&self, held: bool) {
        self.travel().held = held;
    }

    /// Sets whether live migrations stay in post-copy until they are released.
    pub fn hold_post_copy(&self, held: bool) {
        self.travel().post_copy_held = held;
    }

    /// With a message, live migrations fail at their end with this message from now on.
    pub fn fail_travellers(&self, reason: Option<&str>) {
        self.travel().fails = reason.map(str::to_owned);
    }

    /// Sets whether all hosts share storage.
    pub fn share_storage(&self, shared: bool) {
        self.travel().shared = shared;
    }

    /// Sets the reason why no guest can migrate to the host from now on.
    pub fn bar(&self, host: usize, reason: &str) {
        self.travel().bars.insert(host, reason.to_owned());
    }

    /// Sets the reason why the host cannot encrypt migrations.
    pub fn refuse_tls(&self, host: usize, reason: &str) {
        self.travel().plain.insert(host, reason.to_owned());
    }

    /// Gives every host an interface of that name. The third host's address is 192.0.2.3.
    pub fn add_interface(&self, name: &str) {
        self.travel().interfaces.insert(name.to_owned());
    }

    pub fn migrating_guests(&self) -> Vec<InstanceId> {
        self.advance();
        self.travel().on_way.keys().copied().collect()
    }

    /// Ends the migrations that are due. This function never locks the migrations and a machine at the same time,
    /// because other calls lock a machine and then the migrations.
    pub(super) fn advance(&self) {
        let due: Vec<(InstanceId, MigratingGuest)> = {
            let travel = self.travel();
            travel.on_way.iter().filter(|(_, one)| !one.landing).map(|(id, one)| (*id, one.clone())).collect()
        };
        for (instance, migrating) in due {
            let fate = self.fate(instance, &migrating);
            let lands = {
                let mut travel = self.travel();
                let same = |one: &MigratingGuest| one.migration == migrating.migration && !one.landing;
                if !travel.on_way.get(&instance).is_some_and(same) {
                    continue;
                }
                match fate {
                    SimMigrationOutcome::Goes => false,
                    SimMigrationOutcome::Lost => {
                        travel.on_way.remove(&instance);
                        false
                    }
                    SimMigrationOutcome::Fails(reason) => {
                        travel.on_way.remove(&instance);
                        travel.failed.insert(instance, (migrating.migration, reason));
                        false
                    }
                    SimMigrationOutcome::Lands => {
                        if let Some(one) = travel.on_way.get_mut(&instance) {
                            one.landing = true;
                        }
                        true
                    }
                }
            };
            if lands {
                self.land(instance, &migrating);
                self.travel().on_way.remove(&instance);
            }
        }
    }

    fn fate(&self, instance: InstanceId, migrating: &MigratingGuest) -> SimMigrationOutcome {
        let (source_lives, is_on) = {
            let source = self.machine(migrating.from);
            (source.is_alive(), source.guests.get(&instance).is_some_and(SimGuest::is_on))
        };
        if !source_lives {
            return SimMigrationOutcome::Lost;
        }
        if !self.machine(migrating.to).is_alive() {
            return SimMigrationOutcome::Fails("the destination does not answer".to_owned());
        }
        if !is_on {
            return SimMigrationOutcome::Fails("the guest is not running".to_owned());
        }
        let travel = self.travel();
        let over = match migrating.post_copy {
            true => !travel.post_copy_held,
            false => migrating.forced || (!travel.held && migrating.began.elapsed() >= travel.takes),
        };
        match (&travel.fails, over) {
            (_, false) => SimMigrationOutcome::Goes,
            (Some(reason), true) => SimMigrationOutcome::Fails(reason.clone()),
            (None, true) => SimMigrationOutcome::Lands,
        }
    }

    /// Moves the guest from one machine to the other at once.
    fn land(&self, instance: InstanceId, migrating: &MigratingGuest) {
        // The machine with the lower number is locked first, so that two moves do not wait for each other.
        let (low, high) = (migrating.from.min(migrating.to), migrating.from.max(migrating.to));
        let (mut first, mut second) = (self.machine(low), self.machine(high));
        let (source, target) =
            if migrating.from == low { (&mut *first, &mut *second) } else { (&mut *second, &mut *first) };
        let Some(mut guest) = source.guests.get(&instance).cloned() else { return };
        guest.pinning = migrating.pinning.clone();
        let bases: Vec<_> =
            source.bases.range((instance, String::new())..).take_while(|((of, _), _)| *of == instance).collect();
        for ((of, disk), checksum) in bases.into_iter().map(|(key, checksum)| (key.clone(), checksum.clone())) {
            target.bases.insert((of, disk), checksum);
        }
        let settled = target.take_in(instance, &guest).and_then(|()| source.let_go(instance, migrating.copied));
        if let Err(error) = settled {
            tracing::error!(%instance, %error, "a live migration of a simulated guest broke off half-way");
        }
    }
}

impl SimMachine {
    fn take_in(&mut self, instance: InstanceId, guest: &SimGuest) -> DriverResult<()> {
        self.change(&SimMachine::definition(instance, guest))?;
        for mac in &guest.nics {
            self.change(&SimChange::PlugNic(instance, mac.clone()))?;
        }
        for serial in &guest.volumes {
            self.change(&SimChange::Plug(instance, serial.clone()))?;
        }
        self.change(&SimChange::On(instance))?;
        if guest.power == PowerState::Paused {
            self.change(&SimChange::Pause(instance))?;
        }
        if self.orphans().contains(&instance) {
            self.change(&SimChange::Tidy(instance))?;
        }
        // The arriving guest also keeps the state that the journal lacks.
        let mut guest = guest.clone();
        guest.carried = false;
        self.tell(HostSignal::Guest { instance, power: guest.power });
        self.keep_guest(instance, guest);
        Ok(())
    }

    fn let_go(&mut self, instance: InstanceId, leaves_disks: bool) -> DriverResult<()> {
        if leaves_disks {
            self.change(&SimChange::Leak(instance))?;
        }
        self.change(&SimChange::Undefine(instance))?;
        self.tell(HostSignal::GuestGone { instance });
        Ok(())
    }

    fn presence(&self, instance: InstanceId) -> GuestPresence {
        match self.guests.get(&instance).map(|guest| guest.power) {
            None => GuestPresence::Absent,
            Some(PowerState::Running) => GuestPresence::Running,
            Some(PowerState::Paused) => GuestPresence::Paused,
            Some(_) => GuestPresence::Off,
        }
    }

    fn prepare_destination(&mut self, spec: &GuestSpec, copied: bool) -> DriverResult<()> {
        if self.guests.contains_key(&spec.instance) || self.orphans().contains(&spec.instance) {
            return Ok(());
        }
        // Shared storage has everything, including the image below the disk.
        if !copied {
            return Ok(());
        }
        self.require_surroundings(spec)?;
        self.change(&SimChange::Leak(spec.instance))?;
        self.base_root(spec)
    }

    fn forget(&mut self, instance: InstanceId) -> DriverResult<()> {
        match self.guests.get(&instance) {
            Some(guest) if guest.is_on() => Err(failed("undefine", "the guest runs")),
            Some(_) => {
                let kept = self.kept.contains(&instance);
                let copies: Vec<_> = self.copies.iter().filter(|(of, _)| *of == instance).copied().collect();
                let below = self.bases.get(&(instance, super::image_caches::KEPT.to_owned())).cloned();
                self.change(&SimChange::Undefine(instance))?;
                // The disks stay when the definition is removed, so this puts their copies back.
                for (instance, copy) in copies {
                    self.change(&SimChange::Copy(instance, copy))?;
                }
                if !kept {
                    return Ok(());
                }
                self.change(&SimChange::Keep(instance))?;
                match below {
                    Some(checksum) => {
                        self.change(&SimChange::Base(instance, super::image_caches::KEPT.to_owned(), checksum))
                    }
                    None => Ok(()),
                }
            }
            None => Ok(()),
        }
    }
}

fn failed(call: &'static str, message: &str) -> DriverError {
    DriverError::Failed { call, message: message.to_owned() }
}

#[async_trait]
impl LiveMigration for SimHost {
    async fn migration_data(&self, instance: InstanceId) -> DriverResult<MigrationData> {
        self.perform(DriverCall::MigrationData, |machine| {
            let guest = machine.guest(instance)?;
            let found = machine.capabilities();
            Ok(MigrationData {
                hypervisor_type: found.hypervisor_type,
                hypervisor_version: found.hypervisor_version,
                cpu: None,
                arch: found.cpu.arch,
                machine: "pc".to_owned(),
                virt_type: if found.kvm { "kvm" } else { "qemu" }.to_owned(),
                memory_mib: guest.memory_mib,
                disks: if guest.disk_gib > 0 { vec![("vda".to_owned(), guest.disk_gib << 30)] } else { vec![] },
                bound: None,
            })
        })
        .await
    }

    async fn destination_obstacles(&self, migration_data: &MigrationData) -> DriverResult<Vec<String>> {
        self.perform(DriverCall::DestinationObstacles, |machine| {
            let barred = self.fleet.travel().bars.get(&self.index).cloned();
            let small = machine.capabilities().memory_mib < migration_data.memory_mib;
            Ok(barred.into_iter().chain(small.then(|| "it has too little memory".to_owned())).collect())
        })
        .await
    }

    async fn prepare_destination(&self, guest: &GuestSpec, copied: bool) -> DriverResult<()> {
        self.perform(DriverCall::PrepareDestination, |machine| machine.prepare_destination(guest, copied)).await
    }

    async fn start_migration(&self, instance: InstanceId, plan: &MigrationPlan) -> DriverResult<()> {
        let to = (0..self.fleet.len()).find(|index| format!("sim://{}", self.fleet.hostname(*index)) == plan.peer);
        let to = to.ok_or_else(|| failed("start_migration", "the destination is unknown"))?;
        self.perform(DriverCall::StartMigration, |machine| {
            if !machine.guest(instance)?.is_on() {
                return Err(failed("start_migration", "the guest is not running"));
            }
            // As in libvirt, a guest with a device of its host cannot migrate.
            if machine.guest(instance)?.all_devices().next().is_some() {
                return Err(failed("start_migration", "cannot migrate a domain with host devices"));
            }
            let mut travel = self.fleet.travel();
            travel.failed.remove(&instance);
            travel.on_way.entry(instance).or_insert_with(|| MigratingGuest {
                migration: plan.migration,
                from: self.index,
                to,
                copied: !plan.copied.is_empty(),
                began: Instant::now(),
                forced: false,
                post_copy: false,
                landing: false,
                pinning: plan.pinning.clone(),
            });
            Ok(())
        })
        .await
    }

    async fn migration_state(&self, instance: InstanceId) -> DriverResult<GuestMigrationState> {
        self.perform(DriverCall::MigrationState, |machine| {
            let travel = self.fleet.travel();
            let mut state = GuestMigrationState::of(machine.presence(instance));
            state.failed = travel.failed.get(&instance).cloned();
            let Some(migrating) = travel.on_way.get(&instance) else { return Ok(state) };
            if migrating.to == self.index {
                state.presence = GuestPresence::Arriving;
            } else if migrating.from == self.index {
                let guest = machine.guests.get(&instance);
                let memory_total = guest.map_or(0, |guest| guest.memory_mib << 20);
                let disk_total = guest.filter(|_| migrating.copied).map_or(0, |guest| guest.disk_gib << 30);
                let whole = travel.takes.as_millis().max(1);
                let gone = migrating.began.elapsed().as_millis().min(whole);
                let across = |total: u64| u64::try_from(u128::from(total) * gone / whole).unwrap_or(total);
                let (memory_processed, disk_processed) = (across(memory_total), across(disk_total));
                state.departing = Some(MigrationProgress {
                    memory_total,
                    memory_processed,
                    memory_remaining: memory_total - memory_processed,
                    disk_total,
                    disk_processed,
                    disk_remaining: disk_total - disk_processed,
                });
                state.in_post_copy = migrating.post_copy;
            }
            Ok(state)
        })
        .await
    }

    async fn wait_for_migration(&self, instance: InstanceId, most: Duration) {
        let end = Instant::now() + most;
        loop {
            self.fleet.advance();
            if !self.fleet.travel().on_way.contains_key(&instance) || Instant::now() >= end {
                return;
            }
            sleep(POLL_INTERVAL.min(most)).await;
        }
    }

    async fn abort_migration(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::AbortMigration, |_| {
            let mut travel = self.fleet.travel();
            match travel.on_way.get(&instance) {
                Some(one) if one.landing || one.post_copy => Err(failed("abort_migration", "it is too late")),
                Some(one) => {
                    let failure = (one.migration, "cancelled".to_owned());
                    travel.on_way.remove(&instance);
                    travel.failed.insert(instance, failure);
                    Ok(())
                }
                None => Ok(()),
            }
        })
        .await
    }

    async fn force_complete(&self, instance: InstanceId, how: ForceComplete) -> DriverResult<()> {
        self.perform(DriverCall::ForceComplete, |_| {
            if let Some(one) = self.fleet.travel().on_way.get_mut(&instance) {
                one.forced = true;
                one.post_copy = how == ForceComplete::PostCopy;
            }
            Ok(())
        })
        .await
    }

    async fn set_max_downtime(&self, _: InstanceId, _: u64) -> DriverResult<()> {
        self.perform(DriverCall::SetMaxDowntime, |_| Ok(())).await
    }

    async fn tls_obstacle(&self) -> DriverResult<Option<String>> {
        Ok(self.fleet.travel().plain.get(&self.index).cloned())
    }

    async fn interface_address(&self, name: &str) -> DriverResult<Option<String>> {
        let known = self.fleet.travel().interfaces.contains(name);
        Ok(known.then(|| format!("192.0.2.{}", self.index + 1)))
    }

    fn migration_uris(&self, addressing: &MigrationAddressing<'_>) -> MigrationUris {
        let stream = addressing.inbound.filter(|_| !addressing.tunnelled).map(str::to_owned);
        MigrationUris { peer: format!("sim://{}", self.fleet.hostname(self.index)), stream }
    }

    async fn adopt_console(&self, instance: InstanceId, _: Bytes) -> DriverResult<()> {
        if let Some(guest) = self.fleet.machine(self.index).guests.get_mut(&instance) {
            guest.carried = true;
        }
        Ok(())
    }
}

#[async_trait]
impl SharedStorage for SimHost {
    async fn storage_sharers(&self) -> DriverResult<BTreeSet<HostId>> {
        let shared = self.fleet.travel().shared;
        let all = if shared { 0..self.fleet.len() } else { self.index..self.index + 1 };
        let hosts = all.map(|index| self.fleet.uri().host_id(index)).collect();
        self.perform(DriverCall::StorageSharers, |_| Ok(hosts)).await
    }

    async fn undefine(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::Undefine, |machine| machine.forget(instance)).await
    }
}
