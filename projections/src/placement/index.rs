//! The index of providers by class, free capacity, trait, aggregate and tree. Searches start from the index instead of
//! reading all providers.
//!
//! The index follows the ledger event by event. A test checks that it equals a new index of the same ledger
//! ([`ProviderIndex::of`]). The answers are sets ([`Slots`]) that callers intersect. The API's search for candidates
//! begins here. The scheduler's search begins here, too, if hosts have trees or providers share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::standard::SHARES;
use chronova_events::ledger::{InventoryLine, Ledger, LedgerEvent, Provider};
use uuid::Uuid;

use super::column::{ProviderCapacity, ProviderColumn};
use super::request::{AggregateFilter, TraitFilter};
use crate::slots::{Slot, Slots};

/// One class of a provider's inventory, as answers show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockedClass {
    pub class: String,
    pub capacity: u64,
    pub used: u64,
}

/// The classes of a provider, sorted by name. Providers with equal stocks mostly share them, so that a comparison of two
/// providers reads neither of their inventories.
pub type ProviderStock = Arc<[StockedClass]>;

/// The stock of a provider. If it equals `like`, returns `like` itself, so that both providers share one stock.
fn stock_of(provider: &Provider, like: &ProviderStock) -> ProviderStock {
    let lines = &provider.inventories;
    let is_like = lines.len() == like.len()
        && lines.iter().zip(like.iter()).all(|((class, line), other)| {
            *class == other.class && line.inventory.capacity() == other.capacity && line.used == other.used
        });
    if is_like {
        return Arc::clone(like);
    }
    let stocked = |(class, line): (&String, &InventoryLine)| StockedClass {
        class: class.clone(),
        capacity: line.inventory.capacity(),
        used: line.used,
    };
    lines.iter().map(stocked).collect()
}

#[derive(Debug, Clone)]
struct ProviderRow {
    id: ProviderId,
    /// `None` only while the ledger changes the provider. If the row still held a reference then, the ledger would have
    /// to copy the provider.
    provider: Option<Arc<Provider>>,
    /// The provider's stock, once an answer has shown it. A change of the provider clears it.
    stock: OnceLock<ProviderStock>,
    root: Slot,
    /// All providers of the tree by id, the root included. Only a root with children has this list.
    tree: Vec<Slot>,
}

impl ProviderRow {
    fn new(id: ProviderId, slot: Slot) -> Self {
        Self { id, provider: None, stock: OnceLock::new(), root: slot, tree: Vec::new() }
    }

    fn renew(&mut self, provider: &Arc<Provider>) {
        self.provider = Some(Arc::clone(provider));
        self.stock = OnceLock::new();
    }
}

/// The index; the module's documentation describes it.
#[derive(Debug, Default, Clone)]
pub struct ProviderIndex {
    slots: HashMap<ProviderId, Slot>,
    rows: Vec<Option<ProviderRow>>,
    unused: BTreeSet<Slot>,
    all: Slots,
    children: Slots,
    classes: HashMap<String, ProviderColumn>,
    traits: HashMap<String, Slots>,
    aggregates: HashMap<Uuid, Slots>,
}

impl ProviderIndex {
    pub fn of(ledger: &Ledger) -> Self {
        let mut index = Self::default();
        for provider in ledger.providers.values() {
            index.add(provider);
        }
        index.root(ledger, ledger.providers.keys().copied());
        index
    }

    // ------------------------------------------------------------------------------------------------------- questions

    /// Every provider.
    pub fn all(&self) -> &Slots {
        &self.all
    }

    pub fn slot(&self, id: ProviderId) -> Option<Slot> {
        self.slots.get(&id).copied()
    }

    pub fn provider(&self, slot: Slot) -> Option<&Arc<Provider>> {
        self.row(slot)?.provider.as_ref()
    }

    pub fn get(&self, id: ProviderId) -> Option<&Arc<Provider>> {
        self.provider(self.slot(id)?)
    }

    /// The stock of a provider. `like` is the stock of another provider, which this provider shares if both are equal.
    pub fn stock(&self, slot: Slot, like: &ProviderStock) -> Option<ProviderStock> {
        let row = self.row(slot)?;
        let provider = row.provider.as_ref()?;
        Some(Arc::clone(row.stock.get_or_init(|| stock_of(provider, like))))
    }

    pub fn id(&self, slot: Slot) -> Option<ProviderId> {
        self.row(slot).map(|row| row.id)
    }

    /// The root of the provider's tree; the provider itself if it has no parent.
    pub fn root_of(&self, slot: Slot) -> Slot {
        self.row(slot).map_or(slot, |row| row.root)
    }

    /// All providers of the tree with this root, in the order of ids.
    pub fn tree(&self, root: Slot) -> impl Iterator<Item = Slot> + '_ {
        let tree = self.row(root).map_or(&[][..], |row| &row.tree);
        tree.iter().copied().chain(tree.is_empty().then_some(root))
    }

    /// Whether the provider has neither a parent nor children.
    pub fn is_lone(&self, slot: Slot) -> bool {
        self.row(slot).is_some_and(|row| row.root == slot && row.tree.is_empty())
    }

    /// Providers that have a parent.
    pub fn children(&self) -> &Slots {
        &self.children
    }

    /// The column of a resource class; `None` if no provider has it.
    pub fn class(&self, class: &str) -> Option<&ProviderColumn> {
        self.classes.get(class)
    }

    /// Providers that can give `amount` of `class` to one request, by Placement's rules: unit bounds, step and
    /// capacity.
    pub fn with_room(&self, class: &str, amount: u64) -> Slots {
        self.class(class).map(|column| column.with_room(amount)).unwrap_or_default()
    }

    pub fn with_trait(&self, name: &str) -> Option<&Slots> {
        self.traits.get(name)
    }

    /// Providers with at least one of these traits.
    pub fn with_any_trait<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Slots {
        union(names.into_iter().filter_map(|name| self.traits.get(name)))
    }

    pub fn in_any_aggregate<'a>(&self, aggregates: impl IntoIterator<Item = &'a Uuid>) -> Slots {
        union(aggregates.into_iter().filter_map(|aggregate| self.aggregates.get(aggregate)))
    }

    /// Members of at least one aggregate of each set; `None` if the filter requires no membership.
    pub fn members(&self, filter: &AggregateFilter) -> Option<Slots> {
        let mut sets = filter.member_of.iter().map(|any| self.in_any_aggregate(any));
        let first = sets.next()?;
        Some(sets.fold(first, |found, other| cut(found, &other)))
    }

    /// Providers that others may use through an aggregate.
    pub fn sharing(&self) -> Option<&Slots> {
        self.traits.get(SHARES).filter(|slots| !slots.is_empty())
    }

    /// The trees that may use a sharing provider, because they have a member in one of its aggregates. Empty for a
    /// provider without aggregates.
    pub fn anchors(&self, sharing: &Provider) -> Slots {
        self.in_any_aggregate(&sharing.aggregates).iter().map(|member| self.root_of(member)).collect()
    }

    /// Removes from `among` each provider that has no trait of one of the required sets, or that has a forbidden trait.
    pub fn cut_by_traits(&self, among: &mut Slots, filter: &TraitFilter) {
        for any in &filter.required {
            among.retain_all(&self.with_any_trait(any));
        }
        if !filter.forbidden.is_empty() {
            among.remove_all(&self.with_any_trait(&filter.forbidden));
        }
    }

    /// Providers that have all these resources, traits and memberships by themselves, for `GET /resource_providers`.
    pub fn fitting<'a>(
        &self,
        resources: impl IntoIterator<Item = (&'a str, u64)>,
        traits: &TraitFilter,
        aggregates: &AggregateFilter,
    ) -> Slots {
        let mut sets = resources.into_iter().map(|(class, amount)| self.with_room(class, amount));
        let first = sets.next().unwrap_or_else(|| self.all.clone());
        let mut found = sets.fold(first, |found, other| cut(found, &other));
        self.cut_by_traits(&mut found, traits);
        if let Some(members) = self.members(aggregates) {
            found.retain_all(&members);
        }
        if !aggregates.forbidden.is_empty() {
            found.remove_all(&self.in_any_aggregate(&aggregates.forbidden));
        }
        found
    }

    // --------------------------------------------------------------------------------------------------------- changes

    /// Folds `event` into `ledger` and updates the index.
    pub(super) fn follow(&mut self, ledger: &mut Ledger, event: &LedgerEvent, evolve: impl FnOnce(&mut Ledger)) {
        match event {
            LedgerEvent::Claimed(_) | LedgerEvent::AllocationsReplaced(_) | LedgerEvent::Released(_) => {
                let touched = holders(ledger, event);
                // The ledger changes these providers next. If their rows still referred to them, the ledger would have
                // to copy them first.
                for id in &touched {
                    self.let_go(*id);
                }
                evolve(ledger);
                for id in touched {
                    self.recount(ledger, id);
                }
            }
            LedgerEvent::ProviderCreated(created) => {
                evolve(ledger);
                self.renew(ledger, created.provider);
                self.root(ledger, [created.provider]);
            }
            LedgerEvent::ProviderDeleted(deleted) => {
                let around = self.around(deleted.provider);
                evolve(ledger);
                self.renew(ledger, deleted.provider);
                self.root(ledger, around);
            }
            LedgerEvent::ProviderChanged(changed) => {
                let before = self.get(changed.provider).and_then(|provider| provider.parent);
                evolve(ledger);
                self.renew(ledger, changed.provider);
                if before != changed.parent {
                    let around = self.around(changed.provider);
                    self.root(ledger, around);
                }
            }
            LedgerEvent::InventoryReplaced(replaced) => {
                evolve(ledger);
                self.renew(ledger, replaced.provider);
            }
            LedgerEvent::TraitsReplaced(replaced) => {
                evolve(ledger);
                self.renew(ledger, replaced.provider);
            }
            LedgerEvent::AggregatesReplaced(replaced) => {
                evolve(ledger);
                self.renew(ledger, replaced.provider);
            }
            LedgerEvent::ResourceClassRenamed(_) => {
                evolve(ledger);
                *self = Self::of(ledger);
            }
            // The row drops its reference to the provider, so that the ledger need not copy the provider.
            LedgerEvent::ProviderAdopted(adopted) => {
                self.let_go(adopted.provider);
                evolve(ledger);
                self.recount(ledger, adopted.provider);
            }
            LedgerEvent::ConsumerAdopted(_) => evolve(ledger),
            LedgerEvent::ResourceClassCreated(_)
            | LedgerEvent::ResourceClassDeleted(_)
            | LedgerEvent::TraitCreated(_)
            | LedgerEvent::TraitDeleted(_)
            | LedgerEvent::GroupMemberPlaced(_)
            | LedgerEvent::HostCellsReplaced(_)
            | LedgerEvent::GuestFitted(_)
            | LedgerEvent::HostPciReplaced(_)
            | LedgerEvent::PciDevicesClaimed(_)
            | LedgerEvent::ProviderConfigApplied(_) => evolve(ledger),
        }
    }

    fn row(&self, slot: Slot) -> Option<&ProviderRow> {
        self.rows.get(slot as usize)?.as_ref()
    }

    fn row_mut(&mut self, slot: Slot) -> Option<&mut ProviderRow> {
        self.rows.get_mut(slot as usize)?.as_mut()
    }

    fn let_go(&mut self, id: ProviderId) {
        if let Some(row) = self.slot(id).and_then(|slot| self.row_mut(slot)) {
            row.provider = None;
        }
    }

    /// Updates the index after a change of allocations only.
    fn recount(&mut self, ledger: &Ledger, id: ProviderId) {
        let (Some(slot), Some(provider)) = (self.slot(id), ledger.providers.get(&id)) else { return };
        for (class, line) in &provider.inventories {
            if let Some(column) = self.classes.get_mut(class) {
                column.set(slot, ProviderCapacity::of(line));
            }
        }
        if let Some(row) = self.row_mut(slot) {
            row.renew(provider);
        }
    }

    /// Updates the index after any change of one provider except its position in a tree.
    fn renew(&mut self, ledger: &Ledger, id: ProviderId) {
        if let Some(slot) = self.slot(id)
            && let Some(old) = self.row_mut(slot).and_then(|row| row.provider.take())
        {
            self.strike(slot, &old);
        }
        match (ledger.providers.get(&id), self.slot(id)) {
            (Some(provider), _) => self.add(provider),
            (None, Some(slot)) => {
                self.slots.remove(&id);
                self.rows[slot as usize] = None;
                self.all.remove(slot);
                self.children.remove(slot);
                self.unused.insert(slot);
            }
            (None, None) => {}
        }
    }

    fn strike(&mut self, slot: Slot, old: &Provider) {
        for class in old.inventories.keys() {
            if let Some(column) = self.classes.get_mut(class) {
                column.clear(slot);
                if column.members().is_empty() {
                    self.classes.remove(class);
                }
            }
        }
        for name in &old.traits {
            if let Some(slots) = self.traits.get_mut(name) {
                slots.remove(slot);
                if slots.is_empty() {
                    self.traits.remove(name);
                }
            }
        }
        for aggregate in &old.aggregates {
            if let Some(slots) = self.aggregates.get_mut(aggregate) {
                slots.remove(slot);
                if slots.is_empty() {
                    self.aggregates.remove(aggregate);
                }
            }
        }
    }

    fn add(&mut self, provider: &Arc<Provider>) {
        let slot = self.slot(provider.id).unwrap_or_else(|| self.new_slot(provider.id));
        for (class, line) in &provider.inventories {
            match self.classes.get_mut(class) {
                Some(column) => column.set(slot, ProviderCapacity::of(line)),
                None => self.classes.entry(class.clone()).or_default().set(slot, ProviderCapacity::of(line)),
            }
        }
        for name in &provider.traits {
            match self.traits.get_mut(name) {
                Some(slots) => slots.insert(slot),
                None => self.traits.entry(name.clone()).or_default().insert(slot),
            };
        }
        for aggregate in &provider.aggregates {
            self.aggregates.entry(*aggregate).or_default().insert(slot);
        }
        if provider.parent.is_some() {
            self.children.insert(slot)
        } else {
            self.children.remove(slot)
        };
        if let Some(row) = self.row_mut(slot) {
            row.renew(provider);
        }
    }

    fn new_slot(&mut self, id: ProviderId) -> Slot {
        let slot = self.unused.pop_first().unwrap_or_else(|| {
            self.rows.push(None);
            Slot::try_from(self.rows.len() - 1).unwrap_or(Slot::MAX)
        });
        self.rows[slot as usize] = Some(ProviderRow::new(id, slot));
        self.slots.insert(id, slot);
        self.all.insert(slot);
        slot
    }

    /// All providers in the same tree, as far as the index knows.
    fn around(&self, id: ProviderId) -> Vec<ProviderId> {
        let Some(slot) = self.slot(id) else { return vec![] };
        self.tree(self.root_of(slot)).filter_map(|member| self.id(member)).collect()
    }

    /// Finds the roots of these providers again, and records the trees that they left and joined.
    fn root(&mut self, ledger: &Ledger, ids: impl IntoIterator<Item = ProviderId>) {
        let mut trees: BTreeMap<Slot, BTreeSet<ProviderId>> = BTreeMap::new();
        let mut note = |index: &Self, root: Slot| {
            trees.entry(root).or_insert_with(|| index.tree(root).filter_map(|member| index.id(member)).collect());
        };
        let mut moved = Vec::new();
        for id in ids {
            let Some(slot) = self.slot(id) else { continue };
            let root = self.slot(ledger.root_of(id)).unwrap_or(slot);
            note(self, self.root_of(slot));
            note(self, root);
            moved.push((id, slot, root));
        }
        for (id, slot, root) in moved {
            if let Some(old) = trees.get_mut(&self.root_of(slot)) {
                old.remove(&id);
            }
            trees.entry(root).or_default().insert(id);
            if let Some(row) = self.row_mut(slot) {
                row.root = root;
            }
        }
        for (root, members) in trees {
            let members: Vec<Slot> = members.iter().filter_map(|id| self.slot(*id)).collect();
            // A provider that is alone, or is no root any more, needs no list.
            let is_root = self.root_of(root) == root;
            if let Some(row) = self.row_mut(root) {
                row.tree = if is_root && members.len() > 1 { members } else { Vec::new() };
            }
        }
    }
}

/// Two indexes are equal if they say the same about every provider, whatever the providers' slots.
impl PartialEq for ProviderIndex {
    fn eq(&self, other: &Self) -> bool {
        let same = |mine: &Slots, theirs: &Slots| self.ids(mine) == other.ids(theirs);
        same(&self.all, &other.all)
            && same(&self.children, &other.children)
            && self.named(&self.traits) == other.named(&other.traits)
            && self.named(&self.aggregates) == other.named(&other.aggregates)
            && self.rooms() == other.rooms()
            && self.forest() == other.forest()
            && self.ids(&self.all).into_iter().all(|id| self.get(id) == other.get(id))
    }
}

impl ProviderIndex {
    fn ids(&self, slots: &Slots) -> BTreeSet<ProviderId> {
        slots.iter().filter_map(|slot| self.id(slot)).collect()
    }

    fn named<K: ToString>(&self, sets: &HashMap<K, Slots>) -> BTreeMap<String, BTreeSet<ProviderId>> {
        sets.iter().map(|(name, slots)| (name.to_string(), self.ids(slots))).collect()
    }

    fn rooms(&self) -> BTreeMap<(String, ProviderId), ProviderCapacity> {
        let mut rooms = BTreeMap::new();
        for (class, column) in &self.classes {
            for slot in column.members().iter() {
                if let (Some(id), Some(room)) = (self.id(slot), column.room(slot)) {
                    rooms.insert((class.clone(), id), *room);
                }
            }
        }
        rooms
    }

    fn forest(&self) -> BTreeMap<ProviderId, (Option<ProviderId>, BTreeSet<ProviderId>)> {
        let of = |slot: Slot| {
            let root = self.root_of(slot);
            let tree: Slots = self.tree(root).collect();
            Some((self.id(slot)?, (self.id(root), self.ids(&tree))))
        };
        self.all.iter().filter_map(of).collect()
    }
}

/// The providers whose usage an event changes. These are the providers that its consumers use after the event, and
/// those that they used before.
fn holders(ledger: &Ledger, event: &LedgerEvent) -> BTreeSet<ProviderId> {
    let (claims, released): (&[_], &[_]) = match event {
        LedgerEvent::Claimed(claimed) => (std::slice::from_ref(claimed), &[]),
        LedgerEvent::Released(released) => (&[], std::slice::from_ref(&released.consumer)),
        LedgerEvent::AllocationsReplaced(replaced) => (&replaced.claims, &replaced.released),
        _ => (&[], &[]),
    };
    let consumers = claims.iter().map(|claim| &claim.consumer).chain(released);
    let before =
        consumers.filter_map(|consumer| ledger.consumers.get(consumer)).flat_map(|held| &held.claim.allocations);
    let after = claims.iter().flat_map(|claim| &claim.allocations);
    before.chain(after).map(|allocation| allocation.provider).collect()
}

fn union<'a>(sets: impl Iterator<Item = &'a Slots>) -> Slots {
    sets.fold(Slots::default(), |mut all, set| {
        all.extend_all(set);
        all
    })
}

fn cut(mut found: Slots, other: &Slots) -> Slots {
    found.retain_all(other);
    found
}
