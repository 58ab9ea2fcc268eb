//! An independent model of Placement: the rules of the Placement API, written for clarity and not for speed.
//!
//! The model shares no code with the ledger or the index. Each query sums the usage of all consumers. For each tree,
//! the search for candidates tries each of its providers and each of its sharing providers for every part of a request.
//! The rules follow the API reference and the reference implementation:
//!
//! * One tree answers a request: its own providers, and sharing providers (`MISC_SHARES_VIA_AGGREGATE`) that have an
//!   aggregate in common with any provider of the tree.
//! * The resources of the group without suffix may come from several providers, class by class. Together these
//!   providers have one trait of each required set. No provider among them has a forbidden trait. Each provider, or the
//!   root of its tree, is a member of the requested aggregates. A sharing provider must be a member itself. Neither the
//!   provider nor the root is in a forbidden aggregate.
//! * One provider serves a group with a suffix. Traits and aggregates of other providers are ignored.
//! * With `in_tree`, only providers of the named tree serve the group. A group without suffix then takes nothing from
//!   sharing providers.
//! * A group without resources only selects a provider. It must require a trait or an aggregate.

use std::collections::{BTreeMap, BTreeSet};

/// Providers, consumers and aggregates are numbers here.
pub type Number = u8;
pub type Class = &'static str;
pub type Trait = &'static str;

pub const SHARES: Trait = "MISC_SHARES_VIA_AGGREGATE";

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Units {
    pub total: u64,
    pub reserved: u64,
    pub min: u64,
    pub max: u64,
    pub step: u64,
    pub ratio: f64,
}

impl Units {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // small numbers
    fn capacity(&self) -> u64 {
        ((self.total - self.reserved) as f64 * self.ratio).floor() as u64
    }

    fn allow(&self, amount: u64) -> bool {
        self.min <= amount && amount <= self.max && amount.is_multiple_of(self.step)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Provider {
    pub parent: Option<Number>,
    pub inventories: BTreeMap<Class, Units>,
    pub traits: BTreeSet<Trait>,
    pub aggregates: BTreeSet<Number>,
}

pub type Amounts = BTreeMap<Class, u64>;
pub type Holding = BTreeMap<Number, Amounts>;

#[derive(Debug, Clone, Default)]
pub struct Consumer {
    pub generation: u64,
    pub holding: Holding,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub providers: BTreeMap<Number, Provider>,
    pub consumers: BTreeMap<Number, Consumer>,
}

/// The allocations that one consumer gets, and the generation that the client has seen.
#[derive(Debug, Clone)]
pub struct Wish {
    pub consumer: Number,
    pub seen: Option<u64>,
    pub holding: Holding,
}

#[derive(Debug, Clone, Default)]
pub struct Filter<T> {
    pub required: Vec<BTreeSet<T>>,
    pub forbidden: BTreeSet<T>,
}

impl<T: Ord> Filter<T> {
    fn has_required(&self, has: &BTreeSet<T>) -> bool {
        self.required.iter().all(|any| any.iter().any(|one| has.contains(one)))
    }

    fn has_forbidden(&self, has: &BTreeSet<T>) -> bool {
        self.forbidden.iter().any(|one| has.contains(one))
    }
}

#[derive(Debug, Clone, Default)]
pub struct Group {
    pub resources: Amounts,
    pub traits: Filter<Trait>,
    pub aggregates: Filter<Number>,
    pub in_tree: Option<Number>,
}

#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The request groups by suffix.
    pub groups: BTreeMap<&'static str, Group>,
    pub isolate: bool,
    pub root: Filter<Trait>,
    pub same_subtrees: Vec<BTreeSet<&'static str>>,
    pub flat: bool,
}

/// The amounts from each provider, and the providers of each group.
pub type Candidate = (Holding, BTreeMap<&'static str, BTreeSet<Number>>);

// ------------------------------------------------------------------------------------------------------------- changes

/// Every change returns whether Placement accepts it, and applies it if so.
impl Model {
    pub fn create(&mut self, number: Number, parent: Option<Number>) -> bool {
        let good =
            !self.providers.contains_key(&number) && parent.is_none_or(|parent| self.providers.contains_key(&parent));
        if good {
            self.providers.insert(number, Provider { parent, ..Provider::default() });
        }
        good
    }

    pub fn delete(&mut self, number: Number) -> bool {
        let good = self.providers.contains_key(&number)
            && !self.providers.values().any(|other| other.parent == Some(number))
            && !self.consumers.values().any(|consumer| consumer.holding.contains_key(&number));
        if good {
            self.providers.remove(&number);
        }
        good
    }

    /// From 1.37 on a provider may get any parent outside its own subtree.
    pub fn reparent(&mut self, number: Number, parent: Option<Number>) -> bool {
        let good = self.providers.contains_key(&number)
            && parent
                .is_none_or(|parent| self.providers.contains_key(&parent) && !self.above(parent).contains(&number));
        if good && let Some(provider) = self.providers.get_mut(&number) {
            provider.parent = parent;
        }
        good
    }

    /// `current`: whether the client has seen the newest generation.
    pub fn set_inventories(&mut self, number: Number, current: bool, new: &BTreeMap<Class, Units>) -> bool {
        let Some(provider) = self.providers.get(&number) else { return false };
        let good = current
            && new.values().all(|units| units.reserved <= units.total)
            && provider.inventories.keys().all(|class| new.contains_key(class) || self.used(number, class) == 0);
        if good && let Some(provider) = self.providers.get_mut(&number) {
            provider.inventories.clone_from(new);
        }
        good
    }

    pub fn set_traits(&mut self, number: Number, current: bool, traits: &BTreeSet<Trait>) -> bool {
        let Some(provider) = self.providers.get_mut(&number).filter(|_| current) else { return false };
        provider.traits.clone_from(traits);
        true
    }

    pub fn set_aggregates(&mut self, number: Number, current: bool, aggregates: &BTreeSet<Number>) -> bool {
        let Some(provider) = self.providers.get_mut(&number).filter(|_| current) else { return false };
        provider.aggregates.clone_from(aggregates);
        true
    }

    /// Allocates for all consumers or for none. Their former allocations are released first.
    pub fn allocate(&mut self, wishes: &[Wish]) -> bool {
        let mut after = self.clone();
        for wish in wishes {
            let generation = self.consumers.get(&wish.consumer).map(|consumer| consumer.generation);
            if generation != wish.seen {
                return false;
            }
            after.consumers.remove(&wish.consumer);
        }
        for wish in wishes.iter().filter(|wish| !wish.holding.is_empty()) {
            let generation = wish.seen.unwrap_or(0) + 1;
            after.consumers.insert(wish.consumer, Consumer { generation, holding: wish.holding.clone() });
        }
        let good = wishes.iter().flat_map(|wish| &wish.holding).all(|(number, amounts)| {
            let Some(provider) = self.providers.get(number) else { return false };
            amounts.iter().all(|(class, amount)| {
                let Some(units) = provider.inventories.get(class) else { return false };
                let used = after.used(*number, class);
                // A provider over its capacity must not get more usage than before.
                units.allow(*amount) && (used <= units.capacity() || used <= self.used(*number, class))
            })
        });
        if good {
            *self = after;
        }
        good
    }

    /// A claim by a process, for a consumer without allocations. The same claim may be repeated.
    pub fn claim(&mut self, consumer: Number, holding: &Holding) -> bool {
        match self.consumers.get(&consumer) {
            Some(known) => known.holding == *holding,
            None => self.allocate(&[Wish { consumer, seen: None, holding: holding.clone() }]),
        }
    }

    pub fn release(&mut self, consumer: Number) {
        self.consumers.remove(&consumer);
    }
}

// ------------------------------------------------------------------------------------------------------------- queries

impl Model {
    pub fn used(&self, number: Number, class: Class) -> u64 {
        let held = self.consumers.values().filter_map(|consumer| consumer.holding.get(&number)?.get(class));
        held.sum()
    }

    pub fn capacity(&self, number: Number, class: Class) -> Option<u64> {
        Some(self.providers.get(&number)?.inventories.get(class)?.capacity())
    }

    fn room(&self, number: Number, class: Class, amount: u64) -> bool {
        let units = self.providers[&number].inventories.get(class);
        units.is_some_and(|units| units.allow(amount) && self.used(number, class) + amount <= units.capacity())
    }

    /// The provider and its ancestors.
    fn above(&self, number: Number) -> BTreeSet<Number> {
        let mut found = BTreeSet::from([number]);
        let mut at = number;
        while let Some(parent) = self.providers[&at].parent {
            found.insert(parent);
            at = parent;
        }
        found
    }

    fn root(&self, number: Number) -> Number {
        let mut at = number;
        while let Some(parent) = self.providers[&at].parent {
            at = parent;
        }
        at
    }

    /// All providers that may serve the tree of `root`, including sharing ones.
    fn around(&self, root: Number) -> Vec<Number> {
        let tree: Vec<Number> = self.providers.keys().copied().filter(|number| self.root(*number) == root).collect();
        let shares = |number: &Number| {
            let provider = &self.providers[number];
            provider.traits.contains(SHARES)
                && tree.iter().any(|member| !self.providers[member].aggregates.is_disjoint(&provider.aggregates))
        };
        let outside = self.providers.keys().copied().filter(|number| self.root(*number) != root).filter(shares);
        tree.iter().copied().chain(outside).collect()
    }

    pub fn candidates(&self, request: &Request) -> BTreeSet<Candidate> {
        let impossible = |group: &Group| group.in_tree.is_some_and(|wanted| !self.providers.contains_key(&wanted));
        let mut found = BTreeSet::new();
        if request.groups.values().any(impossible) {
            return found;
        }
        // One slot for each class of the group without suffix, and one for each other group.
        let mut places: Vec<(&'static str, Option<Class>)> = Vec::new();
        for (suffix, group) in &request.groups {
            match *suffix {
                "" => places.extend(group.resources.keys().map(|class| ("", Some(*class)))),
                suffix => places.push((suffix, None)),
            }
        }
        for (root, provider) in self.providers.iter().filter(|(_, provider)| provider.parent.is_none()) {
            if !request.root.has_required(&provider.traits) || request.root.has_forbidden(&provider.traits) {
                continue;
            }
            let around = self.around(*root);
            let mut chosen = vec![0; places.len()];
            loop {
                let serving: Vec<Number> = chosen.iter().map(|at: &usize| around[*at]).collect();
                found.extend(self.judge(request, *root, &places, &serving));
                // The next combination, counted like a number with one digit per slot.
                let Some(place) = chosen.iter().position(|at| at + 1 < around.len()) else { break };
                chosen[place] += 1;
                chosen[..place].fill(0);
            }
        }
        found
    }

    fn judge(
        &self,
        request: &Request,
        root: Number,
        places: &[(&'static str, Option<Class>)],
        serving: &[Number],
    ) -> Option<Candidate> {
        let mut holding = Holding::new();
        let mut mappings: BTreeMap<&'static str, BTreeSet<Number>> = BTreeMap::new();
        for ((suffix, class), number) in places.iter().zip(serving) {
            let group = &request.groups[suffix];
            let good = match class {
                Some(class) => self.serves_class(group, root, *number, class),
                None => self.serves_group(group, *number),
            };
            if !good {
                return None;
            }
            mappings.entry(suffix).or_default().insert(*number);
            for (name, amount) in group.resources.iter().filter(|(name, _)| class.is_none_or(|class| class == **name)) {
                *holding.entry(*number).or_default().entry(name).or_default() += amount;
            }
        }
        if let (Some(group), Some(together)) = (request.groups.get(""), mappings.get("")) {
            let traits = together.iter().flat_map(|number| self.providers[number].traits.iter().copied()).collect();
            if !group.traits.has_required(&traits) || group.traits.has_forbidden(&traits) {
                return None;
            }
        }
        let good = Self::is_isolated(request, &mappings)
            && self.is_in_subtrees(request, &mappings)
            && holding.iter().all(|(number, amounts)| self.fits(*number, amounts))
            && !(request.flat && self.uses_a_tree_twice(&holding));
        good.then_some((holding, mappings))
    }

    fn serves_class(&self, group: &Group, root: Number, number: Number, class: Class) -> bool {
        let own = self.root(number) == root;
        let (mine, roots) = (&self.providers[&number].aggregates, &self.providers[&root].aggregates);
        self.room(number, class, group.resources[class])
            && group.in_tree.is_none_or(|wanted| own && self.root(wanted) == root)
            && (group.aggregates.has_required(mine) || (own && group.aggregates.has_required(roots)))
            && !group.aggregates.has_forbidden(mine)
            && !group.aggregates.has_forbidden(roots)
    }

    fn serves_group(&self, group: &Group, number: Number) -> bool {
        let provider = &self.providers[&number];
        let requires = !group.traits.required.is_empty() || !group.aggregates.required.is_empty();
        group.resources.iter().all(|(class, amount)| self.room(number, class, *amount))
            && (requires || !group.resources.is_empty())
            // Placement applies `in_tree` to providers of resources only, so a group without resources ignores it.
            && (group.resources.is_empty() || group.in_tree.is_none_or(|wanted| self.root(wanted) == self.root(number)))
            && group.traits.has_required(&provider.traits)
            && !group.traits.has_forbidden(&provider.traits)
            && group.aggregates.has_required(&provider.aggregates)
            && !group.aggregates.has_forbidden(&provider.aggregates)
    }

    fn is_isolated(request: &Request, mappings: &BTreeMap<&'static str, BTreeSet<Number>>) -> bool {
        let named: Vec<&BTreeSet<Number>> =
            mappings.iter().filter(|(suffix, _)| !suffix.is_empty()).map(|(_, providers)| providers).collect();
        let distinct: BTreeSet<Number> = named.iter().flat_map(|providers| providers.iter().copied()).collect();
        !request.isolate || distinct.len() == named.len()
    }

    fn is_in_subtrees(&self, request: &Request, mappings: &BTreeMap<&'static str, BTreeSet<Number>>) -> bool {
        request.same_subtrees.iter().all(|suffixes| {
            let providers: BTreeSet<Number> =
                suffixes.iter().flat_map(|suffix| mappings[suffix].iter().copied()).collect();
            providers.iter().any(|top| providers.iter().all(|one| self.above(*one).contains(top)))
        })
    }

    /// Whether the provider has room for the sum; several groups may use one provider.
    fn fits(&self, number: Number, amounts: &Amounts) -> bool {
        amounts.iter().all(|(class, amount)| {
            let units = &self.providers[&number].inventories[class];
            *amount <= units.max && self.used(number, class) + amount <= units.capacity()
        })
    }

    fn uses_a_tree_twice(&self, holding: &Holding) -> bool {
        let roots: BTreeSet<Number> = holding.keys().map(|number| self.root(*number)).collect();
        roots.len() < holding.len()
    }

    /// The providers that an answer describes: all providers of the used trees. In a cloud with trees, answers of
    /// versions before trees describe only the used providers.
    pub fn described(&self, request: &Request, candidates: &BTreeSet<Candidate>) -> BTreeSet<Number> {
        let used: BTreeSet<Number> = candidates.iter().flat_map(|(holding, _)| holding.keys().copied()).collect();
        if request.flat && self.providers.values().any(|provider| provider.parent.is_some()) {
            return used;
        }
        let roots: BTreeSet<Number> = used.iter().map(|number| self.root(*number)).collect();
        self.providers.keys().copied().filter(|number| roots.contains(&self.root(*number))).collect()
    }
}
