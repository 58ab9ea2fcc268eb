//! The state of the ledger, folded from its events.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cells::{FittedNumaCell, GuestFitted, HostCellsReplaced};
use super::payloads::{Allocation, AllocationsReplaced, Claimed, Inventory};
use super::pci::{HostPciReplaced, PciClaims};
use super::provider_config::ProviderConfigApplied;
use super::{LedgerEvent, standard};
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ConsumerId, ProviderId, ServerGroupId};

/// All providers and consumers of a Nova cell. Rows are shared (`Arc`) so that a copy of the state is cheap.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "StoredLedger")]
pub struct Ledger {
    pub providers: BTreeMap<ProviderId, Arc<Provider>>,
    pub consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
    pub classes: BTreeSet<String>,
    pub traits: BTreeSet<String>,
    /// For each server group, the members that have a host, each with its host. A claim must not break a group's
    /// policy.
    pub groups: BTreeMap<ServerGroupId, BTreeMap<ConsumerId, ProviderId>>,
    /// The server group of each consumer.
    pub member_of: BTreeMap<ConsumerId, ServerGroupId>,
    /// The NUMA cells of the hosts that report them.
    pub cells: BTreeMap<ProviderId, Arc<HostCellsReplaced>>,
    /// The consumers' shares of the cells, by host.
    pub fitted: BTreeMap<ProviderId, BTreeMap<ConsumerId, Arc<Vec<FittedNumaCell>>>>,
    /// The host of each consumer that has a share of a cell.
    pub fitted_on: BTreeMap<ConsumerId, ProviderId>,
    /// The PCI devices of the hosts that report some.
    pub pci: BTreeMap<ProviderId, Arc<HostPciReplaced>>,
    pub pci_claims: PciClaims,
    /// The additions of `provider.yaml`, by host.
    pub configured: BTreeMap<ProviderId, Arc<ProviderConfigApplied>>,
    /// The unusual spellings of aggregates, by provider. See [`AggregatesReplaced`](super::AggregatesReplaced).
    pub spellings: BTreeMap<ProviderId, Arc<BTreeMap<uuid::Uuid, String>>>,
    /// The provider of each name. It is computed from the providers whenever a ledger is decoded.
    #[serde(skip_serializing)]
    names: BTreeMap<String, ProviderId>,
}

/// The form of a ledger in a snapshot or a checkpoint.
#[derive(Deserialize)]
struct StoredLedger {
    providers: BTreeMap<ProviderId, Arc<Provider>>,
    consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
    classes: BTreeSet<String>,
    traits: BTreeSet<String>,
    groups: BTreeMap<ServerGroupId, BTreeMap<ConsumerId, ProviderId>>,
    member_of: BTreeMap<ConsumerId, ServerGroupId>,
    cells: BTreeMap<ProviderId, Arc<HostCellsReplaced>>,
    fitted: BTreeMap<ProviderId, BTreeMap<ConsumerId, Arc<Vec<FittedNumaCell>>>>,
    fitted_on: BTreeMap<ConsumerId, ProviderId>,
    pci: BTreeMap<ProviderId, Arc<HostPciReplaced>>,
    pci_claims: PciClaims,
    configured: BTreeMap<ProviderId, Arc<ProviderConfigApplied>>,
    spellings: BTreeMap<ProviderId, Arc<BTreeMap<uuid::Uuid, String>>>,
}

impl From<StoredLedger> for Ledger {
    fn from(kept: StoredLedger) -> Self {
        let StoredLedger {
            providers,
            consumers,
            classes,
            traits,
            groups,
            member_of,
            cells,
            fitted,
            fitted_on,
            pci,
            pci_claims,
            configured,
            spellings,
        } = kept;
        let names = providers.values().map(|provider| (provider.name.clone(), provider.id)).collect();
        Self {
            providers,
            consumers,
            classes,
            traits,
            groups,
            member_of,
            cells,
            fitted,
            fitted_on,
            pci,
            pci_claims,
            configured,
            spellings,
            names,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provider {
    pub id: ProviderId,
    pub name: String,
    pub parent: Option<ProviderId>,
    /// Placement's optimistic lock. Grows with new inventories, traits, aggregates (since 1.19) and allocations. As in
    /// Placement, it does not grow with a new name, a new parent, or the release of a single consumer.
    pub generation: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub inventories: BTreeMap<String, InventoryLine>,
    pub traits: BTreeSet<String>,
    pub aggregates: BTreeSet<uuid::Uuid>,
}

/// The inventory of one resource class, and its allocated amount.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InventoryLine {
    pub inventory: Inventory,
    pub used: u64,
}

impl InventoryLine {
    pub fn free(&self) -> u64 {
        self.inventory.capacity().saturating_sub(self.used)
    }

    /// Whether `amount` more may be allocated, by Placement's rules: unit bounds, step and capacity.
    pub fn admits(&self, amount: u64) -> bool {
        let inv = &self.inventory;
        amount >= inv.min_unit
            && amount <= inv.max_unit
            && amount.is_multiple_of(inv.step_size.max(1))
            && amount <= self.free()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consumer {
    /// Grows with every change of the consumer's allocations. It is Placement's optimistic lock (since 1.28).
    pub generation: u64,
    pub claim: Claimed,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A consumer's share of a host's NUMA cells.
#[derive(Debug, Clone, PartialEq)]
pub struct NumaFitting {
    pub host: ProviderId,
    pub cells: Arc<Vec<FittedNumaCell>>,
}

impl Fold for Ledger {
    type Event = LedgerEvent;
    const STATE_VERSION: u32 = 6;

    fn evolve(&mut self, event: &LedgerEvent, at: Timestamp) {
        match event {
            LedgerEvent::ProviderCreated(created) => {
                let provider = Provider {
                    id: created.provider,
                    name: created.name.clone(),
                    parent: created.parent,
                    generation: 0,
                    created_at: at,
                    updated_at: at,
                    inventories: BTreeMap::new(),
                    traits: BTreeSet::new(),
                    aggregates: BTreeSet::new(),
                };
                self.names.insert(created.name.clone(), created.provider);
                self.providers.insert(created.provider, Arc::new(provider));
            }
            LedgerEvent::ProviderChanged(changed) => {
                // A new name or parent does not change the generation, as with Placement's PUT
                // /resource_providers/{uuid}.
                if let Some(known) = self.providers.get(&changed.provider).filter(|known| known.name != changed.name) {
                    self.names.remove(&known.name);
                    self.names.insert(changed.name.clone(), changed.provider);
                }
                self.change(changed.provider, at, |provider| {
                    provider.name.clone_from(&changed.name);
                    provider.parent = changed.parent;
                });
            }
            LedgerEvent::ProviderDeleted(deleted) => {
                if let Some(gone) = self.providers.remove(&deleted.provider) {
                    self.names.remove(&gone.name);
                }
                self.cells.remove(&deleted.provider);
                self.pci.remove(&deleted.provider);
                self.configured.remove(&deleted.provider);
                self.spellings.remove(&deleted.provider);
                self.pci_claims.forget_host(deleted.provider);
                for (consumer, _) in self.fitted.remove(&deleted.provider).into_iter().flatten() {
                    self.fitted_on.remove(&consumer);
                }
            }
            LedgerEvent::InventoryReplaced(replaced) => self.change(replaced.provider, at, |provider| {
                let old = std::mem::take(&mut provider.inventories);
                for inventory in &replaced.inventories {
                    let used = old.get(&inventory.class).map_or(0, |line| line.used);
                    let line = InventoryLine { inventory: inventory.clone(), used };
                    provider.inventories.insert(inventory.class.clone(), line);
                }
                provider.generation += 1;
            }),
            LedgerEvent::TraitsReplaced(replaced) => self.change(replaced.provider, at, |provider| {
                provider.traits = replaced.traits.iter().cloned().collect();
                provider.generation += 1;
            }),
            LedgerEvent::AggregatesReplaced(replaced) => {
                self.spellings.remove(&replaced.provider);
                if !replaced.spellings.is_empty() {
                    let spellings = replaced.spellings.iter().cloned().collect();
                    self.spellings.insert(replaced.provider, Arc::new(spellings));
                }
                self.change(replaced.provider, at, |provider| {
                    provider.aggregates = replaced.aggregates.iter().copied().collect();
                    provider.generation += u64::from(replaced.bumps_generation);
                });
            }
            LedgerEvent::Claimed(claimed) => {
                let old = self.take_back(&claimed.consumer, at);
                self.hand_out(claimed, old.as_deref(), at);
                self.keep_fit(claimed);
                self.count(claimed.allocations.iter().map(|held| held.provider));
            }
            LedgerEvent::AllocationsReplaced(replaced) => self.replace_allocations(replaced, at),
            LedgerEvent::Released(released) => {
                self.leave_group(&released.consumer);
                self.unfit(&released.consumer);
                self.pci_claims.release(&released.consumer);
                self.take_back(&released.consumer, at);
            }
            LedgerEvent::ResourceClassCreated(created) => {
                self.classes.insert(created.name.clone());
            }
            LedgerEvent::ResourceClassDeleted(deleted) => {
                self.classes.remove(&deleted.name);
            }
            LedgerEvent::ResourceClassRenamed(renamed) => self.rename_class(&renamed.from, &renamed.to),
            LedgerEvent::TraitCreated(created) => {
                self.traits.insert(created.name.clone());
            }
            LedgerEvent::TraitDeleted(deleted) => {
                self.traits.remove(&deleted.name);
            }
            LedgerEvent::GroupMemberPlaced(placed) => {
                self.leave_group(&placed.consumer);
                self.groups.entry(placed.group).or_default().insert(placed.consumer.clone(), placed.provider);
                self.member_of.insert(placed.consumer.clone(), placed.group);
            }
            LedgerEvent::HostCellsReplaced(replaced) => {
                self.cells.insert(replaced.provider, Arc::new(replaced.clone()));
            }
            LedgerEvent::GuestFitted(fitted) => self.fit(fitted),
            LedgerEvent::HostPciReplaced(replaced) => {
                self.pci.insert(replaced.provider, Arc::new(replaced.clone()));
            }
            LedgerEvent::PciDevicesClaimed(claimed) => self.pci_claims.take(claimed),
            LedgerEvent::ProviderConfigApplied(applied) => {
                self.configured.insert(applied.host, Arc::new(applied.clone()));
            }
            LedgerEvent::ProviderAdopted(adopted) => self.change(adopted.provider, adopted.updated_at, |provider| {
                provider.generation = adopted.generation;
                provider.created_at = adopted.created_at;
            }),
            LedgerEvent::ConsumerAdopted(adopted) => {
                if let Some(consumer) = self.consumers.get_mut(&adopted.consumer) {
                    let consumer = Arc::make_mut(consumer);
                    consumer.generation = adopted.generation;
                    (consumer.created_at, consumer.updated_at) = (adopted.created_at, adopted.updated_at);
                }
            }
        }
    }
}

impl Ledger {
    /// Builds a ledger from its first form, which had no server groups.
    pub fn of_first(
        providers: BTreeMap<ProviderId, Arc<Provider>>,
        consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
        classes: BTreeSet<String>,
        traits: BTreeSet<String>,
    ) -> Self {
        Self::of_second(providers, consumers, classes, traits, BTreeMap::new(), BTreeMap::new())
    }

    /// Builds a ledger from its second form, which had no NUMA cells.
    pub fn of_second(
        providers: BTreeMap<ProviderId, Arc<Provider>>,
        consumers: BTreeMap<ConsumerId, Arc<Consumer>>,
        classes: BTreeSet<String>,
        traits: BTreeSet<String>,
        groups: BTreeMap<ServerGroupId, BTreeMap<ConsumerId, ProviderId>>,
        member_of: BTreeMap<ConsumerId, ServerGroupId>,
    ) -> Self {
        let names = providers.values().map(|provider| (provider.name.clone(), provider.id)).collect();
        Self { providers, consumers, classes, traits, groups, member_of, names, ..Self::default() }
    }

    /// The aggregates of a provider in the texts that clients wrote.
    pub fn written_aggregates(&self, provider: &Provider) -> Vec<String> {
        let spellings = self.spellings.get(&provider.id);
        let written =
            |id: &uuid::Uuid| spellings.and_then(|texts| texts.get(id)).cloned().unwrap_or_else(|| id.to_string());
        provider.aggregates.iter().map(written).collect()
    }

    /// A consumer's host, and its share of the host's cells.
    pub fn fitting(&self, consumer: &ConsumerId) -> Option<NumaFitting> {
        let host = *self.fitted_on.get(consumer)?;
        let cells = self.fitted.get(&host)?.get(consumer)?;
        Some(NumaFitting { host, cells: Arc::clone(cells) })
    }

    fn fit(&mut self, fitted: &GuestFitted) {
        self.unfit(&fitted.consumer);
        if fitted.cells.is_empty() {
            return;
        }
        let here = self.fitted.entry(fitted.provider).or_default();
        here.insert(fitted.consumer.clone(), Arc::new(fitted.cells.clone()));
        self.fitted_on.insert(fitted.consumer.clone(), fitted.provider);
    }

    fn unfit(&mut self, consumer: &ConsumerId) {
        let Some(host) = self.fitted_on.remove(consumer) else { return };
        if let Some(here) = self.fitted.get_mut(&host) {
            here.remove(consumer);
            if here.is_empty() {
                self.fitted.remove(&host);
            }
        }
    }

    /// Removes the consumer's share of a host's cells, and its devices, if the claim has no allocation on the host.
    fn keep_fit(&mut self, claimed: &Claimed) {
        self.pci_claims.keep(&claimed.consumer, |host| claimed.allocations.iter().any(|held| held.provider == host));
        let host = self.fitted_on.get(&claimed.consumer);
        if host.is_some_and(|host| !claimed.allocations.iter().any(|held| held.provider == *host)) {
            self.unfit(&claimed.consumer);
        }
    }

    /// The provider with this name.
    pub fn named(&self, name: &str) -> Option<ProviderId> {
        self.names.get(name).copied()
    }

    /// The providers whose names begin with `prefix`, sorted by name.
    pub fn named_from<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Provider> {
        let from = self.names.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let named = from.take_while(move |(name, _)| name.starts_with(prefix));
        named.filter_map(move |(_, id)| self.providers.get(id)).map(|provider| &**provider)
    }

    pub fn knows_class(&self, name: &str) -> bool {
        standard::is_standard_class(name) || self.classes.contains(name)
    }

    pub fn knows_trait(&self, name: &str) -> bool {
        standard::is_standard_trait(name) || self.traits.contains(name)
    }

    /// The provider at the root of `id`'s tree. A provider without parent is its own root.
    pub fn root_of(&self, id: ProviderId) -> ProviderId {
        let mut root = id;
        // The ledger admits no loops. The bound makes a damaged state harmless.
        for _ in 0..self.providers.len() {
            match self.providers.get(&root).and_then(|provider| provider.parent) {
                Some(parent) => root = parent,
                None => break,
            }
        }
        root
    }

    /// Whether `ancestor` is `id` or one of its ancestors.
    pub fn is_below(&self, id: ProviderId, ancestor: ProviderId) -> bool {
        let mut at = Some(id);
        for _ in 0..=self.providers.len() {
            match at {
                Some(id) if id == ancestor => return true,
                Some(id) => at = self.providers.get(&id).and_then(|provider| provider.parent),
                None => return false,
            }
        }
        false
    }

    /// How many members of the group are on the host, and how many are on all hosts.
    pub fn members_on(&self, group: ServerGroupId, host: ProviderId) -> (usize, usize) {
        let Some(members) = self.groups.get(&group) else { return (0, 0) };
        (members.values().filter(|provider| **provider == host).count(), members.len())
    }

    fn leave_group(&mut self, consumer: &ConsumerId) {
        let Some(group) = self.member_of.remove(consumer) else { return };
        if let Some(members) = self.groups.get_mut(&group) {
            members.remove(consumer);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    fn rename_class(&mut self, from: &str, to: &str) {
        self.classes.remove(from);
        self.classes.insert(to.to_owned());
        for provider in self.providers.values_mut() {
            if let Some(mut line) = provider.inventories.get(from).cloned() {
                to.clone_into(&mut line.inventory.class);
                let provider = Arc::make_mut(provider);
                provider.inventories.remove(from);
                provider.inventories.insert(to.to_owned(), line);
            }
        }
        for consumer in self.consumers.values_mut() {
            if consumer.claim.allocations.iter().any(|held| held.resources.iter().any(|(class, _)| class == from)) {
                for allocation in &mut Arc::make_mut(consumer).claim.allocations {
                    for (class, _) in allocation.resources.iter_mut().filter(|(class, _)| class == from) {
                        to.clone_into(class);
                    }
                    allocation.resources.sort();
                }
            }
        }
    }

    fn change(&mut self, id: ProviderId, at: Timestamp, with: impl FnOnce(&mut Provider)) {
        if let Some(provider) = self.providers.get_mut(&id) {
            let provider = Arc::make_mut(provider);
            provider.updated_at = at;
            with(provider);
        }
    }

    /// Takes back all old allocations before it adds the new ones, so that consumers can hand over amounts to each
    /// other.
    fn replace_allocations(&mut self, replaced: &AllocationsReplaced, at: Timestamp) {
        let mut touched: BTreeSet<ProviderId> = BTreeSet::new();
        for consumer in &replaced.released {
            self.leave_group(consumer);
            self.unfit(consumer);
            self.pci_claims.release(consumer);
            let old = self.take_back(consumer, at);
            touched.extend(old.iter().flat_map(|old| &old.claim.allocations).map(|held| held.provider));
        }
        let olds: Vec<_> = replaced.claims.iter().map(|claimed| self.take_back(&claimed.consumer, at)).collect();
        for (claimed, old) in replaced.claims.iter().zip(&olds) {
            self.hand_out(claimed, old.as_deref(), at);
            self.keep_fit(claimed);
            touched.extend(claimed.allocations.iter().map(|held| held.provider));
        }
        self.count(touched);
    }

    /// Raises the generation of each provider once. A claim raises the generations of the providers that the consumer
    /// now uses, not of those that the consumer leaves. A replacement of allocations also raises those of the providers
    /// of released consumers.
    fn count(&mut self, providers: impl IntoIterator<Item = ProviderId>) {
        for id in providers {
            if let Some(provider) = self.providers.get_mut(&id) {
                Arc::make_mut(provider).generation += 1;
            }
        }
    }

    fn take_back(&mut self, consumer: &ConsumerId, at: Timestamp) -> Option<Arc<Consumer>> {
        let old = self.consumers.remove(consumer)?;
        self.give_back(&old.claim.allocations, at);
        Some(old)
    }

    fn hand_out(&mut self, claimed: &Claimed, old: Option<&Consumer>, at: Timestamp) {
        for allocation in &claimed.allocations {
            self.change(allocation.provider, at, |provider| {
                for (class, amount) in &allocation.resources {
                    if let Some(line) = provider.inventories.get_mut(class) {
                        line.used += amount;
                    }
                }
            });
        }
        let (generation, created_at) = old.map_or((1, at), |old| (old.generation + 1, old.created_at));
        let consumer = Consumer { generation, claim: claimed.clone(), created_at, updated_at: at };
        self.consumers.insert(claimed.consumer.clone(), Arc::new(consumer));
    }

    fn give_back(&mut self, allocations: &[Allocation], at: Timestamp) {
        for allocation in allocations {
            self.change(allocation.provider, at, |provider| {
                for (class, amount) in &allocation.resources {
                    if let Some(line) = provider.inventories.get_mut(class) {
                        line.used = line.used.saturating_sub(*amount);
                    }
                }
            });
        }
    }
}
