//! The compute hosts, for the scheduler.
//!
//! Filters and weighers read the row of a host, its inventories and its aggregates. Indexes (capacity by class, traits,
//! aggregates, hosts that answer, names) narrow the choice. So the cost of a decision depends on the number of
//! candidates, not on the size of the cell. Hosts are numbered by [`Slot`] in the order in which the log first names
//! them.
//!
//! The fleet may lag behind the log, like any read model; the ledger's `decide` has the last word.

mod columns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::host::{Capabilities, HostEvent};
use chronova_events::host_aggregate::{HostAggregateEvent, ZONE_KEY};
use chronova_events::ids::{ConsumerId, HostAggregateId, HostId, InstanceId, ProcessId, ProviderId};
use chronova_events::instance::{Evacuated, InstanceEvent, LiveMoved, MoveStage, ResizeReverted, Resized, WorkStage};
use chronova_events::ledger::standard::SHARES;
use chronova_events::ledger::{Allocation, Claimed, LedgerEvent};
use chronova_events::process::{ProcessEvent, Task};
use chronova_events::registry::Event;
use serde::{Deserialize, Serialize};

use crate::Projection;

pub use crate::slots::{Slot, Slots};
pub use columns::{HostInventory, HostResourceColumn};

/// A compute host, or another provider of resources (`facts` is `None`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    pub id: HostId,
    pub name: String,
    pub facts: Option<ReportedHost>,
    pub traits: BTreeSet<String>,
    /// The host aggregates that have the host as a member.
    pub aggregates: BTreeSet<HostAggregateId>,
    /// The servers on the host, those being built included.
    pub servers: BTreeSet<InstanceId>,
    /// Nova's `num_io_ops`: the number of servers on the host with work that burdens the host (see [`is_heavy`]).
    pub io_ops: u32,
    /// The number of failed builds on the host since its last successful build: Nova's `failed_builds`.
    pub failed_builds: u32,
}

/// The host's own report, and the state that the control plane knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportedHost {
    pub capabilities: Arc<Capabilities>,
    pub up: bool,
    pub enabled: bool,
    pub forced_down: bool,
}

impl ReportedHost {
    /// Whether the host's driver can work on servers.
    pub fn answers(&self) -> bool {
        self.up && !self.forced_down
    }
}

/// A host aggregate: the parts that the scheduler needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregateRow {
    pub name: String,
    pub metadata: BTreeMap<String, String>,
    pub hosts: Slots,
}

impl AggregateRow {
    /// The availability zone that the aggregate defines for its hosts.
    pub fn zone(&self) -> Option<&str> {
        self.metadata.get(ZONE_KEY).map(String::as_str)
    }
}

/// A server on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct HostedServer {
    slot: Slot,
    busy: bool,
}

/// A consumer's allocation of one resource class from one provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ConsumerAmount {
    slot: Slot,
    class: u16,
    amount: u64,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct FleetView {
    rows: Vec<HostRow>,
    by_id: BTreeMap<HostId, Slot>,
    /// The names are in lower case, because host names are compared without case, as in Nova.
    by_name: BTreeMap<String, BTreeSet<Slot>>,
    /// The rows of compute hosts that have an inventory.
    hosts: Slots,
    answering: Slots,
    enabled: Slots,
    columns: BTreeMap<String, HostResourceColumn>,
    /// Names of the resource classes with allocations, in the order of their first use.
    classes: Vec<String>,
    held: BTreeMap<ConsumerId, Vec<ConsumerAmount>>,
    traits: BTreeMap<String, Slots>,
    aggregates: BTreeMap<HostAggregateId, AggregateRow>,
    servers: BTreeMap<InstanceId, HostedServer>,
    /// Providers with a parent. If the cloud has such providers or sharing providers, a host's resources may be on
    /// several rows.
    nested: BTreeSet<ProviderId>,
    /// The processes that are building servers.
    builds: BTreeSet<ProcessId>,
}

impl FleetView {
    /// Returns the row of `slot`.
    ///
    /// # Panics
    /// If the slot belongs to another fleet.
    pub fn row(&self, slot: Slot) -> &HostRow {
        &self.rows[slot as usize]
    }

    pub fn slot(&self, host: HostId) -> Option<Slot> {
        self.by_id.get(&host).copied()
    }

    /// The hosts of that name, compared without case.
    pub fn named(&self, name: &str) -> Slots {
        self.by_name.get(&name.to_lowercase()).into_iter().flatten().copied().collect()
    }

    /// Every host with an inventory, whatever its state.
    pub fn hosts(&self) -> &Slots {
        &self.hosts
    }

    /// The hosts that answer.
    pub fn answering(&self) -> &Slots {
        &self.answering
    }

    /// The hosts on which an administrator allows new servers.
    pub fn enabled(&self) -> &Slots {
        &self.enabled
    }

    pub fn column(&self, class: &str) -> Option<&HostResourceColumn> {
        self.columns.get(class)
    }

    pub fn line(&self, class: &str, slot: Slot) -> Option<&HostInventory> {
        self.columns.get(class)?.line(slot)
    }

    pub fn with_trait(&self, name: &str) -> Option<&Slots> {
        self.traits.get(name)
    }

    pub fn aggregates(&self) -> impl Iterator<Item = (&HostAggregateId, &AggregateRow)> {
        self.aggregates.iter()
    }

    /// The host aggregates that a host is in.
    pub fn aggregates_of(&self, slot: Slot) -> impl Iterator<Item = &AggregateRow> {
        self.row(slot).aggregates.iter().filter_map(|id| self.aggregates.get(id))
    }

    /// The hosts in an availability zone other than the default one, by zone.
    pub fn zones(&self) -> BTreeMap<&str, Slots> {
        let mut zones: BTreeMap<&str, Slots> = BTreeMap::new();
        for row in self.aggregates.values() {
            if let Some(zone) = row.zone() {
                zones.entry(zone).or_default().extend_all(&row.hosts);
            }
        }
        zones
    }

    /// The availability zone of a host; `None` for a host in the default zone.
    pub fn zone_of(&self, slot: Slot) -> Option<&str> {
        self.aggregates_of(slot).find_map(AggregateRow::zone)
    }

    /// The host of a server that exists or is being built.
    pub fn whereabouts(&self, server: InstanceId) -> Option<Slot> {
        self.servers.get(&server).map(|resident| resident.slot)
    }

    /// Whether each host has all its resources on its own row. This holds if no provider has a parent or shares its
    /// resources with others.
    pub fn is_flat(&self) -> bool {
        self.nested.is_empty() && !self.traits.contains_key(SHARES)
    }

    /// Folds an event from the stream with this key.
    pub fn take(&mut self, key: &str, event: &Event) {
        match event {
            Event::LedgerEvent(event) => self.apply_ledger(event),
            Event::HostAggregateEvent(event) => self.apply_aggregate(event),
            Event::HostEvent(event) => {
                if let Ok(host) = key.parse() {
                    self.apply_host(host, event);
                }
            }
            Event::InstanceEvent(event) => {
                if let Ok(server) = key.parse() {
                    self.apply_instance(server, event);
                }
            }
            Event::ProcessEvent(event) => {
                if let Ok(process) = key.parse() {
                    self.apply_process(process, event);
                }
            }
            _ => {}
        }
    }

    /// Counts the failed builds. As in Nova, only builds count, because a failed move, evacuation or unshelve says less
    /// about the destination.
    fn apply_process(&mut self, process: ProcessId, event: &ProcessEvent) {
        match event {
            ProcessEvent::Started(started) => {
                if let Task::BuildInstance { .. } = started.task {
                    self.builds.insert(process);
                }
            }
            ProcessEvent::Finished(_) => {
                self.builds.remove(&process);
            }
            ProcessEvent::StepFailed(failed) if self.builds.contains(&process) => {
                if let Some(slot) = failed.host.and_then(|host| self.slot(host)) {
                    let row = &mut self.rows[slot as usize];
                    row.failed_builds = row.failed_builds.saturating_add(1);
                }
            }
            _ => {}
        }
    }

    fn place(&mut self, id: HostId, name: &str) -> Slot {
        if let Some(slot) = self.slot(id) {
            self.rename(slot, name);
            return slot;
        }
        let slot = Slot::try_from(self.rows.len()).unwrap_or(Slot::MAX);
        self.rows.push(HostRow {
            id,
            name: name.to_owned(),
            facts: None,
            traits: BTreeSet::new(),
            aggregates: BTreeSet::new(),
            servers: BTreeSet::new(),
            io_ops: 0,
            failed_builds: 0,
        });
        self.by_id.insert(id, slot);
        self.by_name.entry(name.to_lowercase()).or_default().insert(slot);
        slot
    }

    fn rename(&mut self, slot: Slot, name: &str) {
        let row = &mut self.rows[slot as usize];
        if row.name == name {
            return;
        }
        let old = std::mem::replace(&mut row.name, name.to_owned()).to_lowercase();
        if let Some(slots) = self.by_name.get_mut(&old) {
            slots.remove(&slot);
            if slots.is_empty() {
                self.by_name.remove(&old);
            }
        }
        self.by_name.entry(name.to_lowercase()).or_default().insert(slot);
    }

    /// Updates the sets that depend on a row's state.
    fn judge(&mut self, slot: Slot) {
        let facts = self.rows[slot as usize].facts.as_ref();
        let (is_host, answers, enabled) = facts.map_or((false, false, false), |f| (true, f.answers(), f.enabled));
        self.answering.set(slot, answers);
        self.enabled.set(slot, enabled);
        let has_inventory = self.columns.values().any(|column| column.line(slot).is_some());
        self.hosts.set(slot, is_host && has_inventory);
    }

    fn apply_host(&mut self, host: HostId, event: &HostEvent) {
        if let HostEvent::Registered(registered) = event {
            let slot = self.place(host, &registered.hostname);
            self.rows[slot as usize].facts = Some(ReportedHost {
                capabilities: Arc::new(registered.capabilities.clone()),
                up: true,
                enabled: true,
                forced_down: false,
            });
            return self.judge(slot);
        }
        let Some(slot) = self.slot(host) else { return };
        if let HostEvent::CapabilitiesChanged(changed) = event {
            self.rename(slot, &changed.hostname);
        }
        if let HostEvent::Deregistered(_) = event {
            self.rows[slot as usize].facts = None;
            return self.judge(slot);
        }
        let Some(facts) = &mut self.rows[slot as usize].facts else { return };
        match event {
            HostEvent::Registered(_) | HostEvent::Deregistered(_) => {}
            HostEvent::CapabilitiesChanged(changed) => facts.capabilities = Arc::new(changed.capabilities.clone()),
            HostEvent::CameUp(_) => facts.up = true,
            HostEvent::WentDown(_) => facts.up = false,
            HostEvent::Enabled(_) => facts.enabled = true,
            HostEvent::Disabled(_) => facts.enabled = false,
            HostEvent::ForcedDown(forced) => facts.forced_down = forced.forced,
            // The fleet ignores these events, because a draining host is already disabled.
            HostEvent::DrainRequested(_)
            | HostEvent::DepartureBegun(_)
            | HostEvent::ServerLeft(_)
            | HostEvent::ServerStayed(_)
            | HostEvent::DrainCancelled(_)
            | HostEvent::DrainEnded(_)
            | HostEvent::MaintenanceBegun(_)
            | HostEvent::MaintenanceEnded(_) => {}
        }
        self.judge(slot);
    }

    fn apply_ledger(&mut self, event: &LedgerEvent) {
        match event {
            LedgerEvent::ProviderCreated(created) => {
                self.place(HostId(created.provider.0), &created.name);
                self.nest(created.provider, created.parent.is_some());
            }
            LedgerEvent::ProviderChanged(changed) => {
                self.nest(changed.provider, changed.parent.is_some());
            }
            LedgerEvent::ProviderDeleted(deleted) => self.forget_provider(deleted.provider),
            LedgerEvent::InventoryReplaced(replaced) => {
                let Some(slot) = self.slot(HostId(replaced.provider.0)) else { return };
                for (class, column) in &mut self.columns {
                    if !replaced.inventories.iter().any(|inventory| inventory.class == *class) {
                        column.replace(slot, None);
                    }
                }
                for inventory in &replaced.inventories {
                    self.columns.entry(inventory.class.clone()).or_default().replace(slot, Some(inventory));
                }
                self.judge(slot);
            }
            LedgerEvent::TraitsReplaced(replaced) => {
                let Some(slot) = self.slot(HostId(replaced.provider.0)) else { return };
                let now: BTreeSet<String> = replaced.traits.iter().cloned().collect();
                let before = std::mem::replace(&mut self.rows[slot as usize].traits, now.clone());
                move_between(&mut self.traits, slot, &before, &now);
            }
            LedgerEvent::Claimed(claimed) => {
                self.release(&claimed.consumer);
                self.claim(claimed);
            }
            LedgerEvent::Released(released) => self.release(&released.consumer),
            LedgerEvent::AllocationsReplaced(replaced) => {
                for consumer in replaced.released.iter().chain(replaced.claims.iter().map(|claim| &claim.consumer)) {
                    self.release(consumer);
                }
                for claim in &replaced.claims {
                    self.claim(claim);
                }
            }
            LedgerEvent::ResourceClassRenamed(renamed) => {
                if let Some(column) = self.columns.remove(&renamed.from) {
                    self.columns.insert(renamed.to.clone(), column);
                }
                if let Some(class) = self.classes.iter_mut().find(|class| **class == renamed.from) {
                    class.clone_from(&renamed.to);
                }
            }
            _ => {}
        }
    }

    fn nest(&mut self, provider: ProviderId, nested: bool) {
        if nested {
            self.nested.insert(provider);
        } else {
            self.nested.remove(&provider);
        }
    }

    fn forget_provider(&mut self, provider: ProviderId) {
        self.nested.remove(&provider);
        let Some(slot) = self.slot(HostId(provider.0)) else { return };
        for column in self.columns.values_mut() {
            column.replace(slot, None);
        }
        let traits = std::mem::take(&mut self.rows[slot as usize].traits);
        move_between(&mut self.traits, slot, &traits, &BTreeSet::new());
        self.judge(slot);
    }

    fn claim(&mut self, claimed: &Claimed) {
        let mut held = Vec::new();
        for Allocation { provider, resources } in &claimed.allocations {
            let Some(slot) = self.slot(HostId(provider.0)) else { continue };
            for (class, amount) in resources {
                if let Some(column) = self.columns.get_mut(class) {
                    column.take(slot, *amount);
                }
                held.push(ConsumerAmount { slot, class: self.class(class), amount: *amount });
            }
        }
        self.held.insert(claimed.consumer.clone(), held);
    }

    fn release(&mut self, consumer: &ConsumerId) {
        for held in self.held.remove(consumer).unwrap_or_default() {
            let class = self.classes.get(usize::from(held.class));
            if let Some(column) = class.and_then(|class| self.columns.get_mut(class)) {
                column.give_back(held.slot, held.amount);
            }
        }
    }

    fn class(&mut self, name: &str) -> u16 {
        let known = self.classes.iter().position(|class| class == name);
        let at = known.unwrap_or_else(|| {
            self.classes.push(name.to_owned());
            self.classes.len() - 1
        });
        u16::try_from(at).unwrap_or(u16::MAX)
    }

    fn apply_instance(&mut self, server: InstanceId, event: &InstanceEvent) {
        match event {
            InstanceEvent::Placed(placed) => {
                let slot = self.slot(placed.host);
                self.move_server(server, slot.map(|slot| HostedServer { slot, busy: true }));
            }
            InstanceEvent::Unplaced(_) | InstanceEvent::Offloaded(_) | InstanceEvent::Deleted(_) => {
                self.move_server(server, None);
            }
            InstanceEvent::Resized(Resized { placed, .. })
            | InstanceEvent::LiveMoved(LiveMoved { placed, .. })
            | InstanceEvent::Evacuated(Evacuated { placed, .. })
            | InstanceEvent::ResizeReverted(ResizeReverted { placed, .. }) => {
                let slot = self.slot(placed.host);
                self.move_server(server, slot.map(|slot| HostedServer { slot, busy: false }));
            }
            _ => {
                let (Some(busy), Some(resident)) = (is_heavy(event), self.servers.get(&server).copied()) else {
                    return;
                };
                if matches!(event, InstanceEvent::BuildSucceeded(_)) {
                    self.rows[resident.slot as usize].failed_builds = 0;
                }
                self.move_server(server, Some(HostedServer { busy, ..resident }));
            }
        }
    }

    fn apply_aggregate(&mut self, event: &HostAggregateEvent) {
        match event {
            HostAggregateEvent::HostAggregateCreated(created) => {
                let metadata = created.metadata.iter().cloned().collect();
                let row = AggregateRow { name: created.name.clone(), metadata, hosts: Slots::default() };
                self.aggregates.insert(created.aggregate, row);
            }
            HostAggregateEvent::HostAggregateRenamed(renamed) => {
                if let Some(row) = self.aggregates.get_mut(&renamed.aggregate) {
                    row.name.clone_from(&renamed.name);
                }
            }
            HostAggregateEvent::HostAggregateMetadataReplaced(replaced) => {
                if let Some(row) = self.aggregates.get_mut(&replaced.aggregate) {
                    row.metadata = replaced.metadata.iter().cloned().collect();
                }
            }
            HostAggregateEvent::HostAdded(added) => self.join(added.aggregate, added.host, true),
            HostAggregateEvent::HostRemoved(removed) => self.join(removed.aggregate, removed.host, false),
            HostAggregateEvent::HostAggregateDeleted(deleted) => {
                if let Some(gone) = self.aggregates.remove(&deleted.aggregate) {
                    for slot in gone.hosts.iter() {
                        self.rows[slot as usize].aggregates.remove(&deleted.aggregate);
                    }
                }
            }
        }
    }

    fn join(&mut self, aggregate: HostAggregateId, host: HostId, is_in: bool) {
        let (Some(slot), Some(row)) = (self.slot(host), self.aggregates.get_mut(&aggregate)) else { return };
        row.hosts.set(slot, is_in);
        let own = &mut self.rows[slot as usize].aggregates;
        if is_in {
            own.insert(aggregate);
        } else {
            own.remove(&aggregate);
        }
    }

    fn move_server(&mut self, server: InstanceId, to: Option<HostedServer>) {
        let from = match to {
            Some(resident) => self.servers.insert(server, resident),
            None => self.servers.remove(&server),
        };
        if let Some(from) = from {
            let row = &mut self.rows[from.slot as usize];
            row.servers.remove(&server);
            row.io_ops = row.io_ops.saturating_sub(u32::from(from.busy));
        }
        if let Some(to) = to {
            let row = &mut self.rows[to.slot as usize];
            row.servers.insert(server);
            row.io_ops += u32::from(to.busy);
        }
    }
}

/// Whether the server's work burdens its host from this event on. `None`: the event changes nothing. As in Nova's
/// `io_workload` (nova `compute/stats.py`), builds, rebuilds, rescues and unshelves burden the host. Snapshots and
/// backups burden it until their upload begins, and moves until the source has sent the disks. An unshelve counts to
/// its end.
fn is_heavy(event: &InstanceEvent) -> Option<bool> {
    Some(match event {
        InstanceEvent::RebuildRequested(_)
        | InstanceEvent::RescueRequested(_)
        | InstanceEvent::UnshelveRequested(_)
        | InstanceEvent::MoveRequested(_) => true,
        // The first stage of a snapshot does not count. The first stage of a backup counts.
        InstanceEvent::SnapshotRequested(asked) => asked.backup.is_some(),
        InstanceEvent::WorkAdvanced(advanced) => match advanced.stage {
            WorkStage::Begun | WorkStage::AtWork => true,
            WorkStage::PendingUpload | WorkStage::Uploading | WorkStage::Disks => false,
            WorkStage::Spawning => return None,
        },
        InstanceEvent::MoveAdvanced(advanced) => {
            matches!(advanced.stage, MoveStage::Preparing | MoveStage::Migrating)
        }
        InstanceEvent::BuildSucceeded(_)
        | InstanceEvent::BuildFailed(_)
        | InstanceEvent::SnapshotTaken(_)
        | InstanceEvent::SnapshotFailed(_)
        | InstanceEvent::Rebuilt(_)
        | InstanceEvent::RebuildFailed(_)
        | InstanceEvent::Rescued(_)
        | InstanceEvent::RescueFailed(_)
        | InstanceEvent::Unshelved(_)
        | InstanceEvent::UnshelveFailed(_)
        | InstanceEvent::MoveFailed(_)
        // A reset ends most operations without another event.
        | InstanceEvent::StateDeclared(_) => false,
        _ => return None,
    })
}

/// Takes `slot` out of the sets of `before` and puts it into those of `now`.
fn move_between<K: Ord + Clone>(index: &mut BTreeMap<K, Slots>, slot: Slot, before: &BTreeSet<K>, now: &BTreeSet<K>) {
    for gone in before.difference(now) {
        if let Some(slots) = index.get_mut(gone) {
            slots.remove(slot);
            if slots.is_empty() {
                index.remove(gone);
            }
        }
    }
    for new in now.difference(before) {
        index.entry(new.clone()).or_default().insert(slot);
    }
}

impl Projection for FleetView {
    const NAME: &'static str = "fleet";
    const VERSION: u32 = 6;
    const NOUNS: &'static [&'static str] = &["host", "host_aggregate", "instance", "ledger", "process"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        self.take(recorded.stream.key(), event);
    }

    fn weight(&self) -> u64 {
        self.rows.len() as u64 * 2_048
    }
}

#[cfg(test)]
mod tests;
